/* SPDX-License-Identifier: MIT
 *
 * The gate: which threads run right now, told from outside at the price of
 * one small read for a thread that does not.
 *
 * Another process's thread clocks can't be read (clock_gettime: EINVAL), and
 * the run time of a running thread moves only at kernel ticks.  But schedstat
 * as a whole (run time, run delay, slices) changes whenever a thread was put
 * on a CPU: unchanged and not running last time means that it has not run
 * since.  "State R" alone is not enough: a thread woken by its time-out but
 * not yet run is R, and a signal then turns its time-out into EINTR.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "session/session_internal.h"

/* A thread that ran less than this ago is looked at on every tick: looking
 * more rarely would miss the beginnings of its bursts, a bias. */
#define IDLE_AFTER (250 * MS)
#define IDLE_DELAY                                                             \
  (4 * MS) /* an idle thread's look is late by this at most                    \
            */

void thread_init(struct thread *th, pid_t tid, uint64_t now)
{
  memset(th, 0, sizeof *th);
  th->tid = tid;
  th->schedstat = th->stat = th->slot = -1;
  th->active = now;
}

void thread_close(struct thread *th)
{
  if (th->schedstat >= 0)
    close(th->schedstat);
  if (th->stat >= 0)
    close(th->stat);
  th->schedstat = th->stat = -1;
}

/* Up to cap - 1 bytes from the start of a kept descriptor; 0: thread gone. */
static size_t read_kept(struct target *t, struct thread *th, int *fd,
                        const char *name, char *buf, size_t cap)
{
  if (*fd < 0)
    *fd = target_thread_file(t, th->tid, name);
  if (*fd < 0)
    return 0;
  ssize_t n = pread(*fd, buf, cap - 1, 0);
  if (n <= 0)
    return 0;
  buf[n] = '\0';
  return (size_t)n;
}

bool thread_schedstat(struct target *t, struct thread *th, char text[64])
{
  return read_kept(t, th, &th->schedstat, "schedstat", text, 64) > 0;
}

/* 1 changed, 0 unchanged, -1 gone. */
static int schedstat_changed(struct target *t, struct thread *th)
{
  char text[sizeof th->last];
  if (th->no_schedstat)
    return 1;
  if (!read_kept(t, th, &th->schedstat, "schedstat", text, sizeof text)) {
    /* The kernel may be built without it. */
    th->no_schedstat = th->schedstat < 0 && errno == ENOENT &&
                       target_thread_state(t, th->tid) != 0;
    return th->no_schedstat ? 1 : -1;
  }
  if (strcmp(text, th->last) == 0)
    return 0;
  memcpy(th->last, text, sizeof text);
  return 1;
}

/* State letter; the beginning of the line holds it, as a name is short. */
static char state(struct target *t, struct thread *th)
{
  char text[128];
  if (!read_kept(t, th, &th->stat, "stat", text, sizeof text))
    return 0;
  const char *end = strrchr(text, ')');
  return end && end[1] == ' ' ? end[2] : '\0';
}

enum gate thread_gate(struct target *t, struct thread *th, uint64_t now)
{
  int changed = schedstat_changed(t, th);
  if (changed < 0)
    return GATE_GONE;
  if (!changed && !th->running)
    return GATE_IDLE;
  char st = state(t, th);
  if (st == 0 || st == 'X' || st == 'Z') {
    /* A main thread that ended stays in the list as a zombie. */
    th->running = false;
    return st == 'Z' ? GATE_IDLE : GATE_GONE;
  }
  th->running = st == 'R';
  if (!th->no_schedstat || th->running)
    th->active = now;
  return th->running ? GATE_RUN : GATE_IDLE;
}

bool thread_is_idle(const struct thread *th, uint64_t now)
{
  return !th->running && now - th->active > IDLE_AFTER;
}

unsigned threads_idle_divisor(size_t idle, uint64_t interval_ns)
{
  unsigned divisor = idle > 64 ? 4 : idle > 16 ? 2 : 1;
  while (divisor > 1 && divisor * interval_ns > IDLE_DELAY)
    divisor /= 2;
  return divisor;
}
