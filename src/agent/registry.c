/* SPDX-License-Identifier: MIT
 *
 * The VMs that were found.  Entries are added by the game's threads and by the
 * handler on any thread; a slot is claimed by compare-and-swap, so nobody
 * waits.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent_internal.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "vmcore/discover.h"

static struct vm_entry entries[TECS_VMS];
static volatile uint32_t used; /* entries [0, used) have been in use */

struct vm_entry *registry_at(unsigned index)
{
  return &entries[index];
}

unsigned registry_count(void)
{
  return atomic_acquire(&used);
}

struct vm_entry *registry_find(uint64_t g)
{
  for (unsigned i = 0; i < registry_count(); i++)
    if (atomic_acquire(&entries[i].state) != TECS_VM_FREE && entries[i].g == g)
      return &entries[i];
  return NULL;
}

static void publish(const struct vm_entry *e)
{
  struct tecs_vm *vm = &agent.shm.vms[e - entries];
  vm->layout = e->layout;
  vm->g = e->g;
  vm->asm_pc = e->asm_pc;
  vm->asm_lo = e->asm_lo;
  vm->asm_hi = e->asm_hi;
  vm->tid = e->tid;
  vm->found = e->found;
  vm->events = e->events;
  vm->replaced_s = e->replaced_s;
  atomic_release(&vm->state, e->state);
}

static struct vm_entry *claim(void)
{
  for (unsigned i = 0; i < TECS_VMS; i++) {
    uint32_t free_state = TECS_VM_FREE;
    if (!__atomic_compare_exchange_n(&entries[i].state, &free_state,
                                     TECS_VM_CLAIMED, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
      continue;
    uint32_t n = atomic_get(&used);
    while (n <= i &&
           !__atomic_compare_exchange_n(&used, &n, i + 1, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      ;
    return &entries[i];
  }
  return NULL;
}

/* glibc 2.35: lock-free, safe in a handler.  Older systems do without: bounds
 * then come from the dispatch table. */
extern int _dl_find_object(void *pc, struct dl_find_object *result)
    __attribute__((weak));

static uint64_t eh_frame_hdr_of(uint64_t pc)
{
  struct dl_find_object found;
  if (!_dl_find_object || _dl_find_object((void *)pc, &found))
    return 0;
  return (uint64_t)found.dlfo_eh_frame;
}

struct vm_entry *registry_add(struct vm_mem *m, uint32_t layout, uint64_t g,
                              enum tecs_vm_found found)
{
  struct vm_entry *e = registry_find(g);
  if (e && atomic_acquire(&e->state) != TECS_VM_UNKNOWN)
    return e;
  if (!e)
    e = claim();
  if (!e)
    return NULL;
  const struct vm_layout *lay = vm_layout_get(layout);
  e->layout = layout;
  e->g = g;
  e->installed = 0;
  e->events = e->replaced_s = 0;
  e->found = found;
  e->asm_pc = vm_asm_pc(m, lay, g);
  e->tid = (uint32_t)syscall(SYS_gettid);
  memset(&e->zone, 0, sizeof e->zone);
  if (!vm_asm_range(m, lay, g, eh_frame_hdr_of(e->asm_pc), &e->asm_lo,
                    &e->asm_hi)) {
    atomic_release(&e->state, (uint32_t)TECS_VM_FREE);
    return NULL;
  }
  atomic_release(&e->state, (uint32_t)TECS_VM_LIVE);
  publish(e);
  return e;
}

void registry_add_unknown(uint64_t g, enum tecs_vm_found found)
{
  if (registry_find(g))
    return;
  struct vm_entry *e = claim();
  if (!e)
    return;
  e->layout = VM_LAYOUT_UNKNOWN;
  e->g = g;
  e->found = found;
  e->asm_pc = e->asm_lo = e->asm_hi = 0;
  e->events = e->replaced_s = 0;
  e->tid = (uint32_t)syscall(SYS_gettid);
  atomic_release(&e->state, (uint32_t)TECS_VM_UNKNOWN);
  publish(e);
}

void registry_remove(uint64_t g)
{
  struct vm_entry *e = registry_find(g);
  if (!e)
    return;
  atomic_release(&agent.shm.vms[e - entries].state, (uint32_t)TECS_VM_FREE);
  atomic_release(&e->state, (uint32_t)TECS_VM_FREE);
}

void registry_events(struct vm_entry *e, uint32_t events)
{
  if (events & ~e->events & TECS_VM_REPLACED)
    e->replaced_s = (uint32_t)(clock_mono_ns() / 1000000000u);
  e->events = events;
  if (!agent_ready())
    return;
  struct tecs_vm *vm = &agent.shm.vms[e - entries];
  atomic_set(&vm->replaced_s, e->replaced_s);
  atomic_release(&vm->events, events);
}

void registry_republish(void)
{
  for (unsigned i = 0; i < registry_count(); i++)
    if (entries[i].state == TECS_VM_LIVE || entries[i].state == TECS_VM_UNKNOWN)
      publish(&entries[i]);
}
