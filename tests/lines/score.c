/* SPDX-License-Identifier: MIT */
#include "lines/score.h"

/* The event whose line a place shows: a builtin's caller. */
static const struct lines_event *shown(const struct lines_map *map,
                                       uint32_t event)
{
  uint32_t chain[256];
  size_t n = lines_map_chain(map, event, chain, 256);
  for (size_t i = n < 256 ? n : 256; i-- > 0;)
    if (map->event[chain[i]].proto != LINES_NO_PROTO)
      return &map->event[chain[i]];
  for (uint32_t i = event; i-- > 0;)
    if (map->event[i].proto != LINES_NO_PROTO)
      return &map->event[i];
  return NULL;
}

static bool same_line(const struct fixture *f, const struct lines_event *e,
                      const struct fixture_rec *r)
{
  return e && f->proto[e->proto].first == r->first && e->line == r->line;
}

/* The frames that the recorder saw and ours, both without builtins. */
static bool same_chain(const struct fixture *f, const struct fixture_trace *x,
                       const struct lines_map *map, uint32_t event,
                       uint32_t rec)
{
  uint32_t chain[256];
  size_t n = lines_map_chain(map, event, chain, 256);
  while (n-- > 0) {
    const struct lines_event *e = &map->event[chain[n]];
    if (e->proto == LINES_NO_PROTO)
      continue;
    if (rec == UINT32_MAX || !same_line(f, e, &x->rec[rec]))
      return false;
    rec = x->rec[rec].outer;
  }
  return rec == UINT32_MAX;
}

static void score_place(struct score *s, const struct fixture *f,
                        const struct fixture_trace *x,
                        const struct lines_map *map,
                        const struct fixture_truth *t)
{
  const struct lines_place *p = lines_map_at(map, t->ofs);
  const struct fixture_rec *r = &x->rec[t->rec];
  bool line = false, fn = false, chain = false;
  if (p && p->event != LINES_NO_EVENT) {
    const struct lines_event *e = shown(map, p->fn_event);
    line = same_line(f, shown(map, p->event), r);
    fn = e && f->proto[e->proto].first == r->first;
    chain = same_chain(f, x, map, p->event, t->rec);
  }
  s->n++;
  s->line += line;
  s->function += fn;
  s->chain += chain;
  s->hits += t->hits;
  s->hit_line += line ? t->hits : 0;
  s->hit_function += fn ? t->hits : 0;
  enum lines_level level = lines_place_level(map, p);
  if (level == LINES_LEVEL_LINE) {
    s->shown++;
    s->shown_right += line;
  }
  if (level <= LINES_LEVEL_FUNCTION) {
    s->shown_fn++;
    s->shown_fn_right += fn;
  }
}

void score_add(struct score *s, const struct fixture *f,
               const struct fixture_trace *x, const struct lines_map *map)
{
  for (uint32_t i = 0; i < x->ntruth; i++)
    score_place(s, f, x, map, &x->truth[i]);
}

void score_missing(struct score *s, const struct fixture_trace *x)
{
  s->n += x->ntruth;
  for (uint32_t i = 0; i < x->ntruth; i++)
    s->hits += x->truth[i].hits;
}

double score_percent(uint32_t part, uint32_t whole)
{
  return whole ? 100. * part / whole : 0;
}

void score_print(const struct score *s, FILE *out)
{
  fprintf(
      out,
      "%5u instructions: line %6.2f function %6.2f chain %6.2f; by time "
      "%6.2f %6.2f; shown %6.2f: right %6.2f; functions %6.2f: %6.2f",
      s->n, score_percent(s->line, s->n), score_percent(s->function, s->n),
      score_percent(s->chain, s->n), score_percent(s->hit_line, s->hits),
      score_percent(s->hit_function, s->hits), score_percent(s->shown, s->n),
      score_percent(s->shown_right, s->shown), score_percent(s->shown_fn, s->n),
      score_percent(s->shown_fn_right, s->shown_fn));
}
