/* SPDX-License-Identifier: MIT
 *
 * The clock, and the threads it looks at.
 */
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "session/session_internal.h"

#define SCAN_FORCED                                                            \
  (250 * MS) /* although the mark says that nothing changed                    \
              */

static void forget(struct session *s, size_t k)
{
  struct threads *ths = &s->threads;
  struct thread *th = &ths->v[k];
  if (th->slot >= 0) {
    drain_slot(s, (unsigned)th->slot, UINT64_MAX);
    slot_release(s, (unsigned)th->slot);
  }
  thread_close(th);
  memmove(th, th + 1, (--ths->count - k) * sizeof *th);
}

static bool add(struct threads *ths, pid_t tid, size_t at, uint64_t now)
{
  if (ths->count == ths->cap) {
    size_t cap = ths->cap ? ths->cap * 2 : 32;
    struct thread *grown = realloc(ths->v, cap * sizeof *grown);
    if (!grown)
      return false;
    ths->v = grown;
    ths->cap = cap;
  }
  memmove(&ths->v[at + 1], &ths->v[at], (ths->count - at) * sizeof *ths->v);
  thread_init(&ths->v[at], tid, now);
  ths->count++;
  return true;
}

static int by_number(const void *a, const void *b)
{
  pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
  return (x > y) - (x < y);
}

/* Both lists ascend. */
static void update(struct session *s, uint64_t now)
{
  struct threads *ths = &s->threads;
  const struct target_tids *tids = &ths->tids;
  size_t k = 0;
  for (size_t i = 0; i < tids->count; i++) {
    while (k < ths->count && ths->v[k].tid < tids->tid[i])
      forget(s, k);
    if (k < ths->count && ths->v[k].tid == tids->tid[i])
      k++;
    else if (add(ths, tids->tid[i], k, now))
      k++;
  }
  while (k < ths->count)
    forget(s, k);
}

void ticks_rescan(struct session *s, uint64_t now)
{
  struct threads *ths = &s->threads;
  unsigned long mark = target_thread_mark(s->t);
  if (ths->scanned && mark == ths->mark && now - ths->scanned < SCAN_FORCED)
    return;
  ths->mark = mark;
  ths->scanned = now;
  if (target_threads(s->t, &ths->tids) != RESULT_OK)
    return; /* the check for the target's end follows soon */
  qsort(ths->tids.tid, ths->tids.count, sizeof(pid_t), by_number);
  update(s, now);
}

void ticks_free(struct session *s)
{
  for (size_t k = 0; k < s->threads.count; k++)
    thread_close(&s->threads.v[k]);
  free(s->threads.v);
  target_tids_free(&s->threads.tids);
  memset(&s->threads, 0, sizeof s->threads);
}

bool ticks_are_held(struct session *s, struct thread *th)
{
  if (th->held < s->o->interval_ns)
    return false;
  th->held -= s->o->interval_ns;
  return true;
}

/* false: the thread is gone. */
static bool tick_thread(struct session *s, struct thread *th, uint64_t now)
{
  if (th->slot < 0) {
    if (!slot_assign(s, th, now))
      return true;
    /* That took long enough for it to have gone to sleep. */
    enum gate g = thread_gate(s->t, th, now);
    if (g != GATE_RUN)
      return g != GATE_GONE;
  }
  if (!slot_ready(s, th, now) || atomic_get(&s->shm.control->paused))
    return true;
  if (ticks_are_held(s, th))
    return true;
  return s->engine->sample(s, th, now);
}

/* A thread that is held does not run: without this, code whose samples take
 * longer (deeper stacks) would get more ticks for each second that it runs. The
 * clock stands as long as all were held; what one was held longer is saved up
 * until it makes a tick, which is left out.  For threads that sleep (mode wall)
 * the clock must go on. */
void ticks_leave_out_held(struct session *s)
{
  uint64_t least = s->wall ? 0 : UINT64_MAX;
  for (size_t k = 0; k < s->threads.count; k++) {
    const struct thread *th = &s->threads.v[k];
    if (th->running && th->held < least)
      least = th->held;
  }
  if (least == UINT64_MAX)
    return;
  for (size_t k = 0; k < s->threads.count; k++)
    if (s->threads.v[k].running)
      s->threads.v[k].held -= least;
  s->tick_grid += least;
  s->acc->held_ns += least;
}

void ticks_fire(struct session *s, uint64_t now)
{
  struct threads *ths = &s->threads;
  unsigned divisor =
      s->wall ? 1 : threads_idle_divisor(s->idle, s->o->interval_ns);
  size_t idle = 0;
  s->acc->ticks++;
  s->tick_number++;
  for (size_t k = 0; k < ths->count && !s->failed;) {
    struct thread *th = &ths->v[k];
    bool is_idle = thread_is_idle(th, now);
    idle += is_idle;
    bool alive = true;
    if (!is_idle || (s->tick_number + k) % divisor == 0) {
      enum gate g = thread_gate(s->t, th, now);
      if (g == GATE_IDLE)
        wall_tick(s, th);
      alive = g != GATE_GONE && (g == GATE_IDLE || tick_thread(s, th, now));
    }
    if (alive)
      k++;
    else
      forget(s, k);
  }
  s->idle = idle;
  ticks_leave_out_held(s);
}

/* xorshift64 (Marsaglia) */
static uint64_t random_below(uint64_t *state, uint64_t n)
{
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return n ? *state % n : 0;
}

/* Ticks stand on a grid, each moved by up to half an interval: a game's frames
 * come at a fixed rate, too, and a bare grid would meet the same places of a
 * frame again and again.  The mean rate stays what was asked for. */
void ticks_schedule(struct session *s, uint64_t now)
{
  uint64_t interval = s->o->interval_ns;
  s->tick_grid += interval;
  if (now > s->tick_grid + interval) {
    uint64_t late = (now - s->tick_grid) / interval;
    s->tick_grid += late * interval;
    s->acc->skipped += late;
  }
  s->next_tick = s->tick_grid + random_below(&s->random, interval / 2);
}
