/* SPDX-License-Identifier: MIT
 *
 * From owners of machine instructions to bytecodes, lines and functions.
 */
#include <stdlib.h>
#include <string.h>

#include "lines/lines_internal.h"

struct map {
  struct lines_map pub;
  struct lines_place *place;
  struct lines_event *event;
  uint32_t *outer;    /* event of the call that an event is in */
  uint32_t *home;     /* itself, or for a builtin its caller */
  uint32_t *from_ref; /* ascending, unlike the events' own */
};

/* Probabilities of an instruction's events; more than so many that count
 * cannot be (align.c, OWNER) unless none of them matters. */
enum { CHOICES = 32 };
struct choices {
  uint32_t n, event[CHOICES];
  float p[CHOICES];
  float entry, end, loop;
};

/* A builtin runs within the call that was recorded just before, also where that
 * was a tail call, whose frame is gone. */
static uint32_t builtin_outer(const struct map *m, uint32_t i)
{
  if (!i)
    return LINES_NO_EVENT;
  bool within = m->event[i - 1].proto != LINES_NO_PROTO ||
                m->event[i - 1].depth < m->event[i].depth;
  return within ? i - 1 : m->outer[i - 1];
}

/* The calls around each event: the last event at each smaller depth that has
 * not been returned from. */
static bool nest(struct map *m)
{
  uint32_t n = m->pub.nevent, open = 0;
  uint32_t *stack = malloc((n + 1) * sizeof *stack);
  if (!stack)
    return false;
  for (uint32_t i = 0; i < n; i++) {
    while (open && m->event[stack[open - 1]].depth >= m->event[i].depth)
      open--;
    m->outer[i] = open ? stack[open - 1] : LINES_NO_EVENT;
    if (m->event[i].proto == LINES_NO_PROTO)
      m->outer[i] = builtin_outer(m, i);
    stack[open++] = i;
  }
  free(stack);
  return true;
}

/* A builtin's line is its caller's. */
static void find_homes(struct map *m)
{
  for (uint32_t i = 0; i < m->pub.nevent; i++) {
    uint32_t at = i;
    while (at != LINES_NO_EVENT && m->event[at].proto == LINES_NO_PROTO)
      at = m->outer[at];
    if (at == LINES_NO_EVENT) /* entered from where the trace began */
      at = i ? m->home[i - 1] : i;
    m->home[i] = at;
  }
}

/* Recording can go back to a smaller reference when an unrolled loop is undone
 * (lj_opt_loop.c, loop_undo): what was recorded above it is gone. */
static void order_refs(struct map *m)
{
  uint32_t least = UINT32_MAX;
  for (uint32_t i = m->pub.nevent; i-- > 0;) {
    if (m->event[i].ref < least)
      least = m->event[i].ref;
    m->from_ref[i] = least;
  }
}

/* The last event that may have used ref first. */
static uint32_t event_of(const struct map *m, uint32_t ref)
{
  uint32_t lo = 0, hi = m->pub.nevent;
  while (hi - lo > 1) {
    uint32_t mid = (lo + hi) / 2;
    if (m->from_ref[mid] > ref)
      hi = mid;
    else
      lo = mid;
  }
  return lo;
}

static void choose(struct choices *c, uint32_t event, float p)
{
  uint32_t i = 0;
  while (i < c->n && c->event[i] != event)
    i++;
  if (i == CHOICES)
    return;
  if (i == c->n) {
    c->event[c->n++] = event;
    c->p[i] = 0;
  }
  c->p[i] += p;
}

static void collect(const struct map *m, const struct lines_parts *p,
                    const uint16_t *copy_of, const struct lines_alignment *a,
                    uint32_t insn, struct choices *c)
{
  *c = (struct choices){0};
  for (uint32_t at = a->first[insn]; at; at = a->owner[at - 1].next) {
    const struct lines_owner *o = &a->owner[at - 1];
    uint32_t ref = o->ref, index = ref - LINES_REF_BIAS;
    if (ref == LINES_OWNER_HEAD) {
      c->entry += o->p;
      choose(c, 0, o->p);
      continue;
    }
    if (ref == LINES_OWNER_TAIL) {
      c->end += o->p;
      choose(c, m->pub.nevent - 1, o->p);
      continue;
    }
    if (p->loop && index > p->loop) {
      c->loop += o->p;
      ref = copy_of ? copy_of[index] : 0;
    }
    if (ref)
      choose(c, event_of(m, ref), o->p);
  }
}

static bool same_function(const struct map *m, uint32_t a, uint32_t b)
{
  return m->event[m->home[a]].proto == m->event[m->home[b]].proto;
}

static bool same_line(const struct map *m, uint32_t a, uint32_t b)
{
  const struct lines_event *x = &m->event[m->home[a]];
  const struct lines_event *y = &m->event[m->home[b]];
  if (!same_function(m, a, b))
    return false;
  return x->line && y->line ? x->line == y->line : x->pc == y->pc;
}

/* The likeliest event among those that are the same as the likeliest sum. */
static uint32_t likeliest(const struct map *m, const struct choices *c,
                          bool (*same)(const struct map *, uint32_t, uint32_t),
                          float *conf)
{
  uint32_t best = 0;
  float best_sum = 0;
  for (uint32_t i = 0; i < c->n; i++) {
    float sum = 0;
    for (uint32_t j = 0; j < c->n; j++)
      if (same(m, c->event[i], c->event[j]))
        sum += c->p[j];
    bool of_best = same(m, c->event[i], c->event[best]);
    if (of_best ? c->p[i] > c->p[best] || !best_sum : sum > best_sum) {
      best = i;
      best_sum = sum;
    }
  }
  *conf = best_sum > 1 ? 1 : best_sum;
  return c->event[best];
}

static void settle(const struct map *m, const struct choices *c,
                   struct lines_place *out)
{
  out->event = out->fn_event = LINES_NO_EVENT;
  if (!c->n)
    return;
  out->event = likeliest(m, c, same_line, &out->line_conf);
  out->fn_event = likeliest(m, c, same_function, &out->fn_conf);
  if (c->entry > .5f)
    out->flags |= LINES_ENTRY;
  if (c->end > .5f)
    out->flags |= LINES_EXIT;
  if (c->loop > .5f)
    out->flags |= LINES_LOOP;
  if (m->event[out->event].proto == LINES_NO_PROTO)
    out->flags |= LINES_BUILTIN;
}

static struct map *map_alloc(const struct lines_parts *p,
                             const struct lines_event *event, uint32_t nevent)
{
  struct map *m = calloc(1, sizeof *m);
  if (!m)
    return NULL;
  m->place = calloc(p->ninsn, sizeof *m->place);
  m->event = malloc(nevent * sizeof *m->event);
  m->outer = malloc(3 * nevent * sizeof *m->outer);
  if (!m->place || !m->event || !m->outer) {
    lines_map_free(&m->pub);
    return NULL;
  }
  m->home = m->outer + nevent;
  m->from_ref = m->home + nevent;
  memcpy(m->event, event, nevent * sizeof *m->event);
  m->pub.place = m->place;
  m->pub.nplace = p->ninsn;
  m->pub.szmcode = p->t->szmcode;
  m->pub.event = m->event;
  m->pub.nevent = nevent;
  return m;
}

static enum result fill(struct lines_model *model, struct map *m,
                        const struct lines_parts *p)
{
  struct lines_alignment a = {0};
  struct choices c;
  uint16_t *copy_of;
  enum result r = lines_loop_map(p, &copy_of);
  if (r == RESULT_FULL)
    r = RESULT_OK; /* too long: the loop's places stay without an event */
  if (r == RESULT_OK)
    r = lines_align(model, p, &a);
  for (uint32_t i = 0; r == RESULT_OK && i < p->ninsn; i++) {
    collect(m, p, copy_of, &a, i, &c);
    m->place[i].ofs = p->insn[i].ofs;
    settle(m, &c, &m->place[i]);
  }
  if (r == RESULT_OK && a.fit < LINES_MIN_FIT)
    r = RESULT_CORRUPT;
  m->pub.regions = a.regions;
  m->pub.infeasible = a.infeasible;
  m->pub.fit = a.fit;
  free(copy_of);
  lines_alignment_free(&a);
  return r;
}

enum result lines_map_make(struct lines_model *model,
                           const struct lines_parts *p,
                           const struct lines_event *event, uint32_t nevent,
                           struct lines_map **out, struct error *e)
{
  struct map *m = map_alloc(p, event, nevent);
  enum result r = RESULT_NOMEM;
  if (m && nest(m)) {
    find_homes(m);
    order_refs(m);
    r = fill(model, m, p);
  }
  if (r == RESULT_OK) {
    *out = &m->pub;
    return r;
  }
  if (m)
    lines_map_free(&m->pub);
  return error_set(e, r, "trace %u: %s", p->t->traceno,
                   r == RESULT_CORRUPT ? "its code is not what its IR becomes"
                                       : "no memory for its lines");
}

void lines_map_free(struct lines_map *map)
{
  struct map *m = (struct map *)map;
  if (!m)
    return;
  free(m->place);
  free(m->event);
  free(m->outer);
  free(m);
}

const struct lines_place *lines_map_at(const struct lines_map *map,
                                       uint64_t ofs)
{
  uint32_t lo = 0, hi = map->nplace;
  while (hi - lo > 1) {
    uint32_t mid = (lo + hi) / 2;
    if (map->place[mid].ofs > ofs)
      hi = mid;
    else
      lo = mid;
  }
  return ofs < map->szmcode ? &map->place[lo] : NULL;
}

enum lines_level lines_place_level(const struct lines_map *map,
                                   const struct lines_place *p)
{
  if (!p || p->event == LINES_NO_EVENT)
    return LINES_LEVEL_TRACE;
  bool path = !map->inferred || map->anchors_held == map->anchors;
  if (p->line_conf >= LINES_SHOWN && path)
    return LINES_LEVEL_LINE;
  return p->fn_conf >= LINES_SHOWN ? LINES_LEVEL_FUNCTION : LINES_LEVEL_TRACE;
}

size_t lines_map_chain(const struct lines_map *map, uint32_t event,
                       uint32_t *out, size_t max)
{
  const struct map *m = (const struct map *)map;
  size_t n = 0, at;
  if (event >= map->nevent)
    return 0;
  for (uint32_t i = event; i != LINES_NO_EVENT; i = m->outer[i])
    n++;
  at = n;
  size_t left_out = n > max ? n - max : 0;
  for (uint32_t i = event; at > left_out; i = m->outer[i])
    out[--at - left_out] = i;
  return n;
}
