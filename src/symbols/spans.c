/* SPDX-License-Identifier: MIT */
#include "symbols/symbols_internal.h"

#include <stdlib.h>

#define SPANS_MAX (1u << 26)

bool spans_add(struct spans *s, uint64_t start, uint64_t end, uint32_t index)
{
  if (end <= start)
    return true;
  if (s->count == s->cap) {
    size_t cap = s->cap == 0 ? 64 : s->cap * 2;
    void *p = cap > SPANS_MAX ? NULL : realloc(s->span, cap * sizeof *s->span);
    if (p == NULL)
      return false;
    s->span = p;
    s->cap = cap;
  }
  s->span[s->count++] = (struct span){start, end, index};
  return true;
}

/* Of one start the narrowest comes last. */
static int compare(const void *pa, const void *pb)
{
  const struct span *a = pa, *b = pb;

  if (a->start != b->start)
    return a->start < b->start ? -1 : 1;
  if (a->end != b->end)
    return a->end > b->end ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

bool spans_sort(struct spans *s)
{
  uint64_t max = 0;

  if (s->count == 0)
    return true;
  qsort(s->span, s->count, sizeof *s->span, compare);
  s->max_end = malloc(s->count * sizeof *s->max_end);
  if (s->max_end == NULL) {
    s->count = 0;
    return false;
  }
  for (size_t i = 0; i < s->count; i++) {
    if (s->span[i].end > max)
      max = s->span[i].end;
    s->max_end[i] = max;
  }
  return true;
}

const struct span *spans_find(const struct spans *s, uint64_t addr, size_t *at)
{
  size_t lo = 0, hi = *at < s->count ? *at : s->count;

  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (s->span[mid].start <= addr)
      lo = mid + 1;
    else
      hi = mid;
  }
  for (size_t i = lo; i > 0 && s->max_end[i - 1] > addr; i--) {
    if (addr < s->span[i - 1].end) {
      *at = i - 1;
      return &s->span[i - 1];
    }
  }
  *at = 0;
  return NULL;
}

void spans_free(struct spans *s)
{
  free(s->span);
  free(s->max_end);
  *s = (struct spans){0};
}
