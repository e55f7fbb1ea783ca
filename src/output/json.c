/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "output/output_internal.h"

void output_json_string(struct strbuf *out, const char *text, size_t len)
{
  strbuf_add(out, "\"", 1);
  for (size_t i = 0, start = 0; i <= len; i++) {
    unsigned char c = i < len ? (unsigned char)text[i] : 0;
    if (i < len && c >= 0x20 && c != '"' && c != '\\' && c != '<' && c != 0x7f)
      continue;
    strbuf_add(out, text + start, i - start);
    start = i + 1;
    if (i < len)
      strbuf_printf(out, "\\u%04x", c);
  }
  strbuf_add(out, "\"", 1);
}
