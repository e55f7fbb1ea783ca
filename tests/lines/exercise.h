/* SPDX-License-Identifier: MIT
 *
 * Traces of which anything may be wrong, through the whole room.
 */
#ifndef TESTS_LINES_EXERCISE_H
#define TESTS_LINES_EXERCISE_H

#include <stddef.h>
#include <stdint.h>

#include "lines/lines.h"

struct exercise {
  uint32_t mapped, refused; /* traces */
};

/* A packed fixture, damaged or not: NULL, or what a map says that no map may
 * say. */
const char *exercise(struct lines_model *m, const uint8_t *data, size_t size,
                     struct exercise *count);

#endif
