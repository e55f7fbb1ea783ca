/* SPDX-License-Identifier: MIT
 *
 * The tick: a SIGURG that carries this segment's cookie and the number of the
 * slot that the collector gave to this thread.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent_internal.h"
#include "agent/events.h"
#include "agent/zones.h"
#include "base/atomics.h"

enum {
  ROOM_NEEDED = 8192,        /* of stack, with the kernel's frame for a fault */
  GUARD_CHECKED_EVERY = 256, /* ticks of a slot */
};

/* Where the program's sigaction is not ours, its handlers come unseen. */
static bool guard_due(const struct capture *c)
{
  return agent.late || c->seq % GUARD_CHECKED_EVERY == 0;
}

static struct capture captures[TECS_SLOTS];

AGENT_TLS volatile bool busy;

/* ---- what room capture asks ---- */

static size_t copy(struct capture *c, void *to, uint64_t from, size_t n)
{
  (void)c;
  return guard_copy(to, from, n);
}

static bool name(struct capture *c, uint64_t pt, const char **text,
                 uint32_t *len)
{
  return names_find(&c->mem, c->lay, pt, text, len);
}

_Static_assert(NATIVE_ZONES_MAX == CAPTURE_ZONES, "zones_native");

static uint32_t zones(struct capture *c, uint64_t text[CAPTURE_ZONES])
{
  (void)c;
  return zones_native((const char **)text);
}

static bool find_log(struct capture *c, const struct shm_log_key *key,
                     struct shm_log *out)
{
  (void)c;
  return shm_log_peek(&agent.shm, key, out);
}

static struct capture_host host = {.vms = &registry,
                                   .copy = copy,
                                   .name = name,
                                   .zones = zones,
                                   .log = find_log};

/* ---- */

/* The child's segment is a new one, often at the old one's address, and its
 * slots begin at generation 1 again: what was said to the parent's collector
 * must not count as said. */
void handler_forked(void)
{
  busy = false;
  for (unsigned i = 0; i < TECS_SLOTS; i++)
    if (captures[i].slot) /* leaves untouched pages alone */
      captures[i].slot = NULL;
}

static uint64_t signal_value(const siginfo_t *info)
{
  return (uint64_t)(uintptr_t)info->si_value.sival_ptr;
}

static bool is_tick(const siginfo_t *info)
{
  return agent_ready() && info->si_code == SI_QUEUE &&
         signal_value(info) >> 32 == agent.cookie;
}

/* The slot that a tick names.  A tick is sent to one thread and cannot reach
 * another, and a slot that changed hands has a new generation. */
static struct capture *slot_of(const siginfo_t *info)
{
  uint32_t index = signal_value(info) & 0xffff;
  uint32_t generation = (signal_value(info) >> 16) & 0xffff;
  const struct tecs_control *control = agent.shm.control;
  if (index >= TECS_SLOTS || !atomic_acquire(&control->session) ||
      index >= atomic_acquire(&control->rings_backed))
    return NULL;
  struct tecs_slot *slot = &agent.shm.slots[index];
  uint32_t now = atomic_acquire(&slot->generation);
  if ((now & 0xffff) != generation)
    return NULL;
  struct capture *c = &captures[index];
  if (c->slot != slot || c->generation != now) {
    host.control = control;
    c->host = &host;
    c->slot = slot;
    c->ring = agent.shm.rings + (size_t)index * TECS_RING_BYTES;
    capture_reset(c, now);
    atomic_set(&slot->calls, (uint64_t)0);
    atomic_set(&slot->lost, (uint64_t)0);
    atomic_release(&slot->generation_seen, now);
  }
  return c;
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

/* On one of the program's alternate stacks, with too little of it left for the
 * walk and the frame of a caught fault? */
static bool cramped(const ucontext_t *uc)
{
  uint64_t alt = (uint64_t)uc->uc_stack.ss_sp;
  uint64_t here = (uint64_t)__builtin_frame_address(0);
  return here >= alt && here - alt < uc->uc_stack.ss_size &&
         here - alt < ROOM_NEEDED;
}

/* A caught fault would run on the program's alternate stack; on one that is too
 * small even for that, the kernel would kill.  It is put back from uc_stack
 * when this handler returns (rt_sigreturn). */
static void avoid_small_stack(const ucontext_t *uc)
{
  stack_t off = {.ss_flags = SS_DISABLE};
  if (!(uc->uc_stack.ss_flags & (SS_DISABLE | SS_ONSTACK)) &&
      uc->uc_stack.ss_size < ROOM_NEEDED)
    syscall(SYS_sigaltstack, &off, NULL);
}

static bool any_blocked(const sigset_t *set)
{
  uint64_t bits; /* the kernel's set is one word */
  memcpy(&bits, set, sizeof bits);
  return bits != 0;
}

static bool in_syscall(struct capture *c, uint64_t ip)
{
  return vm_load2(&c->mem, ip - 2) == 0x050f;
}

static bool take_interrupted(struct capture *c, const ucontext_t *uc,
                             uint64_t restorer)
{
  struct capture_thread th = {
      .pointer = (uint64_t)__builtin_thread_pointer(),
      .main_stack_end = agent.main_stack_end,
      .alt_stack = (uint64_t)uc->uc_stack.ss_sp,
      .alt_size = uc->uc_stack.ss_size,
      /* a running handler blocks its own signal at least */
      .in_handler = any_blocked(&uc->uc_sigmask),
      .restorer = &restorer,
      .restorers = 1,
  };
  for (unsigned i = 0; i < TECS_REGS; i++)
    th.reg[i] = (uint64_t)uc->uc_mcontext.gregs[capture_greg[i]];
  th.in_syscall = in_syscall(c, th.reg[TECS_REG_RIP]);
  bool taken = capture_take(c, &th);
  if (agent.late)
    late_visit(c, &th);
  return taken;
}

static bool take_guarded(struct capture *c, const ucontext_t *uc,
                         uint64_t restorer)
{
  guard_install();
  if (guard_due(c))
    guard_check();
  unblock_faults(uc);
  avoid_small_stack(uc);
  struct vm_mem *previous = guard_enter(&c->mem);
  bool taken = take_interrupted(c, uc, restorer);
  guard_leave(previous);
  return taken;
}

static void take(struct capture *c, const ucontext_t *uc, uint64_t restorer)
{
  struct tecs_slot *slot = c->slot;
  c->mem.faults = 0;
  if (cramped(uc) || !take_guarded(c, uc, restorer))
    atomic_set(&slot->lost, slot->lost + 1);
  atomic_set(&slot->fault_count, slot->fault_count + c->mem.faults);
  c->seq++;
  atomic_release(&slot->calls, slot->calls + 1);
}

/* A collector that counts aborts has come or gone: told by a signal of its own,
 * or met by the next tick. */
static void follow_session(const siginfo_t *info)
{
  static volatile uint32_t followed;
  uint32_t session = atomic_acquire(&agent.shm.control->trace_session);
  if (session == atomic_get(&followed) &&
      (signal_value(info) & 0xffff) != TECS_TICK_TRACE)
    return;
  atomic_set(&followed, session);
  guard_install();
  events_follow();
}

void handler_tick(int signo, siginfo_t *info, void *ctx)
{
  int saved = errno;
  if (!is_tick(info)) {
    signals_chain(signo, info, ctx, __builtin_return_address(0));
    errno = saved;
    return;
  }
  if (!busy) {
    busy = true;
    follow_session(info);
    struct capture *c = slot_of(info);
    if (c)
      take(c, ctx, (uint64_t)__builtin_return_address(0));
    busy = false;
  }
  errno = saved;
}
