/* SPDX-License-Identifier: MIT
 *
 * Samples from outside: shared by the files of the ptrace engine.
 */
#ifndef SESSION_REMOTE_INTERNAL_H
#define SESSION_REMOTE_INTERNAL_H

#include <sched.h>

#include "capture/capture.h"
#include "session/session_internal.h"

#define RESTORERS_MAX 8u

/* What is the same for all threads of a program. */
struct remote_program {
  uint64_t stack_end;
  uint64_t restorer[RESTORERS_MAX];
  unsigned restorers;
};
void remote_program_read(struct target *t, struct remote_program *p);
/* What a stopped thread's registers say.  GONE. */
enum result remote_thread_read(const struct remote_program *p,
                               const struct target_stop *stop,
                               struct capture_thread *out);

/* ---- remote_near.c ---- */

struct remote_near { /* all zero at first */
  cpu_set_t cpus;    /* that we may use */
  int policy;
  bool moved, raised;
  bool may_not; /* ask for a CPU before others */
};
/* From here to the end we run on the CPU of thread tid, before everybody else
 * where that is allowed. */
void remote_near_begin(struct remote_near *n, struct target *t, pid_t tid);
void remote_near_end(struct remote_near *n);

#endif
