/* SPDX-License-Identifier: MIT
 *
 * Threads of a process and its descendants.
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

/* Every process and its parent, in the order of /proc. */
struct family {
  struct target_tids pid, parent;
};

static enum result family_read(struct family *f)
{
  int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0)
    return RESULT_IO;
  enum result r = proc_numbers(proc, &f->pid);
  for (size_t i = 0; r == RESULT_OK && i < f->pid.count; i++) {
    char path[32];
    struct proc_stat st = {0};
    snprintf(path, sizeof path, "%d/stat", (int)f->pid.tid[i]);
    if (!proc_stat_read(proc, path, &st))
      st.ppid = 0; /* ended meanwhile: nobody's child */
    r = target_tids_add(&f->parent, st.ppid);
  }
  close(proc);
  return r;
}

static enum result add_children_of(const struct family *f, pid_t parent,
                                   struct target_tids *out)
{
  for (size_t i = 0; i < f->pid.count; i++)
    if (f->parent.tid[i] == parent &&
        target_tids_add(out, f->pid.tid[i]) != RESULT_OK)
      return RESULT_NOMEM;
  return RESULT_OK;
}

enum result target_children(struct target *t, struct target_tids *out)
{
  struct family f = {0};
  out->count = 0;
  enum result r = family_read(&f);
  if (r == RESULT_OK)
    r = add_children_of(&f, t->pid, out);
  /* Out grows while it is walked; a pid that was reused while /proc was read
   * could close a circle, so it ends at the number of processes. */
  for (size_t i = 0; r == RESULT_OK && i < out->count; i++) {
    if (out->count > f.pid.count)
      break;
    r = add_children_of(&f, out->tid[i], out);
  }
  target_tids_free(&f.pid);
  target_tids_free(&f.parent);
  return r;
}
