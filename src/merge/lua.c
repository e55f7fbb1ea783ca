/* SPDX-License-Identifier: MIT
 *
 * The sample's Lua frames as runs, and what each frame is called.
 */
#include <stdlib.h>

#include "merge/merge_internal.h"

static void add_run(struct merging *g, struct run r)
{
  struct merge_memory *m = g->m;
  if (m->run_count == m->run_cap) {
    size_t cap = m->run_cap * 2 + 64;
    struct run *run = realloc(m->run, cap * sizeof *run);
    if (!run) {
      g->nomem = true;
      return;
    }
    m->run = run;
    m->run_cap = cap;
  }
  m->run[m->run_count++] = r;
}

/* The walk of a VM that failed still lists the C frames further out; the
 * failure belongs behind the last frame that was read. */
static void mark_end(struct merging *g, unsigned vm, size_t first_run)
{
  unsigned error = g->s->vm[vm].error;
  if (error == TECS_WALK_OK)
    return;
  if (g->m->run_count == first_run)
    add_run(g, (struct run){.vm = (uint8_t)vm});
  if (g->nomem)
    return;
  struct run *last = &g->m->run[first_run];
  for (size_t i = first_run; i < g->m->run_count; i++)
    if (g->m->run[i].count)
      last = &g->m->run[i];
  last->end = error == TECS_WALK_DEPTH ? RUN_CUT : RUN_BROKEN;
}

void merge_split_runs(struct merging *g)
{
  const struct tecs_sample *s = g->s->sample;
  size_t i = 0;
  g->m->run_count = 0;
  for (unsigned vm = 0; vm < s->vm_count; vm++) {
    size_t first_run = g->m->run_count;
    struct run r = {.first = i, .vm = (uint8_t)vm};
    for (; i < s->lua_count && g->s->lua[i].vm == vm; i++) {
      r.count = i - r.first;
      if (g->s->lua[i].kind != TECS_FRAME_CFRAME)
        continue;
      r.cframe = g->s->lua[i].value;
      add_run(g, r);
      r = (struct run){.first = i + 1, .vm = (uint8_t)vm};
    }
    r.count = i - r.first;
    if (r.count)
      add_run(g, r);
    mark_end(g, vm, first_run);
  }
}

/* ---- frames ---- */

/* The item of the native frame, since the last VM frame, that is the C function
 * at value; NULL: it has none (the VM's assembly does its work, or it left by a
 * tail call). */
static struct item *native_of(struct merging *g, uint64_t value)
{
  for (size_t i = g->m->item_count; i > g->segment; i--) {
    struct item *it = &g->m->item[i - 1];
    if (!it->native)
      continue;
    const struct unwind_frame *f = &g->native->frame[it->native - 1];
    if (merge_is_function(g, f->ip, f->mod, value))
      return it;
  }
  return NULL;
}

static void push_c(struct merging *g, const struct tecs_frame *f,
                   bool has_native)
{
  const char *builtin =
      vm_builtin_text(g->vm, g->s->vm[f->vm].g, g->s->vm[f->vm].layout, f->pc);
  uint32_t text;
  if (!builtin && !g->o->native) /* a function of the host is native code */
    return;
  struct item *native = has_native ? native_of(g, f->value) : NULL;
  if (builtin) {
    text = merge_intern(g, builtin);
  } else {
    const struct module *mod =
        g->modules ? modules_find(g->modules, f->value) : NULL;
    const struct native_code *c = merge_native(g, f->value, mod);
    text = c ? c->text : 0;
  }
  if (!native)
    merge_push(g, (struct item){.frame = text});
  else if (builtin)
    native->frame = text;
}

static void push_lua(struct merging *g, const struct tecs_frame *f)
{
  const char *text = NULL;
  if (f->value <= UINT32_MAX)
    text =
        vm_frame_text(g->vm, g->slot, (uint32_t)f->value, f->pc, g->o->lines);
  if (text)
    merge_push(g, (struct item){.frame = merge_intern(g, text)});
  else
    merge_push(
        g, (struct item){.frame = g->m->fixed[FIXED_PARTIAL], .mark = true});
}

void merge_push_run(struct merging *g, struct run *r, bool found)
{
  for (size_t i = merge_push_compiled(g, r); i < r->count; i++) {
    const struct tecs_frame *f = &g->s->lua[r->first + i];
    if (f->kind == TECS_FRAME_LUA)
      push_lua(g, f);
    else if (f->kind == TECS_FRAME_C)
      push_c(g, f, found && i == 0);
    else
      merge_push_mark(g, FIXED_PARTIAL);
  }
  if (r->end != RUN_WHOLE)
    merge_push_mark(g, r->end == RUN_CUT ? FIXED_TRUNCATED : FIXED_PARTIAL);
  r->done = true;
}
