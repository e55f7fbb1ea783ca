/* SPDX-License-Identifier: MIT
 *
 * Samples by the agent in the process: the tick is a signal, the agent's
 * handler answers through the thread's ring.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "session/session_internal.h"

long tick_send(struct target *t, uint32_t cookie, pid_t tid, uint32_t low)
{
  siginfo_t si;
  memset(&si, 0, sizeof si);
  si.si_signo = SIGURG;
  si.si_code = SI_QUEUE;
  si.si_pid = getpid();
  si.si_uid = getuid();
  uint64_t value = (uint64_t)cookie << 32 | low;
  si.si_value.sival_ptr = (void *)(uintptr_t)value;
  return syscall(SYS_rt_tgsigqueueinfo, target_pid(t), tid, SIGURG, &si);
}

/* The value tells our signal from the program's own, and this assignment of
 * the slot from an older one. */
static long send(struct session *s, struct thread *th)
{
  const struct slot *sl = &s->slot[th->slot];
  return tick_send(s->t, s->cookie, th->tid,
                   (sl->generation & 0xffff) << 16 | (uint32_t)th->slot);
}

static bool sample(struct session *s, struct thread *th, uint64_t now)
{
  struct slot *sl = &s->slot[th->slot];
  sl->sent_at = now;
  if (send(s, th) == 0) {
    sl->sent++;
    s->acc->sent++;
    return true;
  }
  if (errno == EPERM)
    s->failed = error_set(s->e, RESULT_PERM,
                          "not permitted to send a signal to process %d; run "
                          "tecs-attach as its user or as root (CAP_KILL)",
                          (int)target_pid(s->t));
  return errno != ESRCH;
}

static bool same_image(struct session *s)
{
  return target_segment_mapped(s->t, s->shm.fd);
}

const struct engine engine_agent = {
    .by_signal = true,
    .open = claim_take,
    .close = claim_drop,
    .same_image = same_image,
    .sample = sample,
};
