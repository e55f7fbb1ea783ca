/* SPDX-License-Identifier: MIT */
#include <sys/wait.h>

#include "attach/attach_internal.h"

enum status verdict_status(enum result r)
{
  switch (r) {
  case RESULT_OK:
  case RESULT_END:
    return STATUS_DONE;
  case RESULT_USAGE:
    return STATUS_USAGE;
  case RESULT_GONE:
  case RESULT_PERM:
  case RESULT_NOAGENT:
  case RESULT_VERSION:
  case RESULT_CORRUPT:
    return STATUS_UNREACHABLE;
  case RESULT_NOVM:
  case RESULT_UNSUPPORTED:
    return STATUS_NO_VM;
  case RESULT_NOMEM:
  case RESULT_IO:
  case RESULT_BUSY:
  case RESULT_NOTFOUND:
  case RESULT_FULL:
  case RESULT_TIMEOUT:
    break;
  }
  return STATUS_FAILED;
}

int verdict_of_wait(int wait_status)
{
  if (WIFSIGNALED(wait_status))
    return 128 + WTERMSIG(wait_status);
  return WEXITSTATUS(wait_status);
}
