/* SPDX-License-Identifier: MIT
 *
 * Frames of compiled code.  What the walk saw of a trace is what the snapshot
 * before the instruction would restore, often of another line, or of a function
 * that has returned already; the trace's lines say where the instruction
 * belongs.  The frames below the trace's own are those on the Lua stack, which
 * the walk has right.
 */
#include "merge/compiled.h"

#include <stdlib.h>
#include <string.h>

#include "merge/merge_internal.h"
#include "vmcore/layout.h"

enum {
  CHAIN_MAX = 128,
  REF_BIAS = 0x8000,    /* lj_ir.h: constants lie below */
  SNAP_FRAME = 0x10000, /* lj_jit.h */
  SNAP_CONT = 0x20000,  /* lj_jit.h */
  LINK_LUA = 0,
  LINK_CONT = 2, /* lj_frame.h, types of a link */
  LINK_VARG = 3,
};

/* A frame that was inlined by a parent of the trace, as snapshot 0 has it. */
struct outer {
  uint32_t depth;    /* as the recorder counts: frames and continuations */
  uint32_t function; /* VM_NO_FUNCTION: see ffid */
  uint32_t pc;       /* of a tecs_frame; 0: not known */
  uint8_t ffid;      /* of a builtin; 0: none that has a name */
  bool repeats;      /* a vararg frame: the next one out is the same function */
};

/* What is made of a trace, kept with it. */
struct compiled {
  struct maker *maker;
  struct maker_job *job; /* NULL: made, or there is no map */
  struct lines_map *map;
  bool asked;
  bool has_outer; /* what follows is known */
  uint32_t depth; /* of the trace's first bytecode */
  uint32_t base_pc;
  uint32_t nouter;
  struct outer outer[]; /* innermost first */
};

static void made_end(void *made)
{
  struct compiled *c = made;
  if (c->job)
    maker_drop(c->maker, c->job);
  lines_map_free(c->map);
  free(c);
}

/* ---- snapshot 0 ---- */

struct slots {
  const struct vm_trace *t;
  const struct vm_layout *lay;
  const uint32_t *entry;
  uint32_t n;
  /* without GC64, where a slot has no room for it: the links of the frames,
   * innermost first (lj_snap.c, snapshot_framelinks) */
  const uint32_t *link;
  uint32_t nlink;
};

/* A constant of 64 bits, or an object's address; 0: it is none.  With GC64 it
 * stands behind its instruction, else an address is in it (lj_ir.h, IRIns). */
static uint64_t constant(const struct slots *s, uint32_t ref)
{
  const struct vm_trace *t = s->t;
  const struct vm_layout *lay = s->lay;
  uint64_t v = 0;
  if (ref < t->nk || ref + 1 >= REF_BIAS || ref + 1 >= t->nins)
    return 0;
  const uint8_t *ir = t->ir + (size_t)(ref - t->nk) * 8;
  if (ir[5] == lay->ir_kgc && !lay->gc64)
    memcpy(&v, ir, 4);
  else if (ir[5] == lay->ir_kgc || ir[5] == lay->ir_knum ||
           ir[5] == lay->ir_kint64)
    memcpy(&v, ir + 8, 8);
  return v;
}

/* Constant in a slot; 0: it has none. */
static uint64_t slot(const struct slots *s, uint32_t number)
{
  for (uint32_t i = 0; i < s->n; i++)
    if (s->entry[i] >> 24 == number)
      return constant(s, s->entry[i] & 0xffff);
  return 0;
}

static uint64_t next_link(struct slots *s)
{
  if (!s->nlink)
    return 0;
  s->nlink--;
  return *s->link++;
}

static bool open_slots(struct slots *s, const struct vm_trace *t)
{
  *s = (struct slots){.t = t, .lay = vm_layout_get(t->layout)};
  if (!s->lay || !t->nsnap || t->snap[0].mapofs > t->nsnapmap ||
      t->snap[0].nent > t->nsnapmap - t->snap[0].mapofs)
    return false;
  s->entry = t->snapmap + t->snap[0].mapofs;
  s->n = t->snap[0].nent;
  uint32_t end = t->nsnap > 1 && t->snap[1].mapofs < t->nsnapmap
                     ? t->snap[1].mapofs
                     : t->nsnapmap;
  s->link = s->entry + s->n;
  s->nlink =
      end - t->snap[0].mapofs > s->n ? end - t->snap[0].mapofs - s->n : 0;
  next_link(s); /* the first is where the trace begins */
  return true;
}

/* Is it a frame that was inlined, or what goes on in one?  The lowest slots are
 * those of the trace's own. */
static bool is_inlined(const struct slots *s, uint32_t entry, uint32_t what)
{
  return entry >> 24 >= (s->lay->gc64 ? 2 : 1) && entry & what;
}

static uint64_t function_at(const struct slots *s, uint32_t entry)
{
  return s->lay->gc64 ? slot(s, (entry >> 24) - 1)
                      : constant(s, entry & 0xffff);
}

static uint64_t link_at(struct slots *s, uint32_t entry)
{
  return s->lay->gc64 ? constant(s, entry & 0xffff) : next_link(s);
}

/* lj_frame.h, frame_contpc */
static uint64_t contpc_at(struct slots *s, uint32_t entry)
{
  return s->lay->gc64 ? slot(s, (entry >> 24) - 2) : next_link(s);
}

static void name_outer(const struct slots *s, uint64_t fn, struct outer *o)
{
  const struct vm_trace *t = s->t;
  o->function = VM_NO_FUNCTION;
  for (uint32_t i = 0; i < t->nobject; i++)
    if (t->object[i].addr == (fn & VM_GCV_MASK)) {
      o->function = t->object[i].function;
      o->ffid = t->object[i].ffid;
    }
}

/* Index of a bytecode address in any function of the trace, as a tecs_frame's
 * pc has it behind a call; 0: in none. */
static uint32_t pc_of(struct vm_store *vm, const struct vm_trace *t,
                      uint64_t addr)
{
  struct vm_code c;
  for (uint32_t i = 0; i < t->nobject; i++)
    if (vm_function_code(vm, t->object[i].function, &c) && addr > c.bcaddr &&
        (addr - c.bcaddr) / 4 <= c.nbc)
      return (uint32_t)((addr - c.bcaddr) / 4);
  return 0;
}

/* Where the frame below the one of this entry and link goes on. */
static uint32_t pc_below(struct vm_store *vm, struct slots *s, uint32_t entry,
                         uint64_t link, uint32_t pc)
{
  if ((link & 3) == LINK_LUA)
    return pc_of(vm, s->t, link);
  if ((link & 7) == LINK_CONT)
    return pc_of(vm, s->t, contpc_at(s, entry));
  return (link & 7) == LINK_VARG ? pc : 0;
}

static void list_outer(struct vm_store *vm, struct slots *s, struct compiled *c)
{
  uint32_t depth = c->depth, pc = s->t->startindex + 1;
  for (uint32_t i = s->n; i > 0; i--) {
    uint32_t e = s->entry[i - 1];
    if (!is_inlined(s, e, SNAP_FRAME | SNAP_CONT))
      continue;
    if (e & SNAP_FRAME) {
      struct outer *o = &c->outer[c->nouter++];
      uint64_t link = link_at(s, e);
      *o = (struct outer){.depth = depth, .pc = pc};
      o->repeats = (link & 7) == LINK_VARG;
      name_outer(s, function_at(s, e), o);
      pc = pc_below(vm, s, e, link, pc);
    }
    depth--;
  }
  c->base_pc = pc;
}

static struct compiled *compiled_new(struct vm_store *vm, struct vm_trace *t)
{
  struct slots s;
  bool ok = open_slots(&s, t);
  struct compiled *c =
      calloc(1, sizeof *c + (ok ? s.n : 0) * sizeof(struct outer));
  if (!c)
    return NULL;
  c->has_outer = ok;
  for (uint32_t i = 0; ok && i < s.n; i++)
    c->depth += is_inlined(&s, s.entry[i], SNAP_FRAME | SNAP_CONT);
  if (ok)
    list_outer(vm, &s, c);
  c->maker = maker_of(vm);
  t->made = c;
  t->made_end = made_end;
  return c;
}

/* The trace's map, as far as there is one by now. */
static struct compiled *compiled_of(struct merging *g, struct vm_trace *t)
{
  struct compiled *c = t->made ? t->made : compiled_new(g->vm, t);
  if (!c) {
    g->nomem = true;
    return NULL;
  }
  if (!c->asked && c->maker) {
    c->job = maker_ask(c->maker, g->vm, t);
    c->asked = c->job != NULL;
  }
  if (c->job && maker_take(c->maker, c->job, &c->map))
    c->job = NULL;
  return c;
}

/* ---- frames ---- */

static void push_text(struct merging *g, const char *text, const char *mark)
{
  if (!text) {
    merge_push(
        g, (struct item){.frame = g->m->fixed[FIXED_PARTIAL], .mark = true});
    return;
  }
  struct strbuf *b = &g->m->text;
  strbuf_clear(b);
  strbuf_add_str(b, text);
  strbuf_add_str(b, mark);
  g->nomem = g->nomem || b->failed;
  merge_push(g, (struct item){.frame = merge_intern(g, strbuf_text(b))});
}

static void push_function(struct merging *g, uint32_t function, uint32_t pc)
{
  push_text(g, vm_function_text(g->vm, function, pc, g->o->lines), "");
}

static void push_outer(struct merging *g, const struct vm_trace *t,
                       const struct outer *o)
{
  const char *name;
  if (o->function != VM_NO_FUNCTION)
    push_function(g, o->function, o->pc);
  else if (o->ffid && (name = vm_builtin_text(g->vm, t->g, t->layout, o->ffid)))
    push_text(g, name, "");
}

/* The frames between one of depth `depth`, which stands already, and the
 * trace's base.  true: the base's own function stands, too. */
static bool push_below(struct merging *g, const struct vm_trace *t,
                       const struct compiled *c, uint32_t depth)
{
  bool repeated = false;
  for (uint32_t i = 0; i < c->nouter; i++) {
    const struct outer *o = &c->outer[i];
    if (o->depth > depth)
      continue;
    if (o->depth < depth && !repeated && !o->repeats)
      push_outer(g, t, o);
    repeated = o->repeats && (o->depth == depth || repeated);
  }
  return repeated;
}

/* One compiled sample on its way. */
struct leaf {
  const struct vm_trace *t;
  const struct compiled *c;
  const struct tecs_frame *base; /* of the trace, on the Lua stack */
  const struct tecs_frame *next; /* below it; NULL: none */
  size_t used;                   /* frames of the run that are done */
};

static void push_base(struct merging *g, struct leaf *l)
{
  uint32_t function;
  if (vm_function_of(g->vm, g->slot, (uint32_t)l->base->value, &function))
    push_function(g, function, l->c->base_pc ? l->c->base_pc : l->base->pc);
  else
    push_text(g, NULL, "");
}

/* The trace's start, at the level where nothing else is known. */
static bool push_start(struct merging *g, struct leaf *l)
{
  if (!l->c->has_outer || l->t->start == VM_NO_FUNCTION)
    return false;
  push_text(
      g,
      vm_function_text(g->vm, l->t->start, l->t->startindex + 1, g->o->lines),
      g->o->lines ? MERGE_MARK_TRACE : "");
  if (l->c->depth && !push_below(g, l->t, l->c, l->c->depth))
    push_base(g, l);
  return true;
}

static bool is_header(const struct lines_event *e)
{
  return e->proto != LINES_NO_PROTO && e->pc == 0;
}

static void push_event(struct merging *g, const struct lines_event *e,
                       bool line)
{
  if (line)
    push_function(g, e->proto, e->pc + 1);
  else
    push_text(g, vm_function_text(g->vm, e->proto, 0, false),
              g->o->lines ? MERGE_MARK_FUNCTION : "");
}

/* A vararg function has two frames, in the outer of which it is at its header;
 * a builtin has no prototype. */
static bool is_shown(const struct lines_event *event, const uint32_t *chain,
                     size_t i, size_t n)
{
  const struct lines_event *e = &event[chain[i]];
  if (e->proto == LINES_NO_PROTO)
    return false;
  return !(is_header(e) && i + 1 < n && event[chain[i + 1]].proto == e->proto);
}

/* Does the Lua stack show the frame that the trace was recorded on?  Else it is
 * moving between two. */
static bool fits_base(struct merging *g, const struct leaf *l,
                      const struct lines_map *map, uint32_t *function)
{
  bool any = false;
  if (!vm_function_of(g->vm, g->slot, (uint32_t)l->base->value, function))
    return false;
  for (uint32_t i = 0; i < map->nevent; i++) {
    const struct lines_event *e = &map->event[i];
    if (!e->depth && e->proto == *function)
      return true;
    any = any || !e->depth;
  }
  return !any;
}

static void push_chain(struct merging *g, struct leaf *l, uint32_t event,
                       enum lines_level level)
{
  const struct lines_event *e = l->c->map->event;
  uint32_t chain[CHAIN_MAX], function;
  size_t n = lines_map_chain(l->c->map, event, chain, CHAIN_MAX);
  n = n < CHAIN_MAX ? n : CHAIN_MAX;
  bool innermost = true;
  for (size_t i = n; i > 0; i--) {
    if (!is_shown(e, chain, i - 1, n))
      continue;
    push_event(g, &e[chain[i - 1]], !innermost || level == LINES_LEVEL_LINE);
    innermost = false;
  }
  uint32_t depth = e[chain[0]].depth;
  if (depth && !push_below(g, l->t, l->c, depth))
    push_base(g, l);
  /* returned below the frame that it began on, which the stack still shows */
  if (!depth && l->next && l->next->kind == TECS_FRAME_LUA &&
      vm_function_of(g->vm, g->slot, (uint32_t)l->next->value, &function) &&
      function == e[chain[0]].proto &&
      vm_function_of(g->vm, g->slot, (uint32_t)l->base->value, &function) &&
      function != e[chain[0]].proto)
    l->used++;
}

static enum merge_compiled push_mapped(struct merging *g, struct leaf *l)
{
  const struct lines_map *map = l->c->map;
  const struct lines_place *p =
      map ? lines_map_at(map, g->s->vm[0].mcode_pc - l->t->mcode) : NULL;
  enum lines_level level = p ? lines_place_level(map, p) : LINES_LEVEL_TRACE;
  uint32_t event = 0, function;
  if (level != LINES_LEVEL_TRACE)
    event = level == LINES_LEVEL_LINE ? p->event : p->fn_event;
  if (level == LINES_LEVEL_TRACE || event >= map->nevent ||
      (map->event[event].depth && !l->c->has_outer))
    return push_start(g, l) ? MERGE_COMPILED_TRACE : MERGE_COMPILED_SNAPSHOT;
  if (!fits_base(g, l, map, &function))
    return MERGE_COMPILED_SNAPSHOT;
  push_chain(g, l, event, level);
  return level == LINES_LEVEL_LINE ? MERGE_COMPILED_LINE
                                   : MERGE_COMPILED_FUNCTION;
}

size_t merge_push_compiled(struct merging *g, const struct run *r)
{
  const struct sample_view *s = g->s;
  size_t i = 0;
  if (r->vm || r->first || g->compiled || !s->vm[0].trace)
    return 0;
  g->compiled = MERGE_COMPILED_SNAPSHOT;
  while (i < r->count && s->lua[i].flags & TECS_FRAME_INLINED)
    i++;
  struct vm_trace *t = vm_trace_of(g->vm, g->slot, &s->vm[0]);
  if (!t || i == r->count || s->lua[i].kind != TECS_FRAME_LUA ||
      s->lua[i].value > UINT32_MAX)
    return 0;
  struct leaf l = {.t = t,
                   .c = compiled_of(g, t),
                   .base = &s->lua[i],
                   .next = i + 1 < r->count ? &s->lua[i + 1] : NULL,
                   .used = i + 1};
  if (!l.c)
    return 0;
  g->compiled = push_mapped(g, &l);
  return g->compiled == MERGE_COMPILED_SNAPSHOT ? 0 : l.used;
}
