/* SPDX-License-Identifier: MIT
 *
 * The caller's context of a failure: the code, and a message that says what
 * failed, on what, and how to cure it.
 */
#ifndef UTIL_ERROR_H
#define UTIL_ERROR_H

#include "base/result.h"

struct error {
  enum result code;
  char text[512]; /* one line, no trailing newline */
};

/* Fills *e (may be NULL) and returns code, so that a failure is one line:
 *   return error_set(e, RESULT_PERM, "cannot read %s: ...", path);
 * A text that does not fit is cut. */
enum result error_set(struct error *e, enum result code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
