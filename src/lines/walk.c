/* SPDX-License-Identifier: MIT
 *
 * Positions, states and constants.
 */
#include <stdlib.h>
#include <string.h>

#include "lines/path_internal.h"

enum { POSITIONS_MAX = 1 << 22, GROWN_MAX = 1 << 20 };
enum { SNAP_CONT = 0x020000 /* lj_jit.h */ };
#define ADDRESS ((UINT64_C(1) << 47) - 1) /* in a GC64 tagged value */

static int by_address(const void *a, const void *b, void *protos)
{
  const struct lines_proto *p = protos;
  uint64_t x = p[*(const uint32_t *)a].bcaddr;
  uint64_t y = p[*(const uint32_t *)b].bcaddr;
  return (x > y) - (x < y);
}

static bool lay_out(struct lines_walk *w)
{
  const struct lines_code *c = w->code;
  uint64_t at = 1;
  for (uint32_t i = 0; i < c->nproto; i++)
    w->order[i] = i;
  qsort_r(w->order, c->nproto, sizeof *w->order, by_address, (void *)c->proto);
  for (uint32_t i = 0; i < c->nproto; i++) {
    w->first[i] = (uint32_t)at;
    at += c->proto[w->order[i]].nbc;
    if (at > POSITIONS_MAX)
      return false;
  }
  w->npos = (uint32_t)at;
  return true;
}

/* The last of n ascending values that is not above v; n: none. */
static uint32_t last_below(const uint32_t *value, uint32_t n, uint32_t v)
{
  uint32_t lo = 0, hi = n;
  while (hi > lo) {
    uint32_t mid = (lo + hi) / 2;
    if (value[mid] <= v)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo ? lo - 1 : n;
}

uint32_t lines_walk_pos(const struct lines_walk *w, uint64_t addr)
{
  uint32_t lo = 0, hi = w->code->nproto;
  while (hi > lo) {
    uint32_t mid = (lo + hi) / 2;
    if (w->code->proto[w->order[mid]].bcaddr <= addr)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (!lo)
    return 0;
  const struct lines_proto *p = &w->code->proto[w->order[lo - 1]];
  uint64_t ofs = addr - p->bcaddr;
  return ofs % 4 || ofs / 4 >= p->nbc ? 0
                                      : w->first[lo - 1] + (uint32_t)(ofs / 4);
}

const struct lines_proto *lines_walk_proto(const struct lines_walk *w,
                                           uint32_t pos, uint32_t *index)
{
  uint32_t i = last_below(w->first, w->code->nproto, pos);
  if (!pos || pos >= w->npos || i == w->code->nproto)
    return NULL;
  /* prototypes without bytecode share their position with the next one */
  *index = pos - w->first[i];
  return &w->code->proto[w->order[i]];
}

/* Makes room for one more. */
static bool grow(struct lines_walk *w, void **array, size_t size, uint32_t n,
                 uint32_t *cap)
{
  if (n < *cap)
    return true;
  uint32_t more = *cap ? *cap * 2 : 256;
  void *to = more > GROWN_MAX ? NULL : realloc(*array, more * size);
  if (!to) {
    w->failed = true;
    return false;
  }
  *array = to;
  *cap = more;
  return true;
}

uint32_t lines_walk_frame(struct lines_walk *w, uint32_t ret, uint32_t parent)
{
  uint64_t key = (uint64_t)ret << 32 | parent;
  uint32_t id;
  if (idmap_get(&w->frames, key, &id))
    return id;
  if (!grow(w, (void **)&w->frame, sizeof *w->frame, w->nframe, &w->frame_cap))
    return 0;
  w->frame[w->nframe] =
      (struct lines_frame){ret, parent, w->frame[parent].depth + 1};
  if (!idmap_put(&w->frames, key, w->nframe)) {
    w->failed = true;
    return 0;
  }
  return w->nframe++;
}

uint32_t lines_walk_state(struct lines_walk *w, uint32_t pos, uint32_t frame)
{
  uint64_t key = (uint64_t)pos << 32 | frame;
  uint32_t id;
  if (idmap_get(&w->states, key, &id))
    return id;
  if (!grow(w, (void **)&w->state, sizeof *w->state, w->nstate, &w->state_cap))
    return 0;
  w->state[w->nstate] = (struct lines_state){pos, frame, 0, UINT32_MAX};
  if (!idmap_put(&w->states, key, w->nstate)) {
    w->failed = true;
    return 0;
  }
  return w->nstate++;
}

static bool is_number(unsigned op)
{
  return op == LINES_OP_KNUM || op == LINES_OP_KINT64;
}

static bool is_address(unsigned op)
{
  return op == LINES_OP_KGC || op == LINES_OP_KPTR || op == LINES_OP_KKPTR;
}

/* Eight bytes behind the instruction, or an address within it, without GC64
 * (lj_ir.h, IRIns).  2.0 has numbers elsewhere. */
uint64_t lines_walk_const(const struct lines_walk *w, uint32_t ref,
                          unsigned *op)
{
  const struct lines_trace *t = w->p->t;
  uint8_t ops[LINES_OP_COUNT];
  uint64_t value = 0;
  *op = LINES_OP_NOP;
  if (ref < t->nk || ref + 1 >= LINES_REF_BIAS)
    return 0;
  const uint8_t *at = t->ir + (size_t)(ref - t->nk) * 8;
  unsigned n = lines_ops(t->irset, ops);
  *op = at[5] < n ? ops[at[5]] : LINES_OP_NOP;
  if (is_number(*op) && t->irset == LINES_IR_20)
    *op = LINES_OP_NOP;
  if (is_number(*op) || (is_address(*op) && t->gc64))
    memcpy(&value, at + 8, 8);
  else if (is_address(*op))
    memcpy(&value, at, 4);
  return *op == LINES_OP_KGC ? value & ADDRESS : value;
}

bool lines_walk_callee(const struct lines_walk *w, uint64_t addr, uint32_t *pos)
{
  const struct lines_code *c = w->code;
  *pos = 0;
  for (uint32_t i = 0; i < c->nfunc; i++)
    if (c->func[i].addr == addr) {
      if (c->func[i].proto < c->nproto)
        *pos = lines_walk_pos(w, c->proto[c->func[i].proto].bcaddr);
      return true;
    }
  for (uint32_t i = 0; i < c->nproto; i++)
    if (c->proto[i].addr == addr || c->proto[i].bcaddr == addr) {
      *pos = lines_walk_pos(w, c->proto[i].bcaddr);
      return *pos != 0;
    }
  return false;
}

static void add_once(uint32_t *list, uint32_t *n, uint32_t v)
{
  for (uint32_t i = 0; i < *n; i++)
    if (list[i] == v)
      return;
  list[(*n)++] = v;
}

/* Functions among the constants may be entered; a guarded return names where
 * it goes (lj_record.c, lj_record_ret: IR_RETF). */
static void find_places(struct lines_walk *w)
{
  const struct lines_trace *t = w->p->t;
  uint32_t pos;
  unsigned op;
  for (uint32_t ref = t->nk; ref < LINES_REF_BIAS; ref++) {
    uint64_t v = lines_walk_const(w, ref, &op);
    if (v && lines_walk_callee(w, v, &pos) && pos)
      add_once(w->entry, &w->nentry, pos);
  }
  for (uint32_t i = 0; i < w->p->nir; i++) {
    if (w->p->ir[i].op != LINES_OP_RETF)
      continue;
    pos = lines_walk_pos(w, lines_walk_const(w, w->p->ir[i].op2, &op));
    if (pos)
      add_once(w->back, &w->nback, pos);
  }
}

/* Continuations are in a snapshot that was taken in a metamethod. */
static bool has_conts(const struct lines_trace *t)
{
  for (uint32_t i = 0; i < t->nsnap; i++) {
    const struct lines_snap *s = &t->snap[i];
    if (s->mapofs > t->nsnapmap || s->nent > t->nsnapmap - s->mapofs)
      continue;
    for (uint32_t k = 0; k < s->nent; k++)
      if (t->snapmap[s->mapofs + k] & SNAP_CONT)
        return true;
  }
  return false;
}

enum result lines_walk_open(struct lines_walk *w, struct error *e)
{
  size_t n = (size_t)w->code->nproto + 1;
  w->nbc = lines_bcs(w->code->bcset, w->bc);
  if (!w->nbc)
    return error_set(e, RESULT_UNSUPPORTED, "no such set of bytecodes: %d",
                     (int)w->code->bcset);
  w->order = calloc(n, sizeof *w->order);
  w->first = calloc(n, sizeof *w->first);
  w->entry = calloc(n, sizeof *w->entry);
  w->back = calloc(w->p->nir, sizeof *w->back);
  if (!w->order || !w->first || !w->entry || !w->back || !lay_out(w) ||
      !grow(w, (void **)&w->frame, sizeof *w->frame, 0, &w->frame_cap))
    return error_set(e, RESULT_NOMEM, "no memory for the path of trace %u",
                     w->p->t->traceno);
  w->frame[w->nframe++] = (struct lines_frame){0};
  find_places(w);
  w->conts = has_conts(w->p->t);
  return RESULT_OK;
}

void lines_walk_close(struct lines_walk *w)
{
  free(w->order);
  free(w->first);
  free(w->entry);
  free(w->back);
  free(w->state);
  free(w->frame);
  free(w->step);
  idmap_free(&w->states);
  idmap_free(&w->frames);
}
