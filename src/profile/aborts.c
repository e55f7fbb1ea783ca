/* SPDX-License-Identifier: MIT
 *
 * Trace aborts as data: rows, the samples of the functions they are in, order.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"

#define STATES 6
static const char states[STATES] = "NICGJ"; /* the last one: anything else */

/* Samples of one prototype. */
struct hot {
  uint32_t chunk; /* in texts */
  uint32_t firstline, numline;
  uint64_t pt;
  uint64_t samples[STATES];
};

struct aborts {
  struct interner *texts;
  struct interner *row_keys; /* ids index row */
  struct aborts_row *row;
  size_t rows, row_cap;
  struct interner *hot_keys; /* ids index hot */
  struct hot *hot;
  size_t hots, hot_cap;
  uint64_t samples;
  struct aborts_row *sorted;
};

struct aborts *aborts_new(void)
{
  struct aborts *a = calloc(1, sizeof *a);
  if (!a)
    return NULL;
  a->texts = interner_new();
  a->row_keys = interner_new();
  a->hot_keys = interner_new();
  if (!a->texts || !a->row_keys || !a->hot_keys) {
    aborts_free(a);
    return NULL;
  }
  return a;
}

void aborts_free(struct aborts *a)
{
  if (!a)
    return;
  interner_free(a->texts);
  interner_free(a->row_keys);
  interner_free(a->hot_keys);
  free(a->row);
  free(a->hot);
  free(a->sorted);
  free(a);
}

/* The array with room for one more element behind count; NULL: no memory, and
 * the array is as it was. */
static void *with_room(void *array, size_t *cap, size_t count, size_t size)
{
  if (count < *cap)
    return array;
  size_t more = *cap ? *cap * 2 : 64;
  void *grown = realloc(array, more * size);
  if (grown)
    *cap = more;
  return grown;
}

/* ---- rows ---- */

/* Equal keys are equal rows. */
static uint32_t row_key(struct aborts *a, const struct aborts_row *row,
                        const uint32_t text[3])
{
  uint32_t key[4] = {row->source, text[0], text[1], text[2]};
  return interner_add(a->row_keys, (const char *)key, sizeof key);
}

static void merge(struct aborts_row *into, const struct aborts_row *row)
{
  into->count += row->count;
  if (row->severity > into->severity)
    into->severity = row->severity;
  if (row->pt) { /* the newest one */
    into->pt = row->pt;
    into->firstline = row->firstline;
    into->numline = row->numline;
  }
}

static void append_row(struct aborts *a, const struct aborts_row *row,
                       const uint32_t text[3])
{
  struct aborts_row *r = &a->row[a->rows++];
  *r = *row;
  r->reason = interner_text(a->texts, text[0]);
  r->location = interner_text(a->texts, text[1]);
  r->zone = interner_text(a->texts, text[2]);
  r->cpu_percent = 0;
  r->state = 0;
}

enum result aborts_add(struct aborts *a, const struct aborts_row *row)
{
  uint32_t text[3] = {interner_add_str(a->texts, row->reason),
                      interner_add_str(a->texts, row->location),
                      interner_add_str(a->texts, row->zone)};
  for (int i = 0; i < 3; i++)
    if (text[i] == INTERNER_NONE)
      return RESULT_NOMEM;
  struct aborts_row *rows =
      with_room(a->row, &a->row_cap, a->rows, sizeof *rows);
  if (!rows)
    return RESULT_NOMEM;
  a->row = rows;
  uint32_t id = row_key(a, row, text);
  if (id == INTERNER_NONE)
    return RESULT_NOMEM;
  if (id == a->rows)
    append_row(a, row, text);
  else
    merge(&a->row[id], row);
  return RESULT_OK;
}

/* ---- samples ---- */

struct hot_key {
  uint64_t pt;
  uint32_t chunk, firstline, numline, zero;
};

static struct hot *hot_of(struct aborts *a, const struct hot_key *key)
{
  struct hot *hot = with_room(a->hot, &a->hot_cap, a->hots, sizeof *hot);
  if (!hot)
    return NULL;
  a->hot = hot;
  uint32_t id = interner_add(a->hot_keys, (const char *)key, sizeof *key);
  if (id == INTERNER_NONE)
    return NULL;
  if (id == a->hots)
    a->hot[a->hots++] = (struct hot){.chunk = key->chunk,
                                     .firstline = key->firstline,
                                     .numline = key->numline,
                                     .pt = key->pt};
  return &a->hot[id];
}

static unsigned state_index(char state)
{
  const char *at = state ? strchr(states, state) : NULL;
  return at ? (unsigned)(at - states) : STATES - 1;
}

enum result aborts_sample(struct aborts *a, const char *chunk, uint64_t pt,
                          uint32_t firstline, uint32_t numline, char state)
{
  a->samples++;
  if (!chunk)
    return RESULT_OK;
  struct hot_key key = {.pt = pt, .firstline = firstline, .numline = numline};
  key.chunk = interner_add_str(a->texts, chunk);
  struct hot *h = key.chunk == INTERNER_NONE ? NULL : hot_of(a, &key);
  if (!h)
    return RESULT_NOMEM;
  h->samples[state_index(state)]++;
  return RESULT_OK;
}

/* ---- the join ---- */

/* Is `file:line` in this chunk? */
static bool same_file(const char *location, const char *chunk)
{
  const char *colon = strrchr(location, ':');
  size_t len = colon ? (size_t)(colon - location) : strlen(location);
  return strlen(chunk) == len && !memcmp(location, chunk, len);
}

static bool belongs(const struct aborts *a, const struct aborts_row *row,
                    const struct hot *h)
{
  if (h->firstline != row->firstline || h->numline != row->numline)
    return false;
  return h->pt == row->pt ||
         same_file(row->location, interner_text(a->texts, h->chunk));
}

static void join_row(const struct aborts *a, struct aborts_row *row)
{
  uint64_t samples[STATES] = {0}, sum = 0;
  unsigned most = 0;
  for (size_t i = 0; row->pt && i < a->hots; i++) {
    bool ours = belongs(a, row, &a->hot[i]);
    for (unsigned s = 0; ours && s < STATES; s++)
      samples[s] += a->hot[i].samples[s];
  }
  for (unsigned s = 0; s < STATES; s++) {
    sum += samples[s];
    if (samples[s] > samples[most])
      most = s;
  }
  row->cpu_percent =
      a->samples ? 100.0 * (double)sum / (double)a->samples : 0.0;
  row->state = sum ? states[most] : 0;
}

void aborts_join(struct aborts *a)
{
  for (size_t i = 0; i < a->rows; i++)
    join_row(a, &a->row[i]);
}

/* ---- order ---- */

static int by_count(const void *x, const void *y)
{
  const struct aborts_row *p = x, *q = y;
  if (p->severity != q->severity)
    return p->severity < q->severity ? 1 : -1;
  if (p->count != q->count)
    return p->count < q->count ? 1 : -1;
  int order = strcmp(p->reason, q->reason);
  if (!order)
    order = strcmp(p->location, q->location);
  if (!order)
    order = strcmp(p->zone, q->zone);
  return order ? order : (int)p->source - (int)q->source;
}

static int by_percent(const void *x, const void *y)
{
  const struct aborts_row *p = x, *q = y;
  if (p->severity == q->severity && p->cpu_percent != q->cpu_percent)
    return p->cpu_percent < q->cpu_percent ? 1 : -1;
  return by_count(x, y);
}

enum result aborts_sorted(struct aborts *a, bool by_cost,
                          const struct aborts_row **row, size_t *count)
{
  size_t bytes = (a->rows + 1) * sizeof *a->sorted;
  struct aborts_row *sorted = realloc(a->sorted, bytes);
  if (!sorted)
    return RESULT_NOMEM;
  a->sorted = sorted;
  *row = sorted;
  *count = a->rows;
  if (!a->rows)
    return RESULT_OK;
  memcpy(sorted, a->row, a->rows * sizeof *sorted);
  qsort(sorted, a->rows, sizeof *sorted, by_cost ? by_percent : by_count);
  return RESULT_OK;
}
