/* SPDX-License-Identifier: MIT
 *
 * Small files of /proc, and folders full of numbers.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/target_internal.h"

/* Up to cap bytes from where the descriptor stands; short only at the end. */
static ssize_t read_full(int fd, char *buf, size_t cap)
{
  size_t got = 0;
  while (got < cap) {
    ssize_t n = read(fd, buf + got, cap - got);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return -1;
    if (n == 0)
      break;
    got += (size_t)n;
  }
  return (ssize_t)got;
}

ssize_t proc_read(int dir, const char *path, char *buf, size_t cap)
{
  int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  ssize_t n = read_full(fd, buf, cap - 1);
  int saved = errno;
  close(fd);
  errno = saved;
  if (n >= 0)
    buf[n] = '\0';
  return n;
}

void proc_comm(const char *text, char out[16])
{
  size_t n = strlen(text);
  if (n && text[n - 1] == '\n')
    n--;
  n = n < 15 ? n : 15;
  memcpy(out, text, n);
  out[n] = '\0';
}

/* Reads on, doubling *buf, until the file ends. */
static ssize_t slurp(int fd, char **buf)
{
  size_t cap = 1 << 14, len = 0;
  for (;;) {
    char *grown = realloc(*buf, cap);
    if (!grown)
      return -1;
    *buf = grown;
    ssize_t n = read_full(fd, *buf + len, cap - 1 - len);
    if (n < 0)
      return -1;
    len += (size_t)n;
    (*buf)[len] = '\0';
    if (len < cap - 1)
      return (ssize_t)len;
    cap *= 2;
  }
}

char *proc_slurp(int dir, const char *path, size_t *len)
{
  int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return NULL;
  char *buf = NULL;
  ssize_t n = slurp(fd, &buf);
  int saved = errno;
  close(fd);
  if (n < 0) {
    free(buf);
    errno = saved;
    return NULL;
  }
  *len = (size_t)n;
  return buf;
}

/* Start of field n (from 3 on); the name in field 2 may hold anything, so
 * fields count from its last ')'. */
static const char *stat_field(const char *text, int n)
{
  const char *p = strrchr(text, ')');
  for (int i = 2; p && i < n; i++) {
    p = strchr(p, ' ');
    if (p)
      p++;
  }
  return p;
}

bool proc_stat_parse(const char *text, struct proc_stat *out)
{
  const char *state = stat_field(text, 3), *ppid = stat_field(text, 4);
  const char *flags = stat_field(text, 9), *start = stat_field(text, 22);
  const char *stack = stat_field(text, 28), *cpu = stat_field(text, 39);
  const char *policy = stat_field(text, 41);
  if (!state || !ppid || !flags || !start || *start < '0' || *start > '9')
    return false;
  out->state = *state;
  out->ppid = (pid_t)strtol(ppid, NULL, 10);
  out->flags = (unsigned)strtoul(flags, NULL, 10);
  out->start_time = strtoull(start, NULL, 10);
  out->start_stack = stack ? strtoull(stack, NULL, 10) : 0;
  out->cpu = cpu ? (int)strtol(cpu, NULL, 10) : -1;
  out->policy = policy ? (int)strtol(policy, NULL, 10) : -1;
  return true;
}

bool proc_stat_read(int dir, const char *path, struct proc_stat *out)
{
  char text[1024];
  return proc_read(dir, path, text, sizeof text) > 0 &&
         proc_stat_parse(text, out);
}

const char *proc_status_find(const char *text, const char *key)
{
  size_t n = strlen(key);
  for (const char *p = text; p; p = strchr(p, '\n')) {
    if (*p == '\n')
      p++;
    if (strncmp(p, key, n) == 0 && p[n] == ':')
      return p + n + 1 + strspn(p + n + 1, " \t");
  }
  return NULL;
}

enum result target_tids_add(struct target_tids *tids, pid_t tid)
{
  if (tids->count == tids->cap) {
    size_t cap = tids->cap ? tids->cap * 2 : 64;
    pid_t *grown = realloc(tids->tid, cap * sizeof *grown);
    if (!grown)
      return RESULT_NOMEM;
    tids->tid = grown;
    tids->cap = cap;
  }
  tids->tid[tids->count++] = tid;
  return RESULT_OK;
}

enum result proc_numbers(int dir, struct target_tids *out)
{
  _Alignas(struct dirent64) char buf[8192];
  if (lseek(dir, 0, SEEK_SET) < 0)
    return RESULT_GONE;
  ssize_t n;
  while ((n = getdents64(dir, buf, sizeof buf)) > 0) {
    for (ssize_t at = 0; at < n;) {
      struct dirent64 *d = (struct dirent64 *)(buf + at);
      at += d->d_reclen;
      if (d->d_name[0] < '1' || d->d_name[0] > '9')
        continue;
      if (target_tids_add(out, (pid_t)strtol(d->d_name, NULL, 10)))
        return RESULT_NOMEM;
    }
  }
  return n < 0 ? RESULT_GONE : RESULT_OK;
}
