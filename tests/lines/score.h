/* SPDX-License-Identifier: MIT
 *
 * A map held against the truth of its trace.
 */
#ifndef TESTS_LINES_SCORE_H
#define TESTS_LINES_SCORE_H

#include <stdio.h>

#include "lines/fixture.h"

struct score {
  uint32_t n, line, function, chain;     /* instructions, and right ones */
  uint32_t hits, hit_line, hit_function; /* the same by time spent there */
  uint32_t shown, shown_right;           /* LINES_LEVEL_LINE */
  uint32_t shown_fn, shown_fn_right;     /* LINES_LEVEL_FUNCTION or better */
};

void score_add(struct score *s, const struct fixture *f,
               const struct fixture_trace *x, const struct lines_map *map);
/* A trace without a map: nothing is right. */
void score_missing(struct score *s, const struct fixture_trace *x);
/* Parts of a hundred; 0 of nothing. */
double score_percent(uint32_t part, uint32_t whole);
void score_print(const struct score *s, FILE *out);

#endif
