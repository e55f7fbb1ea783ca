/* SPDX-License-Identifier: MIT
 *
 * The agent into a running process: one of its threads is stopped at a moment
 * when it may call the dynamic loader, calls dlopen, and goes on where it was.
 *
 * What the thread would need to go on by itself lies on its stack before it is
 * moved, in the form that the kernel gives to an interrupted thread (a signal
 * frame), and every function that it is sent to returns there.  So the process
 * lives on whenever this one ends.  Its code is never written to.
 */
#ifndef INJECT_INJECT_H
#define INJECT_INJECT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/target.h"
#include "util/error.h"

struct inject_options {
  const char *library; /* absolute path, as this process sees it */
  uint64_t moment_ns;  /* how long to look for a safe moment */
  uint64_t call_ns;    /* how long the dynamic loader may take */
  const volatile sig_atomic_t *stop; /* ends the search; not the call */
};

struct inject_account {
  pid_t tid;        /* of the thread that made the call; 0: none, or the agent
                       had come meanwhile */
  unsigned looks;   /* threads that were stopped for a moment */
  uint64_t held_ns; /* for which that thread was away from its work */
  bool copied;      /* the process cannot see the library's path: it was given
                       a copy in memory */
  bool unfinished;  /* the call had not come back; it returns by itself */
};

/* May it work at all?  Reads only.  GONE; PERM (another tracer, another user);
 * UNSUPPORTED with the reason: no dynamic loader, another C library, seccomp, a
 * privileged program. */
enum result inject_possible(struct target *t, struct error *e);
/* Loads the library.  Besides the errors of inject_possible: BUSY: there was no
 * safe moment, or the loader did not come back; IO: the loader's own words;
 * END: *stop.  On every way out the thread has its registers back, or (only
 * account->unfinished) gets them when the loader returns. */
enum result inject_load(struct target *t, const struct inject_options *o,
                        struct inject_account *account, struct error *e);

#endif
