/* SPDX-License-Identifier: MIT */
#include "util/strbuf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(struct strbuf *b)
{
  strbuf_free(b);
  b->failed = true;
}

/* Room for `more` bytes and a terminator; false: failed, now or before. */
static bool reserve(struct strbuf *b, size_t more)
{
  if (b->failed)
    return false;
  if (more < b->cap - b->len) /* len < cap, or both are 0 */
    return true;
  if (more > SIZE_MAX / 2 - 64 - b->len) {
    fail(b);
    return false;
  }
  size_t cap = b->cap + b->cap / 2;
  if (cap < b->len + more + 1)
    cap = b->len + more + 64;
  char *data = realloc(b->data, cap);
  if (!data) {
    fail(b);
    return false;
  }
  b->data = data;
  b->cap = cap;
  return true;
}

void strbuf_add(struct strbuf *b, const char *bytes, size_t len)
{
  if (!reserve(b, len))
    return;
  if (len)
    memcpy(b->data + b->len, bytes, len);
  b->len += len;
  b->data[b->len] = '\0';
}

void strbuf_add_str(struct strbuf *b, const char *text)
{
  strbuf_add(b, text, strlen(text));
}

void strbuf_printf(struct strbuf *b, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  if (n < 0) {
    fail(b);
    return;
  }
  if (!reserve(b, (size_t)n))
    return;
  va_start(ap, fmt);
  vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
  va_end(ap);
  b->len += (size_t)n;
}

void strbuf_clear(struct strbuf *b)
{
  b->len = 0;
  b->failed = false;
  if (b->data)
    b->data[0] = '\0';
}

void strbuf_free(struct strbuf *b)
{
  free(b->data);
  *b = (struct strbuf)STRBUF_INIT;
}

const char *strbuf_text(const struct strbuf *b)
{
  return b->data ? b->data : "";
}
