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

/* Is signo in the mask that a line of the thread's status shows? */
static bool in_mask(struct target *t, pid_t tid, const char *key, int signo)
{
  char text[4096];
  if (thread_read(t, tid, "status", text, sizeof text) <= 0)
    return false;
  const char *mask = proc_status_find(text, key);
  return mask && (strtoull(mask, NULL, 16) >> (signo - 1) & 1);
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
  char text[4096];
  if (thread_read(t, tid, "status", text, sizeof text) <= 0)
    return 0;
  const char *p = proc_status_find(text, "NSpid");
  pid_t inner = tid; /* kernels before 4.1 have no such line */
  while (p && *p >= '0' && *p <= '9') {
    char *end;
    inner = (pid_t)strtol(p, &end, 10);
    p = end + strspn(end, "\t ");
  }
  return inner;
}
