/* SPDX-License-Identifier: MIT
 *
 * Steering, both ends of it: what a sampling session does when control says
 * so, and how another process says it.
 *
 * A pause begins in control, not when the session notices: the agent marks the
 * samples that it takes in one, so that what was on its way is told apart from
 * what was taken before.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "session/session_internal.h"

#define STOP_LOOK_NS 2000000L

/* ---- a session that is steered ---- */

static void pause_ends(struct session *s, uint64_t now)
{
  s->paused = false;
  s->paused_ns += now - s->paused_since;
  s->tick_grid = s->next_tick = now;
}

bool steer_follow(struct session *s, uint64_t now)
{
  const struct tecs_control *c = s->shm.control;
  bool paused = atomic_get(&c->paused) != 0;
  if (paused && !s->paused) {
    s->paused = true;
    s->paused_since = now;
  } else if (!paused && s->paused) {
    pause_ends(s, now);
  }
  return atomic_get(&c->stop) != 0;
}

uint64_t steer_elapsed(const struct session *s, uint64_t now)
{
  uint64_t out = s->paused_ns;
  if (s->paused)
    out += now - s->paused_since;
  return now - s->start > out ? now - s->start - out : 0;
}

static bool runs(const struct sample_view *v, uint64_t g)
{
  for (unsigned i = 0; i < v->sample->vm_count; i++)
    if (v->vm[i].g == g)
      return true;
  return false;
}

bool steer_drops(struct session *s, const struct sample_view *v)
{
  uint64_t only = atomic_get(&s->shm.control->vm);
  if (v->sample->flags & TECS_SAMPLE_PAUSED)
    s->acc->of_pause++;
  else if (only && !runs(v, only))
    s->acc->of_vm++;
  else
    return false;
  s->acc->filtered++;
  return true;
}

/* ---- from another process ---- */

void session_look(const struct shm *shm, enum session_kind kind,
                  struct session_seen *seen)
{
  const struct tecs_control *c = shm->control;
  bool trace = kind == SESSION_TRACE;
  seen->number = atomic_acquire(trace ? &c->trace_session : &c->session);
  seen->owner = atomic_get(trace ? &c->trace_owner : &c->owner);
  seen->paused = atomic_get(trace ? &c->trace_paused : &c->paused) != 0;
  /* The numbers stay when a collector is killed; its lock does not. */
  seen->running = seen->number && segment_locked(shm, kind);
}

void session_pause(struct shm *shm, enum session_kind kind, bool paused)
{
  struct tecs_control *c = shm->control;
  atomic_release(kind == SESSION_TRACE ? &c->trace_paused : &c->paused,
                 (uint32_t)paused);
}

static bool still_there(const struct shm *shm, enum session_kind kind,
                        const struct session_seen *seen)
{
  struct session_seen now;
  session_look(shm, kind, &now);
  return now.running && now.number == seen->number;
}

bool session_stop(struct shm *shm, enum session_kind kind,
                  const struct session_seen *seen, uint64_t wait_ns)
{
  const struct timespec nap = {.tv_nsec = STOP_LOOK_NS};
  uint64_t give_up = clock_mono_ns() + wait_ns;
  struct tecs_control *c = shm->control;
  uint32_t *stop = kind == SESSION_TRACE ? &c->trace_stop : &c->stop;
  atomic_release(stop, 1u);
  syscall(SYS_futex, stop, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  while (still_there(shm, kind, seen)) {
    if (clock_mono_ns() > give_up)
      return false;
    nanosleep(&nap, NULL);
  }
  return true;
}
