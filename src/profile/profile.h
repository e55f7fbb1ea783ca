/* SPDX-License-Identifier: MIT
 *
 * Stacks and their counts.  A stack is a sequence of interned frame texts,
 * outermost first; this room knows no process.
 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/result.h"
#include "util/interner.h"

struct profile;

struct profile_stack {
  const uint32_t *frame; /* interned, outermost first */
  size_t count;
  uint64_t weight;
};

struct profile *profile_new(void);
void profile_free(struct profile *p);
/* Frame texts have no NUL bytes. */
struct interner *profile_frames(struct profile *p);
/* OK or NOMEM, and then nothing changed.  A stack may have no frames. */
enum result profile_add(struct profile *p, const uint32_t *frame, size_t count,
                        uint64_t weight);
size_t profile_stack_count(const struct profile *p);
uint64_t profile_weight(const struct profile *p); /* sum of all */
/* Sorted by weight (most first), then by the text of the frames joined with
 * ';' (byte order).  The array belongs to the profile and lasts until the next
 * profile_add.  NULL: no memory, or no stacks. */
const struct profile_stack *profile_sorted(struct profile *p);

/* What a frame is called from now on, also in stacks that were added before:
 * names that are found late.  Stacks that become equal stay two stacks; a
 * writer adds them up. */
enum result profile_rename(struct profile *p, uint32_t frame, const char *text);
/* Text of a frame: its newest name, else what was interned. */
const char *profile_frame_text(const struct profile *p, uint32_t frame);

/* A companion lives as long as the profile: what the one who fills it
 * remembers about its frames.  profile_free ends it with `end`. */
void *profile_companion(const struct profile *p);
void profile_set_companion(struct profile *p, void *companion,
                           void (*end)(void *companion));

#endif
