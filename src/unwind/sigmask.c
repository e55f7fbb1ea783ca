/* SPDX-License-Identifier: MIT
 *
 * libunwind guards its caches with a lock and blocks all signals around it:
 * two system calls for every step, nearly all of its time.  Here it works
 * offline on a sample, in a thread whose signal handlers (if any) never
 * unwind, so that the mask is of no use.  This definition stands before the C
 * library's for libunwind's references; to everybody else it does what the C
 * library's does.
 */
#include <errno.h>
#include <signal.h>

#include "unwind/unwind_internal.h"

static __thread bool is_quiet;

void unwind_sigmask_quiet(bool quiet)
{
  is_quiet = quiet;
}

__attribute__((visibility("default"))) int
sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
  int error;

  if (is_quiet) {
    if (old != NULL)
      sigemptyset(old);
    return 0;
  }
  error = pthread_sigmask(how, set, old);
  if (error != 0)
    errno = error;
  return error == 0 ? 0 : -1;
}
