/* SPDX-License-Identifier: MIT
 *
 * What the verbs that watch a process share: the process, launched or not, the
 * progress line, and the status at the end.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "attach/attach_internal.h"
#include "target/target.h"

void job_init(struct job *j, const struct options *o)
{
  *j = (struct job){.o = o, .tty = !o->quiet && isatty(STDERR_FILENO)};
}

int job_pid(const struct job *j)
{
  return (int)(j->child.pid ? j->child.pid : j->o->pid);
}

static void note_target(struct job *j)
{
  int pid = job_pid(j);
  j->stopped = reach_stopped(j->target);
  if (j->o->quiet)
    return;
  if (j->stopped)
    say("%d (%s) is stopped (state T): it gives nothing until it goes on "
        "(kill -CONT %d)",
        pid, j->comm, pid);
  else if (j->o->verbose && (j->o->verb->bit != VERB_TRACE || j->o->samples))
    say("sampling %d (%s) every %" PRIu64 " us", pid, j->comm,
        j->o->interval_ns / UNITS_US);
}

/* Samples, unlike trace aborts, can be had without an agent. */
static enum result do_without(struct job *j, enum result r)
{
  if (r != RESULT_NOAGENT || j->o->verb->bit != VERB_RECORD ||
      j->o->require_agent || j->o->aborts || j->o->from_inside)
    return r;
  j->outside = true;
  if (!j->o->quiet)
    say("the agent is not loaded in %d (%s): sampling from outside; every "
        "sample stops a thread for a moment",
        job_pid(j), j->comm);
  return RESULT_OK;
}

enum result job_reach(struct job *j)
{
  pid_t pid = (pid_t)job_pid(j);
  j->outside = j->o->no_agent;
  enum result r = j->outside ? reach_process(pid, &j->target, &j->error)
                             : reach_open(pid, j->child.pid != 0, j->o->wait_ns,
                                          &j->target, &j->error);
  if (j->target)
    target_comm(j->target, j->comm);
  if (r == RESULT_NOAGENT && j->o->inject)
    r = inject_into(j->target, j->o, &j->error);
  r = do_without(j, r);
  if (r == RESULT_OK)
    note_target(j);
  return r;
}

/* ---- the progress line ---- */

void job_show(struct job *j, const struct strbuf *line)
{
  fprintf(stderr, "\r" ATTACH_NAME ": %s\033[K", strbuf_text(line));
  j->shown = true;
}

void job_clear(struct job *j)
{
  if (j->shown)
    fputs("\r\033[K", stderr);
  j->shown = false;
}

void job_tell_waiting(struct job *j)
{
  if (j->told || j->o->quiet)
    return;
  job_clear(j);
  say("no LuaJIT VM in %d (%s) yet, waiting", job_pid(j), j->comm);
  j->told = true;
}

void job_tell_end(const struct job *j)
{
  if (target_alive(j->target))
    say("%d became another program", job_pid(j));
  else
    say("%d (%s) ended", job_pid(j), j->comm);
}

/* ---- the end ---- */

bool job_ended_too_soon(struct job *j, enum result r)
{
  const struct timespec nap = {.tv_nsec = 2 * UNITS_MS};
  if (!j->child.pid ||
      (r != RESULT_GONE && r != RESULT_NOVM && r != RESULT_NOAGENT))
    return false;
  /* A process gives up its memory a moment before it can be waited for. */
  for (int i = 0; r == RESULT_GONE && i < 100 && !launch_ended(&j->child); i++)
    nanosleep(&nap, NULL);
  return launch_ended(&j->child);
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
static int launched_status(struct job *j, enum result r)
{
  int asked = signals_seen();
  signals_restore();
  close_stdout();
  if ((asked == SIGTERM || asked == SIGHUP) && !launch_ended(&j->child)) {
    say("%d (%s) goes on", job_pid(j), j->comm);
    return r == RESULT_OK ? STATUS_DONE : STATUS_LAUNCH_FAILED;
  }
  launch_wait(&j->child);
  if (r != RESULT_OK)
    return STATUS_LAUNCH_FAILED;
  return verdict_of_wait(j->child.wait_status);
}

static int ended(struct job *j, enum result r)
{
  if (j->target)
    target_close(j->target);
  j->target = NULL;
  return j->o->command ? launched_status(j, r) : (int)verdict_status(r);
}

static int not_started(struct job *j, enum result r, enum status launch_status)
{
  say("%s", j->error.text);
  return (int)(j->o->command ? launch_status : verdict_status(r));
}

int job_run(struct job *j, const struct job_steps *steps, void *arg)
{
  enum status status = STATUS_LAUNCH_FAILED;
  enum result r = steps->prepare(arg);
  if (r == RESULT_OK && j->o->command)
    r = launch_start(&j->child, j->o->command, !j->o->output, &status,
                     &j->error);
  bool started = r == RESULT_OK;
  if (started)
    r = steps->work(arg);
  steps->release(arg);
  return started ? ended(j, r) : not_started(j, r, status);
}
