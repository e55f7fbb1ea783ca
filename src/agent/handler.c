/* SPDX-License-Identifier: MIT
 *
 * The tick: a SIGURG that carries this segment's cookie and the number of the
 * slot that the collector gave to this thread.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent_internal.h"
#include "base/atomics.h"

static struct slot_state states[TECS_SLOTS];

AGENT_TLS pid_t tid;
AGENT_TLS volatile bool busy;

void handler_forked(void)
{
  tid = 0;
  busy = false;
}

static uint64_t signal_value(const siginfo_t *info)
{
  return (uint64_t)(uintptr_t)info->si_value.sival_ptr;
}

static bool is_tick(const siginfo_t *info)
{
  return agent.ready && info->si_code == SI_QUEUE &&
         signal_value(info) >> 32 == agent.cookie;
}

/* The slot that a tick names, when the collector means this thread by it. */
static struct slot_state *slot_of(const siginfo_t *info)
{
  uint32_t index = signal_value(info) & 0xffff;
  uint32_t generation = (signal_value(info) >> 16) & 0xffff;
  const struct tecs_control *control = agent.shm.control;
  if (index >= TECS_SLOTS || !atomic_acquire(&control->session) ||
      index >= atomic_acquire(&control->rings_backed))
    return NULL;
  struct tecs_slot *slot = &agent.shm.slots[index];
  uint32_t now = atomic_acquire(&slot->generation);
  if (!tid)
    tid = (pid_t)syscall(SYS_gettid);
  if (atomic_get(&slot->tid) != (uint32_t)tid || (now & 0xffff) != generation)
    return NULL;
  struct slot_state *s = &states[index];
  if (s->slot != slot || s->generation != now) {
    s->slot = slot;
    s->ring = agent.shm.rings + (size_t)index * TECS_RING_BYTES;
    s->generation = now;
    s->seq = 0;
    s->scan_wait = s->scan_backoff = 0;
    s->suspect_g = 0;
    intern_reset(s);
    atomic_set(&slot->calls, (uint64_t)0);
    atomic_set(&slot->lost, (uint64_t)0);
    atomic_release(&slot->generation_seen, now);
  }
  return s;
}

/* A thread may block the signals of the guard; then a fault would kill. */
static void unblock_faults(const ucontext_t *uc)
{
  if (!sigismember(&uc->uc_sigmask, SIGSEGV) &&
      !sigismember(&uc->uc_sigmask, SIGBUS))
    return;
  uint64_t set = (UINT64_C(1) << (SIGSEGV - 1)) | (UINT64_C(1) << (SIGBUS - 1));
  /* the kernel puts the old mask back when the handler returns */
  syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, sizeof set);
}

static void take(struct slot_state *s, const ucontext_t *uc, uint64_t restorer)
{
  struct tecs_slot *slot = s->slot;
  guard_install();
  unblock_faults(uc);
  struct vm_mem *previous = guard_enter(&s->mem);
  if (!sample_take(s, uc, restorer))
    atomic_set(&slot->lost, slot->lost + 1);
  guard_leave(previous);
  atomic_set(&slot->fault_count, slot->fault_count + s->mem.faults);
  s->seq++;
  atomic_release(&slot->calls, slot->calls + 1);
}

void handler_tick(int signo, siginfo_t *info, void *ctx)
{
  int saved = errno;
  if (!is_tick(info)) {
    signals_chain(signo, info, ctx);
    errno = saved;
    return;
  }
  if (!busy) {
    busy = true;
    struct slot_state *s = slot_of(info);
    if (s)
      take(s, ctx, (uint64_t)__builtin_return_address(0));
    busy = false;
  }
  errno = saved;
}
