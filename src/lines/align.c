/* SPDX-License-Identifier: MIT
 *
 * Which run of machine instructions each IR instruction owns: forward-backward
 * over a semi-Markov chain, between one snapshot's code and the next one's.
 *
 * F[a][j] is the probability that the first a IR instructions of the region
 * became its first j machine instructions, B[a][j] that the others became the
 * rest.  Probabilities are relative to a background, so that they stay near
 * one; each row is scaled.  Of a row only the cells are kept that are not
 * hopelessly small, which makes the work nearly linear; a region in which this
 * loses everything is done again without.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lines/lines_internal.h"

enum { CELLS_MAX = 1 << 22 /* of a region: 32 MB */ };
enum { RETRY_MAX = 1 << 20 };
static const double KEPT = 1e-45; /* of a row's greatest cell */
static const double SHARE = 1e-7; /* least share of a run that counts */
static const double OWNER = 1e-5; /* least probability of an owner */

/* An IR instruction in a region. */
struct item {
  const struct lines_scores *s;
  uint32_t ref;      /* or LINES_OWNER_* */
  uint32_t operands; /* set of registers */
  uint32_t longest;
  uint8_t r;
};

struct row {
  uint32_t lo, hi; /* cells lo to hi */
  size_t at;       /* in cells; cells[at] is lo's */
  double scale;    /* log of what they were divided by, in all */
};

struct region {
  struct lines_model *model;
  const struct lines_parts *parts;
  struct lines_alignment *out;
  uint32_t first, m; /* machine instructions */
  struct item *item;
  uint32_t n;
  struct row *row; /* n + 1 */
  double *cells;
  size_t ncells, cells_cap;
  double kept;
  double fit; /* of the regions so far, their log likelihood */
  double *emit, *next, *back, *share; /* scratch, a value a column */
};

static bool emits_nothing(unsigned op)
{
  return op == LINES_OP_RENAME || op == LINES_OP_PHI || op == LINES_OP_NOP;
}

static uint32_t operand_bit(const struct lines_parts *p, uint32_t op,
                            uint32_t ref)
{
  const struct lines_ir *x = op < ref ? lines_parts_ir(p, op) : NULL;
  return x && x->r < 32 ? UINT32_C(1) << x->r : 0;
}

uint32_t lines_operands(const struct lines_parts *p, uint32_t ref)
{
  const struct lines_ir *x = lines_parts_ir(p, ref);
  return x ? operand_bit(p, x->op1, ref) | operand_bit(p, x->op2, ref) : 0;
}

static bool add_item(struct region *g, unsigned op, const struct lines_ir *x,
                     uint32_t ref)
{
  struct item *i = &g->item[g->n++];
  *i = (struct item){.ref = ref, .r = 255, .longest = lines_longest_run(op)};
  if (x) {
    i->r = x->r;
    i->operands = lines_operands(g->parts, ref);
  }
  i->s = lines_model_scores(g->model, op, x ? x->type : 0, x && x->guard,
                            x && x->r < 32);
  return i->s;
}

/* References [from, to), with the trace's entry and end where they belong. */
static bool add_items(struct region *g, uint32_t from, uint32_t to, bool entry,
                      bool end)
{
  g->n = 0;
  if (entry && !add_item(g, LINES_OP_HEAD, NULL, LINES_OWNER_HEAD))
    return false;
  for (uint32_t ref = from; ref < to; ref++) {
    const struct lines_ir *x = lines_parts_ir(g->parts, ref);
    if (x && !emits_nothing(x->op) && !add_item(g, x->op, x, ref))
      return false;
  }
  return !end || add_item(g, LINES_OP_TAIL, NULL, LINES_OWNER_TAIL);
}

unsigned lines_registers(uint32_t owner, uint8_t r, uint32_t operands,
                         const struct lines_insn *x)
{
  bool entry_or_end = owner <= LINES_OWNER_TAIL;
  unsigned dst = LINES_DST_NONE, src = LINES_SRC_NO;
  if (x->dst >= 0)
    dst = entry_or_end  ? LINES_DST_OTHER
          : r >= 32     ? LINES_DST_NO_REG
          : x->dst == r ? LINES_DST_SAME
                        : LINES_DST_OTHER;
  if (entry_or_end)
    src = LINES_SRC_UNKNOWN;
  else if (x->regs & operands)
    src = LINES_SRC_YES;
  return LINES_REGS(dst, src);
}

static double emission(const struct item *i, const struct lines_insn *x)
{
  return i->s->emit[x->cls][lines_registers(i->ref, i->r, i->operands, x)];
}

static double run_length(const struct item *i, uint32_t l)
{
  if (l < LINES_LENGTHS)
    return i->s->len[l];
  return i->s->len[LINES_LENGTHS - 1] * pow(0.7, l - (LINES_LENGTHS - 1));
}

static const struct lines_insn *insn_at(const struct region *g, uint32_t j)
{
  return &g->parts->insn[g->first + j];
}

/* The columns that runs from a row can reach. */
static uint32_t reach(const struct region *g, const struct row *r,
                      const struct item *i)
{
  return g->m - r->hi < i->longest ? g->m : r->hi + i->longest;
}

static void fill_emissions(struct region *g, const struct item *i, uint32_t lo,
                           uint32_t hi)
{
  for (uint32_t j = lo; j < hi; j++)
    g->emit[j] = emission(i, insn_at(g, j));
}

static bool keep_row(struct region *g, uint32_t a, uint32_t lo, uint32_t hi,
                     double scale)
{
  double most = 0;
  if (a == g->n) {
    if (hi != g->m)
      return false;
    lo = hi; /* nothing may be left over */
  }
  for (uint32_t j = lo; j <= hi; j++)
    most = fmax(most, g->next[j]);
  if (!(most > 0) || !isfinite(most))
    return false;
  while (g->next[lo] < most * g->kept)
    lo++;
  while (g->next[hi] < most * g->kept)
    hi--;
  size_t n = hi - lo + 1;
  if (n > g->cells_cap - g->ncells) {
    size_t cap = (g->cells_cap + n) * 2;
    double *more = g->ncells + n > CELLS_MAX
                       ? NULL
                       : realloc(g->cells, cap * sizeof *more);
    if (!more)
      return false;
    g->cells = more;
    g->cells_cap = cap;
  }
  g->row[a] = (struct row){lo, hi, g->ncells, scale + log(most)};
  for (uint32_t j = lo; j <= hi; j++)
    g->cells[g->ncells++] = g->next[j] / most;
  return true;
}

static void spread(struct region *g, const struct item *i, uint32_t j, double f)
{
  uint32_t most = g->m - j < i->longest ? g->m - j : i->longest;
  g->next[j] += f * i->s->len[0];
  for (uint32_t l = 1; l <= most; l++) {
    f *= g->emit[j + l - 1];
    if (f < 1e-200)
      break;
    g->next[j + l] +=
        f * run_length(i, l) * i->s->last[insn_at(g, j + l - 1)->cls];
  }
}

static bool forward(struct region *g)
{
  g->ncells = 0;
  g->next[0] = 1;
  if (!keep_row(g, 0, 0, 0, 0))
    return false;
  for (uint32_t a = 0; a < g->n; a++) {
    struct row r = g->row[a];
    const struct item *i = &g->item[a];
    uint32_t hi = reach(g, &r, i);
    fill_emissions(g, i, r.lo, hi);
    memset(g->next + r.lo, 0, (hi - r.lo + 1) * sizeof *g->next);
    for (uint32_t j = r.lo; j <= r.hi; j++)
      if (g->cells[r.at + j - r.lo] > 0)
        spread(g, i, j, g->cells[r.at + j - r.lo]);
    if (!keep_row(g, a + 1, r.lo, hi, r.scale))
      return false;
  }
  return true;
}

static bool add_owner(struct lines_alignment *out, uint32_t insn, uint32_t ref,
                      double p)
{
  if (out->nowner == out->cap) {
    size_t cap = out->cap ? out->cap * 2 : 256;
    struct lines_owner *more = realloc(out->owner, cap * sizeof *more);
    if (!more)
      return false;
    out->owner = more;
    out->cap = cap;
  }
  out->owner[out->nowner++] =
      (struct lines_owner){ref, out->first[insn], (float)p};
  out->first[insn] = (uint32_t)out->nowner;
  return true;
}

/* Takes one cell of F back: returns its B, shares out the runs that begin
 * there.  times makes F * B a probability. */
static double gather(struct region *g, const struct item *i, uint32_t j,
                     double f, const struct row *later, double times)
{
  uint32_t most = g->m - j < i->longest ? g->m - j : i->longest;
  double run = 1, sum = 0;
  if (j >= later->lo && j <= later->hi)
    sum = i->s->len[0] * g->back[j];
  for (uint32_t l = 1; l <= most && j + l <= later->hi; l++) {
    run *= g->emit[j + l - 1];
    if (run < 1e-200)
      break;
    if (j + l < later->lo)
      continue;
    double b = run * run_length(i, l) * i->s->last[insn_at(g, j + l - 1)->cls] *
               g->back[j + l];
    double p = f * b * times;
    sum += b;
    if (p > SHARE)
      for (uint32_t q = j; q < j + l; q++)
        g->share[q] += p;
  }
  return sum;
}

/* B of row a from that of row a + 1, in place; the row's shares. */
static bool backward_row(struct region *g, uint32_t a, double *scale)
{
  const struct row *r = &g->row[a], *later = &g->row[a + 1];
  const struct item *i = &g->item[a];
  uint32_t hi = reach(g, r, i);
  double most = 0;
  double times = exp(r->scale + *scale - g->row[g->n].scale);
  fill_emissions(g, i, r->lo, hi);
  memset(g->share + r->lo, 0, (hi - r->lo + 1) * sizeof *g->share);
  for (uint32_t j = r->lo; j <= r->hi; j++) {
    g->next[j] = gather(g, i, j, g->cells[r->at + j - r->lo], later, times);
    most = fmax(most, g->next[j]);
  }
  if (!(most > 0) || !isfinite(most))
    return false;
  for (uint32_t j = r->lo; j <= r->hi; j++)
    g->back[j] = g->next[j] / most;
  *scale += log(most);
  for (uint32_t j = r->lo; j < hi; j++)
    if (g->share[j] > OWNER &&
        !add_owner(g->out, g->first + j, i->ref, g->share[j]))
      return false;
  return true;
}

static bool backward(struct region *g)
{
  const struct row *end = &g->row[g->n];
  double last = g->cells[end->at + g->m - end->lo];
  double scale = 0;
  memset(g->back + end->lo, 0, (end->hi - end->lo + 1) * sizeof *g->back);
  g->back[g->m] = 1 / last;
  for (uint32_t a = g->n; a-- > 0;)
    if (!backward_row(g, a, &scale))
      return false;
  return true;
}

/* Forgets the owners that a failed attempt has found. */
static void forget(struct region *g)
{
  memset(g->out->first + g->first, 0, g->m * sizeof *g->out->first);
}

static bool align_region(struct region *g)
{
  g->kept = KEPT;
  if (forward(g) && backward(g))
    return true;
  forget(g);
  g->kept = 0;
  for (uint32_t a = 0; a < g->n; a++)
    if (g->item[a].longest < LINES_RUN_LONG)
      g->item[a].longest = LINES_RUN_LONG;
  if ((uint64_t)(g->n + 1) * (g->m + 1) <= RETRY_MAX && forward(g) &&
      backward(g))
    return true;
  forget(g);
  return false;
}

/* The machine instructions of snapshot i: [first, first + m). */
static uint32_t code_of(const struct lines_parts *p, uint32_t i, uint32_t first,
                        uint32_t *end)
{
  const struct lines_trace *t = p->t;
  bool last = !t->has_mcofs || i + 1 == t->nsnap;
  *end = last ? t->szmcode : t->snap[i + 1].mcofs;
  uint32_t n = first;
  while (n < p->ninsn && p->insn[n].ofs < *end)
    n++;
  return n - first;
}

static bool step(struct region *g, uint32_t i)
{
  const struct lines_trace *t = g->parts->t;
  bool whole = !t->has_mcofs, last = whole || i + 1 == t->nsnap;
  uint32_t end;
  g->m = code_of(g->parts, i, g->first, &end);
  if (!g->m)
    return true;
  uint32_t from = i ? t->snap[i].ref : LINES_REF_BIAS + 1;
  uint32_t to = last ? t->nins : t->snap[i + 1].ref;
  if (!add_items(g, from, to, i == 0, last))
    return false;
  g->out->regions++;
  if (g->n && align_region(g))
    g->fit += g->row[g->n].scale;
  else
    g->out->infeasible++;
  g->first += g->m;
  return true;
}

static bool region_alloc(struct region *g)
{
  size_t columns = (size_t)g->parts->ninsn + 1;
  g->item = malloc((g->parts->nir + 2) * sizeof *g->item);
  g->row = malloc((g->parts->nir + 3) * sizeof *g->row);
  g->emit = malloc(4 * columns * sizeof *g->emit);
  if (!g->item || !g->row || !g->emit)
    return false;
  g->next = g->emit + columns;
  g->back = g->next + columns;
  g->share = g->back + columns;
  return true;
}

enum result lines_align(struct lines_model *m, const struct lines_parts *p,
                        struct lines_alignment *out)
{
  struct region g = {.model = m, .parts = p, .out = out};
  memset(out, 0, sizeof *out);
  out->first = calloc(p->ninsn, sizeof *out->first);
  bool ok = out->first && region_alloc(&g);
  for (uint32_t i = 0; ok && i < (p->t->has_mcofs ? p->t->nsnap : 1); i++)
    ok = step(&g, i);
  out->fit = g.first ? (float)(g.fit / g.first) : 0;
  free(g.item);
  free(g.row);
  free(g.emit);
  free(g.cells);
  return ok ? RESULT_OK : RESULT_NOMEM;
}

void lines_alignment_free(struct lines_alignment *a)
{
  free(a->first);
  free(a->owner);
}
