/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"

#include <stdbool.h>

static bool is_continuation(char c)
{
  return ((unsigned char)c & 0xc0) == 0x80;
}

size_t utf8_decode(const char *text, size_t len, uint32_t *cp)
{
  static const struct {
    unsigned char mask, lead;
    uint32_t least; /* smaller ones are overlong */
  } form[] = {
      {0x80, 0x00, 0},
      {0xe0, 0xc0, 0x80},
      {0xf0, 0xe0, 0x800},
      {0xf8, 0xf0, 0x10000},
  };
  unsigned char first = (unsigned char)text[0];
  size_t n = 0;
  while (n < 4 && (first & form[n].mask) != form[n].lead)
    n++;
  if (n == 4 || n >= len)
    return 0;
  uint32_t c = first & (unsigned char)~form[n].mask;
  for (size_t i = 1; i <= n; i++) {
    if (!is_continuation(text[i]))
      return 0;
    c = c << 6 | ((unsigned char)text[i] & 0x3f);
  }
  if (c < form[n].least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
    return 0;
  *cp = c;
  return n + 1;
}

/* A character has at most three continuation bytes; more of them are no
 * UTF-8, and cut anywhere. */
size_t utf8_head(const char *text, size_t len, size_t max)
{
  if (len <= max)
    return len;
  size_t at = max;
  while (at > 0 && max - at < 3 && is_continuation(text[at]))
    at--;
  return is_continuation(text[at]) ? max : at;
}

size_t utf8_tail(const char *text, size_t len, size_t max)
{
  if (len <= max)
    return 0;
  size_t at = len - max;
  while (at < len && at - (len - max) < 3 && is_continuation(text[at]))
    at++;
  return at < len && is_continuation(text[at]) ? len - max : at;
}
