/* SPDX-License-Identifier: MIT */
#ifndef OUTPUT_OUTPUT_INTERNAL_H
#define OUTPUT_OUTPUT_INTERNAL_H

#include <stddef.h>

#include "util/strbuf.h"

/* Appends text as output_collapsed says, apart from the rules that need to
 * know the other frames. */
void output_sanitise(struct strbuf *out, const char *text, size_t len);
/* Length of text without the VM state (`_[N]`) at its end; a text that is
 * nothing else is left whole. */
size_t output_without_state(const char *text, size_t len);

/* A JSON string, quoted; `<` is escaped too, so that it may stand in a script
 * of HTML.  The text is UTF-8. */
void output_json_string(struct strbuf *out, const char *text, size_t len);

#endif
