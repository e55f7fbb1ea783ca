/* SPDX-License-Identifier: MIT */
#include "base/csv.h"

#include <stdbool.h>
#include <string.h>

static bool among(char c, const char *set, size_t n)
{
  return memchr(set, c, n) != NULL;
}

size_t csv_cell(char *to, const char *text, size_t len)
{
  bool formula = len && among(text[0], "=+-@\t\r", 6);
  bool quoted = false;
  char *at = to;
  for (size_t i = 0; i < len && !quoted; i++)
    quoted = among(text[i], ",\"\r\n", 4);
  if (quoted)
    *at++ = '"';
  if (formula)
    *at++ = '\'';
  for (size_t i = 0; i < len; i++) {
    if (text[i] == '"')
      *at++ = '"';
    *at++ = text[i];
  }
  if (quoted)
    *at++ = '"';
  return (size_t)(at - to);
}
