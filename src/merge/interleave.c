/* SPDX-License-Identifier: MIT
 *
 * Native and Lua frames as they called each other.  The native walk gives the
 * order: where it meets a frame of the VM, the Lua frames that ran on that C
 * frame stand.  C frames are addresses in the native stack, so that runs which
 * the walk did not meet still have a place in it.
 */
#include "merge/merge_internal.h"

static bool same_stack(uint64_t inner_sp, uint64_t addr, uint64_t outer_sp)
{
  return inner_sp <= addr && addr < outer_sp;
}

static void push_unreached(struct merging *g, struct run *r)
{
  if (g->m->item_count) /* what these frames called is known, not how */
    merge_push_mark(g, FIXED_PARTIAL);
  merge_push_run(g, r, false);
}

/* Runs that belong between two neighbours of the native walk. */
static void push_between(struct merging *g, uint64_t inner_sp,
                         uint64_t outer_sp)
{
  for (size_t i = 0; i < g->m->run_count; i++) {
    struct run *r = &g->m->run[i];
    if (!r->done && !r->reached && r->cframe &&
        same_stack(inner_sp, r->cframe, outer_sp))
      push_unreached(g, r);
  }
}

/* Runs of the same VM further in that were not met. */
static void push_missed(struct merging *g, const struct run *before)
{
  for (struct run *r = g->m->run; r < before; r++)
    if (!r->done && !r->reached && r->vm == before->vm)
      push_unreached(g, r);
}

/* A frame of the VM without a run: the walk of a VM that ended early. */
static void push_open(struct merging *g)
{
  for (size_t i = 0; i < g->m->run_count; i++) {
    struct run *r = &g->m->run[i];
    if (r->done || r->reached || r->cframe)
      continue;
    merge_push_run(g, r, true);
    return;
  }
  merge_push_mark(g, FIXED_PARTIAL);
}

static void push_vm(struct merging *g, uint64_t cframe)
{
  bool found = false;
  for (size_t i = 0; i < g->m->run_count; i++) {
    struct run *r = &g->m->run[i];
    if (r->done || r->cframe != cframe)
      continue;
    push_missed(g, r);
    merge_push_run(g, r, true);
    found = true;
  }
  if (!found && cframe && g->o->lua)
    push_open(g);
  g->segment = g->m->item_count;
}

static void push_native(struct merging *g, size_t index)
{
  const struct unwind_frame *f = &g->native->frame[index];
  /* A trace of a VM that the sample does not have, as when the handler of a
   * signal runs on a stack of its own: its Lua frames are missing. */
  if (!f->mod && vm_is_mcode(g->vm, f->ip)) {
    merge_push_mark(g, FIXED_PARTIAL);
    return;
  }
  const struct native_code *c = merge_native(g, f->ip, f->mod);
  if (!c || c->hidden)
    return;
  for (size_t i = c->inlined_count; i > 0; i--)
    merge_push(g,
               (struct item){.frame = g->m->inlined[c->inlined_first + i - 1]});
  merge_push(g, (struct item){.frame = c->text, .native = index + 1});
}

/* Machine code that was made after its areas were last recorded looks like
 * anyone's: what the handler saw of the innermost VM says whose it is. */
static bool is_new_trace(struct merging *g, const struct unwind_frame *f,
                         bool vm_seen)
{
  if (f->mod || vm_seen || !g->s->sample->vm_count || !g->modules ||
      !modules_is_anon_exec(g->modules, f->ip))
    return false;
  unsigned class = g->s->vm[0].vm_class;
  return class == TECS_CLASS_TRACE || class == TECS_CLASS_TRACE_C ||
         class == TECS_CLASS_TRACE_EXIT;
}

static void push_frame(struct merging *g, size_t index, bool *vm_seen)
{
  const struct unwind_frame *f = &g->native->frame[index];
  switch (f->kind) {
  case UNWIND_NATIVE:
    if (!is_new_trace(g, f, *vm_seen)) {
      push_native(g, index);
      break;
    }
    push_vm(g, g->s->vm[0].cframe);
    *vm_seen = true;
    break;
  case UNWIND_VM:
    push_vm(g, f->cframe);
    *vm_seen = true;
    break;
  case UNWIND_SIGNAL:
    merge_push_mark(g, FIXED_SIGNAL);
    break;
  case UNWIND_GAP:
    merge_push_mark(g, FIXED_PARTIAL);
    break;
  }
}

static void find_reached(struct merging *g)
{
  for (size_t i = 0; i < g->m->run_count; i++) {
    struct run *r = &g->m->run[i];
    for (size_t k = 0; r->cframe && !r->reached && k < g->native->count; k++)
      r->reached = g->native->frame[k].kind == UNWIND_VM &&
                   g->native->frame[k].cframe == r->cframe;
  }
}

/* ---- the root ---- */

/* Item of the outermost native frame; NULL: it is not the outermost item. */
static struct item *outermost(struct merging *g)
{
  struct merge_memory *m = g->m;
  if (!g->native->count || !m->item_count)
    return NULL;
  struct item *it = &m->item[m->item_count - 1];
  return it->native == g->native->count ? it : NULL;
}

/* leftover: there is more outside of what the native walk reached. */
static void push_root(struct merging *g, bool leftover)
{
  struct item *it = outermost(g);
  enum fixed_frame root = FIXED_PARTIAL;
  if (g->native->end == UNWIND_END_ENTRY)
    root = FIXED_START;
  else if (g->native->end == UNWIND_END_THREAD)
    root = FIXED_THREAD;
  if (leftover || root == FIXED_PARTIAL)
    merge_push_mark(g, FIXED_PARTIAL);
  else if (it)
    it->frame = g->m->fixed[root];
  else
    merge_push(g, (struct item){.frame = g->m->fixed[root]});
}

/* ---- whole ---- */

static void push_lua_alone(struct merging *g)
{
  for (size_t i = 0; i < g->m->run_count; i++)
    merge_push_run(g, &g->m->run[i], false);
}

static bool push_leftovers(struct merging *g)
{
  bool any = false;
  for (size_t i = 0; i < g->m->run_count; i++) {
    struct run *r = &g->m->run[i];
    if (r->done || (!r->count && r->end == RUN_WHOLE))
      continue;
    push_unreached(g, r);
    any = true;
  }
  return any;
}

void merge_interleave(struct merging *g)
{
  bool vm_seen = false;
  g->m->item_count = g->m->run_count = g->segment = 0;
  if (g->o->lua)
    merge_split_runs(g);
  if (!g->o->native || !g->native) {
    push_lua_alone(g);
    return;
  }
  find_reached(g);
  for (size_t i = 0; i < g->native->count && !g->nomem; i++) {
    if (i)
      push_between(g, g->native->frame[i - 1].sp, g->native->frame[i].sp);
    push_frame(g, i, &vm_seen);
  }
  push_root(g, push_leftovers(g));
}
