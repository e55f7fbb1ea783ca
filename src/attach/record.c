/* SPDX-License-Identifier: MIT
 *
 * The verb that samples: output first, then the target, then the session, then
 * the account.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/attach_internal.h"
#include "output/output.h"
#include "profile/profile.h"
#include "target/target.h"

#define RECORD_EXECS_MAX 64

struct record {
  const struct options *o;
  struct output_file *out;
  struct launch child;
  struct target *target;
  char comm[16];
  struct profile *profile;
  struct session_account now;   /* of the session that runs */
  struct session_account total; /* of all: an exec begins a new one */
  enum session_end end;
  bool stopped; /* the target was in state T */
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

/* ---- before sampling ---- */

static enum result open_output(struct record *r)
{
  const struct options *o = r->o;
  int mode = o->output ? O_WRONLY : fcntl(STDOUT_FILENO, F_GETFL);
  if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY)
    return error_set(
        &r->error, RESULT_IO,
        "stdout is closed, and the result goes there; use -o FILE");
  return output_file_open(o->output, &r->out, &r->error);
}

/* All that can fail before anything is started or touched. */
static enum result prepare(struct record *r)
{
  r->profile = profile_new();
  if (!r->profile)
    return error_set(&r->error, RESULT_NOMEM, "no memory");
  return open_output(r);
}

static void note_target(struct record *r)
{
  target_comm(r->target, r->comm);
  r->stopped = reach_stopped(r->target);
  if (r->o->quiet)
    return;
  int pid = (int)target_pid(r->target);
  if (r->stopped)
    say("%d (%s) is stopped (state T): it gives no samples until it goes on "
        "(kill -CONT %d)",
        pid, r->comm, pid);
  else if (r->o->verbose)
    say("sampling %d (%s) every %" PRIu64 " us", pid, r->comm,
        r->o->interval_ns / UNITS_US);
}

/* ---- the session ---- */

static enum result session_once(struct record *r)
{
  struct session_options s = record_session_options(r->o);
  struct watch w = {.quit = {-1, -1},
                    .tty = !r->o->quiet && isatty(STDERR_FILENO),
                    .to_stdout = !r->o->output,
                    .pid = target_pid(r->target),
                    .comm = r->comm,
                    .acc = &r->now};
  if (s.duration_ns && r->total.elapsed_ns)
    s.duration_ns -= r->total.elapsed_ns;
  memset(&r->now, 0, sizeof r->now);
  enum result res = watch_start(&w, &r->error);
  if (res != RESULT_OK)
    return res;
  res = session_run(r->target, &s, &signals_stop, r->profile, &r->now, &r->end,
                    &r->error);
  watch_stop(&w);
  account_add(&r->total, &r->now);
  return res;
}

/* The process lives on as another program: exec keeps pid and start time. */
static bool became_another(const struct record *r)
{
  return r->end == SESSION_END_TARGET && !signals_stop &&
         target_alive(r->target) &&
         (!r->o->duration_ns || r->total.elapsed_ns < r->o->duration_ns);
}

static enum result reopen(struct record *r)
{
  pid_t pid = target_pid(r->target);
  target_close(r->target);
  r->target = NULL;
  enum result res = reach_open(pid, true, r->o->wait_ns, &r->target, &r->error);
  if (res == RESULT_OK)
    note_target(r);
  return res;
}

/* What an earlier program gave is a result, whatever became of the next. */
static enum result sample(struct record *r)
{
  enum result res = RESULT_OK;
  for (int execs = 0; execs < RECORD_EXECS_MAX; execs++) {
    res = session_once(r);
    if (res != RESULT_OK || !became_another(r))
      break;
    res = reopen(r);
    if (res != RESULT_OK)
      break;
  }
  if (res != RESULT_OK && r->total.samples &&
      (res == RESULT_GONE || res == RESULT_NOVM || res == RESULT_NOAGENT)) {
    say("sampling ended: %s", r->error.text);
    res = RESULT_OK;
  }
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

static void close_account(const struct record *r)
{
  struct closing c = {&r->total, r->o->interval_ns, r->o->zone, r->stopped};
  struct strbuf b = STRBUF_INIT;
  if (r->o->quiet)
    return;
  if (r->end == SESSION_END_TARGET)
    say("%d (%s) ended", r->child.pid ? (int)r->child.pid : (int)r->o->pid,
        r->comm);
  closing_why_empty(&b, &c);
  if (b.len)
    say("%s", strbuf_text(&b));
  strbuf_clear(&b);
  closing_line(&b, &c);
  say("%s", strbuf_text(&b));
  if (r->o->verbose)
    say("%" PRIu64 " ticks, %" PRIu64 " bytes of records, %zu stacks",
        r->total.ticks, r->total.bytes, profile_stack_count(r->profile));
  strbuf_free(&b);
}

/* A command that ended before it could be sampled is no failure of ours. */
static bool ended_too_soon(struct record *r, enum result res)
{
  if (res != RESULT_GONE && res != RESULT_NOVM && res != RESULT_NOAGENT)
    return false;
  return r->child.pid && launch_ended(&r->child);
}

static enum result settle(struct record *r, enum result sampled)
{
  if (ended_too_soon(r, sampled)) {
    if (!r->o->quiet)
      say("%d ended before it could be sampled", (int)r->child.pid);
    sampled = RESULT_OK;
  }
  if (sampled != RESULT_OK)
    say("%s", r->error.text);
  if (sampled != RESULT_OK && !r->total.samples)
    return sampled;
  enum result written = write_profile(r);
  if (written != RESULT_OK)
    say("%s", r->error.text);
  close_account(r);
  return sampled != RESULT_OK ? sampled : written;
}

/* The command goes on when we are asked to leave; Ctrl-C and the end of the
 * duration wait for it, since its status is ours. */
static int launched_status(struct record *r, enum result res)
{
  int asked = signals_seen();
  signals_restore();
  if ((asked == SIGTERM || asked == SIGHUP) && !launch_ended(&r->child)) {
    say("%d (%s) goes on", (int)r->child.pid, r->comm);
    return res == RESULT_OK ? STATUS_DONE : STATUS_LAUNCH_FAILED;
  }
  launch_wait(&r->child);
  if (res != RESULT_OK)
    return STATUS_LAUNCH_FAILED;
  return verdict_of_wait(r->child.wait_status);
}

/* ---- the verb ---- */

static enum result run_session(struct record *r)
{
  pid_t pid = r->child.pid ? r->child.pid : r->o->pid;
  enum result res =
      reach_open(pid, r->child.pid != 0, r->o->wait_ns, &r->target, &r->error);
  if (res != RESULT_OK)
    return res;
  note_target(r);
  return sample(r);
}

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
  enum status status = STATUS_DONE;
  enum result res = prepare(&r);
  if (res == RESULT_OK && o->command) {
    res = launch_start(&r.child, o->command, !o->output, &status, &r.error);
  } else if (res != RESULT_OK) {
    status = o->command ? STATUS_LAUNCH_FAILED : verdict_status(res);
  }
  if (res != RESULT_OK) {
    say("%s", r.error.text);
    release(&r);
    return (int)status;
  }
  res = settle(&r, run_session(&r));
  release(&r);
  if (o->command)
    return launched_status(&r, res);
  return (int)verdict_status(res);
}
