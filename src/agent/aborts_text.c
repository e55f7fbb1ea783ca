/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "agent/aborts_internal.h"
#include "base/utf8.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */
static const char DOTS[] = "...";
enum { DOTS_LEN = sizeof DOTS - 1 };

static void put(struct abort_text *t, const char *bytes, size_t n)
{
  if (t->cut || n > t->max - t->len) {
    t->cut = true;
    return;
  }
  memcpy(t->to + t->len, bytes, n);
  t->len += (unsigned)n;
}

static bool is_plain(unsigned char c)
{
  return (c >= 0x20 && c < 0x7f) || c == '\t' || c == '\n' || c == '\r';
}

static void put_char(struct abort_text *t, const char *bytes, size_t n,
                     uint32_t c)
{
  if (!n || c == 0xfffe || c == 0xffff) /* XML forbids those two */
    put(t, REPLACEMENT, sizeof REPLACEMENT - 1);
  else if (c < 0xa0)
    put(t, "?", 1);
  else
    put(t, bytes, n);
}

void abort_text_add(struct abort_text *t, const char *bytes, size_t n)
{
  size_t i = 0;
  while (i < n && !t->cut) {
    size_t plain = i;
    while (plain < n && is_plain((unsigned char)bytes[plain]))
      plain++;
    size_t room = t->max - t->len;
    put(t, bytes + i, plain - i < room ? plain - i : room);
    t->cut = t->cut || plain - i > room;
    i = plain;
    if (i >= n)
      break;
    uint32_t c = 0;
    size_t len = utf8_decode(bytes + i, n - i, &c);
    put_char(t, bytes + i, len, c);
    i += len ? len : 1;
  }
}

void abort_text_add_str(struct abort_text *t, const char *s)
{
  abort_text_add(t, s, strlen(s));
}

void abort_text_add_number(struct abort_text *t, int64_t v)
{
  char digits[24];
  size_t at = sizeof digits;
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  do
    digits[--at] = (char)('0' + u % 10);
  while (u /= 10);
  if (v < 0)
    digits[--at] = '-';
  abort_text_add(t, digits + at, sizeof digits - at);
}

unsigned abort_text_end(struct abort_text *t)
{
  if (!t->cut)
    return t->len;
  t->len = (unsigned)utf8_head(t->to, t->len, t->max - DOTS_LEN);
  memcpy(t->to + t->len, DOTS, DOTS_LEN);
  return t->len + DOTS_LEN;
}

static void load_bytes(struct vm_mem *m, char *to, uint64_t from, size_t n)
{
  size_t i = 0;
  for (; i < n && ((from + i) & 7); i++)
    to[i] = (char)vm_load1(m, from + i);
  for (; i + 8 <= n; i += 8) {
    uint64_t word = vm_load8(m, from + i);
    memcpy(to + i, &word, 8);
  }
  for (; i < n; i++)
    to[i] = (char)vm_load1(m, from + i);
}

size_t abort_text_load(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t str, enum abort_text_part part, char *to,
                       size_t max, uint32_t *full)
{
  *full = vm_load4(m, str + lay->str_len);
  size_t n = *full < max ? *full : max;
  uint64_t from = str + lay->str_sizeof;
  load_bytes(m, to, part == ABORT_TEXT_TAIL ? from + *full - n : from, n);
  return n;
}
