/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of this room only.
 */
#ifndef TARGET_TARGET_INTERNAL_H
#define TARGET_TARGET_INTERNAL_H

#include <time.h>

#include "target/target.h"

/* What differs between a live process and a recording of one. */
struct target_ops {
  /* Text of /proc/<pid>/maps, malloc'ed and NUL-terminated; NULL with errno. */
  char *(*maps_text)(struct target *t, size_t *len);
  int (*map_open)(struct target *t, const struct target_map *m);
  enum result (*read)(struct target *t, uint64_t addr, void *buf, size_t n);
};

/* proc is /proc/<pid> itself: the kernel ties the descriptor to this very
 * process, so that a reused pid answers ENOENT or ESRCH and not a stranger's
 * data. */
struct target {
  const struct target_ops *ops;
  pid_t pid;
  pid_t tid; /* a thread that was alive when last looked at */
  int proc;
  int task; /* /proc/<pid>/task */
  int mem;  /* /proc/<pid>/task/<mem_tid>/mem, -1 until needed */
  pid_t mem_tid;
  int dir;            /* of a recording, else -1 */
  int segment_number; /* the segment's descriptor in the process, or -1 */
  uint64_t start_time;
  bool has_alarm; /* of the thread that stops threads (stop.c) */
  timer_t alarm;
  pid_t unseen; /* a thread that died while it was traced by us; 0: none */
};

struct target *target_alloc(const struct target_ops *ops);

/* ---- proc.c: small files below a folder ---- */

struct proc_stat {
  char state;
  pid_t ppid;
  unsigned flags; /* PF_* of the kernel */
  uint64_t start_time;
  uint64_t start_stack; /* 0: not told */
  int cpu, policy;      /* -1: not told */
};

/* Reads at most cap - 1 bytes and ends them with a NUL; -1 with errno. */
ssize_t proc_read(int dir, const char *path, char *buf, size_t cap);
/* The name in the text of a comm file: all but its last newline, since a name
 * may hold one. */
void proc_comm(const char *text, char out[16]);
/* The whole file, malloc'ed and NUL-terminated; NULL with errno. */
char *proc_slurp(int dir, const char *path, size_t *len);
bool proc_stat_parse(const char *text, struct proc_stat *out);
bool proc_stat_read(int dir, const char *path, struct proc_stat *out);
/* What follows "Key:" and white space in a status file; NULL: not there. */
const char *proc_status_find(const char *text, const char *key);
/* Adds to *out every entry of a folder that is a number. */
enum result proc_numbers(int dir, struct target_tids *out);
enum result target_tids_add(struct target_tids *tids, pid_t tid);

/* ---- */

/* A thread that is neither a zombie nor dead; 0: there is none. */
pid_t target_living(struct target *t);
/* "task/<tid>/<name>" of a living thread; false: there is none. */
bool target_task_path(struct target *t, const char *name, char *out,
                      size_t cap);
/* PERM with owner, own uid, Yama's setting and the cure. */
enum result target_refused(struct target *t, const char *what, struct error *e);
/* Does the descriptor hold the file that the mapping shows? */
bool target_same_file(int fd, const struct target_map *m);

/* Sees to a thread that died in a stop: nobody else is told of it before. */
void target_stop_reap(struct target *t);

extern const struct target_ops target_live_ops;
char *target_live_maps_text(struct target *t, size_t *len);
int target_live_map_open(struct target *t, const struct target_map *m);
enum result target_live_read(struct target *t, uint64_t addr, void *buf,
                             size_t n);
enum result target_maps_parse(char *text, struct target_maps *out);

#endif
