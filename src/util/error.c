/* SPDX-License-Identifier: MIT */
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>

enum result error_set(struct error *e, enum result code, const char *fmt, ...)
{
  if (!e)
    return code;
  va_list ap;
  va_start(ap, fmt);
  e->code = code;
  vsnprintf(e->text, sizeof e->text, fmt, ap);
  va_end(ap);
  return code;
}
