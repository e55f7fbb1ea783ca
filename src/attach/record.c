/* SPDX-License-Identifier: MIT
 *
 * The verb that samples: output first, then the target, then the session, then
 * the account.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "attach/attach_internal.h"
#include "output/output.h"
#include "profile/profile.h"
#include "target/target.h"

struct record {
  const struct options *o;
  struct output_file *out;
  struct launch child;
  struct target *target;
  char comm[16];
  struct profile *profile;
  struct session_account acc;
  enum session_end end;
  bool stopped;  /* the target was in state T */
  bool too_soon; /* the command ended before it could be sampled */
  bool tty;      /* progress line wanted */
  bool shown;    /* and one stands there now */
  bool told;     /* that there is no VM yet */
  struct error error;
};

struct session_options record_session_options(const struct options *o)
{
  struct session_options s = {
      .interval_ns = o->interval_ns,
      .duration_ns = o->duration_ns,
      .vm_wait_ns = o->wait_ns,
      .by_thread = o->threads,
      .by_vm = o->vms,
      .merge = {.native = o->native,
                .lua = o->lua,
                .zones = o->zones,
                .state = o->state,
                .lines = o->lines,
                .depth = (unsigned)o->depth,
                .zone_prefix = o->zone},
  };
  return s;
}

static int pid_of(const struct record *r)
{
  return (int)(r->child.pid ? r->child.pid : r->o->pid);
}

/* ---- before sampling ---- */

/* All that can fail before anything is started or touched. */
static enum result prepare(struct record *r)
{
  r->tty = !r->o->quiet && isatty(STDERR_FILENO);
  r->profile = profile_new();
  if (!r->profile)
    return error_set(&r->error, RESULT_NOMEM, "no memory");
  return output_file_open(r->o->output, &r->out, &r->error);
}

static void note_target(struct record *r)
{
  target_comm(r->target, r->comm);
  r->stopped = reach_stopped(r->target);
  if (r->o->quiet)
    return;
  if (r->stopped)
    say("%d (%s) is stopped (state T): it gives no samples until it goes on "
        "(kill -CONT %d)",
        pid_of(r), r->comm, pid_of(r));
  else if (r->o->verbose)
    say("sampling %d (%s) every %" PRIu64 " us", pid_of(r), r->comm,
        r->o->interval_ns / UNITS_US);
}

/* ---- while sampling ---- */

static void show_progress(struct record *r, const struct session_account *acc)
{
  struct strbuf b = STRBUF_INIT;
  closing_progress(&b, acc);
  fprintf(stderr, "\r" ATTACH_NAME ": %s\033[K", strbuf_text(&b));
  strbuf_free(&b);
  r->shown = true;
}

static void clear_progress(struct record *r)
{
  if (r->shown)
    fputs("\r\033[K", stderr);
  r->shown = false;
}

static void on_progress(void *arg, const struct session_account *acc)
{
  struct record *r = arg;
  if (output_file_reader_gone(r->out))
    signals_stop = 1;
  if (!acc->vms && !acc->samples && !r->told && !r->o->quiet) {
    clear_progress(r);
    say("no LuaJIT VM in %d (%s) yet, waiting", pid_of(r), r->comm);
    r->told = true;
  } else if (r->tty && acc->vms) {
    show_progress(r, acc);
  }
}

static enum result run_session(struct record *r)
{
  struct session_options s = record_session_options(r->o);
  enum result res = reach_open((pid_t)pid_of(r), r->child.pid != 0,
                               r->o->wait_ns, &r->target, &r->error);
  if (res != RESULT_OK)
    return res;
  note_target(r);
  s.progress = on_progress;
  s.progress_arg = r;
  res = session_run(r->target, &s, &signals_stop, r->profile, &r->acc, &r->end,
                    &r->error);
  clear_progress(r);
  return res;
}

/* ---- after sampling ---- */

static enum result write_profile(struct record *r)
{
  struct strbuf text = STRBUF_INIT;
  struct output_file *out = r->out;
  enum result res = output_collapsed(r->profile, &text);
  r->out = NULL;
  if (res == RESULT_OK) {
    res = output_file_finish(out, &text, &r->error);
  } else {
    output_file_abandon(out);
    error_set(&r->error, res, "cannot write the profile: %s", result_text(res));
  }
  strbuf_free(&text);
  return res == RESULT_END ? RESULT_OK : res; /* the reader had enough */
}

static void tell_end(const struct record *r)
{
  if (r->end != SESSION_END_TARGET)
    return;
  if (target_alive(r->target))
    say("%d became another program, without the agent", pid_of(r));
  else
    say("%d (%s) ended", pid_of(r), r->comm);
}

static void close_account(const struct record *r)
{
  struct closing c = {.acc = &r->acc,
                      .interval_ns = r->o->interval_ns,
                      .zone = r->o->zone,
                      .stopped = r->stopped,
                      .too_soon = r->too_soon};
  struct strbuf b = STRBUF_INIT;
  if (r->o->quiet)
    return;
  if (r->target) {
    c.stopped |= reach_stopped(r->target);
    tell_end(r);
  }
  closing_why_empty(&b, &c);
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

/* A command that ended before it could be sampled is no failure of ours. */
static bool ended_too_soon(struct record *r, enum result res)
{
  struct timespec ms = {.tv_nsec = 1000000};
  if (res != RESULT_GONE && res != RESULT_NOVM && res != RESULT_NOAGENT)
    return false;
  /* its memory is gone a moment before wait() says so */
  for (int i = 0; i < 1000 && r->child.pid && res == RESULT_GONE; i++)
    if (launch_ended(&r->child) || nanosleep(&ms, NULL))
      break;
  return r->child.pid && launch_ended(&r->child);
}

/* Writes what there is; a profile that broke off is still one, but not one
 * without any VM in it. */
static enum result settle(struct record *r, enum result sampled)
{
  if (ended_too_soon(r, sampled)) {
    r->too_soon = true;
    if (!r->o->quiet)
      say("%d ended before a VM could be sampled in it", pid_of(r));
    sampled = RESULT_OK;
  }
  if (sampled != RESULT_OK)
    say("%s", r->error.text);
  if (sampled != RESULT_OK && (!r->acc.samples || sampled == RESULT_NOVM))
    return sampled;
  enum result written = write_profile(r);
  if (written != RESULT_OK)
    say("%s", r->error.text);
  close_account(r);
  return sampled != RESULT_OK ? sampled : written;
}

/* Whoever reads the result need not wait until the command ends. */
static void close_stdout(void)
{
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null < 0)
    return;
  dup2(null, STDOUT_FILENO);
  close(null);
}

/* The command goes on when we are asked to leave; Ctrl-C and the end of the
 * duration wait for it, since its status is ours. */
static int launched_status(struct record *r, enum result res)
{
  int asked = signals_seen();
  signals_restore();
  close_stdout();
  if ((asked == SIGTERM || asked == SIGHUP) && !launch_ended(&r->child)) {
    say("%d (%s) goes on", pid_of(r), r->comm);
    return res == RESULT_OK ? STATUS_DONE : STATUS_LAUNCH_FAILED;
  }
  launch_wait(&r->child);
  if (res != RESULT_OK)
    return STATUS_LAUNCH_FAILED;
  return verdict_of_wait(r->child.wait_status);
}

/* ---- the verb ---- */

static void release(struct record *r)
{
  if (r->out)
    output_file_abandon(r->out);
  if (r->profile)
    profile_free(r->profile);
  if (r->target)
    target_close(r->target);
}

int record_run(const struct options *o)
{
  struct record r = {.o = o};
  enum status status = STATUS_LAUNCH_FAILED;
  enum result res = prepare(&r);
  if (res == RESULT_OK && o->command)
    res = launch_start(&r.child, o->command, !o->output, &status, &r.error);
  if (res != RESULT_OK) {
    say("%s", r.error.text);
    release(&r);
    return (int)(o->command ? status : verdict_status(res));
  }
  res = settle(&r, run_session(&r));
  release(&r);
  return o->command ? launched_status(&r, res) : (int)verdict_status(res);
}
