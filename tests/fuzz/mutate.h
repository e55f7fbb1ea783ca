/* SPDX-License-Identifier: MIT
 *
 * Damage to recorded streams and files, the same for the same seed; and what
 * holds for every output, whatever came in.
 */
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

#include "golden/recording.h"
#include "merge/merge.h"
#include "util/strbuf.h"

struct mutator {
  uint64_t state;
  struct bytes out; /* what mutate_* made; grows as needed */
  size_t cap;
};

void mutator_seed(struct mutator *m, uint64_t seed);
void mutator_free(struct mutator *m);
uint64_t mutator_below(struct mutator *m, uint64_t n);

/* A stream with its records (some, none or all of them) changed, dropped,
 * doubled, moved to other slots, cut, or mixed with other's. */
void mutate_stream(struct mutator *m, const struct bytes *stream,
                   const struct bytes *other);
/* Bytes without a structure that is known here: values and bits change. */
void mutate_bytes(struct mutator *m, const struct bytes *b);
struct merge_options mutate_options(struct mutator *m);

/* NULL: lines of printable UTF-8 that end in a count, the counts adding up to
 * sum; else what is wrong. */
const char *output_fault(const struct strbuf *out, uint64_t sum);

#endif
