/* SPDX-License-Identifier: MIT
 *
 * A sampling session on one process: ticks, which threads get one, draining,
 * and an honest account of what was and was not seen.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "merge/merge.h"
#include "profile/profile.h"
#include "target/target.h"
#include "util/error.h"

struct session_account;

struct session_options {
  uint64_t interval_ns;
  uint64_t duration_ns; /* 0: until stopped or the target's end */
  uint64_t vm_wait_ns;  /* how long a VM may take to appear */
  bool by_thread;       /* a root frame name/tid */
  bool by_vm;
  struct merge_options merge;
  /* Called about once a second with the sums so far; NULL: not. */
  void (*progress)(void *arg, const struct session_account *acc);
  void *progress_arg;
};

/* Buckets of handler times; 16 + 8 for each power of two up to 2^31. */
enum { SESSION_COSTS = 240 };

/* Sums.  When the session has ended, sent = samples + filtered + lost. */
struct session_account {
  uint64_t ticks;       /* of the clock */
  uint64_t skipped;     /* clock ticks that came too late and were left out */
  uint64_t sent;        /* signals */
  uint64_t samples;     /* in the profile */
  uint64_t filtered;    /* samples outside the zone prefix */
  uint64_t partial;     /* of the samples: marked [partial] */
  uint64_t lua_partial; /* of the samples: Lua part incomplete */
  uint64_t lost;        /* signals that gave no sample, whatever the reason */
  uint64_t lost_full;   /* of the lost: the thread's ring was full */
  uint64_t undelivered; /* of the lost: did not reach the agent's handler (the
                           thread ended or blocked the signal meanwhile, or
                           the program took it) */
  uint64_t lost_bad;    /* of the lost: records that make no sense */
  uint64_t no_slot; /* ticks a running thread did not get, as too many threads
                       were running at once; not in sent */
  uint64_t blocked_threads; /* threads that block the signal: not sampled */
  uint64_t elapsed_ns;
  uint64_t cpu_ns;      /* the collector's own CPU time */
  uint64_t bytes;       /* of records */
  unsigned vms;         /* at the same time, at most */
  unsigned unknown_vms; /* LuaJIT VMs of unknown layout, likewise */
  unsigned threads;     /* that gave samples */
  unsigned execs;       /* times the process became another program and the
                           session went on in it */
  uint64_t cost[SESSION_COSTS]; /* samples by the time that their handler took:
                                   session_cost_ns */
};

/* Nanoseconds within which the handlers of `part` (0 to 1) of the samples were
 * done, by the agent's own clock: without the way into the handler and out of
 * it, but with the time for which the thread was put off its CPU meanwhile.
 * Rounded up by an eighth at most; 0: no samples. */
uint64_t session_cost_ns(const struct session_account *acc, double part);

enum session_end {
  SESSION_END_STOPPED = 1, /* asked to (stop flag, duration) */
  SESSION_END_TARGET = 2,  /* the process ended or became another program */
};

/* Samples until *stop, the duration or the target's end; on every way out the
 * target is left as it was, and *acc is filled.  A process that becomes another
 * program with an agent in it is followed.
 * NOAGENT, PERM, VERSION, CORRUPT, BUSY (text names the owner), NOMEM (no
 * memory for the rings), NOVM: no VM of a known layout in vm_wait (or before
 * the session's end, if that is sooner); the text names a child that has one.
 * What the profile then holds is native code only.
 * Raises the soft limit of open files of this process. */
enum result session_run(struct target *t, const struct session_options *o,
                        const volatile sig_atomic_t *stop, struct profile *p,
                        struct session_account *acc, enum session_end *end,
                        struct error *e);

#endif
