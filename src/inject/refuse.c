/* SPDX-License-Identifier: MIT
 *
 * Processes that it is not tried on, each with the reason.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/inject_internal.h"

enum { STATUS_MAX = 8192, AUXV_MAX = 2048 };

static ssize_t read_thread_file(struct target *t, pid_t tid, const char *name,
                                void *buf, size_t size)
{
  int fd = target_thread_file(t, tid, name);
  if (fd < 0)
    return -1;
  ssize_t n = pread(fd, buf, size, 0);
  close(fd);
  return n;
}

static bool status_text(struct target *t, pid_t tid, char text[STATUS_MAX])
{
  ssize_t n = read_thread_file(t, tid, "status", text, STATUS_MAX - 1);
  text[n > 0 ? n : 0] = 0;
  return n > 0;
}

/* What follows "\nkey"; the first line, the name, may hold anything. */
static const char *value_of(const char *text, const char *key)
{
  size_t n = strlen(key);
  for (const char *p = strchr(text, '\n'); p; p = strchr(p + 1, '\n'))
    if (!strncmp(p + 1, key, n))
      return p + 1 + n;
  return NULL;
}

bool refuse_status(struct target *t, pid_t tid, const char *key, int base,
                   uint64_t *out)
{
  char text[STATUS_MAX], *end;
  const char *value = status_text(t, tid, text) ? value_of(text, key) : NULL;
  if (!value)
    return false;
  *out = strtoull(value, &end, base);
  return end != value;
}

/* The loader ignores what an unprivileged user asks for in such a program, and
 * so does the agent's constructor. */
static bool privileged(struct target *t, pid_t tid)
{
  Elf64_auxv_t v[AUXV_MAX / sizeof(Elf64_auxv_t)];
  ssize_t n = read_thread_file(t, tid, "auxv", v, sizeof v);
  for (size_t i = 0; n > 0 && i < (size_t)n / sizeof *v; i++)
    if (v[i].a_type == AT_SECURE)
      return v[i].a_un.a_val != 0;
  return false;
}

static enum result check_seccomp(struct target *t, pid_t tid, struct error *e)
{
  uint64_t mode = 0;
  int pid = (int)target_pid(t);
  refuse_status(t, tid, "Seccomp:", 10, &mode);
  if (mode == 1)
    return error_set(e, RESULT_UNSUPPORTED,
                     "process %d is in seccomp's strict mode: the system would "
                     "kill it for loading a library",
                     pid);
  if (mode)
    return error_set(e, RESULT_UNSUPPORTED,
                     "process %d runs under a seccomp filter, which may kill "
                     "it for loading a library; start it with the agent "
                     "(LD_PRELOAD) instead",
                     pid);
  return RESULT_OK;
}

/* A function that another process sends a thread into returns to where no call
 * was: what shadow stacks are there to prevent. */
static bool shadow_stack(struct target *t, pid_t tid)
{
  char text[STATUS_MAX];
  const char *value =
      status_text(t, tid, text) ? value_of(text, "x86_Thread_features:") : NULL;
  return value && memmem(value, strcspn(value, "\n"), "shstk", 5);
}

enum result refuse_check(struct target *t, struct error *e)
{
  int pid = (int)target_pid(t);
  struct target_tids tids = {0};
  enum result r = target_threads(t, &tids);
  if (r != RESULT_OK || !tids.count) {
    target_tids_free(&tids);
    return error_set(e, r == RESULT_OK ? RESULT_GONE : r,
                     "process %d has no threads to look at", pid);
  }
  pid_t tid = tids.tid[0];
  if (target_word_bits(t) == 32)
    r = error_set(e, RESULT_UNSUPPORTED,
                  "%d is a 32-bit process: not supported", pid);
  else if (privileged(t, tid))
    r = error_set(e, RESULT_UNSUPPORTED,
                  "process %d is a privileged program (set-user-id, or with "
                  "capabilities of its own): the agent stays out of such",
                  pid);
  else if (shadow_stack(t, tid))
    r = error_set(e, RESULT_UNSUPPORTED,
                  "process %d runs with a shadow stack (CET), which forbids "
                  "calls from outside",
                  pid);
  for (size_t i = 0; r == RESULT_OK && i < tids.count; i++)
    r = check_seccomp(t, tids.tid[i], e);
  target_tids_free(&tids);
  return r;
}
