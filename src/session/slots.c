/* SPDX-License-Identifier: MIT
 *
 * Slots: which thread writes into which ring, and the account of the signals
 * that it was sent.
 *
 * SIGURG is not a real-time signal: one that is sent while another is pending
 * merges with it and is never answered.  So a thread gets the next one only
 * when the last one was answered (the agent counts its calls), or is known to
 * be neither answered nor pending: then the program took it, and it is lost.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
#include "session/session_internal.h"

#define ANSWER_TIMEOUT (100 * MS)
#define BLOCKED_RECHECK (50 * MS)
#define BLOCKED_TIMES 3 /* the C library blocks signals for moments, too */

/* The agent's counts begin anew with the first tick of a generation. */
static bool generation_seen(const struct session *s, unsigned i)
{
  return atomic_acquire(&s->shm.slots[i].generation_seen) ==
         s->slot[i].generation;
}

static uint64_t answered(const struct session *s, unsigned i)
{
  return generation_seen(s, i) ? atomic_acquire(&s->shm.slots[i].calls) : 0;
}

uint64_t slot_outstanding(const struct session *s, unsigned i)
{
  const struct slot *sl = &s->slot[i];
  uint64_t done = answered(s, i) + sl->given_up;
  return sl->sent > done ? sl->sent - done : 0;
}

static uint64_t used(const struct session *s, unsigned i)
{
  const struct tecs_slot *sl = &s->shm.slots[i];
  return atomic_acquire(&sl->head) - atomic_get(&sl->tail);
}

bool slot_holds(const struct session *s, unsigned i)
{
  return used(s, i) != 0;
}

/* A record is not split: up to its own length is lost where the ring ends. */
bool slot_presses(const struct session *s, unsigned i)
{
  uint64_t n = used(s, i);
  return n > TECS_RING_BYTES / 2 ||
         (n && n + 2 * (uint64_t)s->slot[i].largest > TECS_RING_BYTES);
}

void slot_release(struct session *s, unsigned i)
{
  struct slot *sl = &s->slot[i];
  struct tecs_slot *shared = &s->shm.slots[i];
  if (!sl->tid)
    return;
  atomic_release(&shared->tid, 0u);
  uint64_t calls = answered(s, i);
  if (calls < sl->sent)
    s->acc->undelivered += sl->sent - calls;
  if (generation_seen(s, i))
    s->acc->lost_full += atomic_get(&shared->lost);
  sl->tid = 0;
}

static struct thread *thread_of_slot(struct session *s, unsigned i)
{
  for (size_t k = 0; k < s->threads.count; k++)
    if (s->threads.v[k].slot == (int)i)
      return &s->threads.v[k];
  return NULL;
}

/* All are taken: the one whose thread has not run for longest, if it owes
 * nothing. */
static int reclaim(struct session *s, uint64_t now)
{
  struct thread *oldest = NULL;
  for (unsigned i = 0; i < TECS_SLOTS; i++) {
    struct thread *th = thread_of_slot(s, i);
    if (th && !th->running && slot_outstanding(s, i) == 0 &&
        (!oldest || th->active < oldest->active))
      oldest = th;
  }
  if (!oldest || now - oldest->active < 10 * MS)
    return -1;
  int i = oldest->slot;
  drain_slot(s, (unsigned)i, UINT64_MAX);
  oldest->gave = s->slot[i].gave;
  slot_release(s, (unsigned)i);
  oldest->slot = -1;
  return i;
}

static int find_free(struct session *s)
{
  for (unsigned i = 0; i < TECS_SLOTS; i++)
    if (!s->slot[i].tid)
      return (int)i;
  return -1;
}

/* Rings get memory one by one, as threads come. */
static int back_ring(struct session *s, int i)
{
  if (i < 0 || (unsigned)i < s->rings)
    return i;
  enum result r = shm_back_rings(&s->shm, (unsigned)i + 1);
  if (r == RESULT_OK) {
    s->rings = (unsigned)i + 1;
    return i;
  }
  if (s->rings == 0)
    s->failed = error_set(
        s->e, RESULT_NOMEM,
        "no memory for the samples of process %d: %u KB of shared memory are "
        "needed for each running thread; free memory or raise the limit of "
        "its container",
        (int)target_pid(s->t), TECS_RING_BYTES / 1024);
  return -1;
}

void slot_name_root(struct session *s, struct slot *sl)
{
  char comm[16];
  target_thread_comm(s->t, sl->tid, comm);
  snprintf(sl->root, sizeof sl->root, "%s/%d", comm, (int)sl->tid);
}

static void name_root(struct session *s, struct slot *sl, uint64_t now)
{
  slot_name_root(s, sl);
  sl->named = now;
}

/* The slot is whole before its tid names a thread. */
static void hand_over(struct session *s, unsigned i, struct thread *th,
                      pid_t inner, uint64_t now)
{
  struct slot *sl = &s->slot[i];
  struct tecs_slot *shared = &s->shm.slots[i];
  uint32_t generation = sl->generation + 1;
  memset(sl, 0, sizeof *sl);
  sl->tid = th->tid;
  sl->generation = generation;
  sl->gave = th->gave;
  atomic_release(&shared->tid, 0u);
  atomic_release(&shared->tail, atomic_acquire(&shared->head) & ~UINT64_C(7));
  atomic_release(&shared->generation, generation);
  atomic_release(&shared->tid, (uint32_t)inner);
  vm_store_reset_slot(s->vm, i);
  name_root(s, sl, now);
  th->slot = (int)i;
}

/* Whether the thread blocks the signal; counted when that lasts. */
static bool blocks(struct session *s, struct thread *th, uint64_t now)
{
  if (th->blocked && now - th->blocked_at < BLOCKED_RECHECK)
    return true;
  if (!target_thread_blocks(s->t, th->tid, SIGURG)) {
    th->blocked = th->blocked > BLOCKED_TIMES ? th->blocked : 0;
    return false;
  }
  th->blocked_at = now;
  if (th->blocked <= BLOCKED_TIMES && ++th->blocked == BLOCKED_TIMES) {
    th->blocked = BLOCKED_TIMES + 1; /* counted once for each thread */
    s->acc->blocked_threads++;
  }
  return true;
}

bool slot_assign(struct session *s, struct thread *th, uint64_t now)
{
  if (s->engine->by_signal && blocks(s, th, now))
    return false;
  pid_t inner = target_thread_ns_tid(s->t, th->tid);
  if (inner == 0)
    return false; /* gone */
  int i = back_ring(s, find_free(s));
  if (i < 0 && s->failed == RESULT_OK)
    i = reclaim(s, now);
  if (i < 0) {
    s->acc->no_slot++;
    return false;
  }
  hand_over(s, (unsigned)i, th, inner, now);
  return true;
}

bool slot_ready(struct session *s, struct thread *th, uint64_t now)
{
  unsigned i = (unsigned)th->slot;
  struct slot *sl = &s->slot[i];
  if (s->o->by_thread && now - sl->named > SEC)
    name_root(s, sl, now); /* threads get their names late, some change them */
  uint64_t open = slot_outstanding(s, i);
  if (open == 0)
    return true;
  sl->waiting += s->wall != NULL;
  if (now - sl->sent_at < ANSWER_TIMEOUT)
    return false;
  sl->sent_at = now;
  if (target_thread_pending(s->t, th->tid, SIGURG)) {
    blocks(s, th, now);
    return false;
  }
  open = slot_outstanding(s, i); /* delivered between the two looks? */
  sl->given_up += open;
  return true;
}
