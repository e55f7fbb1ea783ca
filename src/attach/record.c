/* SPDX-License-Identifier: MIT
 *
 * The verb that samples: output first, then the target, then the session, then
 * the account.
 */
#include <inttypes.h>
#include <stdio.h>

#include "attach/attach_internal.h"
#include "output/output.h"
#include "profile/profile.h"
#include "target/target.h"

struct record {
  struct job job;
  const struct options *o;
  struct output_file *out;
  struct profile *profile;
  struct session_account acc;
  enum session_end end;
  struct tracing tracing;        /* with --aborts */
  struct categories *categories; /* with --report */
  struct follow_sums follow;
  bool undrawn;  /* the program that draws has failed */
  bool too_soon; /* the command ended before it could be sampled */
};

struct session_options record_session_options(const struct options *o)
{
  struct session_options s = {
      .interval_ns = o->interval_ns,
      .duration_ns = o->duration_ns,
      .vm_wait_ns = o->wait_ns,
      .wall = o->wall,
      .by_thread = o->threads,
      .by_vm = o->vms,
      .vm = o->vm,
      .from_inside = o->from_inside,
      .cookie = o->cookie,
      .merge = {.native = o->native,
                .lua = o->lua,
                .zones = o->zones,
                .state = o->state,
                .lines = o->lines,
                .inlined = o->inlined,
                .depth = (unsigned)o->depth,
                .zone_prefix = o->zone},
  };
  return s;
}

/* ---- before sampling ---- */

/* All that can fail before anything is started or touched. */
static enum result prepare(void *arg)
{
  struct record *r = arg;
  struct error *e = &r->job.error;
  r->profile = profile_new();
  if (!r->profile)
    return error_set(e, RESULT_NOMEM, "no memory");
  enum result res = output_file_open(r->o->output, &r->out, e);
  if (res == RESULT_OK)
    res = format_prepare((enum format_id)r->o->format_id, e);
  if (res == RESULT_OK && r->o->report)
    res = report_categories(r->o->categories, &r->categories, e);
  if (res == RESULT_OK && r->o->aborts)
    res = tracing_open(&r->tracing, r->o, r->o->aborts, e);
  return res;
}

/* ---- while sampling ---- */

static void on_progress(void *arg, const struct session_account *acc)
{
  struct record *r = arg;
  if (output_file_reader_gone(r->out))
    signals_stop = 1;
  if (!acc->vms && !acc->samples) {
    job_tell_waiting(&r->job);
  } else if (r->job.tty && acc->vms) {
    struct strbuf b = STRBUF_INIT;
    closing_progress(&b, acc);
    job_show(&r->job, &b);
    strbuf_free(&b);
  }
}

static void on_hit(void *arg, const struct session_hit *hit)
{
  struct record *r = arg;
  tracing_hit(&r->tracing, hit);
}

static void on_poll(void *arg, uint64_t now)
{
  struct record *r = arg;
  tracing_poll(&r->tracing, now);
}

static enum result run_session(struct record *r)
{
  struct session_options s = record_session_options(r->o);
  struct error *e = &r->job.error;
  s.progress = on_progress;
  s.progress_arg = s.arg = r;
  if (r->o->follow) {
    enum result all =
        follow_run(&r->job, &s, r->profile, &r->acc, &r->follow, &r->end);
    job_clear(&r->job);
    return all;
  }
  enum result res = job_reach(&r->job);
  if (res == RESULT_OK && r->o->aborts)
    res = tracing_begin(&r->tracing, r->job.target, e);
  if (res != RESULT_OK)
    return res;
  if (r->job.outside)
    s.engine = SESSION_ENGINE_PTRACE;
  if (r->o->aborts) {
    s.hit = on_hit;
    s.poll = on_poll;
  }
  res = session_run(r->job.target, &s, &signals_stop, r->profile, &r->acc,
                    &r->end, e);
  tracing_end(&r->tracing);
  job_clear(&r->job);
  return res;
}

/* ---- after sampling ---- */

static enum result finish_file(struct output_file *out,
                               const struct strbuf *text, struct error *e)
{
  enum result res = output_file_finish(out, text, e);
  return res == RESULT_END ? RESULT_OK : res; /* the reader had enough */
}

/* A picture that could not be drawn must not take the samples with it. */
static void keep_stacks(struct record *r)
{
  struct strbuf path = STRBUF_INIT, text = STRBUF_INIT;
  struct output_file *out = NULL;
  struct error e;
  if (r->o->output)
    strbuf_printf(&path, "%s.folded", r->o->output);
  enum result res =
      output_file_open(path.len ? strbuf_text(&path) : NULL, &out, &e);
  if (res == RESULT_OK && output_collapsed(r->profile, &text) != RESULT_OK) {
    output_file_abandon(out);
    res = error_set(&e, RESULT_NOMEM, "no memory for its collapsed stacks");
  } else if (res == RESULT_OK) {
    res = finish_file(out, &text, &e);
  }
  if (res == RESULT_OK)
    say("its collapsed stacks are in %s",
        path.len ? strbuf_text(&path) : "standard output");
  else
    say("%s", e.text);
  strbuf_free(&path);
  strbuf_free(&text);
}

static enum result write_profile(struct record *r)
{
  struct strbuf text = STRBUF_INIT, title = STRBUF_INIT;
  struct output_file *out = r->out;
  struct error *e = &r->job.error;
  strbuf_printf(&title, "%s (%d)", r->job.comm, job_pid(&r->job));
  enum result res = format_write((enum format_id)r->o->format_id, r->profile,
                                 strbuf_text(&title), &text, e);
  r->out = NULL;
  if (r->o->keep_own && r->job.target)
    output_file_keep_since(out, reach_started_ns(r->job.target));
  if (res == RESULT_OK)
    res = finish_file(out, &text, e);
  else
    output_file_abandon(out);
  r->undrawn = res == RESULT_IO && r->o->format_id == FORMAT_SVG;
  strbuf_free(&text);
  strbuf_free(&title);
  return res;
}

static void close_account(const struct record *r)
{
  struct closing c = {.acc = &r->acc,
                      .interval_ns = r->o->interval_ns,
                      .zone = r->o->zone,
                      .stopped = r->job.stopped,
                      .too_soon = r->too_soon};
  struct strbuf b = STRBUF_INIT;
  if (r->o->quiet)
    return;
  if (r->o->follow)
    c.follow = &r->follow;
  if (r->job.target) {
    c.stopped |= reach_stopped(r->job.target);
    if (r->end == SESSION_END_TARGET)
      job_tell_end(&r->job);
  }
  closing_why_empty(&b, &c);
  if (b.len)
    say("%s", strbuf_text(&b));
  strbuf_clear(&b);
  closing_why_unread(&b, &r->acc);
  if (b.len)
    say("%s", strbuf_text(&b));
  strbuf_clear(&b);
  closing_line(&b, &c);
  say("%s", strbuf_text(&b));
  if (r->o->verbose) {
    strbuf_clear(&b);
    closing_details(&b, &r->acc, profile_stack_count(r->profile),
                    closing_own_peak());
    say("%s", strbuf_text(&b));
  }
  strbuf_free(&b);
}

static enum result print_report(struct record *r)
{
  struct strbuf text = STRBUF_INIT;
  if (!r->o->report)
    return RESULT_OK;
  struct profile *p = output_printable(r->profile);
  enum result res =
      p ? report_text(p, r->categories, NULL, &text) : RESULT_NOMEM;
  if (res == RESULT_OK)
    fputs(strbuf_text(&text), stderr);
  else
    say("no memory for the report");
  profile_free(p);
  strbuf_free(&text);
  return res;
}

static enum result write_aborts(struct record *r)
{
  if (!r->o->aborts)
    return RESULT_OK;
  enum result res =
      tracing_finish(&r->tracing, job_pid(&r->job), &r->job.error);
  if (res != RESULT_OK)
    say("%s", r->job.error.text);
  return res;
}

/* Writes what there is; a profile that broke off is still one, but not one
 * without any VM in it. */
static enum result settle(struct record *r, enum result sampled)
{
  if (job_ended_too_soon(&r->job, sampled)) {
    r->too_soon = true;
    if (!r->o->quiet)
      say("%d ended before a VM could be sampled in it", job_pid(&r->job));
    sampled = RESULT_OK;
  }
  if (sampled != RESULT_OK)
    say("%s", r->job.error.text);
  if (sampled != RESULT_OK && (!r->acc.samples || sampled == RESULT_NOVM))
    return sampled;
  enum result written = write_profile(r);
  if (written != RESULT_OK)
    say("%s", r->job.error.text);
  if (r->undrawn && profile_weight(r->profile))
    keep_stacks(r);
  close_account(r);
  enum result aborts = write_aborts(r);
  enum result reported = print_report(r);
  if (sampled != RESULT_OK)
    return sampled;
  if (written == RESULT_OK && aborts == RESULT_OK)
    return reported;
  return written != RESULT_OK ? written : aborts;
}

/* ---- the verb ---- */

static enum result work(void *arg)
{
  struct record *r = arg;
  return settle(r, run_session(r));
}

static void release(void *arg)
{
  struct record *r = arg;
  if (r->out)
    output_file_abandon(r->out);
  profile_free(r->profile);
  categories_free(r->categories);
  tracing_free(&r->tracing);
}

int record_run(const struct options *o)
{
  static const struct job_steps steps = {prepare, work, release};
  struct record r = {.o = o};
  job_init(&r.job, o);
  r.job.child.trace = o->aborts != NULL;
  r.job.child.no_agent = o->no_agent;
  r.job.child.follow = o->follow;
  return job_run(&r.job, &steps, &r);
}
