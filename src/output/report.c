/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output/output.h"
#include "output/output_internal.h"

static double percent(uint64_t n, uint64_t all)
{
  return all ? 100.0 * (double)n / (double)all : 0;
}

static void add_name(struct strbuf *out, const char *text, const char *empty)
{
  if (*text)
    output_sanitise(out, text, strlen(text));
  else
    strbuf_add_str(out, empty);
  strbuf_add(out, "\n", 1);
}

static void heading(struct strbuf *out, const char *text)
{
  strbuf_printf(out, "\n%s\n", text);
}

static const char *state_name(const char *letter)
{
  switch (*letter) {
  case 'N':
    return "compiled code";
  case 'I':
    return "interpreter";
  case 'C':
    return "native code";
  case 'G':
    return "garbage collector";
  case 'J':
    return "JIT compiler";
  default:
    return "(none given)";
  }
}

/* ---- one profile ---- */

static void add_shares(struct strbuf *out, const struct summary *s,
                       const struct summary_row *r, bool total)
{
  strbuf_printf(out, "%6.2f %% %9" PRIu64, percent(r->self, s->weight),
                r->self);
  if (total)
    strbuf_printf(out, "  %6.2f %% %9" PRIu64, percent(r->total, s->weight),
                  r->total);
  strbuf_add_str(out, "  ");
}

#define TWO_COLUMNS "    self              total\n"

static void add_functions(struct strbuf *out, struct summary *s, unsigned rows,
                          bool by_total)
{
  struct strbuf h = STRBUF_INIT;
  if (by_total)
    summary_sort_by_total(&s->functions);
  strbuf_printf(&h, "Functions by %s, the first %zu of %zu",
                by_total ? "total" : "self",
                s->functions.count < rows ? s->functions.count : rows,
                s->functions.count);
  heading(out, strbuf_text(&h));
  strbuf_free(&h);
  strbuf_add_str(out, TWO_COLUMNS);
  for (size_t i = 0; i < s->functions.count && i < rows; i++) {
    add_shares(out, s, &s->functions.row[i], true);
    add_name(out, s->functions.row[i].text, "?");
  }
}

static void add_categories(struct strbuf *out, const struct summary *s)
{
  heading(out, "Categories");
  for (size_t i = 0; i < s->categories.count; i++) {
    add_shares(out, s, &s->categories.row[i], false);
    add_name(out, s->categories.row[i].text, "other");
  }
}

static void add_states(struct strbuf *out, const struct summary *s)
{
  heading(out, "VM states");
  for (size_t i = 0; i < s->states.count; i++) {
    add_shares(out, s, &s->states.row[i], false);
    add_name(out, state_name(s->states.row[i].text), "");
  }
}

static void add_zones(struct strbuf *out, struct summary *s, unsigned rows)
{
  if (s->zones.count == 1 && !*s->zones.row[0].text)
    return;
  summary_sort_by_total(&s->zones);
  heading(out, "Zones");
  strbuf_add_str(out, TWO_COLUMNS);
  for (size_t i = 0; i < s->zones.count && i < rows; i++) {
    add_shares(out, s, &s->zones.row[i], true);
    add_name(out, s->zones.row[i].text, "(no zone)");
  }
  if (s->zones.count > rows)
    strbuf_printf(out, "and %zu more\n", s->zones.count - rows);
}

enum result output_report(struct summary *s, unsigned rows, struct strbuf *out)
{
  strbuf_printf(out, "%" PRIu64 " sample%s, %zu stack%s\n", s->weight,
                s->weight == 1 ? "" : "s", s->stacks,
                s->stacks == 1 ? "" : "s");
  if (!s->weight)
    return out->failed ? RESULT_NOMEM : RESULT_OK;
  add_categories(out, s);
  add_states(out, s);
  add_zones(out, s, rows);
  add_functions(out, s, rows, false);
  add_functions(out, s, rows, true);
  return out->failed ? RESULT_NOMEM : RESULT_OK;
}

/* ---- two profiles ---- */

struct change {
  const char *text;
  double before, after, noise; /* percent, points */
};

struct changes {
  struct change *row;
  size_t count;
};

static int by_text(const void *a, const void *b)
{
  return strcmp(((const struct summary_row *)a)->text,
                ((const struct summary_row *)b)->text);
}

static int by_growth(const void *a, const void *b)
{
  const struct change *x = a, *y = b;
  double dx = x->after - x->before, dy = y->after - y->before;
  if (dx != dy)
    return dx < dy ? 1 : -1;
  /* what shrank is printed from the end */
  return dx < 0 ? strcmp(y->text, x->text) : strcmp(x->text, y->text);
}

/* Variance of a share that was counted in n samples. */
static double variance(double share, uint64_t n)
{
  return n ? share * (1 - share) / (double)n : 0;
}

static struct change change_of(const struct summary *old, uint64_t before,
                               const struct summary *new, uint64_t after,
                               const char *text)
{
  double b = percent(before, old->weight), a = percent(after, new->weight);
  double v = variance(b / 100, old->weight) + variance(a / 100, new->weight);
  return (struct change){text, b, a, 200 * sqrt(v)};
}

/* Rows of either table, by growth; the tables are sorted by text. */
static bool compare(const struct summary *old, struct summary_table *x,
                    const struct summary *new, struct summary_table *y,
                    bool total, struct changes *c)
{
  size_t i = 0, k = 0;
  c->count = 0;
  c->row = calloc(x->count + y->count + 1, sizeof *c->row);
  if (!c->row)
    return false;
  if (x->count)
    qsort(x->row, x->count, sizeof *x->row, by_text);
  if (y->count)
    qsort(y->row, y->count, sizeof *y->row, by_text);
  while (i < x->count || k < y->count) {
    int order = i == x->count   ? 1
                : k == y->count ? -1
                                : strcmp(x->row[i].text, y->row[k].text);
    const struct summary_row none = {0};
    const struct summary_row *a = order <= 0 ? &x->row[i++] : &none;
    const struct summary_row *b = order >= 0 ? &y->row[k++] : &none;
    c->row[c->count++] =
        change_of(old, total ? a->total : a->self, new,
                  total ? b->total : b->self, a->text ? a->text : b->text);
  }
  qsort(c->row, c->count, sizeof *c->row, by_growth);
  return true;
}

static void add_change(struct strbuf *out, const struct change *c,
                       const char *(*name)(const char *), const char *empty)
{
  strbuf_printf(out, "%+7.2f  +-%5.2f  %6.2f %%  %6.2f %%  ",
                c->after - c->before, c->noise, c->before, c->after);
  add_name(out, name ? name(c->text) : c->text, empty);
}

#define CHANGE_COLUMNS " points    noise    before     after\n"

struct diff_part {
  const char *heading;
  size_t table; /* offset in struct summary */
  bool total, pick;
  const char *(*name)(const char *);
  const char *empty;
};

/* pick: only what moved by more than noise, `rows` from each end. */
static bool add_part(struct strbuf *out, struct summary *old,
                     struct summary *new, const struct diff_part *part,
                     unsigned rows)
{
  struct changes c;
  struct summary_table *x = (void *)((char *)old + part->table);
  struct summary_table *y = (void *)((char *)new + part->table);
  size_t grew = 0, shrank = 0;
  if (!compare(old, x, new, y, part->total, &c))
    return false;
  heading(out, part->heading);
  strbuf_add_str(out, CHANGE_COLUMNS);
  for (size_t i = 0; i < c.count; i++)
    if (!part->pick ||
        (c.row[i].after - c.row[i].before > c.row[i].noise && grew++ < rows))
      add_change(out, &c.row[i], part->name, part->empty);
  for (size_t i = c.count; part->pick && i > 0; i--)
    if (c.row[i - 1].before - c.row[i - 1].after > c.row[i - 1].noise &&
        shrank++ < rows)
      add_change(out, &c.row[i - 1], part->name, part->empty);
  if (part->pick && !grew && !shrank)
    strbuf_add_str(out, "nothing moved by more than noise\n");
  free(c.row);
  return true;
}

enum result output_diff(struct summary *old, struct summary *new, unsigned rows,
                        struct strbuf *out)
{
  static const struct diff_part parts[] = {
      {"Categories", offsetof(struct summary, categories), false, false, NULL,
       "other"},
      {"VM states", offsetof(struct summary, states), false, false, state_name,
       ""},
      {"Zones by total: what grew, then what shrank",
       offsetof(struct summary, zones), true, true, NULL, "(no zone)"},
      {"Functions by self: what grew, then what shrank",
       offsetof(struct summary, functions), false, true, NULL, "?"},
      {"Functions by total: what grew, then what shrank",
       offsetof(struct summary, functions), true, true, NULL, "?"},
  };
  strbuf_printf(out,
                "before: %" PRIu64 " samples, %zu stacks; after: %" PRIu64
                " samples, %zu stacks\n",
                old->weight, old->stacks, new->weight, new->stacks);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!add_part(out, old, new, &parts[i], rows))
      return RESULT_NOMEM;
  return out->failed ? RESULT_NOMEM : RESULT_OK;
}
