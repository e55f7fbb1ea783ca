/* SPDX-License-Identifier: MIT
 *
 * The verb that records trace aborts, alone or with samples beside them.
 */
#include <time.h>

#include "attach/attach_internal.h"
#include "base/clock.h"
#include "output/output.h"
#include "profile/profile.h"
#include "target/target.h"

#define LOOK_EVERY (20 * UNITS_MS)
#define LOOK_EARLY (2 * UNITS_MS) /* before there is a VM: it may be short */
#define VM_LOOK_EVERY (200 * UNITS_MS)

struct trace {
  struct job job;
  const struct options *o;
  struct tracing tracing;
  bool begun;
  struct profile *profile; /* with --samples; only its account is kept */
  struct session_account samples;
  enum session_end end;
  uint64_t next_second, next_vm_look;
};

/* ---- while it runs ---- */

static void each_second(struct trace *t, uint64_t now)
{
  struct session_trace_account acc;
  if (now < t->next_second)
    return;
  t->next_second = now + UNITS_S;
  if (output_file_reader_gone(t->tracing.out))
    signals_stop = 1;
  session_trace_sums(t->tracing.session, &acc);
  if (!acc.vms) {
    job_tell_waiting(&t->job);
  } else if (t->job.tty) {
    struct strbuf b = STRBUF_INIT;
    closing_trace_progress(&b, &acc, t->o->benign);
    job_show(&t->job, &b);
    strbuf_free(&b);
  }
}

/* NOVM when there is none and none is to be expected. */
static enum result check_vm(struct trace *t, uint64_t now)
{
  struct session_trace_account acc;
  if (now < t->next_vm_look)
    return RESULT_OK;
  t->next_vm_look = now + VM_LOOK_EVERY;
  session_trace_sums(t->tracing.session, &acc);
  if (acc.vms) {
    t->next_vm_look = UINT64_MAX;
    return RESULT_OK;
  }
  return reach_no_vm(t->job.target, now - t->tracing.start, t->o->wait_ns,
                     acc.unknown, &t->job.error);
}

static enum result watch(struct trace *t)
{
  struct timespec nap = {.tv_nsec = LOOK_EARLY};
  uint64_t start = clock_mono_ns();
  uint64_t end = t->o->duration_ns ? start + t->o->duration_ns : UINT64_MAX;
  t->next_second = start + UNITS_S;
  for (;;) {
    uint64_t now = clock_mono_ns();
    if (tracing_poll(&t->tracing, now) != SESSION_TRACE_RUNS)
      break;
    enum result r = check_vm(t, now);
    if (r != RESULT_OK || signals_stop || now >= end)
      return r;
    each_second(t, now);
    if (t->next_vm_look == UINT64_MAX)
      nap.tv_nsec = LOOK_EVERY;
    nanosleep(&nap, NULL);
  }
  /* Over; a target that has ended without one is told about, too. */
  struct session_trace_account acc;
  session_trace_sums(t->tracing.session, &acc);
  if (t->tracing.state == SESSION_TRACE_STOPPED || acc.vms)
    return RESULT_OK;
  return reach_no_vm(t->job.target, clock_mono_ns() - start, 0, acc.unknown,
                     &t->job.error);
}

/* ---- with samples ---- */

static void on_poll(void *arg, uint64_t now)
{
  struct trace *t = arg;
  if (tracing_poll(&t->tracing, now) == SESSION_TRACE_STOPPED)
    signals_stop = 1;
  each_second(t, now);
}

static void on_hit(void *arg, const struct session_hit *hit)
{
  struct trace *t = arg;
  tracing_hit(&t->tracing, hit);
}

static enum result sample(struct trace *t)
{
  struct session_options s = record_session_options(t->o);
  s.merge.native = false; /* the innermost Lua function is all that counts */
  s.hit = on_hit;
  s.poll = on_poll;
  s.arg = t;
  t->next_second = clock_mono_ns() + UNITS_S;
  return session_run(t->job.target, &s, &signals_stop, t->profile, &t->samples,
                     &t->end, &t->job.error);
}

/* Without an agent nothing can be sampled, but something be read. */
static enum result begin(struct trace *t)
{
  enum result r = job_reach(&t->job);
  if (r == RESULT_OK)
    return tracing_begin(&t->tracing, t->job.target, &t->job.error);
  if (r != RESULT_NOAGENT || t->o->samples || t->o->require_agent ||
      !t->job.target)
    return r;
  say("exact counts are not available: %s", t->job.error.text);
  return tracing_outside(&t->tracing, t->job.target, &t->job.error);
}

static enum result run_session(struct trace *t)
{
  enum result r = begin(t);
  if (r != RESULT_OK)
    return r;
  t->begun = true;
  r = t->o->samples ? sample(t) : watch(t);
  tracing_end(&t->tracing);
  job_clear(&t->job);
  return r;
}

/* ---- at the end ---- */

static void close_account(const struct trace *t)
{
  struct closing c = {.acc = &t->samples,
                      .interval_ns = t->o->interval_ns,
                      .stopped = t->job.stopped};
  struct strbuf b = STRBUF_INIT;
  if (t->o->quiet)
    return;
  if (t->tracing.state == SESSION_TRACE_TARGET || t->end == SESSION_END_TARGET)
    job_tell_end(&t->job);
  if (!t->o->samples)
    return;
  closing_why_empty(&b, &c);
  if (b.len)
    say("%s", strbuf_text(&b));
  strbuf_clear(&b);
  closing_line(&b, &c);
  say("%s", strbuf_text(&b));
  strbuf_free(&b);
}

static enum result settle(struct trace *t, enum result seen)
{
  if (job_ended_too_soon(&t->job, seen)) {
    if (!t->o->quiet)
      say("%d ended before a VM could be seen in it", job_pid(&t->job));
    seen = RESULT_OK;
  }
  if (seen != RESULT_OK)
    say("%s", t->job.error.text);
  if (seen != RESULT_OK && (!t->begun || seen == RESULT_NOVM))
    return seen;
  if (t->begun)
    close_account(t);
  enum result written =
      tracing_finish(&t->tracing, job_pid(&t->job), &t->job.error);
  if (written != RESULT_OK)
    say("%s", t->job.error.text);
  return seen != RESULT_OK ? seen : written;
}

static enum result prepare(void *arg)
{
  struct trace *t = arg;
  t->profile = t->o->samples ? profile_new() : NULL;
  if (t->o->samples && !t->profile)
    return error_set(&t->job.error, RESULT_NOMEM, "no memory");
  return tracing_open(&t->tracing, t->o, t->o->output, &t->job.error);
}

static enum result work(void *arg)
{
  struct trace *t = arg;
  return settle(t, run_session(t));
}

static void release(void *arg)
{
  struct trace *t = arg;
  tracing_free(&t->tracing);
  profile_free(t->profile);
}

int trace_run(const struct options *o)
{
  static const struct job_steps steps = {prepare, work, release};
  struct trace t = {.o = o};
  job_init(&t.job, o);
  t.job.child.trace = true;
  return job_run(&t.job, &steps, &t);
}
