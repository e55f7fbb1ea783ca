/* SPDX-License-Identifier: MIT
 *
 * Stacks and their counts.  A stack is a sequence of interned frame texts,
 * outermost first; this room knows no process.
 *
 * And the table of trace aborts, joined with the samples of the same time; and
 * what a reader asks of a profile: its hottest functions, zones, VM states and
 * categories.
 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/result.h"
#include "util/error.h"
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
/* In the order in which they came; NULL: there is none of that number. */
const struct profile_stack *profile_stack_at(const struct profile *p,
                                             size_t stack);
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

/* ---- collapsed stacks, read ---- */

#define PROFILE_LINE_MAX (UINT64_C(4) << 20) /* bytes: longer lines are bad */

struct profile_reading {
  uint64_t lines;     /* without empty ones */
  uint64_t bad;       /* of them: not `frame;frame count`, left out */
  uint64_t first_bad; /* number of the first of these in the file; 0: none */
};

/* Adds the collapsed stacks of a file, whoever made them.  Memory grows with
 * the distinct stacks, not with the file.  OK, also with bad lines; NOMEM; IO:
 * errno is of the read that failed. */
enum result profile_read(struct profile *p, FILE *file,
                         struct profile_reading *r);

/* ---- the parts of a stack ---- */

/* What the outermost frames of all stacks have in common decides whether they
 * are split by process, thread or VM: such frames are `name/NUMBER`,
 * `VM NUMBER`, `no VM` or `name/NUMBER VM NUMBER` in every stack. */
struct profile_shape {
  size_t roots; /* frames of every stack in front of its zones */
};
struct profile_shape profile_shape_of(const struct profile *p);
/* Where the zones of a stack end, an index of its frames: at `_start`,
 * `[thread start]`, `[partial]` or `[truncated]`, else at the first Lua frame
 * or builtin; where there is none of them a stack has no zones. */
size_t profile_zones_end(const struct profile *p, struct profile_shape shape,
                         const struct profile_stack *s);
/* Length of a frame's text without the VM state (`_[N]`) at its end; *state is
 * its letter, or 0.  A text that is nothing else has the length 0. */
size_t profile_frame_split(const char *text, char *state);
/* `name (file:12)`, `name (file:?)`, `main chunk (file)`, by the text without
 * state. */
bool profile_frame_is_lua(const char *text, size_t len);

/* ---- categories ---- */

struct categories;

struct categories *categories_new(void); /* NULL: no memory */
void categories_free(struct categories *c);
/* Adds the rules of a text behind those that there are; the first category with
 * a rule that fits a stack is its category.  Lines:
 *   name:                    begins a category, a known name goes on with it
 *     where pattern...       where: self (the innermost frame), any (any
 * frame), lua (the innermost Lua frame), state (its letter) self and any are
 * about native frames, builtins and [marks] only.  In patterns
 * `*` stands for any text, `?` for any character; `#` begins a comment.
 * OK, NOMEM, or USAGE: *e names the line and what is wrong. */
enum result categories_add(struct categories *c, const char *text, size_t len,
                           struct error *e);
/* The rules that this program brings (share/categories.txt). */
const char *categories_default(size_t *len);

/* ---- summaries ---- */

struct summary_row {
  const char *text;
  uint64_t self, total; /* self: of its own; total: with what is below it */
};

struct summary_table {
  struct summary_row *row; /* by self, most first, then text (byte order) */
  size_t count;
};

struct summary {
  uint64_t weight;
  size_t stacks;
  /* Frames that are neither roots nor zones, without VM state.  The self part
   * of a stack is its innermost frame, [idle] left out. */
  struct summary_table functions;
  struct summary_table zones;      /* paths; "" stands for no zone */
  struct summary_table states;     /* letters; "" stands for none */
  struct summary_table categories; /* "" stands for none that fits */
  struct interner *texts;
};

/* zone: only stacks whose zone path starts with it; NULL: all.  c may have no
 * rules.  OK or NOMEM; summary_free in both cases. */
enum result summary_make(struct summary *s, const struct profile *p,
                         const struct categories *c, const char *zone);
void summary_free(struct summary *s);
/* Orders a table by total, most first, then text. */
void summary_sort_by_total(struct summary_table *t);

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
