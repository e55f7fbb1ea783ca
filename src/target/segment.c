/* SPDX-License-Identifier: MIT
 *
 * The agent's segment in a process: among its descriptors, or behind its
 * mappings when the program closed descriptors that were not its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "target/target_internal.h"
#include "tecs/abi.h"

#define SEGMENT_PATH "/memfd:" TECS_SEGMENT_NAME
#define SEGMENT_LINK SEGMENT_PATH " (deleted)"

struct search {
  struct target *t;
  struct target_maps maps;
  pid_t ns_pid;
  int number;   /* in the process, of the descriptor looked at; -1: none */
  int fd;       /* best one so far */
  bool own;     /* its header names this process */
  bool refused; /* seen, but may not be opened */
};

static bool is_segment_map(const struct target_map *m)
{
  return m->inode && strcmp(m->path, SEGMENT_PATH) == 0;
}

/* A forked child inherits its parent's descriptor; only what is mapped in the
 * process can be written by an agent in it. */
static bool is_mapped(const struct search *s, const struct stat *st)
{
  for (size_t i = 0; i < s->maps.count; i++) {
    const struct target_map *m = &s->maps.map[i];
    if (is_segment_map(m) && m->inode == st->st_ino &&
        m->dev_major == major(st->st_dev) && m->dev_minor == minor(st->st_dev))
      return true;
  }
  return false;
}

/* Takes fd over.  A mapping can be inherited too, so one whose header names
 * this process is preferred; otherwise the reader finds out what is wrong. */
static void consider(struct search *s, int fd)
{
  struct tecs_header h;
  struct stat st;
  if (fstat(fd, &st) != 0 || !is_mapped(s, &st)) {
    close(fd);
    return;
  }
  bool own = pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h &&
             h.pid == (uint32_t)s->ns_pid;
  if (s->own || (s->fd >= 0 && !own)) {
    close(fd);
    return;
  }
  if (s->fd >= 0)
    close(s->fd);
  s->fd = fd;
  s->own = own;
  s->t->segment_number = s->number;
}

static void try_open(struct search *s, int dir, const char *path)
{
  int fd = openat(dir, path, O_RDWR | O_CLOEXEC);
  if (fd >= 0)
    consider(s, fd);
  else if (errno == EACCES || errno == EPERM)
    s->refused = true;
}

static enum result search_descriptors(struct search *s, struct error *e)
{
  char path[64], link[sizeof SEGMENT_LINK + 1];
  struct target_tids fds = {0};
  if (!target_task_path(s->t, "fd", path, sizeof path))
    return error_set(e, RESULT_GONE, "process %d has ended", (int)s->t->pid);
  int dir = openat(s->t->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0)
    return errno == EACCES || errno == EPERM
               ? target_refused(s->t, "look into", e)
               : error_set(e, RESULT_GONE, "process %d has ended",
                           (int)s->t->pid);
  enum result r = proc_numbers(dir, &fds);
  if (r == RESULT_OK)
    r = target_tids_add(&fds, 0); /* proc_numbers starts at 1 */
  for (size_t i = 0; i < fds.count && !s->own; i++) {
    snprintf(path, sizeof path, "%d", (int)fds.tid[i]);
    ssize_t n = readlinkat(dir, path, link, sizeof link);
    if (n == (ssize_t)sizeof SEGMENT_LINK - 1 &&
        memcmp(link, SEGMENT_LINK, (size_t)n) == 0) {
      s->number = (int)fds.tid[i];
      try_open(s, dir, path);
    }
  }
  s->number = -1;
  target_tids_free(&fds);
  close(dir);
  return r == RESULT_NOMEM
             ? error_set(e, r, "no memory for the descriptors of process %d",
                         (int)s->t->pid)
             : RESULT_OK;
}

static void search_mappings(struct search *s)
{
  for (size_t i = 0; i < s->maps.count && !s->own; i++) {
    char path[64];
    const struct target_map *m = &s->maps.map[i];
    if (!is_segment_map(m))
      continue;
    snprintf(path, sizeof path, "map_files/%lx-%lx", m->start, m->end);
    try_open(s, s->t->proc, path);
  }
}

static bool maps_agent(const struct target_maps *maps)
{
  for (size_t i = 0; i < maps->count; i++) {
    const char *name = strrchr(maps->map[i].path, '/');
    if (name && strncmp(name, "/libtecs-agent.so", 17) == 0)
      return true;
  }
  return false;
}

static enum result no_agent(struct search *s, struct error *e)
{
  char comm[16];
  int pid = (int)s->t->pid;
  target_comm(s->t, comm);
  if (target_word_bits(s->t) == 32)
    return error_set(e, RESULT_NOAGENT,
                     "process %d (%s) is a 32-bit program; the agent exists "
                     "for 64-bit ones only",
                     pid, comm);
  if (maps_agent(&s->maps))
    return error_set(
        e, RESULT_NOAGENT,
        "the agent is loaded in process %d (%s) but has no segment: it got no "
        "memory for it at start, or the process was forked without exec; free "
        "memory (or raise the memory limit) and start the program again",
        pid, comm);
  return error_set(e, RESULT_NOAGENT,
                   "the agent is not loaded in process %d (%s): start the "
                   "program with LD_PRELOAD=libtecs-agent.so, or by "
                   "tecs-attach -- command",
                   pid, comm);
}

static enum result search(struct search *s, struct error *e)
{
  enum result r = target_maps_read(s->t, &s->maps, e);
  if (r == RESULT_OK)
    r = search_descriptors(s, e);
  if (r)
    return r;
  if (!s->own)
    search_mappings(s);
  if (s->fd < 0 && s->refused)
    return target_refused(s->t, "open the agent's segment of", e);
  return s->fd < 0 ? no_agent(s, e) : RESULT_OK;
}

enum result target_segment_open(struct target *t, int *fd, struct error *e)
{
  struct search s = {.t = t, .fd = -1, .number = -1};
  char comm[16];
  *fd = -1;
  s.ns_pid = target_thread_ns_tid(t, t->pid);
  struct proc_stat st;
  enum { KTHREAD = 0x00200000 }; /* PF_KTHREAD, include/linux/sched.h */
  if (proc_stat_read(t->proc, "stat", &st) && (st.flags & KTHREAD)) {
    target_comm(t, comm);
    return error_set(e, RESULT_NOAGENT,
                     "process %d (%s) is a thread of the kernel: nothing in "
                     "it can be sampled",
                     (int)t->pid, comm);
  }
  enum result r = search(&s, e);
  target_maps_free(&s.maps);
  if (r && s.fd >= 0) {
    close(s.fd);
    s.fd = -1;
  }
  *fd = s.fd;
  return r;
}

static bool same_inode(const struct stat *a, const struct stat *b)
{
  return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

bool target_segment_mapped(struct target *t, int fd)
{
  char path[64], name[32];
  struct stat own, theirs;
  if (fstat(fd, &own) != 0)
    return false;
  /* The descriptor is close-on-exec: where it still is, so is the mapping. */
  snprintf(name, sizeof name, "fd/%d", t->segment_number);
  if (t->segment_number >= 0 && target_task_path(t, name, path, sizeof path) &&
      fstatat(t->proc, path, &theirs, 0) == 0 && same_inode(&own, &theirs))
    return true;
  struct search s = {.t = t};
  bool mapped =
      target_maps_read(t, &s.maps, NULL) == RESULT_OK && is_mapped(&s, &own);
  target_maps_free(&s.maps);
  return mapped;
}
