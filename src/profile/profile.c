/* SPDX-License-Identifier: MIT
 *
 * Stacks stand in one array in the order of their first sample; a table, at
 * most half full, finds them by their frames.
 */
#define _GNU_SOURCE /* qsort_r */
#include "profile/profile.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"
#include "util/idmap.h"

#define FIRST_SLOTS 256u

struct profile {
  struct interner *frames;
  struct profile_stack *stack;
  size_t count, cap;
  uint32_t *slot; /* index + 1; 0: free */
  size_t slots;   /* a power of two */
  size_t newest;  /* that was added to last */
  uint64_t weight;
  struct profile_stack *sorted;
  struct idmap renamed; /* frame to frame */
  void *companion;
  void (*companion_end)(void *companion);
};

struct profile *profile_new(void)
{
  struct profile *p = calloc(1, sizeof *p);
  if (!p)
    return NULL;
  p->slots = FIRST_SLOTS;
  p->slot = calloc(p->slots, sizeof *p->slot);
  p->frames = interner_new();
  if (!p->slot || !p->frames) {
    profile_free(p);
    return NULL;
  }
  return p;
}

void profile_free(struct profile *p)
{
  if (!p)
    return;
  profile_set_companion(p, NULL, NULL);
  for (size_t i = 0; i < p->count; i++)
    free((void *)p->stack[i].frame);
  free(p->stack);
  free(p->sorted);
  free(p->slot);
  idmap_free(&p->renamed);
  interner_free(p->frames);
  free(p);
}

struct interner *profile_frames(struct profile *p)
{
  return p->frames;
}

static size_t bytes_of(size_t count)
{
  return count * sizeof(uint32_t);
}

/* Where the stack stands, or the free slot where it would. */
static size_t find_slot(const struct profile *p, const uint32_t *frame,
                        size_t count)
{
  size_t mask = p->slots - 1;
  size_t i = hash_words(frame, bytes_of(count)) & mask;
  for (; p->slot[i]; i = (i + 1) & mask) {
    const struct profile_stack *s = &p->stack[p->slot[i] - 1];
    if (s->count == count && !memcmp(s->frame, frame, bytes_of(count)))
      break;
  }
  return i;
}

static bool grow_slots(struct profile *p)
{
  size_t slots = p->slots * 2;
  uint32_t *slot = calloc(slots, sizeof *slot);
  if (!slot)
    return false;
  free(p->slot);
  p->slot = slot;
  p->slots = slots;
  for (size_t i = 0; i < p->count; i++)
    p->slot[find_slot(p, p->stack[i].frame, p->stack[i].count)] =
        (uint32_t)i + 1;
  return true;
}

static bool grow_stacks(struct profile *p)
{
  size_t cap = p->cap ? p->cap * 2 : FIRST_SLOTS / 2;
  struct profile_stack *stack = realloc(p->stack, cap * sizeof *stack);
  if (!stack)
    return false;
  p->stack = stack;
  p->cap = cap;
  return true;
}

/* A new stack of weight 0. */
static enum result append(struct profile *p, const uint32_t *frame,
                          size_t count)
{
  if (p->count >= UINT32_MAX - 1)
    return RESULT_NOMEM;
  if (p->count == p->cap && !grow_stacks(p))
    return RESULT_NOMEM;
  if (p->count * 2 >= p->slots && !grow_slots(p))
    return RESULT_NOMEM;
  uint32_t *copy = malloc(bytes_of(count ? count : 1));
  if (!copy)
    return RESULT_NOMEM;
  if (count)
    memcpy(copy, frame, bytes_of(count));
  size_t i = find_slot(p, frame, count);
  p->stack[p->count] = (struct profile_stack){copy, count, 0};
  p->slot[i] = (uint32_t)++p->count;
  return RESULT_OK;
}

enum result profile_add(struct profile *p, const uint32_t *frame, size_t count,
                        uint64_t weight)
{
  static const uint32_t none[1];
  if (!count)
    frame = none;
  size_t i = find_slot(p, frame, count);
  size_t index = p->slot[i] ? p->slot[i] - 1 : p->count;
  if (index == p->count) {
    enum result r = append(p, frame, count);
    if (r != RESULT_OK)
      return r;
  }
  p->newest = index;
  profile_add_again(p, index, weight);
  return RESULT_OK;
}

size_t profile_newest(const struct profile *p)
{
  return p->newest;
}

void profile_add_again(struct profile *p, size_t stack, uint64_t weight)
{
  if (stack >= p->count)
    return;
  p->stack[stack].weight += weight;
  p->weight += weight;
}

size_t profile_stack_count(const struct profile *p)
{
  return p->count;
}

const struct profile_stack *profile_stack_at(const struct profile *p,
                                             size_t stack)
{
  return stack < p->count ? &p->stack[stack] : NULL;
}

uint64_t profile_weight(const struct profile *p)
{
  return p->weight;
}

/* ---- order ---- */

/* One stack's text, byte by byte, as if its frames were joined with ';'. */
struct reader {
  const struct profile *p;
  const struct profile_stack *s;
  size_t frame;
  const char *at;
};

static void reader_open(struct reader *r, const struct profile *p,
                        const struct profile_stack *s)
{
  *r = (struct reader){.p = p, .s = s, .at = ""};
  if (s->count)
    r->at = profile_frame_text(p, s->frame[0]);
}

static int reader_next(struct reader *r)
{
  if (*r->at)
    return (unsigned char)*r->at++;
  if (r->frame + 1 >= r->s->count)
    return -1;
  r->at = profile_frame_text(r->p, r->s->frame[++r->frame]);
  return ';';
}

/* Equal first frames need no look at their bytes. */
static void skip_common(struct reader *x, struct reader *y)
{
  while (x->frame + 1 < x->s->count && y->frame + 1 < y->s->count &&
         x->s->frame[x->frame] == y->s->frame[y->frame]) {
    x->at = profile_frame_text(x->p, x->s->frame[++x->frame]);
    y->at = profile_frame_text(y->p, y->s->frame[++y->frame]);
  }
}

static int compare(const void *a, const void *b, void *ctx)
{
  const struct profile *p = ctx;
  const struct profile_stack *s = a, *t = b;
  if (s->weight != t->weight)
    return s->weight < t->weight ? 1 : -1;
  struct reader x, y;
  reader_open(&x, p, s);
  reader_open(&y, p, t);
  skip_common(&x, &y);
  int cx, cy;
  do {
    cx = reader_next(&x);
    cy = reader_next(&y);
  } while (cx == cy && cx >= 0);
  return (cx > cy) - (cx < cy);
}

const struct profile_stack *profile_sorted(struct profile *p)
{
  if (!p->count)
    return NULL;
  struct profile_stack *sorted =
      realloc(p->sorted, p->count * sizeof *p->sorted);
  if (!sorted)
    return NULL;
  p->sorted = sorted;
  memcpy(sorted, p->stack, p->count * sizeof *sorted);
  qsort_r(sorted, p->count, sizeof *sorted, compare, p);
  return sorted;
}

/* ---- late names ---- */

enum result profile_rename(struct profile *p, uint32_t frame, const char *text)
{
  uint32_t id = interner_add_str(p->frames, text);
  if (id == INTERNER_NONE || !idmap_put(&p->renamed, frame, id))
    return RESULT_NOMEM;
  return RESULT_OK;
}

const char *profile_frame_text(const struct profile *p, uint32_t frame)
{
  uint32_t id = frame;
  idmap_get(&p->renamed, frame, &id);
  return interner_text(p->frames, id);
}

/* ---- companion ---- */

void *profile_companion(const struct profile *p)
{
  return p->companion;
}

void profile_set_companion(struct profile *p, void *companion,
                           void (*end)(void *companion))
{
  if (p->companion && p->companion_end)
    p->companion_end(p->companion);
  p->companion = companion;
  p->companion_end = end;
}
