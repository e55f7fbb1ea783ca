/* SPDX-License-Identifier: MIT
 *
 * Stacks and their counts.  A stack is a sequence of interned frame texts,
 * outermost first; this room knows no process.
 *
 * And the table of trace aborts, joined with the samples of the same time.
 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <stdbool.h>
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
/* The stack that profile_add added to last, and another sample of it. */
size_t profile_newest(const struct profile *p);
void profile_add_again(struct profile *p, size_t stack, uint64_t weight);
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

/* Adds the stacks of another profile under the names that they have by now,
 * with the frame `root` outermost (NULL: none).  OK, or NOMEM with a part of
 * them added. */
enum result profile_join(struct profile *to, struct profile *from,
                         const char *root);

/* A companion lives as long as the profile: what the one who fills it
 * remembers about its frames.  profile_free ends it with `end`. */
void *profile_companion(const struct profile *p);
void profile_set_companion(struct profile *p, void *companion,
                           void (*end)(void *companion));

/* ---- trace aborts ---- */

struct aborts;

enum aborts_source {
  ABORTS_EVENTS = 0,   /* counted as they happened */
  ABORTS_PENALTY = 1,  /* LuaJIT's penalty cache, read from outside: count is
                          what has happened at least */
  ABORTS_BYTECODE = 2, /* patched bytecode, read from outside: no count */
};

struct aborts_row {
  uint32_t severity; /* enum tecs_severity */
  enum aborts_source source;
  uint64_t count;
  /* NUL-terminated, as the agent made them */
  const char *reason, *location, *zone;
  uint64_t pt;                 /* prototype being recorded; 0: not known */
  uint32_t firstline, numline; /* of that prototype */
  /* set by aborts_join */
  double cpu_percent; /* samples in that function, of all samples */
  char state;         /* the most frequent one there; 0: no samples */
};

struct aborts *aborts_new(void); /* NULL: no memory */
void aborts_free(struct aborts *a);
/* Texts are copied.  Rows of equal source, reason, location and zone add up;
 * their severity is the worst.  OK or NOMEM. */
enum result aborts_add(struct aborts *a, const struct aborts_row *row);

/* A CPU sample of the same time.  chunk: file of the innermost Lua function, as
 * locations have it; NULL: no such function.  The numbers are that function's.
 * OK or NOMEM. */
enum result aborts_sample(struct aborts *a, const char *chunk, uint64_t pt,
                          uint32_t firstline, uint32_t numline, char state);
/* Fills cpu_percent and state of all rows.  A sample belongs to a row when its
 * function is the row's: the same prototype, or another one made of the same
 * lines of the same chunk. */
void aborts_join(struct aborts *a);

/* Most severe first; then, by_cost, by cpu_percent; then count, most first;
 * then reason, location, zone (byte order).  The array belongs to `a` and lasts
 * until the next call.  OK or NOMEM. */
enum result aborts_sorted(struct aborts *a, bool by_cost,
                          const struct aborts_row **row, size_t *count);

#endif
