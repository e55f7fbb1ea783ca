/* SPDX-License-Identifier: MIT */
#include "merge/merge.h"

#include <stdlib.h>
#include <string.h>

#include "merge/merge_internal.h"

/* ---- zones ---- */

/* Where an iteration over a sample's zones is: the record has them by VM, the
 * innermost VM first; from the outside, native ones come first, then those of
 * the outermost VM. */
struct zone_iter {
  uint32_t vm;   /* whose zones are due */
  unsigned left; /* VMs after that */
  size_t at;
};

static struct zone_iter zone_start(const struct merging *g)
{
  return (struct zone_iter){TECS_ZONE_NATIVE, g->s->sample->vm_count, 0};
}

static const char *zone_next(struct merging *g, struct zone_iter *it)
{
  const struct sample_view *s = g->s;
  for (;;) {
    while (it->at < s->sample->zone_count && s->zone[it->at].vm != it->vm)
      it->at++;
    if (it->at < s->sample->zone_count)
      return vm_zone_text(g->vm, g->slot, &s->zone[it->at++]);
    if (!it->left)
      return NULL;
    it->vm = --it->left;
    it->at = 0;
  }
}

static bool zone_matches(struct merging *g)
{
  const char *prefix = g->o->zone_prefix, *text;
  if (!prefix || !*prefix)
    return true;
  struct zone_iter it = zone_start(g);
  struct strbuf *path = &g->m->text;
  strbuf_clear(path);
  while ((text = zone_next(g, &it))) {
    if (path->len)
      strbuf_add(path, "/", 1);
    strbuf_add_str(path, text);
  }
  g->nomem = g->nomem || path->failed;
  return !strncmp(strbuf_text(path), prefix, strlen(prefix));
}

/* ---- the stack ---- */

static void add(struct merging *g, uint32_t frame)
{
  struct merge_memory *m = g->m;
  if (m->stack_count == m->stack_cap) {
    size_t cap = m->stack_cap * 2 + 256;
    uint32_t *stack = realloc(m->stack, cap * sizeof *stack);
    if (!stack) {
      g->nomem = true;
      return;
    }
    m->stack = stack;
    m->stack_cap = cap;
  }
  m->stack[m->stack_count++] = frame;
}

/* How many items, from the innermost, the depth leaves; *cut: not all.  Where
 * it cuts, nothing is kept outside of the place where a VM's walk was cut:
 * those frames would stand beside ones that they did not call. */
static size_t kept_items(const struct merging *g, bool *cut)
{
  const struct merge_memory *m = g->m;
  unsigned left = g->o->depth;
  size_t n = 0;
  bool walk_cut = false;
  *cut = false;
  for (size_t i = 0; i < m->item_count; i++) {
    if (m->item[i].mark) {
      walk_cut = walk_cut || m->item[i].frame == m->fixed[FIXED_TRUNCATED];
      continue;
    }
    if (!left--) {
      *cut = true;
      return n;
    }
    if (!walk_cut)
      n = i + 1;
  }
  return m->item_count;
}

static uint32_t with_state(struct merging *g, uint32_t frame, char letter)
{
  struct merge_memory *m = g->m;
  uint64_t key = (uint64_t)frame << 8 | (unsigned char)letter;
  uint32_t id;
  if (idmap_get(&m->with_state, key, &id))
    return id;
  strbuf_clear(&m->text);
  strbuf_printf(&m->text, "%s_[%c]",
                interner_text(profile_frames(m->profile), frame), letter);
  id = merge_intern(g, strbuf_text(&m->text));
  if (m->text.failed || !idmap_put(&m->with_state, key, id))
    g->nomem = true;
  return id;
}

static char state_of(const struct sample_view *s)
{
  if (!s->sample->vm_count)
    return 'C'; /* native code */
  return vm_state_letter(s->vm[0].layout, s->vm[0].vmstate);
}

static void add_state(struct merging *g, char letter)
{
  struct merge_memory *m = g->m;
  if (!g->o->state || !letter)
    return;
  if (!m->stack_count)
    add(g, with_state(g, merge_intern(g, ""), letter));
  else
    m->stack[m->stack_count - 1] =
        with_state(g, m->stack[m->stack_count - 1], letter);
}

static void compose(struct merging *g, struct merge_result *res)
{
  struct merge_memory *m = g->m;
  struct zone_iter it = zone_start(g);
  const char *zone;
  bool cut;
  size_t n = kept_items(g, &cut);
  m->stack_count = 0;
  if (g->o->root) /* a thread may be called anything */
    add(g, merge_intern(g, g->o->root + vm_text_is_pending(g->o->root)));
  while (g->o->zones && (zone = zone_next(g, &it)))
    add(g, merge_intern(g, zone));
  if (cut)
    add(g, m->fixed[FIXED_TRUNCATED]);
  for (size_t i = n; i > 0; i--) {
    add(g, m->item[i - 1].frame);
    res->partial =
        res->partial || m->item[i - 1].frame == m->fixed[FIXED_PARTIAL];
  }
  if (g->o->asleep)
    add(g, m->fixed[FIXED_IDLE]);
  add_state(g, res->state);
}

enum result merge_sample(const struct merge_options *o, unsigned slot,
                         const struct sample_view *s,
                         const struct unwind_stack *native,
                         struct modules *modules, struct vm_store *vm,
                         struct profile *p, struct merge_result *res)
{
  struct merging g = {.o = o,
                      .slot = slot,
                      .s = s,
                      .native = native,
                      .modules = modules,
                      .vm = vm,
                      .m = merge_memory_of(p)};
  *res = (struct merge_result){.verdict = MERGE_FILTERED,
                               .has_vm = s->sample->vm_count > 0,
                               .state = state_of(s)};
  if (!g.m)
    return RESULT_NOMEM;
  if (g.m->code_count >= CODE_MAX)
    merge_forget_code(p);
  if (!zone_matches(&g))
    return g.nomem ? RESULT_NOMEM : RESULT_OK;
  res->verdict = MERGE_KEPT;
  merge_interleave(&g);
  res->compiled = g.compiled;
  compose(&g, res);
  if (g.nomem)
    return RESULT_NOMEM;
  return profile_add(p, g.m->stack, g.m->stack_count, 1);
}

enum result merge_finish(struct profile *p, struct vm_store *vm)
{
  struct interner *frames = profile_frames(p);
  struct strbuf text = STRBUF_INIT;
  enum result r = RESULT_OK;
  size_t count = interner_count(frames);
  for (size_t i = 0; i < count && r == RESULT_OK; i++) {
    strbuf_clear(&text);
    if (!vm_text_settle(vm, interner_text(frames, (uint32_t)i), &text))
      continue;
    r = text.failed ? RESULT_NOMEM
                    : profile_rename(p, (uint32_t)i, strbuf_text(&text));
  }
  strbuf_free(&text);
  merge_forget_code(p);
  return r;
}
