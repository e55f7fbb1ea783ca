/* SPDX-License-Identifier: MIT
 *
 * --follow: a process and all that come from it.
 *
 * A session is made for one process.  So each gets one of its own, in a thread
 * (not in a process: where Yama restricts what may be read, only an ancestor of
 * the target may), and fills a profile of its own; they are joined, each below
 * a frame comm/pid, when they end.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attach/attach_internal.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "profile/profile.h"
#include "target/target.h"

#define LOOK_EVERY (2 * UNITS_MS)
#define AT_ONCE 64u /* sessions */
/* After the first process's end, for what it has left behind to be seen. */
#define LAST_LOOK (100 * UNITS_MS)

/* A process, and the session on it that runs or ran last. */
struct member {
  struct follow *f;
  pid_t pid;
  uint64_t start_time;
  char comm[16];
  struct session_account sums; /* of its ended sessions */
  bool sampled;                /* it is in the profile */
  bool outside;                /* without an agent */
  /* of the session that runs */
  bool running;
  uint32_t finished; /* by its thread */
  pthread_t thread;
  struct target *target;
  struct profile *profile;
  struct session_options options;
  struct session_account acc;
  struct session_account seen; /* of acc, as of its last second; locked */
  enum session_end end;
  enum result result;
  struct error error;
};

struct follow {
  struct job *job;
  const struct session_options *o;
  struct profile *into;
  struct session_family *family;
  struct member **member;
  size_t count, cap;
  unsigned running;
  bool crowded;               /* it was said */
  volatile sig_atomic_t stop; /* of all sessions */
  pthread_mutex_t lock;
  uint64_t start, end, next_second; /* CLOCK_MONOTONIC */
  uint64_t root_end;                /* 0: it has not ended */
  uint64_t cpu_start;
  enum result failed; /* the first process that could not be sampled */
  struct error error;
};

/* ---- one session ---- */

/* It may have become another program; what has ended has no name any more. */
static void note_name(struct member *m)
{
  char comm[16];
  target_comm(m->target, comm);
  if (target_alive(m->target))
    memcpy(m->comm, comm, sizeof comm);
}

static void on_second(void *arg, const struct session_account *acc)
{
  struct member *m = arg;
  pthread_mutex_lock(&m->f->lock);
  m->seen = *acc;
  pthread_mutex_unlock(&m->f->lock);
  note_name(m);
}

static void *session_thread(void *arg)
{
  struct member *m = arg;
  m->result = session_run(m->target, &m->options, &m->f->stop, m->profile,
                          &m->acc, &m->end, &m->error);
  atomic_release(&m->finished, 1u);
  return NULL;
}

/* Signals are for the thread that looks after all of them. */
static bool start_thread(struct member *m)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int err = pthread_create(&m->thread, NULL, session_thread, m);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return err == 0;
}

static bool begin(struct member *m, struct target *t, uint64_t now)
{
  struct follow *f = m->f;
  m->target = t;
  m->options = *f->o;
  m->options.engine = m->outside ? SESSION_ENGINE_PTRACE : SESSION_ENGINE_AGENT;
  m->options.progress = on_second;
  m->options.progress_arg = m;
  if (f->o->duration_ns)
    m->options.duration_ns = f->end > now ? f->end - now : 1;
  m->finished = 0;
  m->end = 0;
  memset(&m->seen, 0, sizeof m->seen);
  memset(&m->acc, 0, sizeof m->acc);
  target_comm(t, m->comm);
  m->profile = profile_new();
  m->running = m->profile && start_thread(m);
  if (!m->running)
    profile_free(m->profile);
  f->running += m->running;
  return m->running;
}

/* ---- who is sampled ---- */

static struct member *add_member(struct follow *f, struct target *t)
{
  if (f->count == f->cap) {
    size_t cap = f->cap ? 2 * f->cap : 16;
    struct member **grown = realloc(f->member, cap * sizeof *grown);
    if (!grown)
      return NULL;
    f->member = grown;
    f->cap = cap;
  }
  struct member *m = calloc(1, sizeof *m);
  if (!m)
    return NULL;
  m->f = f;
  m->pid = target_pid(t);
  m->start_time = target_start_time(t);
  return f->member[f->count++] = m;
}

static struct member *member_of(struct follow *f, struct target *t)
{
  for (size_t i = 0; i < f->count; i++)
    if (f->member[i]->pid == target_pid(t) &&
        f->member[i]->start_time == target_start_time(t))
      return f->member[i];
  return add_member(f, t);
}

static void tell_crowded(struct follow *f)
{
  if (!f->crowded && !f->job->o->quiet)
    say("more than %u processes at once: those beyond wait for their turn",
        AT_ONCE);
  f->crowded = true;
}

/* Of one without an agent: is it left out?  Else it is sampled from outside. */
static bool leave_out(struct follow *f, struct member *m, struct target *t,
                      uint64_t now)
{
  const struct options *o = f->job->o;
  char comm[16];
  target_comm(t, comm);
  m->outside = !o->require_agent;
  if (!o->no_agent && !o->quiet) {
    job_clear(f->job);
    say("the agent is not loaded in %d (%s)%s: %s", (int)m->pid, comm,
        f->job->child.pid
            ? ", as who started it cleared the environment, or it is a "
              "statically linked or set-user-id program"
            : "",
        m->outside ? "sampling it from outside; every sample stops a thread "
                     "for a moment"
                   : "it is left out");
  }
  if (!m->outside)
    session_family_return(f->family, t, SESSION_FATE_GIVEN_UP, now);
  return !m->outside;
}

static enum result look(struct follow *f, uint64_t now)
{
  struct target *t;
  bool agent;
  if (f->running >= AT_ONCE) {
    tell_crowded(f);
    return RESULT_OK;
  }
  while (f->running < AT_ONCE &&
         (t = session_family_next(f->family, now, &agent))) {
    struct member *m = member_of(f, t);
    if (m && !agent && leave_out(f, m, t, now))
      continue;
    if (m && begin(m, t, now))
      continue;
    session_family_return(f->family, t, SESSION_FATE_GIVEN_UP, now);
    return error_set(&f->error, RESULT_NOMEM,
                     "no memory for a session on another process");
  }
  return RESULT_OK;
}

/* ---- the end of a session ---- */

static enum session_fate fate_of(const struct member *m)
{
  if (m->result == RESULT_NOVM)
    return SESSION_FATE_NO_VM;
  return m->result == RESULT_OK && m->end == SESSION_END_TARGET
             ? SESSION_FATE_OTHER_PROGRAM
             : SESSION_FATE_GIVEN_UP;
}

static void tell_session(const struct member *m)
{
  const struct session_account *a = &m->acc;
  say("%d (%s): %" PRIu64 " samples of %" PRIu64 " sent, %" PRIu64
      " lost, in %.1f s; VMs: %u, threads: %u",
      (int)m->pid, m->comm, a->samples, a->sent, a->lost,
      (double)a->elapsed_ns / 1e9, a->vms, a->threads);
}

static enum result take_session(struct follow *f, struct member *m)
{
  char root[64];
  snprintf(root, sizeof root, "%s/%d", m->comm, (int)m->pid);
  session_account_add(&m->sums, &m->acc, true);
  m->sampled = true;
  if (f->job->o->verbose && !f->job->o->quiet) {
    job_clear(f->job);
    tell_session(m);
  }
  if (profile_join(f->into, m->profile, root) == RESULT_OK)
    return RESULT_OK;
  return error_set(&f->error, RESULT_NOMEM, "no memory for the profile");
}

/* One that ended before it could be looked at is no failure. */
static void note_failure(struct follow *f, struct member *m)
{
  if (m->result == RESULT_OK || m->result == RESULT_NOVM ||
      m->result == RESULT_GONE || !target_alive(m->target))
    return;
  job_clear(f->job);
  if (!f->job->o->quiet)
    say("%d (%s) is left out: %s", (int)m->pid, m->comm, m->error.text);
  if (f->failed)
    return;
  f->failed = m->result;
  f->error = m->error;
}

/* Its thread has ended. */
static enum result settle(struct follow *f, struct member *m, uint64_t now)
{
  enum result r = RESULT_OK;
  pthread_join(m->thread, NULL);
  m->running = false;
  f->running--;
  note_name(m);
  if (m->result == RESULT_OK || (m->acc.samples && m->result != RESULT_NOVM))
    r = take_session(f, m);
  note_failure(f, m);
  /* Someone has stopped the session on the first process: that is all. */
  if (m->pid == job_pid(f->job) && m->result == RESULT_OK &&
      m->end == SESSION_END_STOPPED)
    f->stop = 1;
  profile_free(m->profile);
  m->profile = NULL;
  session_family_return(f->family, m->target, fate_of(m), now);
  m->target = NULL;
  return r;
}

static enum result settle_ended(struct follow *f, uint64_t now)
{
  for (size_t i = 0; i < f->count; i++) {
    struct member *m = f->member[i];
    enum result r = RESULT_OK;
    if (m->running && atomic_acquire(&m->finished))
      r = settle(f, m, now);
    if (r != RESULT_OK)
      return r;
  }
  return RESULT_OK;
}

/* ---- all of them ---- */

static void add_up(struct follow *f, struct session_account *acc,
                   struct follow_sums *sums)
{
  uint64_t now = clock_mono_ns();
  memset(acc, 0, sizeof *acc);
  *sums = (struct follow_sums){.seen = session_family_seen(f->family)};
  pthread_mutex_lock(&f->lock);
  for (size_t i = 0; i < f->count; i++) {
    struct session_account one = f->member[i]->sums;
    if (f->member[i]->running)
      session_account_add(&one, &f->member[i]->seen, true);
    session_account_add(acc, &one, false);
    bool sampled = f->member[i]->sampled || one.samples;
    sums->processes += sampled;
    sums->outside += sampled && f->member[i]->outside;
  }
  pthread_mutex_unlock(&f->lock);
  sums->process_ns = acc->elapsed_ns;
  acc->engine = sums->outside && sums->outside == sums->processes
                    ? SESSION_ENGINE_PTRACE
                    : SESSION_ENGINE_AGENT;
  acc->elapsed_ns = now - f->start;
  acc->paused_ns = 0;
  acc->cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - f->cpu_start;
}

static void each_second(struct follow *f, uint64_t now)
{
  struct session_account acc;
  struct follow_sums sums;
  if (now < f->next_second)
    return;
  f->next_second = now + UNITS_S;
  add_up(f, &acc, &sums);
  if (f->running && !acc.vms) /* their first second is not over */
    return;
  f->o->progress(f->o->progress_arg, &acc);
}

static bool root_ended(struct follow *f)
{
  struct job *j = f->job;
  return j->child.pid ? launch_ended(&j->child) : !target_alive(j->target);
}

static bool sampled_any(const struct follow *f)
{
  for (size_t i = 0; i < f->count; i++)
    if (f->member[i]->sampled)
      return true;
  return false;
}

/* Nobody is left who is sampled or may soon be. */
static bool is_over(struct follow *f, uint64_t now)
{
  uint64_t wait = f->o->vm_wait_ns;
  if (f->stop || now >= f->end)
    return true;
  if (!f->root_end && root_ended(f))
    f->root_end = now;
  if (f->running || session_family_waits(f->family, now, wait))
    return false;
  if (f->root_end)
    return now - f->root_end > LAST_LOOK;
  return !sampled_any(f) && now - f->start >= wait;
}

static enum result watch(struct follow *f)
{
  const struct timespec nap = {.tv_nsec = LOOK_EVERY};
  for (;;) {
    uint64_t now = clock_mono_ns();
    f->stop |= signals_stop;
    enum result r = settle_ended(f, now);
    if (r == RESULT_OK && !f->stop && now < f->end)
      r = look(f, now);
    if (r != RESULT_OK || is_over(f, now))
      return r;
    each_second(f, now);
    nanosleep(&nap, NULL);
  }
}

static enum result end_all(struct follow *f)
{
  enum result r = RESULT_OK;
  f->stop = 1;
  for (size_t i = 0; i < f->count; i++)
    if (f->member[i]->running) {
      enum result one = settle(f, f->member[i], clock_mono_ns());
      r = r != RESULT_OK ? r : one;
    }
  return r;
}

static enum result nobody(struct follow *f)
{
  struct job *j = f->job;
  unsigned others = session_family_seen(f->family) - 1;
  if (f->failed)
    return f->failed;
  return error_set(&f->error, RESULT_NOVM,
                   "no LuaJIT VM appeared in %d (%s), nor in the %u process%s "
                   "that came from it, in %.1f s; wait longer (--wait) if it "
                   "starts late",
                   job_pid(j), j->comm, others, others == 1 ? "" : "es",
                   (double)(clock_mono_ns() - f->start) / 1e9);
}

static enum result open_root(struct follow *f, const char *variable)
{
  struct job *j = f->job;
  enum result r = target_open((pid_t)job_pid(j), &j->target, &f->error);
  if (r != RESULT_OK && !(r == RESULT_GONE && variable))
    return r;
  if (j->target) {
    target_comm(j->target, j->comm);
    j->stopped = reach_stopped(j->target);
  }
  return session_family_new((pid_t)job_pid(j), variable, !j->o->no_agent,
                            &f->family, &f->error);
}

static void release(struct follow *f)
{
  for (size_t i = 0; i < f->count; i++)
    free(f->member[i]);
  free(f->member);
  session_family_free(f->family);
  pthread_mutex_destroy(&f->lock);
}

enum result follow_run(struct job *j, const struct session_options *o,
                       struct profile *into, struct session_account *acc,
                       struct follow_sums *sums, enum session_end *end)
{
  struct follow f = {.job = j, .o = o, .into = into};
  memset(acc, 0, sizeof *acc);
  pthread_mutex_init(&f.lock, NULL);
  f.start = clock_mono_ns();
  f.cpu_start = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
  f.end = o->duration_ns ? f.start + o->duration_ns : UINT64_MAX;
  f.next_second = f.start + UNITS_S;
  enum result r = open_root(&f, j->child.pid ? j->child.mark : NULL);
  if (r == RESULT_OK) {
    r = watch(&f);
    enum result last = end_all(&f);
    r = r != RESULT_OK ? r : last;
    add_up(&f, acc, sums);
    *end = root_ended(&f) ? SESSION_END_TARGET : SESSION_END_STOPPED;
    if (r == RESULT_OK && !sampled_any(&f))
      r = nobody(&f);
  }
  if (r != RESULT_OK)
    j->error = f.error;
  release(&f);
  return r;
}
