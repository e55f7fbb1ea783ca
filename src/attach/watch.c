/* SPDX-License-Identifier: MIT
 *
 * A thread beside the session: it shows progress and notices that nobody reads
 * the result any more.  A timer signal would do the same, but every signal
 * shortens one of the session's sleeps.
 */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "attach/attach_internal.h"

static uint64_t now_ns(void)
{
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (uint64_t)ts.tv_sec * UNITS_S + (uint64_t)ts.tv_nsec;
}

static void show(const struct watch *w, uint64_t elapsed)
{
  struct strbuf b = STRBUF_INIT;
  if (__atomic_load_n(&w->acc->vms, __ATOMIC_RELAXED) ||
      __atomic_load_n(&w->acc->samples, __ATOMIC_RELAXED))
    closing_progress(&b, w->acc, elapsed);
  else
    strbuf_printf(&b, "no LuaJIT VM in %d (%s) yet, waiting", (int)w->pid,
                  w->comm);
  fprintf(stderr, "\r" ATTACH_NAME ": %s\033[K", strbuf_text(&b));
  strbuf_free(&b);
}

/* The flag alone does not end a sleep that is under way; the signal may come
 * just before one, so it is repeated until the session has ended. */
static void stop_session(struct watch *w)
{
  signals_stop = 1;
  pthread_kill(w->main, SIGUSR1);
}

static void *watch_main(void *arg)
{
  struct watch *w = arg;
  uint64_t start = now_ns();
  bool shown = false, reader_gone = false;
  for (;;) {
    struct pollfd fd[2] = {{w->quit[0], POLLIN, 0},
                           {w->to_stdout && !reader_gone ? 1 : -1, 0, 0}};
    int n = poll(fd, 2, reader_gone ? 100 : 1000);
    if (n > 0 && fd[0].revents)
      break;
    reader_gone |= n > 0 && (fd[1].revents & (POLLERR | POLLHUP));
    if (reader_gone)
      stop_session(w);
    else if (w->tty)
      show(w, now_ns() - start), shown = true;
  }
  if (shown)
    fputs("\r\033[K", stderr);
  return NULL;
}

enum result watch_start(struct watch *w, struct error *e)
{
  w->main = pthread_self();
  if (pipe2(w->quit, O_CLOEXEC))
    return error_set(e, RESULT_IO, "pipe: %s", strerror(errno));
  /* Signals are the main thread's: they are to end its sleep. */
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int err = pthread_create(&w->thread, NULL, watch_main, w);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (!err)
    return RESULT_OK;
  close(w->quit[0]);
  close(w->quit[1]);
  w->quit[0] = w->quit[1] = -1;
  return error_set(e, RESULT_NOMEM, "cannot start a thread: %s", strerror(err));
}

void watch_stop(struct watch *w)
{
  if (w->quit[1] < 0)
    return;
  close(w->quit[1]); /* the other end becomes readable */
  pthread_join(w->thread, NULL);
  close(w->quit[0]);
  w->quit[0] = w->quit[1] = -1;
}
