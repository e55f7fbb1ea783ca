/* SPDX-License-Identifier: MIT
 *
 * UTF-8, as far as texts of other programs need it: any bytes may come in.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The character at the start of text (len > 0): its bytes, 1 to 4, with *cp
 * set; 0 when these bytes are no valid UTF-8 (overlong forms, surrogates and
 * values above U+10FFFF included). */
size_t utf8_decode(const char *text, size_t len, uint32_t *cp);
/* Bytes of the longest start of text that has at most max bytes and splits no
 * character. */
size_t utf8_head(const char *text, size_t len, size_t max);
/* The same for the end: where such an end begins. */
size_t utf8_tail(const char *text, size_t len, size_t max);

#endif
