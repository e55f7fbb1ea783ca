/* SPDX-License-Identifier: MIT
 *
 * Opening a process, whether it still lives, and why it can't be looked at.
 */
#include "target/target.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/target_internal.h"

const struct target_ops target_live_ops = {
    .maps_text = target_live_maps_text,
    .map_open = target_live_map_open,
    .read = target_live_read,
};

struct target *target_alloc(const struct target_ops *ops)
{
  struct target *t = calloc(1, sizeof *t);
  if (!t)
    return NULL;
  t->ops = ops;
  t->proc = t->task = t->mem = t->dir = t->segment_number = -1;
  return t;
}

/* First line of a system setting as a number, -1 where there is none. */
static int setting(const char *path)
{
  char text[32];
  if (proc_read(AT_FDCWD, path, text, sizeof text) <= 0)
    return -1;
  return (int)strtol(text, NULL, 10);
}

/* Effective uid; -1 when even that is hidden. */
static long owner(struct target *t)
{
  char text[4096];
  if (proc_read(t->proc, "status", text, sizeof text) <= 0)
    return -1;
  const char *uid = proc_status_find(text, "Uid");
  if (!uid)
    return -1;
  uid += strcspn(uid, "\t\n"); /* past the real one */
  return strtol(uid, NULL, 10);
}

static void yama_text(char *out, size_t cap)
{
  int scope = setting("/proc/sys/kernel/yama/ptrace_scope");
  if (scope < 0)
    out[0] = '\0';
  else
    snprintf(out, cap, " (kernel.yama.ptrace_scope is %d)", scope);
}

enum result target_refused(struct target *t, const char *what, struct error *e)
{
  char comm[16], yama[64];
  long uid = owner(t);
  target_comm(t, comm);
  yama_text(yama, sizeof yama);
  if (uid >= 0 && (uid_t)uid == geteuid())
    return error_set(
        e, RESULT_PERM,
        "not permitted to %s process %d (%s), although it is yours (uid %ld): "
        "it gained or dropped rights when it started, or forbids being looked "
        "at%s; run tecs-attach as root or with CAP_SYS_PTRACE",
        what, (int)t->pid, comm, uid, yama);
  return error_set(
      e, RESULT_PERM,
      "not permitted to %s process %d (%s): it belongs to uid %ld and you are "
      "uid %u%s; run tecs-attach as that user, as root or with CAP_SYS_PTRACE",
      what, (int)t->pid, comm, uid, (unsigned)geteuid(), yama);
}

/* /proc/<pid> could not be opened. */
static enum result unseen(pid_t pid, int err, struct error *e)
{
  if (err == EMFILE || err == ENFILE)
    return error_set(e, RESULT_IO, "cannot open /proc/%d: %s", (int)pid,
                     strerror(err));
  if (access("/proc/self/stat", R_OK) != 0)
    return error_set(e, RESULT_IO,
                     "/proc is not mounted here: processes can't be found "
                     "without it");
  if (pid > 0 && kill(pid, 0) != 0 && errno == EPERM)
    return error_set(e, RESULT_PERM,
                     "process %d belongs to someone else and /proc hides it "
                     "(you are uid %u); run tecs-attach as its user or as root",
                     (int)pid, (unsigned)geteuid());
  return error_set(e, RESULT_GONE, "no process with pid %d", (int)pid);
}

/* A thread's id opens /proc/<tid> as well; sampling starts from processes. */
static enum result check_leader(struct target *t, struct error *e)
{
  char text[4096];
  if (proc_read(t->proc, "status", text, sizeof text) <= 0)
    return error_set(e, RESULT_GONE, "process %d has just ended", (int)t->pid);
  const char *tgid = proc_status_find(text, "Tgid");
  pid_t leader = tgid ? (pid_t)strtol(tgid, NULL, 10) : t->pid;
  if (leader != t->pid)
    return error_set(e, RESULT_GONE,
                     "%d is a thread of process %d, no process of its own: "
                     "use tecs-attach %d",
                     (int)t->pid, (int)leader, (int)leader);
  return RESULT_OK;
}

static enum result check_readable(struct target *t, struct error *e)
{
  char path[64], comm[16];
  if (!target_task_path(t, "maps", path, sizeof path)) {
    target_comm(t, comm);
    return error_set(e, RESULT_GONE,
                     "process %d (%s) has ended already (a zombie that its "
                     "parent has not collected)",
                     (int)t->pid, comm);
  }
  int fd = openat(t->proc, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 && (errno == EACCES || errno == EPERM))
    return target_refused(t, "look into", e);
  if (fd < 0)
    return error_set(e, RESULT_GONE, "process %d has just ended: %s",
                     (int)t->pid, strerror(errno));
  close(fd);
  return RESULT_OK;
}

static enum result open_live(struct target *t, struct error *e)
{
  char path[32];
  struct proc_stat st;
  snprintf(path, sizeof path, "/proc/%d", (int)t->pid);
  t->proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (t->proc < 0)
    return unseen(t->pid, errno, e);
  t->task = openat(t->proc, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (t->task < 0 && (errno == EACCES || errno == EPERM))
    return target_refused(t, "look into", e);
  if (t->task < 0 || !proc_stat_read(t->proc, "stat", &st))
    return unseen(t->pid, errno, e);
  t->start_time = st.start_time;
  enum result r = check_leader(t, e);
  return r ? r : check_readable(t, e);
}

enum result target_open(pid_t pid, struct target **out, struct error *e)
{
  *out = NULL;
  if (pid <= 0)
    return error_set(e, RESULT_GONE, "no process with pid %d", (int)pid);
  struct target *t = target_alloc(&target_live_ops);
  if (!t)
    return error_set(e, RESULT_NOMEM, "no memory to look at process %d",
                     (int)pid);
  t->pid = t->tid = pid;
  enum result r = open_live(t, e);
  if (r) {
    target_close(t);
    return r;
  }
  *out = t;
  return RESULT_OK;
}

void target_close(struct target *t)
{
  if (!t)
    return;
  target_stop_reap(t);
  if (t->has_alarm)
    timer_delete(t->alarm);
  int fds[] = {t->proc, t->task, t->mem, t->dir};
  for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
    if (fds[i] >= 0)
      close(fds[i]);
  free(t);
}

pid_t target_pid(const struct target *t)
{
  return t->pid;
}

uint64_t target_start_time(const struct target *t)
{
  return t->start_time;
}

static bool ended(char state)
{
  return state == 0 || state == 'Z' || state == 'X' || state == 'x';
}

pid_t target_living(struct target *t)
{
  if (!ended(target_thread_state(t, t->tid)))
    return t->tid;
  struct target_tids tids = {0};
  pid_t found = 0;
  if (target_threads(t, &tids) == RESULT_OK)
    for (size_t i = 0; i < tids.count && !found; i++)
      if (!ended(target_thread_state(t, tids.tid[i])))
        found = tids.tid[i];
  target_tids_free(&tids);
  if (found)
    t->tid = found;
  return found;
}

bool target_task_path(struct target *t, const char *name, char *out, size_t cap)
{
  pid_t tid = target_living(t);
  if (tid)
    snprintf(out, cap, "task/%d/%s", (int)tid, name);
  return tid != 0;
}

bool target_alive(struct target *t)
{
  struct proc_stat st;
  target_stop_reap(t);
  if (!proc_stat_read(t->proc, "stat", &st) || st.start_time != t->start_time)
    return false;
  return !ended(st.state) || target_living(t) != 0;
}

void target_comm(struct target *t, char out[16])
{
  char text[32];
  if (proc_read(t->proc, "comm", text, sizeof text) < 0)
    strcpy(text, "?");
  proc_comm(text, out);
}
