/* SPDX-License-Identifier: MIT
 *
 * Threads of a process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/target_internal.h"

enum { STATUS_MAX = 8192 }; /* groups stand in it as well */

enum result target_threads(struct target *t, struct target_tids *out)
{
  out->count = 0;
  if (t->task < 0)
    return RESULT_GONE;
  enum result r = proc_numbers(t->task, out);
  return r == RESULT_OK && out->count == 0 ? RESULT_GONE : r;
}

void target_tids_free(struct target_tids *tids)
{
  free(tids->tid);
  memset(tids, 0, sizeof *tids);
}

unsigned long target_thread_mark(struct target *t)
{
  struct stat st;
  return fstat(t->task, &st) == 0 ? (unsigned long)st.st_nlink : 0;
}

/* proc(5), field 28: start_stack of the memory that the threads share. */
uint64_t target_stack_end(struct target *t)
{
  char path[64];
  struct proc_stat st;
  if (!target_task_path(t, "stat", path, sizeof path) ||
      !proc_stat_read(t->proc, path, &st))
    return 0;
  return st.start_stack;
}

/* A file of one thread; -1 when the thread is gone. */
static ssize_t thread_read(struct target *t, pid_t tid, const char *name,
                           char *buf, size_t cap)
{
  char path[64];
  snprintf(path, sizeof path, "%d/%s", (int)tid, name);
  return t->task < 0 ? -1 : proc_read(t->task, path, buf, cap);
}

void target_thread_comm(struct target *t, pid_t tid, char out[16])
{
  char text[32];
  if (thread_read(t, tid, "comm", text, sizeof text) < 0)
    strcpy(text, "?");
  proc_comm(text, out);
}

char target_thread_state(struct target *t, pid_t tid)
{
  char text[1024];
  struct proc_stat st;
  if (thread_read(t, tid, "stat", text, sizeof text) <= 0 ||
      !proc_stat_parse(text, &st))
    return 0;
  return st.state;
}

bool target_thread_cpu(struct target *t, pid_t tid, int *cpu, int *policy)
{
  char text[1024];
  struct proc_stat st;
  if (thread_read(t, tid, "stat", text, sizeof text) <= 0 ||
      !proc_stat_parse(text, &st) || st.cpu < 0)
    return false;
  *cpu = st.cpu;
  *policy = st.policy;
  return true;
}

bool target_thread_status(struct target *t, pid_t tid, const char *key,
                          char *out, size_t cap)
{
  char text[STATUS_MAX];
  if (thread_read(t, tid, "status", text, sizeof text) <= 0)
    return false;
  const char *value = proc_status_find(text, key);
  if (!value)
    return false;
  snprintf(out, cap, "%.*s", (int)strcspn(value, "\n"), value);
  return true;
}

bool target_thread_number(struct target *t, pid_t tid, const char *key,
                          int base, uint64_t *out)
{
  char text[32], *end;
  if (!target_thread_status(t, tid, key, text, sizeof text))
    return false;
  *out = strtoull(text, &end, base);
  return end != text;
}

/* Is signo in the mask that a line of the thread's status shows? */
static bool in_mask(struct target *t, pid_t tid, const char *key, int signo)
{
  uint64_t mask;
  return target_thread_number(t, tid, key, 16, &mask) &&
         (mask >> (signo - 1) & 1);
}

bool target_thread_blocks(struct target *t, pid_t tid, int signo)
{
  return in_mask(t, tid, "SigBlk", signo);
}

bool target_thread_pending(struct target *t, pid_t tid, int signo)
{
  return in_mask(t, tid, "SigPnd", signo);
}

int target_thread_file(struct target *t, pid_t tid, const char *name)
{
  char path[64];
  if (t->task < 0) {
    errno = ESRCH;
    return -1;
  }
  snprintf(path, sizeof path, "%d/%s", (int)tid, name);
  return openat(t->task, path, O_RDONLY | O_CLOEXEC);
}

pid_t target_thread_ns_tid(struct target *t, pid_t tid)
{
  char text[512];
  pid_t inner = tid;
  if (!target_thread_status(t, tid, "NSpid", text, sizeof text))
    return target_thread_state(t, tid) ? tid : 0; /* before Linux 4.1 */
  for (char *p = text, *end; *p >= '0' && *p <= '9';
       p = end + strspn(end, "\t "))
    inner = (pid_t)strtol(p, &end, 10);
  return inner;
}

pid_t target_thread_tracer(struct target *t, pid_t tid)
{
  uint64_t tracer = 0;
  target_thread_number(t, tid, "TracerPid", 10, &tracer);
  return (pid_t)tracer;
}
