/* SPDX-License-Identifier: MIT */
#include "base/result.h"

const char *result_text(enum result r)
{
  static const char *const text[] = {
#define RESULT_TEXT(name, text) text,
      RESULT_TABLE(RESULT_TEXT)
#undef RESULT_TEXT
  };
  unsigned i = (unsigned)r;
  return i < sizeof text / sizeof text[0] ? text[i] : "unknown result";
}
