/* SPDX-License-Identifier: MIT */
#include "lines/exercise.h"
#include "lines/fixture.h"

enum { CHAIN = 8 };

static const char *place_fault(const struct lines_map *map,
                               const struct lines_place *p)
{
  uint32_t chain[CHAIN];
  if (!(p->line_conf >= 0 && p->line_conf <= 1) ||
      !(p->fn_conf >= 0 && p->fn_conf <= 1))
    return "a confidence that is none";
  if (p->event == LINES_NO_EVENT)
    return p->line_conf > 0 || p->fn_conf > 0 ? "confidence in nothing" : NULL;
  if (p->event >= map->nevent || p->fn_event >= map->nevent)
    return "an event that there is not";
  size_t n = lines_map_chain(map, p->event, chain, CHAIN);
  if (!n || n > map->nevent)
    return "a chain that is too long or none";
  for (size_t i = 0; i < (n < CHAIN ? n : CHAIN); i++)
    if (chain[i] >= map->nevent)
      return "a chain through what there is not";
  if (chain[n < CHAIN ? n - 1 : CHAIN - 1] != p->event)
    return "a chain that ends elsewhere";
  return NULL;
}

static const char *map_fault(const struct lines_map *map, uint32_t szmcode)
{
  if (!map->nplace || !map->nevent || map->anchors_held > map->anchors ||
      map->infeasible > map->regions || !(map->fit >= LINES_MIN_FIT))
    return "figures that do not fit";
  for (uint32_t i = 0; i < map->nplace; i++) {
    const struct lines_place *p = &map->place[i];
    if (p->ofs >= szmcode || (i && p->ofs <= p[-1].ofs))
      return "places out of order";
    const char *fault = place_fault(map, p);
    if (fault)
      return fault;
  }
  return NULL;
}

static const char *look(enum result r, struct lines_map *map, uint32_t szmcode,
                        const struct error *e, struct exercise *count)
{
  const char *fault = NULL;
  if (r == RESULT_OK) {
    fault = map_fault(map, szmcode);
    count->mapped++;
    lines_map_free(map);
  } else {
    count->refused++;
    if (map || e->code != r || !*e->text)
      fault = "a failure without its reason";
  }
  return fault;
}

const char *exercise(struct lines_model *m, const uint8_t *data, size_t size,
                     struct exercise *count)
{
  struct fixture f = {0};
  struct lines_map *map;
  struct error e;
  const char *fault = NULL;
  FILE *in = size ? fmemopen((void *)data, size, "rb") : NULL;
  if (!in || !fixture_parse(in, &f))
    f.ntrace = f.trace ? f.ntrace : 0;
  else
    for (uint32_t i = 0; i < f.ntrace && !fault; i++) {
      struct lines_trace *t = &f.trace[i].t;
      t->has_mcofs = i % 4 != 3;
      t->gc64 = i % 3 != 2; /* then its snapshots are read otherwise */
      enum result r = lines_map_new(m, t, &map, &e);
      fault = look(r, map, t->szmcode, &e, count);
      if (!fault) {
        r = lines_map_infer(m, t, &f.code, &map, &e);
        fault = look(r, map, t->szmcode, &e, count);
      }
    }
  if (in)
    fclose(in);
  fixture_free(&f);
  return fault;
}
