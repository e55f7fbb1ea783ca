/* SPDX-License-Identifier: MIT
 *
 * The VMs that were found, by the game's threads and by the handler on any
 * thread: the one table of this process, published in its segment.
 */
#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent_internal.h"

/* glibc 2.35: lock-free, safe in a handler.  Older systems do without: bounds
 * then come from the dispatch table. */
extern int _dl_find_object(void *pc, struct dl_find_object *result)
    __attribute__((weak));

static uint64_t eh_frame_hdr_of(void *ctx, uint64_t pc)
{
  struct dl_find_object found;
  (void)ctx;
  if (!_dl_find_object || _dl_find_object((void *)pc, &found))
    return 0;
  return (uint64_t)found.dlfo_eh_frame;
}

struct capture_vms registry = {.unwind_table = eh_frame_hdr_of};

static uint32_t own_tid(void)
{
  return (uint32_t)syscall(SYS_gettid);
}

/* In a raw clone's child the segment is not mapped, and never will be. */
static struct capture_vms *table(void)
{
  if (!agent_ready())
    registry.published = NULL;
  return &registry;
}

struct capture_vm *registry_find(uint64_t g)
{
  return capture_vm_find(&registry, g);
}

struct capture_vm *registry_add(struct vm_mem *m, uint32_t layout, uint64_t g,
                                enum tecs_vm_found found)
{
  return capture_vm_add(table(), m, layout, g, found, own_tid());
}

void registry_add_unknown(uint64_t g, enum tecs_vm_found found)
{
  capture_vm_add_unknown(table(), g, found, own_tid());
}

void registry_remove(uint64_t g)
{
  capture_vm_remove(table(), g);
}

void registry_events(struct capture_vm *e, uint32_t events)
{
  capture_vm_events(table(), e, events);
}

void registry_republish(void)
{
  registry.published = agent.shm.vms;
  capture_vm_republish(&registry);
}
