/* SPDX-License-Identifier: MIT
 *
 * What a held thread is made to do.  From the moment on at which its registers
 * are no longer its own, every path that it can take by itself ends at a signal
 * frame with them: if this process dies, or gives up waiting, the thread comes
 * back all the same.  Nothing of what it is made to run raises a signal: ends
 * are seen as system calls.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "inject/inject_internal.h"

#define SHORT UINT64_C(2000000000) /* for what takes microseconds */

enum { DF = 1 << 10, TF = 1 << 8, SYSCALL_LEN = 2 };

/* Blocked while the thread is ours: all but what stands for a fault in what it
 * runs, and cannot be blocked without losing the program's handler. */
static uint64_t call_mask(void)
{
  static const int faults[] = {SIGSEGV, SIGBUS,  SIGILL,
                               SIGFPE,  SIGTRAP, SIGSYS};
  uint64_t mask = ~UINT64_C(0);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    mask &= ~(UINT64_C(1) << (faults[i] - 1));
  return mask;
}

static struct user_regs_struct call_regs(const struct remote *r, uint64_t rip,
                                         uint64_t rsp)
{
  struct user_regs_struct regs = r->own.regs;
  regs.rip = rip;
  regs.rsp = rsp;
  regs.rax = 0;
  regs.orig_rax = (uint64_t)-1; /* no system call to be started again */
  regs.eflags &= ~(unsigned long long)(DF | TF);
  return regs;
}

static enum result lost(const struct remote *r, struct error *e)
{
  return error_set(e, RESULT_GONE, "process %d ended, or became another",
                   (int)target_pid(r->at->t));
}

/* The mask after the registers: they bring their own back. */
static enum result send(struct remote *r, const struct user_regs_struct *regs,
                        struct error *e)
{
  if (!tracee_set_regs(&r->tr, regs))
    return lost(r, e);
  r->moved = true;
  return tracee_set_mask(&r->tr, call_mask()) ? RESULT_OK : lost(r, e);
}

static enum result fault(struct remote *r, const struct user_regs_struct *regs,
                         struct error *e)
{
  int signal = r->tr.signal;
  r->tr.signal = 0; /* not the program's */
  return error_set(e, RESULT_IO,
                   "signal %d at %#llx while process %d loaded the agent; its "
                   "thread was put back, but may have left locks of the "
                   "dynamic loader behind",
                   signal, regs->rip, (int)target_pid(r->at->t));
}

static bool is_fault(int signal)
{
  return !(call_mask() >> (signal - 1) & 1);
}

/* To the next entry or exit of a system call. */
static enum result run(struct remote *r, uint64_t deadline,
                       struct user_regs_struct *regs, struct error *e)
{
  bool go = tracee_go(&r->tr, true, 0);
  while (go) {
    switch (tracee_wait(&r->tr, deadline)) {
    case TRACEE_TIMEOUT:
      return error_set(e, RESULT_BUSY, "no end within the time");
    case TRACEE_ENDED:
      return lost(r, e);
    case TRACEE_SYSCALL:
      return tracee_regs(&r->tr, regs) ? RESULT_OK : lost(r, e);
    case TRACEE_SIGNAL:
      if (is_fault(r->tr.signal) && tracee_regs(&r->tr, regs))
        return fault(r, regs, e);
      go = tracee_go(&r->tr, true, r->tr.signal); /* SIGSTOP */
      break;
    case TRACEE_GROUP:
      go = tracee_listen(&r->tr);
      break;
    case TRACEE_INTERRUPTED:
    case TRACEE_OTHER:
      go = tracee_go(&r->tr, true, 0);
      break;
    }
  }
  return lost(r, e);
}

enum result remote_begin(struct remote *r, struct error *e)
{
  const struct target_map *map = places_map(r->at, r->own.regs.rsp);
  r->moved = false;
  if (!frame_build(&r->own, r->own.regs.rsp - FRAME_RED_ZONE, r->at->sigreturn,
                   &r->frame) ||
      !map || r->frame.at - FRAME_RED_ZONE < map->start ||
      !tracee_poke(&r->tr, r->frame.at, r->frame.bytes, r->frame.len))
    return error_set(e, RESULT_UNSUPPORTED,
                     "thread %d of process %d has no room on its stack",
                     (int)r->tr.tid, (int)target_pid(r->at->t));
  return RESULT_OK;
}

enum result remote_syscall(struct remote *r, long number, const uint64_t arg[6],
                           int64_t *ret, struct error *e)
{
  struct user_regs_struct regs = call_regs(r, r->at->syscall, r->frame.at);
  const uint64_t behind = r->at->syscall + SYSCALL_LEN;
  uint64_t deadline = clock_mono_ns() + SHORT;
  regs.rax = (uint64_t)number;
  regs.rdi = arg[0], regs.rsi = arg[1], regs.rdx = arg[2];
  regs.r10 = arg[3], regs.r8 = arg[4], regs.r9 = arg[5];
  enum result res = send(r, &regs, e);
  /* entry and exit; before them, the exit of one that was skipped */
  for (unsigned stops = 0; res == RESULT_OK && stops < 2;) {
    res = run(r, deadline, &regs, e);
    stops += res == RESULT_OK && regs.rip == behind;
  }
  *ret = (int64_t)regs.rax;
  return res;
}

/* A function that returns to the frame right away, or first into the system
 * call instruction: what it returned then stands where the number of a system
 * call is expected, is read there and skipped.  (Should that not come about,
 * there is no system call of such a number.) */
static bool prepare_return(struct remote *r, struct frame *there, bool result,
                           uint64_t *sp)
{
  const uint64_t by_syscall[2] = {r->at->syscall,
                                  r->at->syscall + SYSCALL_LEN /* ret */};
  *sp = there->at;
  if (!result)
    return true;
  *sp -= sizeof by_syscall;
  return tracee_poke(&r->tr, *sp, by_syscall, sizeof by_syscall);
}

static enum result run_to_return(struct remote *r, const struct frame *there,
                                 bool result, uint64_t deadline,
                                 struct user_regs_struct *regs, struct error *e)
{
  const uint64_t behind = r->at->syscall + SYSCALL_LEN;
  for (;;) {
    enum result res = run(r, deadline, regs, e);
    if (res != RESULT_OK ||
        (result && regs->rip == behind && regs->rsp == there->at - 8) ||
        (!result && regs->orig_rax == SYS_rt_sigreturn &&
         regs->rsp == there->at + 8))
      return res;
  }
}

enum result remote_call(struct remote *r, const struct remote_call *call,
                        uint64_t *ret, struct error *e)
{
  struct frame there = r->frame;
  uint64_t sp;
  if (call->stack_end &&
      (!frame_build(&r->own, call->stack_end, r->at->sigreturn, &there) ||
       !tracee_poke(&r->tr, there.at, there.bytes, there.len)))
    return lost(r, e);
  if (!prepare_return(r, &there, ret != NULL, &sp))
    return lost(r, e);
  struct user_regs_struct regs = call_regs(r, call->function, sp);
  regs.rdi = call->a;
  regs.rsi = call->b;
  uint64_t deadline =
      call->deadline_ns ? call->deadline_ns : clock_mono_ns() + SHORT;
  enum result res = send(r, &regs, e);
  if (res == RESULT_OK)
    res = run_to_return(r, &there, ret != NULL, deadline, &regs, e);
  if (res != RESULT_OK)
    return res;
  if (ret)
    *ret = regs.orig_rax;
  /* skipped; if we end now, once more from where that is safe */
  regs.orig_rax = (uint64_t)-1;
  regs.rip = r->at->sigreturn;
  regs.rsp = there.at + 8;
  return tracee_set_regs(&r->tr, &regs) ? RESULT_OK : lost(r, e);
}

/* Not from a stop at a system call: there the kernel would not start again what
 * the thread was waiting in. */
void remote_end(struct remote *r)
{
  if (r->moved && r->tr.seized) {
    tracee_stop(&r->tr, clock_mono_ns() + SHORT);
    r->moved = !r->tr.stopped || !tracee_put(&r->tr, &r->own);
  }
  tracee_release(&r->tr);
}

void remote_leave(struct remote *r)
{
  tracee_release(&r->tr);
}
