/* SPDX-License-Identifier: MIT
 *
 * Processes that it is not tried on, each with the reason.
 */
#include <elf.h>
#include <string.h>

#include "inject/inject_internal.h"

/* The loader ignores what an unprivileged user asks for in such a program, and
 * so does the agent's constructor. */
static bool privileged(struct target *t)
{
  uint64_t secure = 0;
  return target_auxv(t, AT_SECURE, &secure) && secure;
}

static enum result check_seccomp(struct target *t, pid_t tid, struct error *e)
{
  uint64_t mode = 0;
  int pid = (int)target_pid(t);
  target_thread_number(t, tid, "Seccomp", 10, &mode);
  if (mode == 1)
    return error_set(e, RESULT_UNSUPPORTED,
                     "process %d is in seccomp's strict mode: the system would "
                     "kill it for loading a library",
                     pid);
  if (mode)
    return error_set(e, RESULT_UNSUPPORTED,
                     "process %d runs under a seccomp filter, which may kill "
                     "it for loading a library; start it with the agent "
                     "(LD_PRELOAD) instead",
                     pid);
  return RESULT_OK;
}

/* A function that another process sends a thread into returns to where no call
 * was: what shadow stacks are there to prevent. */
static bool shadow_stack(struct target *t, pid_t tid)
{
  char text[128];
  return target_thread_status(t, tid, "x86_Thread_features", text,
                              sizeof text) &&
         strstr(text, "shstk");
}

enum result refuse_check(struct target *t, struct error *e)
{
  int pid = (int)target_pid(t);
  struct target_tids tids = {0};
  enum result r = target_threads(t, &tids);
  if (r != RESULT_OK || !tids.count) {
    target_tids_free(&tids);
    return error_set(e, r == RESULT_OK ? RESULT_GONE : r,
                     "process %d has no threads to look at", pid);
  }
  pid_t tid = tids.tid[0];
  if (target_word_bits(t) == 32)
    r = error_set(e, RESULT_UNSUPPORTED,
                  "%d is a 32-bit process: not supported", pid);
  else if (privileged(t))
    r = error_set(e, RESULT_UNSUPPORTED,
                  "process %d is a privileged program (set-user-id, or with "
                  "capabilities of its own): the agent stays out of such",
                  pid);
  else if (shadow_stack(t, tid))
    r = error_set(e, RESULT_UNSUPPORTED,
                  "process %d runs with a shadow stack (CET), which forbids "
                  "calls from outside",
                  pid);
  for (size_t i = 0; r == RESULT_OK && i < tids.count; i++)
    r = check_seccomp(t, tids.tid[i], e);
  target_tids_free(&tids);
  return r;
}
