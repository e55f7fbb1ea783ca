/* SPDX-License-Identifier: MIT
 *
 * One thread under ptrace (PTRACE_SEIZE: no stop but those asked for, and none
 * that outlives this process).
 */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/inject_internal.h"

#define LETTING_GO UINT64_C(2000000000)

/* linux/ptrace.h, which glibc's header does not go with; PTRACE_SETSIGMASK
 * takes the kernel's 8-byte set. */
enum { EVENT_STOP = 128, GETSIGMASK = 0x420a, SETSIGMASK = 0x420b };

static long trace(int request, pid_t tid, uintptr_t addr, uintptr_t data)
{
  return ptrace((enum __ptrace_request)request, tid, (void *)addr,
                (void *)data);
}

enum result tracee_seize(struct target *t, pid_t tid, struct tracee *tr,
                         struct error *e)
{
  *tr = (struct tracee){.tid = tid};
  if (trace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD)) {
    enum result r = target_unstoppable(t, tid, errno, e);
    return r == RESULT_BUSY ? RESULT_PERM : r;
  }
  tr->seized = true;
  return RESULT_OK;
}

bool tracee_interrupt(struct tracee *tr)
{
  return trace(PTRACE_INTERRUPT, tr->tid, 0, 0) == 0;
}

bool tracee_go(struct tracee *tr, bool to_syscall, int signal)
{
  tr->stopped = false;
  return trace(to_syscall ? PTRACE_SYSCALL : PTRACE_CONT, tr->tid, 0,
               (uintptr_t)signal) == 0;
}

bool tracee_listen(struct tracee *tr)
{
  tr->stopped = false;
  return trace(PTRACE_LISTEN, tr->tid, 0, 0) == 0;
}

static enum tracee_event classify(struct tracee *tr, int status)
{
  if (!WIFSTOPPED(status))
    return TRACEE_ENDED;
  int signal = WSTOPSIG(status), event = status >> 16;
  tr->stopped = true;
  tr->signal = 0;
  if (event == EVENT_STOP)
    return signal == SIGTRAP ? TRACEE_INTERRUPTED : TRACEE_GROUP;
  if (signal == (SIGTRAP | 0x80))
    return TRACEE_SYSCALL;
  if (event)
    return TRACEE_OTHER;
  tr->signal = signal;
  return TRACEE_SIGNAL;
}

static void block_child(bool block, sigset_t *was)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  pthread_sigmask(block ? SIG_BLOCK : SIG_SETMASK, block ? &set : was,
                  block ? was : NULL);
}

/* SIGCHLD says that there may be news, of this thread or of another. */
static void wait_for_news(uint64_t ns)
{
  sigset_t set;
  const struct timespec most = {(time_t)(ns / 1000000000),
                                (long)(ns % 1000000000)};
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigtimedwait(&set, NULL, &most);
}

enum tracee_event tracee_wait(struct tracee *tr, uint64_t deadline_ns)
{
  enum tracee_event event = TRACEE_TIMEOUT;
  sigset_t was;
  block_child(true, &was);
  for (;;) {
    int status;
    pid_t got = waitpid(tr->tid, &status, __WALL | WNOHANG);
    uint64_t now = clock_mono_ns();
    if (got == tr->tid)
      event = classify(tr, status);
    else if (got < 0 && errno != EINTR)
      event = TRACEE_ENDED;
    if (event != TRACEE_TIMEOUT || now >= deadline_ns)
      break;
    wait_for_news(deadline_ns - now);
  }
  if (event == TRACEE_ENDED)
    tr->seized = false;
  block_child(false, &was);
  return event;
}

/* Every other stop uses the request up (kernel/signal.c, ptrace_stop), so it is
 * made again before the thread goes on from there; and from there it comes to
 * this one without a step further. */
bool tracee_stop(struct tracee *tr, uint64_t deadline_ns)
{
  for (;;) {
    if (!tracee_interrupt(tr) ||
        (tr->stopped && !tracee_go(tr, false, tr->signal)))
      return false;
    switch (tracee_wait(tr, deadline_ns)) {
    case TRACEE_INTERRUPTED:
      return true;
    case TRACEE_SIGNAL:
    case TRACEE_SYSCALL:
    case TRACEE_OTHER:
      break;
    case TRACEE_GROUP:
    case TRACEE_TIMEOUT:
    case TRACEE_ENDED:
      return false;
    }
  }
}

void tracee_release(struct tracee *tr)
{
  if (tr->seized && !tr->stopped && tracee_interrupt(tr))
    tracee_wait(tr, clock_mono_ns() + LETTING_GO);
  if (tr->seized)
    trace(PTRACE_DETACH, tr->tid, 0, (uintptr_t)tr->signal);
  tr->seized = tr->stopped = false;
}

/* ---- registers ---- */

bool tracee_regs(struct tracee *tr, struct user_regs_struct *regs)
{
  struct iovec v = {regs, sizeof *regs};
  return trace(PTRACE_GETREGSET, tr->tid, NT_PRSTATUS, (uintptr_t)&v) == 0 &&
         v.iov_len == sizeof *regs; /* shorter: a 32-bit thread */
}

bool tracee_set_regs(struct tracee *tr, const struct user_regs_struct *regs)
{
  struct iovec v = {(void *)(uintptr_t)regs, sizeof *regs};
  return trace(PTRACE_SETREGSET, tr->tid, NT_PRSTATUS, (uintptr_t)&v) == 0;
}

bool tracee_set_mask(struct tracee *tr, uint64_t mask)
{
  return trace(SETSIGMASK, tr->tid, sizeof mask, (uintptr_t)&mask) == 0;
}

bool tracee_get(struct tracee *tr, struct frame_state *s)
{
  struct iovec v = {s->xstate, sizeof s->xstate};
  if (!tracee_regs(tr, &s->regs) ||
      trace(GETSIGMASK, tr->tid, sizeof s->mask, (uintptr_t)&s->mask) ||
      trace(PTRACE_GETREGSET, tr->tid, NT_X86_XSTATE, (uintptr_t)&v))
    return false;
  s->xstate_len = v.iov_len;
  return true;
}

/* The registers last: with them the thread is where it was, and up to there it
 * still comes back by itself. */
bool tracee_put(struct tracee *tr, const struct frame_state *s)
{
  struct iovec v = {(void *)(uintptr_t)s->xstate, s->xstate_len};
  return trace(PTRACE_SETREGSET, tr->tid, NT_X86_XSTATE, (uintptr_t)&v) == 0 &&
         tracee_set_mask(tr, s->mask) && tracee_set_regs(tr, &s->regs);
}

/* ---- memory ---- */

bool tracee_poke(struct tracee *tr, uint64_t addr, const void *bytes, size_t n)
{
  struct iovec from = {(void *)(uintptr_t)bytes, n};
  struct iovec to = {(void *)(uintptr_t)addr, n};
  return process_vm_writev(tr->tid, &from, 1, &to, 1, 0) == (ssize_t)n;
}
