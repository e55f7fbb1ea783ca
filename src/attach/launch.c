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

extern char **environ;

/* Read by the agent (init.c). */
#define TRACE_KEY "TECS_TRACE_FROM_START="

static bool is_set_here(const char *variable)
{
  static const char *const key[] = {"LD_PRELOAD=", TRACE_KEY};
  for (size_t i = 0; i < sizeof key / sizeof key[0]; i++)
    if (!strncmp(variable, key[i], strlen(key[i])))
      return true;
  return false;
}

/* The environment with ours (NULL: not set) in place of its own; the array is
 * the caller's. */
static char **environ_with(char *preload, char *trace)
{
  size_t n = 0, k = 0;
  while (environ[n])
    n++;
  char **env = calloc(n + 3, sizeof *env);
  if (!env)
    return NULL;
  for (size_t i = 0; i < n; i++)
    if (!is_set_here(environ[i]))
      env[k++] = environ[i];
  env[k++] = preload;
  env[k] = trace;
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

enum result launch_start(struct launch *l, char **command, bool quiet_stdout,
                         enum status *status, struct error *e)
{
  struct strbuf preload = STRBUF_INIT;
  char lib[4096], trace[64];
  char **env = NULL;
  *status = STATUS_LAUNCH_FAILED;
  enum result r = RESULT_OK;
  if (!l->no_agent) {
    r = agentlib_path(lib, sizeof lib, e);
    if (r != RESULT_OK)
      return r;
    strbuf_add_str(&preload, "LD_PRELOAD=");
    r = agentlib_preload(getenv("LD_PRELOAD"), lib, &preload, e);
    if (r != RESULT_OK)
      goto out;
    snprintf(trace, sizeof trace, TRACE_KEY "%d", (int)getpid());
    env = environ_with(preload.data, l->trace ? trace : NULL);
  }
  if (!l->no_agent && !env) {
    r = error_set(e, RESULT_NOMEM, "no memory");
    goto out;
  }
  int err = spawn(&l->pid, command, env ? env : environ, quiet_stdout);
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
