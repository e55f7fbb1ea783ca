/* SPDX-License-Identifier: MIT */
#include "output/output_internal.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

static bool is_line_break(uint32_t c)
{
  return (c >= '\n' && c <= '\r') || c == 0x85 || c == 0x2028 || c == 0x2029;
}

static bool is_control(uint32_t c)
{
  return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* Unicode's White_Space, line breaks apart: readers of this format call a
 * frame of nothing else empty. */
static bool is_space(uint32_t c)
{
  return c == ' ' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

/* What stands for a character; NULL: itself. */
static const char *substitute(uint32_t c)
{
  if (c == ';' || c == '\t' || is_line_break(c))
    return "_";
  if (is_control(c))
    return "?";
  if (c == 0xfffe || c == 0xffff) /* XML, and so SVG, forbids them */
    return REPLACEMENT;
  return NULL;
}

void output_sanitise(struct strbuf *out, const char *text, size_t len)
{
  size_t start = out->len;
  bool visible = false;
  for (size_t i = 0, n; i < len; i += n) {
    uint32_t c;
    n = utf8_decode(text + i, len - i, &c);
    const char *s = n ? substitute(c) : REPLACEMENT;
    if (s)
      strbuf_add_str(out, s);
    else
      strbuf_add(out, text + i, n);
    visible = visible || s || !is_space(c);
    n = n ? n : 1;
  }
  if (!visible && !out->failed) {
    out->len = start;
    strbuf_add_str(out, "?");
  }
}

size_t output_without_state(const char *text, size_t len)
{
  if (len <= 4 || text[len - 4] != '_' || text[len - 3] != '[' ||
      text[len - 1] != ']' || !memchr("NICGJ", text[len - 2], 5))
    return len;
  return len - 4;
}
