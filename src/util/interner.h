/* SPDX-License-Identifier: MIT
 *
 * Strings to small numbers and back.  Ids count up from 0; equal bytes give
 * the same id; a string lives as long as the interner.
 */
#ifndef UTIL_INTERNER_H
#define UTIL_INTERNER_H

#include <stddef.h>
#include <stdint.h>

#define INTERNER_NONE UINT32_MAX /* no memory */

struct interner;

struct interner *interner_new(void); /* NULL: no memory */
void interner_free(struct interner *in);
uint32_t interner_add(struct interner *in, const char *text, size_t len);
uint32_t interner_add_str(struct interner *in, const char *text);
/* NUL-terminated, never NULL; "" for an id that was never given out. */
const char *interner_text(const struct interner *in, uint32_t id);
size_t interner_count(const struct interner *in);

#endif
