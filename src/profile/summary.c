/* SPDX-License-Identifier: MIT
 *
 * Each frame is looked at once: what it is called without its state, and which
 * categories have a rule for it.  Then each stack adds to its rows.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/categories_internal.h"
#include "profile/profile.h"
#include "util/idmap.h"
#include "util/strbuf.h"

struct frame {
  uint32_t text; /* in summary.texts, without state */
  char state;
  bool lua, idle, unnamed;
  uint32_t self, named, any, as_lua; /* first categories with such a rule */
};

struct table_builder {
  struct summary_table *table;
  size_t cap;
  struct idmap row_of; /* text to number of the row */
  struct idmap
      seen_in; /* text to number of the stack that has added to total */
};

struct maker {
  struct summary *s;
  const struct profile *p;
  const struct categories *c;
  struct profile_shape shape;
  struct idmap frame_of; /* frame of the profile to number in `frame` */
  struct frame *frame;
  size_t frame_count, frame_cap;
  struct table_builder functions, zones, states, categories;
  uint32_t stack; /* number of the current one + 1 */
  struct strbuf path;
  bool nomem;
};

/* ---- tables ---- */

static struct summary_row *row_of(struct maker *m, struct table_builder *b,
                                  uint32_t text)
{
  uint32_t i;
  if (idmap_get(&b->row_of, text, &i))
    return &b->table->row[i];
  if (b->table->count == b->cap) {
    size_t cap = b->cap * 2 + 64;
    struct summary_row *row = realloc(b->table->row, cap * sizeof *row);
    if (!row)
      return NULL;
    b->table->row = row;
    b->cap = cap;
  }
  if (!idmap_put(&b->row_of, text, (uint32_t)b->table->count))
    return NULL;
  struct summary_row *row = &b->table->row[b->table->count++];
  *row = (struct summary_row){.text = interner_text(m->s->texts, text)};
  return row;
}

/* Adds to a row's total once for each stack. */
static void count(struct maker *m, struct table_builder *b, uint32_t text,
                  uint64_t self, uint64_t total)
{
  uint32_t seen = 0;
  struct summary_row *row = text == INTERNER_NONE ? NULL : row_of(m, b, text);
  if (!row) {
    m->nomem = true;
    return;
  }
  row->self += self;
  if (idmap_get(&b->seen_in, text, &seen) && seen == m->stack)
    return;
  row->total += total;
  if (!idmap_put(&b->seen_in, text, m->stack))
    m->nomem = true;
}

/* ---- frames ---- */

/* FILE+0xADDRESS */
static bool is_unnamed(const char *text, size_t len)
{
  size_t i = len;
  while (i > 0 && memchr("0123456789abcdef", text[i - 1], 16))
    i--;
  return i < len && i > 3 && !memcmp(text + i - 3, "+0x", 3);
}

static struct frame look(struct maker *m, uint32_t id)
{
  const char *text = profile_frame_text(m->p, id);
  struct frame f = {.self = CATEGORY_NONE,
                    .named = CATEGORY_NONE,
                    .any = CATEGORY_NONE,
                    .as_lua = CATEGORY_NONE};
  size_t len = profile_frame_split(text, &f.state);
  f.lua = profile_frame_is_lua(text, len);
  f.idle = len == 6 && !memcmp(text, "[idle]", 6);
  if (f.lua) {
    f.as_lua = categories_first(m->c, CATEGORY_LUA, text, len);
  } else {
    f.self = categories_first(m->c, CATEGORY_SELF, text, len);
    f.named = categories_first(m->c, CATEGORY_NAMED, text, len);
    f.any = categories_first(m->c, CATEGORY_ANY, text, len);
    f.unnamed = is_unnamed(text, len);
  }
  f.text = interner_add(m->s->texts, text, len);
  m->nomem = m->nomem || f.text == INTERNER_NONE;
  return f;
}

/* NULL: no memory. */
static const struct frame *frame_of(struct maker *m, uint32_t id)
{
  uint32_t i;
  if (idmap_get(&m->frame_of, id, &i))
    return &m->frame[i];
  if (m->frame_count == m->frame_cap) {
    size_t cap = m->frame_cap * 2 + 256;
    struct frame *frame = realloc(m->frame, cap * sizeof *frame);
    if (!frame)
      return NULL;
    m->frame = frame;
    m->frame_cap = cap;
  }
  if (!idmap_put(&m->frame_of, id, (uint32_t)m->frame_count))
    return NULL;
  m->frame[m->frame_count] = look(m, id);
  return &m->frame[m->frame_count++];
}

/* ---- stacks ---- */

/* Every prefix of the path is a zone that is open. */
static void count_zones(struct maker *m, const struct profile_stack *s,
                        size_t end)
{
  strbuf_clear(&m->path);
  if (end == m->shape.roots)
    count(m, &m->zones, interner_add_str(m->s->texts, ""), s->weight,
          s->weight);
  for (size_t i = m->shape.roots; i < end; i++) {
    const char *text = profile_frame_text(m->p, s->frame[i]);
    char state;
    strbuf_add(&m->path, "/", m->path.len > 0);
    strbuf_add(&m->path, text, profile_frame_split(text, &state));
    uint32_t path =
        interner_add(m->s->texts, strbuf_text(&m->path), m->path.len);
    count(m, &m->zones, path, i + 1 == end ? s->weight : 0, s->weight);
  }
  m->nomem = m->nomem || m->path.failed;
}

static bool in_zone(struct maker *m, const struct profile_stack *s, size_t end,
                    const char *zone)
{
  strbuf_clear(&m->path);
  for (size_t i = m->shape.roots; zone && i < end; i++) {
    const char *text = profile_frame_text(m->p, s->frame[i]);
    strbuf_add(&m->path, "/", m->path.len > 0);
    strbuf_add_str(&m->path, text);
  }
  return !zone || !strncmp(strbuf_text(&m->path), zone, strlen(zone));
}

static void count_functions(struct maker *m, const struct profile_stack *s,
                            size_t begin)
{
  bool leaf = true;
  for (size_t i = s->count; i > begin; i--) {
    const struct frame *f = frame_of(m, s->frame[i - 1]);
    if (!f) {
      m->nomem = true;
      return;
    }
    if (f->idle)
      continue;
    count(m, &m->functions, f->text, leaf ? s->weight : 0, s->weight);
    leaf = false;
  }
}

static void lower(uint32_t *category, uint32_t other)
{
  if (other < *category)
    *category = other;
}

static void count_category(struct maker *m, const struct profile_stack *s,
                           size_t begin, char state)
{
  uint32_t c = categories_first(m->c, CATEGORY_STATE, &state, state != 0);
  bool lua = false, named = false;
  for (size_t i = s->count; i > begin; i--) {
    const struct frame *f = frame_of(m, s->frame[i - 1]);
    if (!f) {
      m->nomem = true;
      return;
    }
    if (i == s->count)
      lower(&c, f->self);
    if (!f->unnamed && !named)
      lower(&c, f->named);
    lower(&c, f->any);
    if (f->lua && !lua)
      lower(&c, f->as_lua);
    lua = lua || f->lua;
    named = named || !f->unnamed;
  }
  count(m, &m->categories,
        interner_add_str(m->s->texts, categories_name(m->c, c)), s->weight,
        s->weight);
}

static void add_stack(struct maker *m, const struct profile_stack *s,
                      const char *zone)
{
  size_t end = profile_zones_end(m->p, m->shape, s);
  char state = 0;
  m->stack++;
  if (!in_zone(m, s, end, zone))
    return;
  if (s->count)
    profile_frame_split(profile_frame_text(m->p, s->frame[s->count - 1]),
                        &state);
  m->s->weight += s->weight;
  m->s->stacks++;
  count_zones(m, s, end);
  count_functions(m, s, end);
  count_category(m, s, end, state);
  count(m, &m->states, interner_add(m->s->texts, &state, state != 0), s->weight,
        s->weight);
}

/* ---- order ---- */

static int by_self(const void *a, const void *b)
{
  const struct summary_row *x = a, *y = b;
  if (x->self != y->self)
    return x->self < y->self ? 1 : -1;
  if (x->total != y->total)
    return x->total < y->total ? 1 : -1;
  return strcmp(x->text, y->text);
}

static int by_total(const void *a, const void *b)
{
  const struct summary_row *x = a, *y = b;
  if (x->total != y->total)
    return x->total < y->total ? 1 : -1;
  return by_self(a, b);
}

static void sort(struct summary_table *t,
                 int (*order)(const void *, const void *))
{
  if (t->count)
    qsort(t->row, t->count, sizeof *t->row, order);
}

void summary_sort_by_total(struct summary_table *t)
{
  sort(t, by_total);
}

static void builder_free(struct table_builder *b)
{
  sort(b->table, by_self);
  idmap_free(&b->row_of);
  idmap_free(&b->seen_in);
}

enum result summary_make(struct summary *s, const struct profile *p,
                         const struct categories *c, const char *zone)
{
  *s = (struct summary){.texts = interner_new()};
  struct maker m = {.s = s,
                    .p = p,
                    .c = c,
                    .shape = profile_shape_of(p),
                    .functions = {.table = &s->functions},
                    .zones = {.table = &s->zones},
                    .states = {.table = &s->states},
                    .categories = {.table = &s->categories},
                    .nomem = !s->texts};
  const struct profile_stack *stack;
  for (size_t i = 0; !m.nomem && (stack = profile_stack_at(p, i)); i++)
    add_stack(&m, stack, zone);
  builder_free(&m.functions);
  builder_free(&m.zones);
  builder_free(&m.states);
  builder_free(&m.categories);
  idmap_free(&m.frame_of);
  free(m.frame);
  strbuf_free(&m.path);
  return m.nomem ? RESULT_NOMEM : RESULT_OK;
}

void summary_free(struct summary *s)
{
  free(s->functions.row);
  free(s->zones.row);
  free(s->states.row);
  free(s->categories.row);
  if (s->texts)
    interner_free(s->texts);
  *s = (struct summary){0};
}
