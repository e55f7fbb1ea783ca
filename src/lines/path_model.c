/* SPDX-License-Identifier: MIT
 *
 * What bytecodes are recorded as.  Less is known of them than of machine code:
 * what was seen of the bytecode on this way counts, then on any way, then of
 * all bytecodes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lines/lines_internal.h"

enum { LEVELS = 2, KINDS = LINES_PATH_KIND(LINES_OP_COUNT, 0, 0) };
/* Shares of a just such IR instruction and of one with its opcode. */
static const double SAME = .7, SAME_OP = .09;

struct sums {
  double all, n[KINDS], op[LINES_OP_COUNT]; /* of all bytecodes */
  double level_all[LEVELS], level_n[LEVELS][KINDS];
  double level_op[LEVELS][LINES_OP_COUNT];
};

static void score_lengths(struct lines_path_scores *s, unsigned path)
{
  const struct lines_path_counts *c = &lines_count_path_length;
  double all[LINES_PATH_LENGTHS] = {0}, total = 0;
  double n[LEVELS][LINES_PATH_LENGTHS] = {0}, sum[LEVELS] = {0};
  for (size_t i = 0; i < c->n; i++) {
    const struct lines_path_count *r = &c->row[i];
    all[r->what] += r->n;
    total += r->n;
    if (r->path / 3 != path / 3)
      continue;
    for (int level = 0; level <= (r->path == path); level++) {
      n[level][r->what] += r->n;
      sum[level] += r->n;
    }
  }
  for (unsigned i = 0; i < LINES_PATH_LENGTHS; i++) {
    double p = (all[i] + .1) / (total + 3);
    for (int level = 0; level < LEVELS; level++)
      if (sum[level] > 0) {
        double w = sum[level] / (sum[level] + 2);
        p = w * n[level][i] / sum[level] + (1 - w) * p;
      }
    s->len[i] = (float)log(fmax(p, 1e-7));
  }
}

static void add_up(struct sums *t, unsigned path)
{
  const struct lines_path_counts *c = &lines_count_path_ir;
  memset(t, 0, sizeof *t);
  for (size_t i = 0; i < c->n; i++) {
    const struct lines_path_count *r = &c->row[i];
    unsigned op = r->what / LINES_PATH_KIND(1, 0, 0);
    t->all += r->n;
    t->n[r->what] += r->n;
    t->op[op] += r->n;
    if (r->path / 3 != path / 3)
      continue;
    for (int level = 0; level <= (r->path == path); level++) {
      t->level_all[level] += r->n;
      t->level_n[level][r->what] += r->n;
      t->level_op[level][op] += r->n;
    }
  }
}

static void score_ir(struct lines_path_scores *s, const struct sums *t)
{
  for (unsigned k = 0; k < KINDS; k++) {
    unsigned op = k / LINES_PATH_KIND(1, 0, 0);
    double p = .5 * (t->n[k] + .05) / (t->all + 5) +
               .15 * (t->op[op] + .1) / (t->all + 5);
    for (int level = 0; level < LEVELS; level++)
      if (t->level_all[level] > 0) {
        double all = t->level_all[level], w = all / (all + 2);
        p = w *
                (SAME * t->level_n[level][k] +
                 SAME_OP * t->level_op[level][op]) /
                all +
            (1 - w) * p;
      }
    s->ir[k] = (float)log(op == LINES_OP_NOP ? .05 : fmax(p, 1e-8));
  }
}

const struct lines_path_scores *lines_path_scores(struct lines_model *m,
                                                  unsigned path)
{
  struct lines_path_scores **slot = &m->path[path];
  if (*slot)
    return *slot;
  struct sums *t = malloc(sizeof *t);
  struct lines_path_scores *s = malloc(sizeof *s);
  if (t && s) {
    score_lengths(s, path);
    add_up(t, path);
    score_ir(s, t);
    *slot = s;
  } else {
    free(s);
  }
  free(t);
  return *slot;
}

double lines_path_length(const struct lines_path_scores *s, uint32_t n)
{
  if (n < LINES_PATH_LENGTHS)
    return s->len[n];
  return s->len[LINES_PATH_LENGTHS - 1] +
         log(.8) * (n - (LINES_PATH_LENGTHS - 1));
}
