/* SPDX-License-Identifier: MIT
 *
 * A growing string.  After a failed allocation it stays valid and empty and
 * `failed` is set, so that a chain of appends is checked once at its end.
 */
#ifndef UTIL_STRBUF_H
#define UTIL_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

struct strbuf {
  char *data; /* NUL-terminated, never NULL after the first append */
  size_t len;
  size_t cap;
  bool failed;
};

#define STRBUF_INIT                                                            \
  {                                                                            \
    0                                                                          \
  }

void strbuf_add(struct strbuf *b, const char *bytes, size_t len);
void strbuf_add_str(struct strbuf *b, const char *text);
void strbuf_printf(struct strbuf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void strbuf_clear(struct strbuf *b); /* keeps the memory */
void strbuf_free(struct strbuf *b);
const char *strbuf_text(const struct strbuf *b); /* never NULL */

#endif
