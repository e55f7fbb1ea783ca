/* SPDX-License-Identifier: MIT
 *
 * The agent's segment in a process: opened, checked to be this process's own,
 * and ready.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "session/session_internal.h"

#define YOUNG (2 * SEC) /* since the process was made, not since its exec */
#define PATIENCE_YOUNG (1 * SEC)
#define PATIENCE_OLD (100 * MS)
#define EARLY_PAUSE 5000000L

static const char *reason_text(uint32_t reason)
{
  if (reason == TECS_REASON_SIGNAL_TAKEN)
    return "it could not install its signal handler";
  if (reason == TECS_REASON_NO_MEMORY)
    return "it got no memory at start";
  return "no reason given";
}

static enum result refused(struct target *t, enum result r,
                           const struct shm_attach_info *info, struct error *e)
{
  int pid = (int)target_pid(t);
  if (r == RESULT_VERSION)
    return error_set(
        e, r,
        "the agent in process %d speaks segment version %u (readable from "
        "version %u on), this tecs-attach version %u: %s; start the program "
        "with the libtecs-agent.so that belongs to this tecs-attach",
        pid, info->found_major, info->found_oldest, TECS_ABI_MAJOR, info->what);
  return error_set(e, r, "the agent's segment in process %d: %s", pid,
                   info->what ? info->what : result_text(r));
}

/* A forked child can hold its parent's segment.  Without /proc the agent does
 * not know when its process started: 0. */
static enum result check_identity(struct target *t, const struct shm *shm,
                                  struct error *e)
{
  const struct tecs_header *h = shm->header;
  pid_t pid = target_pid(t), inner = target_thread_ns_tid(t, pid);
  if (h->pid != (uint32_t)inner ||
      (h->start_time != 0 && h->start_time != target_start_time(t)))
    return error_set(e, RESULT_NOAGENT,
                     "the agent's segment in process %d belongs to another "
                     "process (pid %u): this one was forked from it without "
                     "exec, and its agent is off",
                     (int)pid, h->pid);
  return RESULT_OK;
}

enum result session_segment(struct target *t, struct shm *shm, struct error *e)
{
  struct shm_attach_info info;
  int fd;
  memset(shm, 0, sizeof *shm);
  shm->fd = -1;
  enum result r = target_segment_open(t, &fd, e);
  if (r)
    return r;
  r = shm_attach(shm, fd, &info); /* takes fd over */
  if (r)
    return refused(t, r, &info, e);
  r = check_identity(t, shm, e);
  if (r)
    shm_detach(shm);
  return r;
}

/* The agent publishes the segment a moment before it is ready. */
enum result segment_wait_ready(struct target *t, const struct shm *shm,
                               const volatile sig_atomic_t *stop,
                               struct error *e)
{
  struct timespec ms = {.tv_nsec = 1000000};
  uint32_t state = 0;
  for (int i = 0; i < 1000 && !*stop; i++) {
    state = atomic_acquire(&shm->header->state);
    if (state == TECS_STATE_READY)
      return RESULT_OK;
    if (state == TECS_STATE_OFF || !target_alive(t))
      break;
    nanosleep(&ms, NULL);
  }
  if (state == TECS_STATE_OFF)
    return error_set(e, RESULT_NOAGENT,
                     "the agent in process %d has switched itself off: %s",
                     (int)target_pid(t),
                     reason_text(atomic_get(&shm->header->reason)));
  return error_set(e, RESULT_NOAGENT, "the agent in process %d has not come up",
                   (int)target_pid(t));
}

uint64_t segment_patience(struct target *t)
{
  uint64_t now = clock_read_ns(CLOCK_BOOTTIME);
  uint64_t start =
      target_start_time(t) * (SEC / (uint64_t)sysconf(_SC_CLK_TCK));
  return now < start + YOUNG ? PATIENCE_YOUNG : PATIENCE_OLD;
}

bool segment_is_early(struct target *t, enum result r, uint64_t give_up)
{
  const struct timespec nap = {.tv_nsec = EARLY_PAUSE};
  if ((r != RESULT_NOAGENT && r != RESULT_CORRUPT) ||
      clock_mono_ns() > give_up || !target_alive(t))
    return false;
  nanosleep(&nap, NULL);
  return true;
}

bool segment_lock(const struct shm *shm, enum session_kind kind)
{
  struct flock byte = {.l_type = F_WRLCK,
                       .l_whence = SEEK_SET,
                       .l_start = (off_t)kind,
                       .l_len = 1};
  return fcntl(shm->fd, F_OFD_SETLK, &byte) == 0;
}

bool segment_locked(const struct shm *shm, enum session_kind kind)
{
  struct flock byte = {.l_type = F_WRLCK,
                       .l_whence = SEEK_SET,
                       .l_start = (off_t)kind,
                       .l_len = 1};
  return fcntl(shm->fd, F_OFD_GETLK, &byte) == 0 && byte.l_type != F_UNLCK;
}
