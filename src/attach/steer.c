/* SPDX-License-Identifier: MIT
 *
 * The verbs that steer a session of somebody else.
 */
#include <stdio.h>

#include "attach/attach_internal.h"
#include "target/target.h"

#define STOP_WAIT (5 * UNITS_S)

struct steer {
  const struct options *o;
  struct target *target;
  struct shm shm; /* fd -1: no agent */
  bool outside;   /* the session in question is one without the agent */
  int pid;
  char comm[16];
  struct error error;
};

static const char *const kind_text[] = {
    [SESSION_SAMPLING] = "sampling session", [SESSION_TRACE] = "trace session"};

/* "process 4711" */
static void owner_text(const struct steer *s, const struct session_seen *seen,
                       char *out, size_t size)
{
  if (!s->outside && seen->owner == s->shm.header->pid)
    snprintf(out, size, "the program itself");
  else if (!seen->owner)
    snprintf(out, size, "a process elsewhere");
  else
    snprintf(out, size, "process %u", seen->owner);
}

typedef enum result order(struct steer *s, enum session_kind kind,
                          const struct session_seen *seen, const char *owner);

static enum result set_paused(struct steer *s, enum session_kind kind,
                              const struct session_seen *seen,
                              const char *owner, bool paused)
{
  const char *done = paused ? "paused" : "going on";
  if (s->outside && !session_outside_pause(s->target, paused))
    return error_set(&s->error, RESULT_BUSY, "%d (%s): %s does not answer",
                     s->pid, s->comm, owner);
  if (!s->outside && seen->paused != paused)
    session_pause(&s->shm, kind, paused);
  if (!s->o->quiet)
    say("%d (%s): the %s of %s is %s%s", s->pid, s->comm, kind_text[kind],
        owner, done, seen->paused == paused ? " already" : "");
  return RESULT_OK;
}

static enum result pause_one(struct steer *s, enum session_kind kind,
                             const struct session_seen *seen, const char *owner)
{
  return set_paused(s, kind, seen, owner, true);
}

static enum result resume_one(struct steer *s, enum session_kind kind,
                              const struct session_seen *seen,
                              const char *owner)
{
  return set_paused(s, kind, seen, owner, false);
}

static enum result stop_one(struct steer *s, enum session_kind kind,
                            const struct session_seen *seen, const char *owner)
{
  if (kind == SESSION_TRACE && !s->outside && seen->owner == s->shm.header->pid)
    return error_set(&s->error, RESULT_BUSY,
                     "%d (%s): the trace session is the program's own "
                     "(tecs.utils.profile): it alone can end it; pause and "
                     "resume work",
                     s->pid, s->comm);
  if (s->outside ? !session_outside_stop(s->target, STOP_WAIT)
                 : !session_stop(&s->shm, kind, seen, STOP_WAIT))
    return error_set(&s->error, RESULT_BUSY,
                     "%d (%s): %s was asked to end its %s, but has not in 5 s",
                     s->pid, s->comm, owner, kind_text[kind]);
  if (!s->o->quiet)
    say("%d (%s): the %s of %s has ended", s->pid, s->comm, kind_text[kind],
        owner);
  return RESULT_OK;
}

static enum result act_on(struct steer *s, order *act, enum session_kind kind,
                          const struct session_seen *seen)
{
  char owner[32];
  owner_text(s, seen, owner, sizeof owner);
  return act(s, kind, seen, owner);
}

/* All are looked at first: the end of one may be the end of another, when they
 * are one collector's. */
static enum result each_session(struct steer *s, order *act)
{
  static const enum session_kind kind[] = {SESSION_SAMPLING, SESSION_TRACE};
  struct session_seen seen[2] = {{0}}, outside;
  enum result r = RESULT_OK, one = RESULT_OK;
  bool any = session_outside_look(s->target, &outside);
  for (unsigned i = 0; i < 2 && s->shm.fd >= 0; i++) {
    session_look(&s->shm, kind[i], &seen[i]);
    any |= seen[i].running;
  }
  if (!any)
    return error_set(&s->error, RESULT_NOTFOUND,
                     "no session runs on %d (%s); " ATTACH_NAME
                     " %d starts one",
                     s->pid, s->comm, s->pid);
  for (unsigned i = 0; i < 2; i++)
    if (seen[i].running && (one = act_on(s, act, kind[i], &seen[i])))
      r = one;
  s->outside = true;
  if (outside.running && (one = act_on(s, act, SESSION_SAMPLING, &outside)))
    r = one;
  return r;
}

static int steer(const struct options *o, order *act)
{
  struct steer s = {.o = o, .pid = (int)o->pid, .shm.fd = -1};
  enum result r = target_open(o->pid, &s.target, &s.error);
  if (r == RESULT_OK) {
    target_comm(s.target, s.comm);
    r = session_segment(s.target, &s.shm, &s.error);
  }
  if (r == RESULT_OK || r == RESULT_NOAGENT)
    r = each_session(&s, act);
  if (s.shm.fd >= 0)
    shm_detach(&s.shm);
  if (r != RESULT_OK)
    say("%s", s.error.text);
  if (s.target)
    target_close(s.target);
  return (int)verdict_status(r);
}

int pause_run(const struct options *o)
{
  return steer(o, pause_one);
}

int resume_run(const struct options *o)
{
  return steer(o, resume_one);
}

int stop_run(const struct options *o)
{
  return steer(o, stop_one);
}
