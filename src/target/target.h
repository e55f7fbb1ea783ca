/* SPDX-License-Identifier: MIT
 *
 * The process that is looked at: its maps, threads, memory, children and the
 * agent's segment in it.  Nothing but stop.c stops or changes it.
 *
 * Everything works through one living thread of the process, so that it goes
 * on when the main thread has ended (its /proc/<pid>/maps, fd and exe are
 * empty then): paths are /proc/<pid>/task/<tid>/...
 */
#ifndef TARGET_TARGET_H
#define TARGET_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

struct target;

/* GONE: no such process.  PERM: it belongs to someone else, or the system
 * forbids it; the text names uid, ptrace_scope and the cure. */
enum result target_open(pid_t pid, struct target **out, struct error *e);
/* A recording of a process (for replays): <dir>/maps is the text of its maps,
 * <dir>/root/<path> are the files.  It is never alive and has no memory, no
 * threads and no segment: reading them says GONE.  IO: no such folder. */
enum result target_open_recorded(const char *dir, struct target **out,
                                 struct error *e);
void target_close(struct target *t);
pid_t target_pid(const struct target *t);
uint64_t target_start_time(const struct target *t); /* stat field 22 */
/* Still the same process (pid and start time), not a zombie as a whole. */
bool target_alive(struct target *t);
/* Name of the process, NUL-terminated, at most 15 bytes. */
void target_comm(struct target *t, char out[16]);

/* Exactly n bytes of memory or an error (process_vm_readv, else
 * /proc/<pid>/mem). */
enum result target_read(struct target *t, uint64_t addr, void *buf, size_t n);
struct target_span {
  uint64_t addr;
  void *to;
  size_t len;
  size_t got; /* bytes that could be read, from its start */
};
/* Several pieces, with as few system calls as it takes. */
void target_read_spans(struct target *t, struct target_span *span, size_t n);
/* A descriptor that stands for the memory of the program that runs in the
 * process now.  PERM, with the cure: it may not be traced; GONE. */
enum result target_image_open(struct target *t, int *fd, struct error *e);
/* Is it there still?  false: the process ended, or executed another program. */
bool target_image_same(int fd);
/* Where the main thread's stack ends (its first stack pointer); 0: unknown. */
uint64_t target_stack_end(struct target *t);

/* ---- maps ---- */
struct target_map {
  uint64_t start, end;
  uint64_t offset; /* in the file */
  uint64_t inode;
  uint32_t dev_major, dev_minor;
  bool r, w, x;
  bool deleted;     /* the path names another file by now, or none */
  const char *path; /* "" for anonymous memory; as in the target's namespace */
};
struct target_maps {
  struct target_map *map; /* ascending addresses */
  size_t count;
  char *text; /* what the paths point into */
};
enum result target_maps_read(struct target *t, struct target_maps *out,
                             struct error *e);
void target_maps_free(struct target_maps *m);
/* A descriptor of the very file that is mapped there (map_files, exe, or the
 * path under the target's root when device and inode agree); -1 when it can't
 * be reached. */
int target_map_open(struct target *t, const struct target_map *m);

/* ---- threads ---- */
struct target_tids {
  pid_t *tid;
  size_t count;
  size_t cap;
};
/* Fills (and grows) *out; NOMEM, GONE. */
enum result target_threads(struct target *t, struct target_tids *out);
void target_tids_free(struct target_tids *tids);
/* Changes when a thread is made or ends: st_nlink of the task folder. */
unsigned long target_thread_mark(struct target *t);
void target_thread_comm(struct target *t, pid_t tid, char out[16]);
/* State letter of /proc/<pid>/task/<tid>/stat, 0 when the thread is gone. */
char target_thread_state(struct target *t, pid_t tid);
/* The CPU that it runs on, or ran on last, and its scheduling policy (SCHED_*);
 * false: unknown. */
bool target_thread_cpu(struct target *t, pid_t tid, int *cpu, int *policy);
/* What stands behind "key:" in the thread's status file (proc(5)), cut to
 * cap - 1 bytes; false: no such key, or the thread is gone. */
bool target_thread_status(struct target *t, pid_t tid, const char *key,
                          char *out, size_t cap);
/* The same as a number in that base. */
bool target_thread_number(struct target *t, pid_t tid, const char *key,
                          int base, uint64_t *out);
/* Does it block (SigBlk) the signal?  false when unknown. */
bool target_thread_blocks(struct target *t, pid_t tid, int signo);
/* Is the signal pending (SigPnd: sent to this thread, not delivered yet)? */
bool target_thread_pending(struct target *t, pid_t tid, int signo);
/* A descriptor of /proc/<pid>/task/<tid>/<name>, to be read again and again
 * with pread; -1 with errno.  Its reads fail when the thread is gone, also
 * when its id is in use again. */
int target_thread_file(struct target *t, pid_t tid, const char *name);
/* The thread's id in the innermost pid namespace it lives in (NSpid). */
pid_t target_thread_ns_tid(struct target *t, pid_t tid);

/* ---- stopping one thread, by ptrace (stop.c) ---- */

/* A thread is seized for one stop and let go again: between stops nobody
 * traces it, so that its signals, its children and debuggers meet nothing of
 * us.  A tracer that dies, however, lets go of all its threads (ptrace(2)).
 * Signals that meet the seized thread are passed on; a process that job control
 * has stopped stays so.
 * All calls for one thread come from the thread that began the stop. */
enum target_stop_state {
  TARGET_FREE = 0,    /* not seized */
  TARGET_PENDING = 1, /* seized, but it has not stopped yet */
  TARGET_STOPPED = 2,
};
struct target_stop {
  enum target_stop_state state;
  pid_t tid; /* an exec changes it: the thread goes on as its process's first */
  int signal;  /* is delivered when the thread goes on; 0: none */
  bool halted; /* stopped by job control (SIGSTOP), not by us alone */
};
struct user_regs_struct;

/* Stops thread tid; *s is all zero.  GONE: it has ended, or is ending.  BUSY:
 * another tracer has it; the text names that.  PERM, with the cure.  TIMEOUT:
 * it did not come to stand in timeout_ns (it sleeps where nothing wakes it):
 * then it is PENDING, and target_stop_wait or target_stop_end must follow. */
enum result target_stop(struct target *t, pid_t tid, uint64_t timeout_ns,
                        struct target_stop *s, struct error *e);
/* For a PENDING one: waits on.  OK, GONE, TIMEOUT. */
enum result target_stop_wait(struct target *t, struct target_stop *s,
                             uint64_t timeout_ns);
/* Lets it go, with its signal.  A PENDING one is let go as soon as it stands:
 * TIMEOUT when that takes longer than timeout_ns, to be called again.  OK: *s
 * is FREE, whether the thread still lives or not. */
enum result target_stop_end(struct target *t, struct target_stop *s,
                            uint64_t timeout_ns);
/* Of a STOPPED one.  GONE when it was killed meanwhile. */
enum result target_stop_regs(const struct target_stop *s,
                             struct user_regs_struct *regs);
/* Its signal mask: bit signo - 1. */
enum result target_stop_blocked(const struct target_stop *s, uint64_t *mask);
/* Who traces the thread: a pid as we see it; 0: nobody. */
pid_t target_thread_tracer(struct target *t, pid_t tid);
/* BUSY, with the tracer's name and the cure. */
enum result target_traced(struct target *t, pid_t tracer, struct error *e);
/* Why the thread could not be seized (err: errno of PTRACE_SEIZE): GONE, BUSY
 * as target_traced, PERM with the cure, IO. */
enum result target_unstoppable(struct target *t, pid_t tid, int err,
                               struct error *e);

/* ---- relatives ---- */
/* All descendants, parents first. */
enum result target_children(struct target *t, struct target_tids *out);
/* All processes that can be seen, in no order.  Fills (and grows) *out; IO,
 * NOMEM, GONE. */
enum result target_processes(struct target_tids *out);
/* 0: no such process, or it has no parent here. */
pid_t target_parent(pid_t pid);
/* Do both run in the same memory (a child by vfork that has not executed yet)?
 * false also when the system does not tell. */
bool target_shares_memory(pid_t pid, pid_t other);
/* The newest process or thread id (proc(5), loadavg): the same as before means
 * that none was made.  0: this system does not tell. */
pid_t target_newest_pid(void);
/* Did the environment that the process was started with (its own, or its
 * parent's when it was forked) hold `variable`, a text NAME=VALUE?  false when
 * it can't be read, also for a moment within exec. */
bool target_started_with(pid_t pid, const char *variable);

/* The value of a variable in the environment that the process was started with,
 * as target_started_with; to be freed.  NULL: there is none, it can't be read,
 * or no memory. */
char *target_variable(pid_t pid, const char *name);

/* ---- what runs in it ---- */
/* A descriptor (O_RDWR) of the agent's segment.  NOAGENT: it is not loaded;
 * PERM with the cure otherwise. */
enum result target_segment_open(struct target *t, int *fd, struct error *e);
/* Does the process still map the segment behind fd (from target_segment_open)?
 * false: it ended, or became another program (exec).  Cheap: one stat, as long
 * as the program leaves the agent's descriptor open. */
bool target_segment_mapped(struct target *t, int fd);
enum target_luajit {
  TARGET_LUAJIT_NO = 0,
  TARGET_LUAJIT_SHARED = 1, /* a libluajit is mapped */
  TARGET_LUAJIT_STATIC = 2, /* an executable mapping's file carries LuaJIT's
                               version text */
};
/* From mapped files alone; used to say why there is no VM. */
enum target_luajit target_has_luajit(struct target *t);
/* Version of a LuaJIT that is mapped, as it names itself
 * (`LuaJIT 2.1.0-beta3`);
 * "" when none does.  Of several, one. */
#define TARGET_LUAJIT_VERSION 48
void target_luajit_version(struct target *t,
                           char version[TARGET_LUAJIT_VERSION]);
/* What the kernel told the program at its start: the value of AT_<type> in its
 * auxiliary vector (getauxval(3)); false: not there. */
bool target_auxv(struct target *t, uint64_t type, uint64_t *out);
/* Is the program linked statically, so that nothing can be preloaded into it?
 * false when unknown. */
bool target_is_static(struct target *t);
/* 64 or 32 (ELF class of the executable); 0 when unknown. */
int target_word_bits(struct target *t);

#endif
