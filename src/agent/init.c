/* SPDX-License-Identifier: MIT
 *
 * Start of the agent in a process, and again in a child by fork.
 */
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/aborts.h"
#include "agent/agent_internal.h"
#include "agent/events.h"
#include "agent/profile_internal.h"
#include "base/atomics.h"
#include "base/clock.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#ifndef TECS_BUILD
#define TECS_BUILD TECS_VERSION
#endif

struct agent agent = {.shm = {.fd = -1}};

extern void *__libc_stack_end; /* ld.so: the stack pointer at the entry */

static uint32_t make_cookie(void)
{
  uint64_t c = clock_mono_ns() * UINT64_C(0x9e3779b97f4a7c15);
  const uint64_t *random = (const uint64_t *)getauxval(AT_RANDOM);
  if (random)
    c ^= random[1] * UINT64_C(0xbf58476d1ce4e5b9);
  c ^= (uint64_t)getpid() << 20;
  return (uint32_t)(c >> 32) | 1;
}

/* tecs-attach trace -- command: the variable names the collector that waits
 * for this process, its child. */
static void trace_from_start(void)
{
  const char *collector = getenv("TECS_TRACE_FROM_START");
  if (collector && strtoul(collector, NULL, 10) == (unsigned long)getppid())
    aborts_from_start((uint32_t)getppid());
}

/* Old kernels (before 4.14) do not wipe: then a raw clone's child is on its
 * own. */
static bool make_ready_page(void)
{
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return false;
  madvise(page, 4096, MADV_WIPEONFORK);
  agent.ready = page;
  return true;
}

static void start(void)
{
  agent.cookie = make_cookie();
  if (shm_create(&agent.shm, TECS_BUILD, agent.cookie) != RESULT_OK)
    return;
  if (agent.late)
    agent.shm.header->flags |= TECS_AGENT_LATE;
  registry_republish();
  trace_from_start();
  agent.started = true;
  atomic_release(agent.ready, 1u);
  shm_publish(&agent.shm, TECS_STATE_READY, TECS_REASON_NONE);
}

/* The child has its parent's VMs, but the parent's segment is not mapped in
 * it. */
static void forked(void)
{
  if (!agent.started)
    return;
  atomic_release(agent.ready, 0u);
  agent.shm.base = NULL; /* not inherited (MADV_DONTFORK) */
  shm_destroy(&agent.shm);
  handler_forked();
  aborts_forked();
  profile_forked();
  start();
  events_forked();
}

__attribute__((constructor)) static void init(void)
{
  if (getauxval(AT_SECURE)) /* a privileged program: stay out of it */
    return;
  agent.main_stack_end = (uint64_t)__libc_stack_end;
  late_look();
  if (!make_ready_page() || !signals_install())
    return;
  start();
  profile_autostart_read();
  pthread_atfork(NULL, NULL, forked);
}
