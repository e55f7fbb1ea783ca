/* SPDX-License-Identifier: MIT
 *
 * Launch mode: a command with the agent in it, in our own process group, so
 * that Ctrl-C reaches both.
 */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/attach_internal.h"
#include "base/clock.h"

extern char **environ;

/* Read by the agent (init.c). */
#define TRACE_KEY "TECS_TRACE_FROM_START="

/* In the environment of all that come from the command. */
#define FOLLOW_KEY "TECS_FOLLOW="

/* Is the variable one of ours, by its name? */
static bool is_set_here(const char *variable, char *const *ours)
{
  for (; *ours; ours++)
    if (!strncmp(variable, *ours, strcspn(*ours, "=") + 1))
      return true;
  return false;
}

/* The environment with ours (NULL ends them) in place of its own; the array is
 * the caller's. */
static char **environ_with(char *const *ours)
{
  size_t n = 0, k = 0, own = 0;
  while (environ[n])
    n++;
  while (ours[own])
    own++;
  char **env = calloc(n + own + 1, sizeof *env);
  if (!env)
    return NULL;
  for (size_t i = 0; i < n; i++)
    if (!is_set_here(environ[i], ours))
      env[k++] = environ[i];
  for (size_t i = 0; i < own; i++)
    env[k++] = ours[i];
  return env;
}

/* Returns posix_spawn's error number.  glibc reports a failed exec there. */
static int spawn(pid_t *pid, char **command, char **env, bool quiet_stdout)
{
  posix_spawnattr_t attr;
  posix_spawn_file_actions_t files;
  sigset_t defaults;
  int err = posix_spawnattr_init(&attr);
  if (err)
    return err;
  err = posix_spawn_file_actions_init(&files);
  if (err)
    goto no_files;
  signals_defaults(&defaults);
  posix_spawnattr_setsigdefault(&attr, &defaults);
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
  if (quiet_stdout)
    err =
        posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  if (!err)
    err = posix_spawnp(pid, command[0], &files, &attr, command, env);
  posix_spawn_file_actions_destroy(&files);
no_files:
  posix_spawnattr_destroy(&attr);
  return err;
}

static enum result spawn_failed(int err, const char *command,
                                enum status *status, struct error *e)
{
  *status = err == ENOENT ? STATUS_LAUNCH_NOT_FOUND : STATUS_LAUNCH_CANNOT_RUN;
  return error_set(e, err == ENOENT ? RESULT_NOTFOUND : RESULT_IO,
                   "cannot run '%s': %s", command, strerror(err));
}

/* The value of LD_PRELOAD, with its name. */
static enum result preload_agent(struct strbuf *out, struct error *e)
{
  char lib[4096];
  enum result r = agentlib_path(lib, sizeof lib, e);
  if (r != RESULT_OK)
    return r;
  strbuf_add_str(out, "LD_PRELOAD=");
  return agentlib_preload(getenv("LD_PRELOAD"), lib, out, e);
}

/* The command's environment; the array is the caller's, trace and preload are
 * what it points into. */
static char **environ_of(struct launch *l, char *preload, char trace[64])
{
  char *ours[4] = {NULL};
  size_t n = 0;
  if (preload)
    ours[n++] = preload;
  snprintf(trace, 64, TRACE_KEY "%d", (int)getpid());
  if (l->trace)
    ours[n++] = trace;
  /* Nobody else has that one, also in other pid namespaces. */
  snprintf(l->mark, sizeof l->mark, FOLLOW_KEY "%d.%llx", (int)getpid(),
           (unsigned long long)clock_mono_ns());
  if (l->follow)
    ours[n++] = l->mark;
  return environ_with(ours);
}

enum result launch_start(struct launch *l, char **command, bool quiet_stdout,
                         enum status *status, struct error *e)
{
  struct strbuf preload = STRBUF_INIT;
  char trace[64];
  char **env = NULL;
  *status = STATUS_LAUNCH_FAILED;
  enum result r = l->no_agent ? RESULT_OK : preload_agent(&preload, e);
  if (r != RESULT_OK)
    goto out;
  env = environ_of(l, l->no_agent ? NULL : preload.data, trace);
  if (!env) {
    r = error_set(e, RESULT_NOMEM, "no memory");
    goto out;
  }
  int err = spawn(&l->pid, command, env, quiet_stdout);
  if (err) {
    l->pid = 0;
    r = spawn_failed(err, command[0], status, e);
  }
out:
  free(env);
  strbuf_free(&preload);
  return r;
}

static bool reap(struct launch *l, int flags)
{
  if (!l->pid || l->reaped)
    return l->reaped;
  pid_t got;
  do
    got = waitpid(l->pid, &l->wait_status, flags);
  while (got < 0 && errno == EINTR && !flags);
  l->reaped = got == l->pid;
  return l->reaped;
}

bool launch_ended(struct launch *l)
{
  return reap(l, WNOHANG);
}

void launch_wait(struct launch *l)
{
  reap(l, 0);
}
