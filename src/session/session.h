/* SPDX-License-Identifier: MIT
 *
 * Sessions on one process.  A sampling session: ticks, which threads get one,
 * draining, and an honest account of what was and was not seen.  A trace
 * session: what LuaJIT gave up compiling.  One of each kind at a time.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "merge/merge.h"
#include "profile/profile.h"
#include "shm/shm.h"
#include "target/target.h"
#include "util/error.h"

struct session_account;

/* A sample that was counted, as far as others than the profile need it. */
struct session_hit {
  char state;        /* N, I, C, G, J; 0: unknown layout */
  const char *chunk; /* the innermost Lua function's, as the location of a
                        trace abort has it; NULL: there is no such function */
  uint32_t firstline, numline; /* of that function */
  uint64_t pt;                 /* its prototype */
};

/* How samples are taken. */
enum session_engine {
  SESSION_ENGINE_AGENT = 0,  /* by the agent; NOAGENT when it is not there */
  SESSION_ENGINE_PTRACE = 1, /* from outside: the thread is stopped for it */
};

struct session_options {
  enum session_engine engine;
  uint64_t interval_ns;
  uint64_t duration_ns; /* 0: until stopped or the target's end */
  uint64_t vm_wait_ns;  /* how long a VM may take to appear */
  bool wall;            /* threads that sleep, too */
  bool by_thread;       /* a root frame name/tid */
  bool by_vm;
  uint64_t vm;      /* only samples in which this VM (g) runs; 0: all.  Whoever
                       steers may change it later */
  bool from_inside; /* the program itself started this session, and control's
                       paused and stop are its own from before the start */
  uint32_t cookie;  /* then: of the image that did (header.cookie) */
  struct merge_options merge;
  /* Called about once a second with the sums so far; NULL: not. */
  void (*progress)(void *arg, const struct session_account *acc);
  void *progress_arg;
  /* Called for each sample that was counted; NULL: not. */
  void (*hit)(void *arg, const struct session_hit *hit);
  /* Called at least every 50 ms; NULL: not. */
  void (*poll)(void *arg, uint64_t now); /* CLOCK_MONOTONIC */
  void *arg;                             /* of both */
};

/* Buckets of handler or stop times; 16 + 8 for each power of two up to 2^31. */
enum { SESSION_COSTS = 240 };

/* Sums.  When the session has ended, sent = samples + filtered + lost, and the
 * profile has samples + asleep + waiting. */
struct session_account {
  enum session_engine engine;
  uint64_t ticks;       /* of the clock */
  uint64_t skipped;     /* clock ticks that came too late and were left out */
  uint64_t sent;        /* signals */
  uint64_t samples;     /* in the profile */
  uint64_t filtered;    /* samples that were not asked for: */
  uint64_t of_zone;     /* of the filtered: outside the zone prefix */
  uint64_t of_vm;       /* of the filtered: in other VMs, or in none */
  uint64_t of_pause;    /* of the filtered: on their way when a pause began */
  uint64_t partial;     /* of the samples: marked [partial] */
  uint64_t lua_partial; /* of the samples: Lua part incomplete */
  uint64_t lost;        /* signals that gave no sample, whatever the reason */
  uint64_t lost_full;   /* of the lost: the thread's ring was full */
  uint64_t undelivered; /* of the lost: did not reach the agent's handler (the
                           thread ended or blocked the signal meanwhile, or
                           the program took it); by ptrace: did not stop */
  uint64_t lost_bad;    /* of the lost: records that make no sense */
  uint64_t no_slot; /* ticks a running thread did not get, as too many threads
                       were running at once; not in sent */
  uint64_t blocked_threads; /* threads that block the signal: not sampled */
  /* of sleeping threads, read from outside: */
  uint64_t asleep;          /* in the profile */
  uint64_t waiting;         /* more ticks that samples stand for, since their
                               threads waited for a CPU */
  uint64_t asleep_filtered; /* outside the zone prefix */
  uint64_t asleep_unread;   /* could not be read */
  /* of the samples, those in compiled code, by how they were placed
   * (enum merge_compiled): */
  uint64_t of_line, of_function, of_trace, of_snapshot;
  uint64_t elapsed_ns; /* pauses left out */
  uint64_t paused_ns;
  uint64_t held_ns;     /* in which the clock stood, as samples held threads */
  uint64_t cpu_ns;      /* the collector's own CPU time */
  uint64_t bytes;       /* of records */
  unsigned vms;         /* at the same time, at most */
  unsigned unknown_vms; /* LuaJIT VMs of unknown layout, likewise */
  char luajit[TARGET_LUAJIT_VERSION]; /* version of theirs; "": not found */
  unsigned threads;                   /* that gave samples */
  bool asleep_denied;                 /* reading them is not permitted */
  unsigned execs; /* times the process became another program and the
                     session went on in it */
  uint64_t cost[SESSION_COSTS]; /* samples by the time that their handler took,
                                   or their stop: session_cost_ns */
};

/* Nanoseconds within which the handlers of `part` (0 to 1) of the samples were
 * done, by the agent's own clock: without the way into the handler and out of
 * it, but with the time for which the thread was put off its CPU meanwhile.  By
 * ptrace: within which the threads were asked to stop, had stopped and went on.
 * Rounded up by an eighth at most; 0: no samples. */
uint64_t session_cost_ns(const struct session_account *acc, double part);

enum session_end {
  SESSION_END_STOPPED = 1, /* asked to (stop flag, duration, steering) */
  SESSION_END_TARGET = 2,  /* the process ended or became another program */
};

/* Samples until *stop, the duration or the target's end; on every way out the
 * target is left as it was, and *acc is filled.  A process that becomes another
 * program with an agent in it is followed.
 * NOAGENT, PERM, VERSION, CORRUPT, BUSY (text names the owner, or who traces
 * the process), NOMEM (no memory for the rings), NOVM: no VM of a known layout
 * in vm_wait (or before the session's end, if that is sooner); the text names a
 * child that has one. What the profile then holds is native code only. Raises
 * the soft limit of open files of this process. */
enum result session_run(struct target *t, const struct session_options *o,
                        const volatile sig_atomic_t *stop, struct profile *p,
                        struct session_account *acc, enum session_end *end,
                        struct error *e);

/* Adds up two accounts: of sessions that ran beside each other, or, same, one
 * after the other on one process. */
void session_account_add(struct session_account *to,
                         const struct session_account *from, bool same);

/* ---- a process and all that come from it ---- */

struct session_family;

/* Follows `root`, everybody who comes from it from now on, and who comes from
 * it already.  variable, a text NAME=VALUE that lives as long: who was started
 * with it is one of them too, whoever its parent is; NULL: none.
 * agents: they have agents; false: LuaJIT in their files is enough.
 * GONE: there is no root, nor a variable; NOMEM, IO. */
enum result session_family_new(pid_t root, const char *variable, bool agents,
                               struct session_family **out, struct error *e);
void session_family_free(struct session_family *f);
/* To be called every few milliseconds until it returns NULL; cheap while
 * nobody is made.  A process that can be sampled now: with an agent of its own
 * in it, and a VM, or LuaJIT in its files; or, once, one with LuaJIT in its
 * files in which no agent has appeared (*agent tells).  The target is the
 * caller's until it is returned. */
struct target *session_family_next(struct session_family *f, uint64_t now,
                                   bool *agent);

enum session_fate {
  SESSION_FATE_NO_VM = 0,         /* that comes next when it has one */
  SESSION_FATE_OTHER_PROGRAM = 1, /* that comes next when that can be sampled */
  SESSION_FATE_GIVEN_UP = 2,      /* the same */
};
void session_family_return(struct session_family *f, struct target *t,
                           enum session_fate fate, uint64_t now);
/* Is there anybody who was made less than wait_ns ago and may still come next?
 */
bool session_family_waits(const struct session_family *f, uint64_t now,
                          uint64_t wait_ns);
/* How many processes there were so far. */
unsigned session_family_seen(const struct session_family *f);

/* ---- trace sessions ---- */

struct session_trace;

/* Sums; all 0 for a process without a VM that is heard. */
struct session_trace_account {
  uint64_t starts, stops; /* traces begun, completed */
  uint64_t aborts;        /* all, benign ones included */
  uint64_t benign;        /* of the aborts: severity info */
  uint64_t blacklists;    /* aborts at which LuaJIT gave the code up */
  uint64_t flushes;       /* of all traces */
  uint64_t overflow;      /* aborts for which the table had no row */
  unsigned sites;         /* distinct reason, location and zone, benign ones
                             left out */
  unsigned benign_sites;
  unsigned vms;           /* at the same time, at most */
  unsigned deaf;          /* of them, now: nothing hears their events */
  unsigned replaced;      /* of the deaf: since the program attached its own */
  unsigned withdrawn;     /* of the deaf: a listener would put them at risk */
  unsigned waiting;       /* of the deaf: the agent, late, waits for a moment */
  unsigned jit_off;       /* of the VMs, now: their JIT compiler is off */
  unsigned unknown;       /* LuaJIT VMs of unknown layout, likewise */
  uint64_t replaced_ns;   /* CLOCK_MONOTONIC: since when, the earliest */
  unsigned outside_sites; /* rows that were read from the memory of deaf VMs;
                             not in the other sums */
  uint64_t elapsed_ns;    /* pauses left out */
  unsigned execs;         /* followed */
};

enum session_trace_state {
  SESSION_TRACE_RUNS = 0,
  SESSION_TRACE_STOPPED = 1, /* someone asked for it */
  SESSION_TRACE_TARGET = 2,  /* the process ended, or became another program
                                without an agent */
};

/* Begins a session.  `into` collects its rows.  from_start: the process is our
 * child and counts from its own start, when TECS_TRACE_FROM_START in its
 * environment is our pid.  Errors as of session_run, but NOVM; *stop ends
 * waiting for an agent that is just starting. */
enum result session_trace_begin(struct target *t, bool from_start,
                                const volatile sig_atomic_t *stop,
                                struct aborts *into, struct session_trace **out,
                                struct error *e);
/* The same of a process without an agent, whatever its memory tells. */
enum result session_trace_outside(struct target *t, struct aborts *into,
                                  struct session_trace **out, struct error *e);
/* To be called at least ten times a second; cheap.  Follows the process when
 * it becomes another program with an agent. */
enum session_trace_state session_trace_poll(struct session_trace *s,
                                            uint64_t now);
void session_trace_sums(struct session_trace *s,
                        struct session_trace_account *acc);
/* Ends it, with its last rows in `into` and the last sums in *acc.  CORRUPT:
 * rows that make no sense were left out; NOMEM. */
enum result session_trace_end(struct session_trace *s,
                              struct session_trace_account *acc);

/* ---- steering, and a look from outside ---- */

enum session_kind { /* also the byte of the segment that its holder locks */
                    SESSION_SAMPLING = 0,
                    SESSION_TRACE = 1,
};

/* Opens the segment of a process and checks that it is its own.  NOAGENT,
 * PERM, VERSION, CORRUPT, GONE. */
enum result session_segment(struct target *t, struct shm *shm, struct error *e);

struct session_seen {
  bool running;
  bool paused;
  uint32_t owner; /* its collector's pid in its own namespace; the process's
                     own: the program itself */
  uint32_t number;
};
void session_look(const struct shm *shm, enum session_kind kind,
                  struct session_seen *seen);

void session_pause(struct shm *shm, enum session_kind kind, bool paused);
/* Asks for the end of the session that was seen and waits, at most for wait_ns,
 * until it is gone.  false: it is still there. */
bool session_stop(struct shm *shm, enum session_kind kind,
                  const struct session_seen *seen, uint64_t wait_ns);

/* The same of a sampling session on a process without an agent, whose collector
 * runs on this machine (in the same network namespace).  look: whether there is
 * one; owner is 0 when its pid means nothing here.  pause, stop: false: it did
 * not answer, or is still there. */
bool session_outside_look(struct target *t, struct session_seen *seen);
bool session_outside_pause(struct target *t, bool paused);
bool session_outside_stop(struct target *t, uint64_t wait_ns);

struct session_vm {
  const char *layout; /* NULL: unknown */
  uint32_t layout_id;
  uint64_t g;
  uint32_t found;       /* enum tecs_vm_found */
  uint32_t tid;         /* that was seen running it first, in the process's own
                           pid namespace */
  uint32_t events;      /* enum tecs_vm_event */
  uint64_t replaced_ns; /* CLOCK_MONOTONIC */
  bool require;         /* it has a package library */
  bool zones;           /* jit.zone is loaded */
  bool jit;             /* its JIT compiler is on */
};
/* What the agent and the process's memory say about its VMs: at most TECS_VMS;
 * returns how many. */
unsigned session_vms(struct target *t, const struct shm *shm,
                     struct session_vm vm[TECS_VMS]);
/* The same of a process without an agent, by looking through all of its memory;
 * found, tid and events stay 0. */
unsigned session_find_vms(struct target *t, struct session_vm vm[TECS_VMS]);

/* ---- what the JIT compiler has made (compiled.c) ---- */

struct session_compiled {
  uint32_t traceno;
  uint32_t root;           /* of a side trace its root trace, else 0 */
  uint32_t parent, exitno; /* of a side trace */
  uint32_t stitched;       /* the trace that a root one goes on from; 0: none */
  uint32_t link;           /* trace that it goes on in */
  const char *linktype;    /* as jit.util has it */
  uint64_t mcode;          /* address of its machine code, */
  uint32_t szmcode;        /* and its bytes */
  bool log;                /* its record log is there */
  const char *start;       /* function and line; "?": could not be read */
  const char *inlined; /* known by the log: the functions that it was recorded
                          through, but the one that it starts in; "": none */
};
typedef void session_compiled_fn(void *ctx, const struct session_compiled *t);

/* Calls fn for each trace of a VM, by number, as its memory shows them while it
 * runs; shm NULL: there are no logs.  *changed: those that were left out, since
 * they changed all the while.  UNSUPPORTED: the VM has no JIT compiler; PERM,
 * with the cure: its memory may not be read; GONE, NOMEM. */
enum result session_compiled_each(struct target *t, const struct shm *shm,
                                  const struct session_vm *vm,
                                  session_compiled_fn *fn, void *ctx,
                                  unsigned *changed, struct error *e);

#endif
