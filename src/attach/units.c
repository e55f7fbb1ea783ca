/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "attach/attach_internal.h"

/* Digits with at most one point into billionths, so that no value that a user
 * can type is rounded.  Returns the rest of the text, NULL: not a number. */
static const char *billionths(const char *p, uint64_t *out)
{
  uint64_t v = 0, scale = UINT64_C(1000000000);
  bool point = false, digits = false;
  for (; (*p >= '0' && *p <= '9') || (*p == '.' && !point); p++) {
    if (*p == '.') {
      point = true;
      continue;
    }
    digits = true;
    if (point && !(scale /= 10))
      return NULL;
    uint64_t add = (uint64_t)(*p - '0') * scale;
    if (!point && __builtin_mul_overflow(v, UINT64_C(10), &v))
      return NULL;
    if (__builtin_add_overflow(v, add, &v))
      return NULL;
  }
  *out = v;
  return digits && p[-1] != '.' ? p : NULL;
}

static uint64_t unit(const char *suffix, uint64_t bare)
{
  static const struct {
    const char *name;
    uint64_t ns;
  } table[] = {
      {"us", UNITS_US},    {"ms", UNITS_MS},      {"s", UNITS_S},
      {"m", 60 * UNITS_S}, {"h", 3600 * UNITS_S},
  };
  if (!*suffix)
    return bare;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (!strcmp(suffix, table[i].name))
      return table[i].ns;
  return 0;
}

bool units_time(const char *text, uint64_t bare, uint64_t *ns)
{
  uint64_t v;
  const char *rest = billionths(text, &v);
  uint64_t u = rest ? unit(rest, bare) : 0;
  if (!u)
    return false;
  __extension__ unsigned __int128 wide = (unsigned __int128)v * u / 1000000000u;
  if (wide > UINT64_MAX)
    return false;
  *ns = (uint64_t)wide;
  return true;
}

bool units_rate(const char *text, uint64_t *ns)
{
  uint64_t v;
  const char *rest = billionths(text, &v);
  if (!rest || *rest || !v)
    return false;
  __extension__ unsigned __int128 second = (unsigned __int128)UNITS_S * UNITS_S;
  second /= v;
  if (second > UINT64_MAX)
    return false;
  *ns = (uint64_t)second;
  return true;
}

bool units_int(const char *text, long lo, long hi, long *out)
{
  if (!*text || strlen(text) > 18 || text[strspn(text, "0123456789")])
    return false;
  *out = strtol(text, NULL, 10);
  return *out >= lo && *out <= hi;
}
