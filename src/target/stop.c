/* SPDX-License-Identifier: MIT
 *
 * One thread of the process, brought to stand by ptrace and let go again.
 *
 * PTRACE_SEIZE and PTRACE_INTERRUPT, never PTRACE_ATTACH: no signal is sent,
 * so that nothing is left over in the process when we are killed in between.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target/target_internal.h"

#define SEC_NS UINT64_C(1000000000)
/* A wait is begun anew this often: the wake-up may have come before it began,
 * and a thread whose id has changed by an exec wakes nobody. */
#define SLICE_NS UINT64_C(5000000)

static long trace(enum __ptrace_request request, pid_t tid, uintptr_t addr,
                  uintptr_t data)
{
  return ptrace(request, tid, (void *)addr, (void *)data);
}

/* ---- an end to waiting ---- */

static void on_alarm(int signo)
{
  (void)signo; /* it ends the system call that waits */
}

/* A timer of this thread alone.  false: it can't be made. */
static bool alarm_make(timer_t *timer)
{
  struct sigaction sa = {.sa_handler = on_alarm}; /* without SA_RESTART */
  struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID,
                        .sigev_signo = SIGALRM};
  ev._sigev_un._tid = (pid_t)syscall(SYS_gettid);
  return sigaction(SIGALRM, &sa, NULL) == 0 &&
         timer_create(CLOCK_MONOTONIC, &ev, timer) == 0;
}

static void alarm_set(timer_t timer, uint64_t ns)
{
  struct itimerspec at = {.it_value.tv_nsec = (long)ns,
                          .it_interval.tv_nsec = (long)ns};
  timer_settime(timer, 0, &at, NULL);
}

/* ---- what became of a thread ---- */

enum event {
  EVENT_NONE, /* nothing in time */
  EVENT_STOP, /* stands still */
  EVENT_GONE,
};

/* One wait.  Exits are never taken from here: of a command that we launched
 * they belong to whoever waits for it. */
static enum event wait_stop(pid_t tid, int flags, int *status)
{
  siginfo_t si;
  si.si_pid = 0;
  if (waitid(P_PID, (id_t)tid, &si, WSTOPPED | __WALL | flags) != 0)
    return errno == ECHILD ? EVENT_GONE : EVENT_NONE;
  if (si.si_pid == 0 || si.si_code != CLD_TRAPPED)
    return EVENT_NONE;
  *status = si.si_status;
  return EVENT_STOP;
}

static bool is_own_child(struct target *t)
{
  struct proc_stat st;
  return proc_stat_read(t->proc, "stat", &st) && st.ppid == getpid();
}

/* A thread that dies while it is traced stays until its tracer has seen it; the
 * main thread can be seen when all others have ended, too. */
static void reap(struct target *t, pid_t tid)
{
  if (tid == t->pid && is_own_child(t))
    return;
  t->unseen = waitpid(tid, NULL, __WALL | WNOHANG) == 0 ? tid : 0;
}

void target_stop_reap(struct target *t)
{
  if (t->unseen)
    reap(t, t->unseen);
}

/* A thread that executes another program goes on under its process's id, still
 * seized, and nobody says so about the old one.  true: it did. */
static bool followed(struct target *t, struct target_stop *s)
{
  if (s->tid == t->pid ||
      target_thread_tracer(t, t->pid) != (pid_t)syscall(SYS_gettid))
    return false;
  s->tid = t->pid;
  trace(PTRACE_INTERRUPT, s->tid, 0, 0); /* the one before may have missed */
  return true;
}

static enum event next_stop(struct target *t, struct target_stop *s, int flags,
                            int *status)
{
  enum event ev = wait_stop(s->tid, flags, status);
  if (ev == EVENT_GONE && followed(t, s))
    ev = EVENT_NONE;
  if (ev == EVENT_GONE) {
    reap(t, s->tid);
    *s = (struct target_stop){0};
  }
  return ev;
}

static uint64_t now_ns(void)
{
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (uint64_t)ts.tv_sec * SEC_NS + (uint64_t)ts.tv_nsec;
}

/* Is it the stop that was asked for, and not one in which a signal waits to be
 * delivered?  ptrace(2), "Stopped states". */
static bool is_event_stop(int status)
{
  return status >> 8 == PTRACE_EVENT_STOP;
}

/* OK: it is the stop that was asked for.  TIMEOUT: the thread went on. */
static enum result take_interrupt(struct target_stop *s, int status)
{
  if (is_event_stop(status)) {
    s->state = TARGET_STOPPED;
    s->halted = (status & 0xff) != SIGTRAP;
    return RESULT_OK;
  }
  trace(PTRACE_CONT, s->tid, 0, (uintptr_t)(status & 0xff));
  return RESULT_TIMEOUT;
}

static enum result wait_for(struct target *t, struct target_stop *s,
                            uint64_t timeout_ns)
{
  uint64_t end = now_ns() + timeout_ns;
  enum result r = RESULT_TIMEOUT;
  int status = 0, flags = t->has_alarm && timeout_ns ? 0 : WNOHANG;
  if (!flags)
    alarm_set(t->alarm, timeout_ns < SLICE_NS ? timeout_ns : SLICE_NS);
  do {
    enum event ev = next_stop(t, s, flags, &status);
    if (ev == EVENT_GONE)
      r = RESULT_GONE;
    else if (ev == EVENT_STOP)
      r = take_interrupt(s, status);
  } while (r == RESULT_TIMEOUT && now_ns() < end);
  if (!flags)
    alarm_set(t->alarm, 0);
  return r;
}

/* ---- who may not, and why ---- */

enum result target_traced(struct target *t, pid_t tracer, struct error *e)
{
  char path[64], text[32], comm[16], name[16] = "?";
  target_comm(t, comm);
  snprintf(path, sizeof path, "/proc/%d/comm", (int)tracer);
  if (proc_read(AT_FDCWD, path, text, sizeof text) > 0)
    proc_comm(text, name);
  return error_set(e, RESULT_BUSY,
                   "process %d (%s) is traced already, by process %d (%s): a "
                   "thread has one tracer at a time; end that one first, or "
                   "start the program with the agent, which needs none",
                   (int)t->pid, comm, (int)tracer, name);
}

enum result target_unstoppable(struct target *t, pid_t tid, int err,
                               struct error *e)
{
  pid_t tracer = target_thread_tracer(t, tid);
  if (err == ESRCH)
    return error_set(e, RESULT_GONE, "thread %d has ended", (int)tid);
  if (tracer && tracer != getpid())
    return target_traced(t, tracer, e);
  if (target_thread_state(t, tid) == 'Z')
    return error_set(e, RESULT_GONE, "thread %d has ended", (int)tid);
  if (err == EPERM || err == EACCES)
    return target_refused(t, "stop threads of", e);
  return error_set(e, RESULT_IO, "cannot stop thread %d: %s", (int)tid,
                   strerror(err));
}

/* ---- stop and go ---- */

enum result target_stop(struct target *t, pid_t tid, uint64_t timeout_ns,
                        struct target_stop *s, struct error *e)
{
  *s = (struct target_stop){.tid = tid};
  if (!t->has_alarm)
    t->has_alarm = alarm_make(&t->alarm);
  if (trace(PTRACE_SEIZE, tid, 0, 0) != 0)
    return target_unstoppable(t, tid, errno, e);
  s->state = TARGET_PENDING;
  if (trace(PTRACE_INTERRUPT, tid, 0, 0) != 0 && errno != ESRCH)
    return error_set(e, RESULT_IO, "cannot stop thread %d: %s", (int)tid,
                     strerror(errno));
  enum result r = target_stop_wait(t, s, timeout_ns);
  if (r == RESULT_GONE)
    return error_set(e, r, "thread %d has ended", (int)tid);
  if (r == RESULT_TIMEOUT)
    return error_set(e, r,
                     "thread %d did not stop in %u ms: it waits in the kernel",
                     (int)tid, (unsigned)(timeout_ns / 1000000));
  return r;
}

enum result target_stop_wait(struct target *t, struct target_stop *s,
                             uint64_t timeout_ns)
{
  if (s->state == TARGET_STOPPED)
    return RESULT_OK;
  if (s->state == TARGET_FREE)
    return RESULT_GONE;
  return wait_for(t, s, timeout_ns);
}

enum result target_stop_end(struct target *t, struct target_stop *s,
                            uint64_t timeout_ns)
{
  if (target_stop_wait(t, s, timeout_ns) == RESULT_TIMEOUT)
    return RESULT_TIMEOUT;
  if (s->state == TARGET_STOPPED &&
      trace(PTRACE_DETACH, s->tid, 0, (uintptr_t)s->signal) != 0) {
    /* killed in mid-stop: it must be seen to be dead */
    int status;
    s->state = TARGET_PENDING;
    if (next_stop(t, s, WNOHANG, &status) != EVENT_GONE)
      return RESULT_TIMEOUT;
  }
  *s = (struct target_stop){0};
  return RESULT_OK;
}

/* ---- registers ---- */

static enum result of_errno(long ret)
{
  return ret == 0 ? RESULT_OK : errno == ESRCH ? RESULT_GONE : RESULT_IO;
}

enum result target_stop_regs(const struct target_stop *s,
                             struct user_regs_struct *regs)
{
  return of_errno(trace(PTRACE_GETREGS, s->tid, 0, (uintptr_t)regs));
}

/* The kernel's signal set is one word. */
enum result target_stop_blocked(const struct target_stop *s, uint64_t *mask)
{
  return of_errno(
      trace(PTRACE_GETSIGMASK, s->tid, sizeof *mask, (uintptr_t)mask));
}
