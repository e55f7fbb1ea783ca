/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "agent/profile_internal.h"

struct text text_in(char *buf, size_t size)
{
  buf[0] = 0;
  return (struct text){.buf = buf, .size = size};
}

void text_add_bytes(struct text *t, const char *s, size_t len)
{
  size_t room = t->size - 1 - t->len;
  if (len > room) {
    len = room;
    t->cut = true;
  }
  memcpy(t->buf + t->len, s, len);
  t->len += len;
  t->buf[t->len] = 0;
}

void text_add(struct text *t, const char *s)
{
  text_add_bytes(t, s, strlen(s));
}

void text_add_number(struct text *t, uint64_t v, unsigned base)
{
  char digits[24];
  size_t n = sizeof digits;
  do {
    digits[--n] = "0123456789abcdef"[v % base];
    v /= base;
  } while (v);
  text_add_bytes(t, digits + n, sizeof digits - n);
}
