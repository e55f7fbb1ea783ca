/* SPDX-License-Identifier: MIT
 *
 * One sampling session per process at a time.
 *
 * The claim is a lock on the segment's file and not a number in it: the kernel
 * drops it when its holder dies, whichever way, and it holds across pid
 * namespaces, where "is that pid alive" has no answer.  The numbers in control
 * name the holder for messages, and switch the agent on.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "session/session_internal.h"

/* Byte 0 stands for sampling; other kinds of session may lock others. */
#define CLAIM_BYTE 0

/* Nested library buffers (luaL_Buffer is 8 KB) need more than 16 KB; a copy
 * ends at the stack's own end long before this in ordinary code. */
#define STACK_MAX 65536u
#define DEPTH_MAX 4096u

static const char *reason_text(uint32_t reason)
{
  if (reason == TECS_REASON_SIGNAL_TAKEN)
    return "it could not install its signal handler";
  if (reason == TECS_REASON_NO_MEMORY)
    return "it got no memory at start";
  return "no reason given";
}

static enum result check_attach(struct session *s, enum result r,
                                const struct shm_attach_info *info)
{
  int pid = (int)target_pid(s->t);
  if (r == RESULT_VERSION)
    return error_set(
        s->e, r,
        "the agent in process %d speaks segment version %u (readable from "
        "version %u on), this tecs-attach version %u: %s; start the program "
        "with the libtecs-agent.so that belongs to this tecs-attach",
        pid, info->found_major, info->found_oldest, TECS_ABI_MAJOR, info->what);
  return error_set(s->e, r, "the agent's segment in process %d: %s", pid,
                   info->what ? info->what : result_text(r));
}

/* A forked child can hold its parent's segment. */
static enum result check_identity(struct session *s)
{
  const struct tecs_header *h = s->shm.header;
  pid_t pid = target_pid(s->t), inner = target_thread_ns_tid(s->t, pid);
  if (h->pid != (uint32_t)inner || h->start_time != target_start_time(s->t))
    return error_set(s->e, RESULT_NOAGENT,
                     "the agent's segment in process %d belongs to another "
                     "process (pid %u): this one was forked from it without "
                     "exec, and its agent is off",
                     (int)pid, h->pid);
  return RESULT_OK;
}

/* The agent publishes the segment a moment before it is ready. */
static enum result wait_ready(struct session *s)
{
  struct timespec ms = {.tv_nsec = 1000000};
  uint32_t state = 0;
  for (int i = 0; i < 1000 && !*s->stop; i++) {
    state = atomic_acquire(&s->shm.header->state);
    if (state == TECS_STATE_READY)
      return RESULT_OK;
    if (state == TECS_STATE_OFF || !target_alive(s->t))
      break;
    nanosleep(&ms, NULL);
  }
  if (state == TECS_STATE_OFF)
    return error_set(s->e, RESULT_NOAGENT,
                     "the agent in process %d has switched itself off: %s",
                     (int)target_pid(s->t),
                     reason_text(atomic_get(&s->shm.header->reason)));
  return error_set(s->e, RESULT_NOAGENT,
                   "the agent in process %d has not come up",
                   (int)target_pid(s->t));
}

static enum result lock(struct session *s)
{
  struct flock range = {.l_type = F_WRLCK,
                        .l_whence = SEEK_SET,
                        .l_start = CLAIM_BYTE,
                        .l_len = 1};
  if (fcntl(s->shm.fd, F_OFD_SETLK, &range) == 0)
    return RESULT_OK;
  return error_set(s->e, RESULT_BUSY,
                   "process %d is being sampled already, by process %u: one "
                   "session at a time; stop that one first",
                   (int)target_pid(s->t), atomic_get(&s->shm.control->owner));
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

static void announce(struct session *s)
{
  struct tecs_control *c = s->shm.control;
  uint32_t depth = s->o->merge.depth;
  uint32_t session = (uint32_t)clock_mono_ns() ^ (uint32_t)getpid() << 16;
  atomic_release(&c->session, 0u);
  clear_slots(s);
  atomic_set(&c->flags, s->o->merge.native ? 0u : TECS_CONTROL_NO_STACK);
  atomic_set(&c->stack_max, s->o->merge.native ? STACK_MAX : 0u);
  atomic_set(&c->depth_max, depth < DEPTH_MAX ? depth : DEPTH_MAX);
  atomic_set(&c->owner, (uint32_t)getpid());
  atomic_set(&c->owner_start, own_start_time());
  atomic_release(&c->session, session ? session : 1u);
}

enum result claim_take(struct session *s)
{
  struct shm_attach_info info;
  int fd;
  enum result r = target_segment_open(s->t, &fd, s->e);
  if (r)
    return r;
  r = shm_attach(&s->shm, fd, &info); /* takes fd over */
  if (r)
    return check_attach(s, r, &info);
  if ((r = check_identity(s)) || (r = wait_ready(s)) || (r = lock(s))) {
    shm_detach(&s->shm);
    return r;
  }
  s->cookie = s->shm.header->cookie;
  s->claimed = true;
  announce(s);
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
