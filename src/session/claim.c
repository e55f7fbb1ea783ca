/* SPDX-License-Identifier: MIT
 *
 * One sampling session per process at a time.
 *
 * The claim is a lock on the segment's file and not a number in it: the kernel
 * drops it when its holder dies, whichever way, and it holds across pid
 * namespaces, where "is that pid alive" has no answer.  The numbers in control
 * name the holder for messages, and switch the agent on.
 */
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "session/session_internal.h"

/* Nested library buffers (luaL_Buffer is 8 KB) need much: a callback of
 * string.gsub within another's, a dozen deep, more than 100 KB.  A copy ends at
 * the stack's own end long before this in ordinary code. */
#define STACK_MAX 131072u
#define DEPTH_MAX 4096u

static enum result lock(struct session *s)
{
  if (segment_lock(&s->shm, SESSION_SAMPLING))
    return RESULT_OK;
  return error_set(s->e, RESULT_BUSY,
                   "process %d is being sampled already, by process %u: one "
                   "session at a time; stop that one first (tecs-attach stop "
                   "%d)",
                   (int)target_pid(s->t), atomic_get(&s->shm.control->owner),
                   (int)target_pid(s->t));
}

static uint64_t own_start_time(void)
{
  struct target *self;
  uint64_t start = 0;
  if (target_open(getpid(), &self, NULL) == RESULT_OK) {
    start = target_start_time(self);
    target_close(self);
  }
  return start;
}

/* Slots may still carry what a session that was killed left in them. */
static void clear_slots(struct session *s)
{
  memset(s->slot, 0, sizeof s->slot);
  for (unsigned i = 0; i < TECS_SLOTS; i++) {
    s->slot[i].generation = atomic_get(&s->shm.slots[i].generation);
    atomic_release(&s->shm.slots[i].tid, 0u);
  }
  s->rings = 0;
}

void claim_announce(struct session *s)
{
  struct tecs_control *c = s->shm.control;
  uint32_t depth = s->o->merge.depth;
  uint32_t session = (uint32_t)clock_mono_ns() ^ (uint32_t)getpid() << 16;
  atomic_release(&c->session, 0u);
  clear_slots(s);
  atomic_set(&c->flags, s->o->merge.native ? 0u : TECS_CONTROL_NO_STACK);
  atomic_set(&c->stack_max, s->o->merge.native ? STACK_MAX : 0u);
  atomic_set(&c->depth_max, depth < DEPTH_MAX ? depth : DEPTH_MAX);
  if (!s->o->from_inside) {
    atomic_set(&c->paused, 0u);
    atomic_set(&c->stop, 0u);
  }
  atomic_set(&c->vm, s->o->vm);
  atomic_set(&c->owner, (uint32_t)getpid());
  atomic_set(&c->owner_start, own_start_time());
  atomic_release(&c->session, session ? session : 1u);
}

/* The program may have become another one while its collector was starting. */
static enum result same_image(struct session *s)
{
  if (!s->o->from_inside || s->shm.header->cookie == s->o->cookie)
    return RESULT_OK;
  return error_set(s->e, RESULT_GONE,
                   "process %d has become another program since",
                   (int)target_pid(s->t));
}

enum result claim_take(struct session *s)
{
  enum result r = session_segment(s->t, &s->shm, s->e);
  if (r)
    return r;
  if ((r = segment_wait_ready(s->t, &s->shm, s->stop, s->e)) ||
      (r = same_image(s)) || (r = lock(s))) {
    shm_detach(&s->shm);
    return r;
  }
  s->cookie = s->shm.header->cookie;
  s->claimed = true;
  claim_announce(s);
  return RESULT_OK;
}

void claim_drop(struct session *s)
{
  if (!s->claimed)
    return;
  struct tecs_control *c = s->shm.control;
  atomic_release(&c->session, 0u);
  for (unsigned i = 0; i < TECS_SLOTS; i++)
    atomic_release(&s->shm.slots[i].tid, 0u);
  atomic_set(&c->owner, 0u);
  atomic_set(&c->owner_start, UINT64_C(0));
  shm_release_rings(&s->shm);
  shm_detach(&s->shm); /* and with its descriptor the lock */
  s->claimed = false;
}
