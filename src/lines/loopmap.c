/* SPDX-License-Identifier: MIT
 *
 * Loop unrolling copies the instructions in front of LOOP to behind it,
 * leaving out what does not change and folding what now can be
 * (lj_opt_loop.c, loop_unroll).  A copy keeps its opcode and the order, and its
 * operands are the copies of the operands: the best such pairing is found by
 * dynamic programming, three times, each time with the operands' copies as the
 * last time found.
 */
#include <stdlib.h>
#include <string.h>

#include "lines/lines_internal.h"

enum { CELLS_MAX = 1 << 24, ROUNDS = 3 };
enum step { SKIP_PRE = 1, SKIP_LOOP, PAIR };

struct pairing {
  const struct lines_parts *p;
  uint32_t loop_ref;
  uint32_t *pre, *copy; /* references */
  uint32_t n, m;
  double *now, *later; /* a row each */
  uint8_t *step;       /* n * m */
  uint16_t *map;       /* by index in parts' ir: of the last round, 0: none */
  bool first;          /* round */
};

static bool is_paired(unsigned op, bool copy)
{
  return op != LINES_OP_NOP && op != LINES_OP_RENAME &&
         op != (copy ? LINES_OP_PHI : LINES_OP_BASE);
}

static bool is_commutative(unsigned op)
{
  switch (op) {
  case LINES_OP_ADD:
  case LINES_OP_MUL:
  case LINES_OP_EQ:
  case LINES_OP_NE:
  case LINES_OP_MIN:
  case LINES_OP_MAX:
  case LINES_OP_BAND:
  case LINES_OP_BOR:
  case LINES_OP_BXOR:
    return true;
  default:
    return false;
  }
}

/* How well b is what a becomes in the copy. */
static double operand(const struct pairing *g, uint32_t a, uint32_t b)
{
  const uint32_t bias = LINES_REF_BIAS;
  if (a < bias && b < bias)
    return a == b ? 1.0 : -1.5;
  if (a < bias || b < bias)
    return -.3;
  if (b > g->loop_ref) {
    uint32_t of = b - bias < g->p->nir ? g->map[b - bias] : 0;
    if (!of)
      return g->first ? .2 : -.2;
    return of == a ? 1.2 : -.4;
  }
  if (a == b)
    return 1.0;
  const struct lines_ir *x = lines_parts_ir(g->p, a);
  return !g->first || (x && x->op == LINES_OP_SLOAD) ? .2 : -.3;
}

static double pair(const struct pairing *g, const struct lines_ir *x,
                   const struct lines_ir *y)
{
  double s = x->irt == y->irt ? 2.0 : 1.0;
  double direct = operand(g, x->op1, y->op1) + operand(g, x->op2, y->op2);
  if (x->guard == y->guard)
    s += .3;
  if (is_commutative(x->op)) {
    double crossed = operand(g, x->op1, y->op2) + operand(g, x->op2, y->op1);
    direct = crossed > direct ? crossed : direct;
  }
  return s + direct;
}

static void fill(struct pairing *g)
{
  memset(g->later, 0, (g->m + 1) * sizeof *g->later);
  for (uint32_t a = g->n; a-- > 0;) {
    const struct lines_ir *x = lines_parts_ir(g->p, g->pre[a]);
    uint8_t *step = g->step + (size_t)a * g->m;
    g->now[g->m] = 0;
    for (uint32_t b = g->m; b-- > 0;) {
      const struct lines_ir *y = lines_parts_ir(g->p, g->copy[b]);
      double best = g->later[b], skip = g->now[b + 1] - .5;
      step[b] = SKIP_PRE;
      if (skip > best) {
        best = skip;
        step[b] = SKIP_LOOP;
      }
      if (x->op == y->op) {
        double s = pair(g, x, y);
        if (s > 0 && g->later[b + 1] + s > best) {
          best = g->later[b + 1] + s;
          step[b] = PAIR;
        }
      }
      g->now[b] = best;
    }
    double *row = g->now;
    g->now = g->later;
    g->later = row;
  }
}

/* Follows the best steps; true when they pair as the last round did. */
static bool follow(struct pairing *g, uint16_t *map)
{
  uint32_t a = 0, b = 0;
  memset(map, 0, g->p->nir * sizeof *map);
  while (a < g->n && b < g->m) {
    switch (g->step[(size_t)a * g->m + b]) {
    case PAIR:
      map[g->copy[b++] - LINES_REF_BIAS] = (uint16_t)g->pre[a++];
      break;
    case SKIP_PRE:
      a++;
      break;
    default:
      b++;
    }
  }
  bool same = !memcmp(map, g->map, g->p->nir * sizeof *map);
  memcpy(g->map, map, g->p->nir * sizeof *map);
  return same;
}

/* What was not paired was emitted for the same bytecode as what follows. */
static void complete(struct pairing *g)
{
  uint16_t near = 0;
  for (uint32_t b = g->m; b-- > 0;) {
    uint16_t *to = &g->map[g->copy[b] - LINES_REF_BIAS];
    near = *to ? *to : near;
    *to = near;
  }
  for (uint32_t b = 0; b < g->m; b++) {
    uint16_t *to = &g->map[g->copy[b] - LINES_REF_BIAS];
    near = *to ? *to : near;
    *to = near;
  }
}

static void collect(struct pairing *g)
{
  for (uint32_t i = 1; i < g->p->nir; i++) {
    if (i < g->p->loop && is_paired(g->p->ir[i].op, false))
      g->pre[g->n++] = LINES_REF_BIAS + i;
    if (i > g->p->loop && is_paired(g->p->ir[i].op, true))
      g->copy[g->m++] = LINES_REF_BIAS + i;
  }
}

static bool make_rows(struct pairing *g, uint16_t **scratch)
{
  if ((uint64_t)g->n * g->m > CELLS_MAX)
    return false;
  g->step = malloc((size_t)g->n * g->m + 1);
  g->now = malloc((g->m + 1) * sizeof *g->now);
  g->later = malloc((g->m + 1) * sizeof *g->later);
  *scratch = malloc(g->p->nir * sizeof **scratch);
  return g->step && g->now && g->later && *scratch;
}

enum result lines_loop_map(const struct lines_parts *p, uint16_t **out)
{
  struct pairing g = {.p = p, .loop_ref = LINES_REF_BIAS + p->loop};
  uint16_t *scratch = NULL;
  enum result r = RESULT_OK;
  *out = NULL;
  if (!p->loop)
    return RESULT_OK;
  g.pre = malloc(p->nir * sizeof *g.pre);
  g.copy = malloc(p->nir * sizeof *g.copy);
  g.map = calloc(p->nir, sizeof *g.map);
  if (!g.pre || !g.copy || !g.map) {
    r = RESULT_NOMEM;
    goto done;
  }
  collect(&g);
  if (!make_rows(&g, &scratch)) {
    r = (uint64_t)g.n * g.m > CELLS_MAX ? RESULT_FULL : RESULT_NOMEM;
    goto done;
  }
  for (int round = 0; round < ROUNDS; round++) {
    g.first = round == 0;
    fill(&g);
    if (follow(&g, scratch) && round)
      break;
  }
  complete(&g);
  *out = g.map;
  g.map = NULL;
done:
  free(g.pre);
  free(g.copy);
  free(g.map);
  free(g.now);
  free(g.later);
  free(g.step);
  free(scratch);
  return r;
}
