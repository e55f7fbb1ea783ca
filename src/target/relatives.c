/* SPDX-License-Identifier: MIT
 *
 * Which processes there are, and who comes from whom.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/target_internal.h"

static int open_proc(void)
{
  return open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

pid_t target_newest_pid(void)
{
  char text[128];
  int spaces = 0;
  if (proc_read(AT_FDCWD, "/proc/loadavg", text, sizeof text) <= 0)
    return 0;
  for (const char *p = text; *p; p++)
    if (*p == ' ' && ++spaces == 4)
      return (pid_t)strtol(p, NULL, 10);
  return 0;
}

enum result target_processes(struct target_tids *out)
{
  int proc = open_proc();
  out->count = 0;
  if (proc < 0)
    return RESULT_IO;
  enum result r = proc_numbers(proc, out);
  close(proc);
  return r;
}

pid_t target_parent(pid_t pid)
{
  char path[32];
  struct proc_stat st;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  return proc_stat_read(AT_FDCWD, path, &st) ? st.ppid : 0;
}

static char *read_environment(pid_t pid, size_t *len)
{
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
  return proc_slurp(AT_FDCWD, path, len);
}

char *target_variable(pid_t pid, const char *name)
{
  size_t len, n = strlen(name);
  char *value = NULL, *text = read_environment(pid, &len);
  for (size_t at = 0; text && at + n < len && !value;
       at += strlen(text + at) + 1)
    if (!strncmp(text + at, name, n) && text[at + n] == '=')
      value = strdup(text + at + n + 1);
  free(text);
  return value;
}

bool target_started_with(pid_t pid, const char *variable)
{
  size_t len, n = strlen(variable);
  bool found = false;
  char *text = read_environment(pid, &len);
  for (size_t at = 0; text && at + n < len && !found;
       at += strlen(text + at) + 1)
    found = strcmp(text + at, variable) == 0;
  free(text);
  return found;
}

/* kcmp(2): KCMP_VM. */
bool target_shares_memory(pid_t pid, pid_t other)
{
  enum { SAME_MEMORY = 1 };
  return syscall(SYS_kcmp, pid, other, SAME_MEMORY, 0, 0) == 0;
}

/* ---- descendants ---- */

struct family {
  struct target_tids pid, parent;
};

static enum result family_read(struct family *f)
{
  enum result r = target_processes(&f->pid);
  /* The parent of one that has ended meanwhile is 0: nobody's child. */
  for (size_t i = 0; r == RESULT_OK && i < f->pid.count; i++)
    r = target_tids_add(&f->parent, target_parent(f->pid.tid[i]));
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
