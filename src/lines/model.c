/* SPDX-License-Identifier: MIT
 *
 * From counts to probabilities.  What was seen of just such an IR instruction
 * (opcode, type, guard, register) counts most, then what was seen of more
 * general kinds, the more the less there is to go by.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lines/lines_internal.h"

enum { LEVELS = 4 };
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Opcodes that the tables do not have, with one that is compiled the same way
 * (lj_asm.c, asm_ir; lj_asm_x86.h). */
static const uint8_t kin[LINES_OP_ALL] = {
    [LINES_OP_CALLA] = LINES_OP_CALLL,  [LINES_OP_CALLXS] = LINES_OP_CALLS,
    [LINES_OP_SNEW] = LINES_OP_CALLL,   [LINES_OP_XSNEW] = LINES_OP_CALLL,
    [LINES_OP_STRTO] = LINES_OP_CALLL,  [LINES_OP_LDEXP] = LINES_OP_POW,
    [LINES_OP_ATAN2] = LINES_OP_POW,    [LINES_OP_OBAR] = LINES_OP_TBAR,
    [LINES_OP_CNEW] = LINES_OP_CNEWI,   [LINES_OP_BROR] = LINES_OP_BROL,
    [LINES_OP_MAX] = LINES_OP_MIN,      [LINES_OP_MULOV] = LINES_OP_ADDOV,
    [LINES_OP_BUFHDR] = LINES_OP_CALLL, [LINES_OP_BUFPUT] = LINES_OP_CALLL,
    [LINES_OP_BUFSTR] = LINES_OP_CALLL, [LINES_OP_TDUP] = LINES_OP_TNEW,
    [LINES_OP_DIV] = LINES_OP_MUL,
};

static unsigned op_of(unsigned kind)
{
  return kind / LINES_KIND(1, 0, 0, 0);
}

/* How alike two kinds of the same opcode are: 0 to LEVELS - 1. */
static unsigned likeness(unsigned a, unsigned b)
{
  unsigned guard = LINES_KIND(0, 0, 1, 0);
  if (op_of(a) >= LINES_OP_COUNT)
    return 0; /* one kind */
  if ((a & guard) != (b & guard))
    return 0;
  if (a / 4 != b / 4)
    return 1;
  return a == b ? 3 : 2;
}

/* The rows of an opcode; rows are sorted by kind. */
static struct lines_counts rows_of(const struct lines_counts *all, unsigned op)
{
  size_t lo = 0, hi;
  while (lo < all->n && op_of(all->row[lo].kind) < op)
    lo++;
  for (hi = lo; hi < all->n && op_of(all->row[hi].kind) == op;)
    hi++;
  return (struct lines_counts){all->row + lo, hi - lo};
}

/* Was that opcode ever seen to branch to an exit? */
static bool branches(unsigned op)
{
  struct lines_counts rows = rows_of(&lines_count_class, op);
  for (size_t i = 0; i < rows.n; i++)
    if (rows.row[i].what / LINES_MEM_COUNT == LINES_GROUP_JCC)
      return true;
  return false;
}

/* Adds up n[level][what], for a kind and the more general ones around it. */
static void add_up(const struct lines_counts *rows, unsigned kind, unsigned max,
                   double (*n)[LINES_CLASS_COUNT], double total[LEVELS])
{
  memset(n, 0, LEVELS * sizeof *n);
  memset(total, 0, LEVELS * sizeof *total);
  for (size_t i = 0; i < rows->n; i++) {
    const struct lines_count *c = &rows->row[i];
    if (c->what >= max)
      continue;
    for (unsigned level = 0; level <= likeness(c->kind, kind); level++) {
      n[level][c->what] += c->n;
      total[level] += c->n;
    }
  }
}

/* An IR instruction, and whose counts speak for it. */
struct subject {
  unsigned op, kind;
  bool guard;
  bool in_part; /* the counts are those of another opcode, without its guard */
};

/* Mixes what the levels say into p, which is said without them. */
static double mix(const struct subject *x, double p, const double *n,
                  size_t step, const double *total, double doubt)
{
  for (unsigned level = 0; level < LEVELS; level++) {
    double t = total[level];
    if (t > 0) {
      double w = t / (t + doubt + (x->in_part ? t : 0));
      p = w * n[level * step] / t + (1 - w) * p;
    }
  }
  return p;
}

static double anywhere(const struct lines_model *m, unsigned cls)
{
  return (m->class_n[cls] + .5) / (m->class_total + 40);
}

static void score_lengths(struct lines_scores *s, const struct subject *x)
{
  struct lines_counts rows = rows_of(&lines_count_length, x->op);
  double n[LEVELS][LINES_CLASS_COUNT], total[LEVELS];
  add_up(&rows, x->kind, LINES_LENGTHS, n, total);
  for (unsigned i = 0; i < LINES_LENGTHS; i++)
    s->len[i] = (float)fmax(
        mix(x, 1 / 20., &n[0][i], LINES_CLASS_COUNT, total, 2), 1e-6);
}

/* Registers, given the class. */
static void score_regs(const struct lines_model *m, struct lines_scores *s,
                       const struct subject *x)
{
  static const struct lines_count none;
  struct lines_counts rows = rows_of(&lines_count_regs, x->op);
  double n[LEVELS][LINES_REGS_COUNT], total[LEVELS];
  const struct lines_count *c = rows.n ? rows.row : &none;
  for (unsigned cls = 0; cls < LINES_CLASS_COUNT; cls++) {
    memset(n, 0, sizeof n);
    memset(total, 0, sizeof total);
    for (size_t i = 0; i < rows.n; i++) {
      if (c[i].what != cls || c[i].regs >= LINES_REGS_COUNT)
        continue;
      for (unsigned level = 0; level <= likeness(c[i].kind, x->kind); level++) {
        n[level][c[i].regs] += c[i].n;
        total[level] += c[i].n;
      }
    }
    for (unsigned i = 0; i < LINES_REGS_COUNT; i++) {
      double p = (m->regs_n[i] + 1) / (m->regs_total + 10);
      s->emit[cls][i] =
          (float)fmax(mix(x, p, &n[0][i], LINES_REGS_COUNT, total, 4), 1e-6);
    }
  }
}

/* Facts that the counts alone would leave to chance: LOOP calls nothing, only
 * guards branch. */
static double rule(unsigned op, unsigned cls, bool guard)
{
  if (op == LINES_OP_LOOP && cls / LINES_MEM_COUNT == LINES_GROUP_CALL)
    return exp(-8);
  if (op < LINES_OP_COUNT && !guard && cls / LINES_MEM_COUNT == LINES_GROUP_JCC)
    return exp(-3);
  return 1;
}

static void score_classes(const struct lines_model *m, struct lines_scores *s,
                          const struct subject *x)
{
  struct lines_counts in = rows_of(&lines_count_class, x->op);
  struct lines_counts end = rows_of(&lines_count_last, x->op);
  double n[LEVELS][LINES_CLASS_COUNT], total[LEVELS];
  double ln[LEVELS][LINES_CLASS_COUNT], ltotal[LEVELS];
  add_up(&in, x->kind, LINES_CLASS_COUNT, n, total);
  add_up(&end, x->kind, LINES_CLASS_COUNT, ln, ltotal);
  for (unsigned cls = 0; cls < LINES_CLASS_COUNT; cls++) {
    double all = anywhere(m, cls);
    double p = mix(x, all, &n[0][cls], LINES_CLASS_COUNT, total, 4);
    double l = mix(x, all, &ln[0][cls], LINES_CLASS_COUNT, ltotal, 4);
    double times = fmax(p, 1e-9) * rule(x->op, cls, x->guard) / all * 4;
    for (unsigned i = 0; i < LINES_REGS_COUNT; i++)
      s->emit[cls][i] = (float)(s->emit[cls][i] * times);
    s->last[cls] =
        x->op >= LINES_OP_COUNT ? 1 : (float)(fmax(l, 1e-6) / fmax(p, 1e-6));
  }
}

uint32_t lines_longest_run(unsigned op)
{
  if (op >= LINES_OP_COUNT)
    return LINES_RUN_ANY;
  return op == LINES_OP_LOOP || op == LINES_OP_TNEW || op == LINES_OP_CALLXS
             ? LINES_RUN_LONG
             : LINES_RUN;
}

const struct lines_scores *lines_model_scores(struct lines_model *m,
                                              unsigned op, unsigned type,
                                              bool guard, bool reg)
{
  if (op >= LINES_OP_COUNT)
    type = guard = reg = 0;
  struct lines_scores **slot = &m->scores[LINES_KIND(op, type, guard, reg)];
  if (*slot)
    return *slot;
  struct lines_scores *s = malloc(sizeof *s);
  if (!s)
    return NULL;
  bool borrowed = !rows_of(&lines_count_length, op).n && kin[op];
  op = borrowed ? kin[op] : op;
  struct subject x = {op, LINES_KIND(op, type, guard, reg), guard, false};
  x.in_part = borrowed && guard && !branches(op);
  score_lengths(s, &x);
  score_regs(m, s, &x);
  score_classes(m, s, &x);
  return *slot = s;
}

enum result lines_model_new(struct lines_model **out, struct error *e)
{
  struct lines_model *m = calloc(1, sizeof *m);
  *out = m;
  if (!m)
    return error_set(e, RESULT_NOMEM, "no memory for the tables of lines");
  for (size_t i = 0; i < lines_count_class.n; i++) {
    const struct lines_count *c = &lines_count_class.row[i];
    if (op_of(c->kind) < LINES_OP_COUNT) {
      m->class_n[c->what] += c->n;
      m->class_total += c->n;
    }
  }
  for (size_t i = 0; i < lines_count_regs.n; i++) {
    const struct lines_count *c = &lines_count_regs.row[i];
    if (op_of(c->kind) < LINES_OP_COUNT) {
      m->regs_n[c->regs] += c->n;
      m->regs_total += c->n;
    }
  }
  return RESULT_OK;
}

void lines_model_free(struct lines_model *m)
{
  for (size_t i = 0; m && i < COUNT(m->scores); i++)
    free(m->scores[i]);
  for (size_t i = 0; m && i < COUNT(m->path); i++)
    free(m->path[i]);
  free(m);
}
