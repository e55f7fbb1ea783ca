/* SPDX-License-Identifier: MIT
 *
 * Visits all objects that the registry and the main thread reach, breadth
 * first, so that what a bound cuts off is far from the roots.  On the way,
 * parents that are still alive name their children at once, as at load time;
 * upvalues are noted for late_pick.c.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vm/late_internal.h"
#include "vmcore/discover.h"

enum {
  OBJECTS_MAX = 1 << 20,  /* visited in one walk */
  UPVALUES_MAX = 1 << 18, /* noted in one walk */
  ARRAY_MAX = 1 << 22,    /* elements of one table */
  NODES_MAX = 1 << 21,
  KGC_MAX = 1 << 16,
  STACK_MAX = 1 << 16,
  CLOCK_EVERY = 32,       /* objects */
  CLOCK_VALUES = 1 << 12, /* values of one object */
};

/* PROTO_CHILD, FF_LUA in lj_obj.h. */
#define PROTO_CHILD 0x01
#define FF_LUA 0

uint64_t late_clock(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* ---- objects ---- */

bool late_is(struct late *l, uint64_t obj, enum vm_gct gct)
{
  /* GCHeader is the same for every object (lj_obj.h). */
  return vm_plausible(obj) && vm_load1(l->m, obj + l->lay->L_gct) == gct;
}

uint64_t late_value(struct late *l, uint64_t tv, enum vm_gct gct)
{
  uint64_t obj = vm_value_as(l->lay, tv, gct);
  return late_is(l, obj, gct) ? obj : 0;
}

uint64_t late_proto(struct late *l, uint64_t fn)
{
  if (vm_load1(l->m, fn + l->lay->fn_ffid) != FF_LUA)
    return 0;
  uint64_t pt = vm_ref(l->m, l->lay, fn + l->lay->fn_pc) - l->lay->pt_sizeof;
  return late_is(l, pt, VM_GCT_PROTO) ? pt : 0;
}

size_t late_string(struct late *l, uint64_t str, char *out, size_t cap)
{
  uint32_t faults = l->m->faults;
  size_t len = str ? vm_load4(l->m, str + l->lay->str_len) : 0;
  if (len > cap)
    return 0;
  for (size_t i = 0; i < len; i++)
    out[i] = (char)vm_load1(l->m, str + l->lay->str_sizeof + i);
  return l->m->faults == faults ? len : 0;
}

/* ---- wants ---- */

void late_init(struct late *l, const struct vm_layout *lay, uint64_t g)
{
  *l = (struct late){.lay = lay, .g = g};
}

/* Walks are rare: their memory is not kept. */
static void forget_walk(struct late *l)
{
  free(l->queue);
  free(l->upvalue);
  idmap_free(&l->seen);
  idmap_free(&l->parents);
  idmap_free(&l->upvalue_ids);
  idmap_free(&l->looked_through);
  l->queue = NULL;
  l->upvalue = NULL;
  l->queue_cap = l->head = l->tail = 0;
  l->upvalue_cap = l->upvalue_count = 0;
  l->walking = false;
}

void late_free(struct late *l)
{
  for (size_t i = 0; i < l->want_count; i++)
    free((char *)l->want[i].chunk);
  free(l->want);
  idmap_free(&l->by_proto);
  forget_walk(l);
}

/* Doubles *array as needed. */
static bool grow(void **array, size_t *cap, size_t count, size_t size)
{
  if (count < *cap)
    return true;
  size_t want = *cap ? 2 * *cap : 256;
  void *p = realloc(*array, want * size);
  if (!p)
    return false;
  *array = p;
  *cap = want;
  return true;
}

size_t late_want(struct late *l, const struct late_want *w)
{
  void *array = l->want;
  if (!grow(&array, &l->want_cap, l->want_count, sizeof *l->want))
    return SIZE_MAX;
  l->want = array;
  char *chunk = strdup(w->chunk);
  if (!chunk || !idmap_put(&l->by_proto, w->proto, (uint32_t)l->want_count)) {
    free(chunk);
    return SIZE_MAX;
  }
  l->want[l->want_count] = *w;
  l->want[l->want_count].chunk = chunk;
  l->want[l->want_count].place.rank = LATE_NOWHERE;
  l->left++;
  return l->want_count++;
}

static bool same_chunk(struct late *l, const struct late_want *w)
{
  uint64_t str = vm_ref(l->m, l->lay, w->proto + l->lay->pt_chunkname);
  if (!late_is(l, str, VM_GCT_STR))
    return false;
  size_t len = vm_load4(l->m, str + l->lay->str_len), skip = 0;
  size_t want = strlen(w->chunk);
  if (w->chunk_tail && len > want)
    skip = len - want; /* between its first byte and its tail */
  if (len < want || (len != want && !w->chunk_tail))
    return false;
  for (size_t i = 0; i < want; i++) {
    uint64_t at = str + l->lay->str_sizeof + (i ? i + skip : 0);
    uint32_t c = vm_load1(l->m, at);
    if ((c ? c : '?') != (uint8_t)w->chunk[i])
      return false;
  }
  return true;
}

/* Not by its opcodes: those are patched in place by the JIT compiler. */
bool late_same(struct late *l, const struct late_want *w)
{
  const struct vm_layout *lay = l->lay;
  uint32_t faults = l->m->faults;
  return late_is(l, w->proto, VM_GCT_PROTO) &&
         vm_load4(l->m, w->proto + lay->pt_firstline) == w->firstline &&
         vm_load4(l->m, w->proto + lay->pt_numline) == w->numline &&
         vm_load4(l->m, w->proto + lay->pt_sizebc) == w->sizebc &&
         same_chunk(l, w) && l->m->faults == faults;
}

struct late_want *late_find(struct late *l, uint64_t proto)
{
  uint32_t i;
  if (!idmap_get(&l->by_proto, proto, &i) || l->want[i].named)
    return NULL;
  return &l->want[i];
}

void late_named(struct late *l, struct late_want *w, const char *name,
                size_t len)
{
  if (w->named || !late_same(l, w))
    return;
  w->named = true;
  l->left--;
  l->fn(l->ctx, w, name, len);
}

uint64_t late_parent(struct late *l, uint64_t proto)
{
  uint32_t i;
  if (!idmap_get(&l->parents, proto, &i))
    return 0;
  return late_is(l, l->queue[i].addr, VM_GCT_PROTO) ? l->queue[i].addr : 0;
}

/* ---- the walk ---- */

static void visit(struct late *l, uint64_t obj, uint32_t gct)
{
  uint32_t there;
  if (idmap_get(&l->seen, obj, &there))
    return;
  void *queue = l->queue;
  if (l->tail >= OBJECTS_MAX ||
      !grow(&queue, &l->queue_cap, l->tail, sizeof *l->queue) ||
      !idmap_put(&l->seen, obj, 1)) {
    l->incomplete = true;
    return;
  }
  l->queue = queue;
  l->queue[l->tail++] = (struct late_object){obj, gct};
}

static void visit_ref(struct late *l, uint64_t obj, enum vm_gct gct)
{
  if (late_is(l, obj, gct))
    visit(l, obj, gct);
}

static void visit_value(struct late *l, uint64_t tv)
{
  uint32_t gct = vm_value_type(l->lay, tv);
  switch (gct) {
  case VM_GCT_THREAD:
  case VM_GCT_PROTO:
  case VM_GCT_FUNC:
  case VM_GCT_TAB:
  case VM_GCT_UDATA:
    visit_ref(l, vm_value_obj(l->lay, tv), gct);
    break;
  }
}

static bool in_time(struct late *l)
{
  l->late = l->late || late_clock() > l->deadline;
  return !l->late;
}

/* Tagged values, until one can't be read or the time is up. */
static void visit_values(struct late *l, uint64_t from, uint64_t n,
                         uint32_t step)
{
  uint32_t faults = l->m->faults;
  for (uint64_t i = 0; i < n && l->m->faults == faults; i++) {
    if (i % CLOCK_VALUES == CLOCK_VALUES - 1 && !in_time(l))
      return;
    visit_value(l, vm_load8(l->m, from + i * step));
  }
}

static void visit_table(struct late *l, uint64_t t)
{
  const struct vm_layout *lay = l->lay;
  uint32_t asize = vm_load4(l->m, t + lay->tab_asize);
  uint32_t hmask = vm_load4(l->m, t + lay->tab_hmask);
  uint64_t node = vm_ref(l->m, lay, t + lay->tab_node);
  visit_ref(l, vm_ref(l->m, lay, t + lay->tab_metatable), VM_GCT_TAB);
  /* lj_tab.c, newhpart: a power of two */
  if (asize > ARRAY_MAX || hmask >= NODES_MAX || (hmask & (hmask + 1)) != 0) {
    l->incomplete = true;
    return;
  }
  visit_values(l, vm_ref(l->m, lay, t + lay->tab_array), asize, 8);
  visit_values(l, node + lay->node_val, (uint64_t)hmask + 1, lay->node_sizeof);
  visit_values(l, node + lay->node_key, (uint64_t)hmask + 1, lay->node_sizeof);
}

/* Notes a function or table that the upvalue of a referrer holds.  Other
 * closures of the referrer must hold the very same. */
static void note_upvalue(struct late *l, uint64_t proto, uint8_t idx,
                         uint64_t tv)
{
  uint32_t gct = vm_value_type(l->lay, tv), id;
  if (gct != VM_GCT_FUNC && gct != VM_GCT_TAB)
    return;
  uint64_t key = proto << 8 | idx;
  if (idmap_get(&l->upvalue_ids, key, &id)) {
    if (l->upvalue[id].value != tv)
      l->upvalue[id].several = true;
    return;
  }
  void *array = l->upvalue;
  if (l->upvalue_count >= UPVALUES_MAX ||
      !grow(&array, &l->upvalue_cap, l->upvalue_count, sizeof *l->upvalue) ||
      !idmap_put(&l->upvalue_ids, key, (uint32_t)l->upvalue_count)) {
    l->incomplete = true;
    return;
  }
  l->upvalue = array;
  l->upvalue[l->upvalue_count++] =
      (struct late_upvalue){.proto = proto, .value = tv, .idx = idx};
}

static void visit_function(struct late *l, uint64_t fn)
{
  const struct vm_layout *lay = l->lay;
  unsigned n = vm_load1(l->m, fn + lay->fn_nupvalues);
  uint64_t pt = late_proto(l, fn);
  visit_ref(l, vm_ref(l->m, lay, fn + lay->fn_env), VM_GCT_TAB);
  if (!pt) {
    visit_values(l, fn + lay->fn_upvalue, n, 8);
    return;
  }
  visit(l, pt, VM_GCT_PROTO);
  for (unsigned i = 0; i < n; i++) {
    uint64_t uv =
        vm_ref(l->m, lay, fn + lay->fn_uvptr + vm_ref_size(lay) * (uint64_t)i);
    if (!late_is(l, uv, VM_GCT_UPVAL))
      continue;
    uint64_t tv = vm_load8(l->m, vm_ref(l->m, lay, uv + lay->uv_v));
    note_upvalue(l, pt, (uint8_t)i, tv);
    visit_value(l, tv);
  }
}

static void name_child(void *ctx, uint64_t child, const char *name, size_t len)
{
  struct late *l = ctx;
  struct late_want *w = late_find(l, child);
  if (w)
    late_named(l, w, name, len);
}

/* Its children are constants (lj_obj.h, proto_kgc). */
static void visit_proto(struct late *l, uint64_t pt)
{
  const struct vm_layout *lay = l->lay;
  uint64_t k = vm_ref(l->m, lay, pt + lay->pt_k);
  uint32_t n = vm_load4(l->m, pt + lay->pt_sizekgc), faults = l->m->faults;
  bool wanted = false;
  if (!(vm_load1(l->m, pt + lay->pt_flags) & PROTO_CHILD) || n > KGC_MAX)
    return;
  for (uint32_t i = 1; i <= n && l->m->faults == faults; i++) {
    uint64_t obj = vm_ref(l->m, lay, k - vm_ref_size(lay) * (uint64_t)i);
    if (!late_is(l, obj, VM_GCT_PROTO))
      continue;
    wanted |= late_find(l, obj) != NULL;
    idmap_put(&l->parents, obj, (uint32_t)l->head - 1);
    visit(l, obj, VM_GCT_PROTO);
  }
  if (wanted)
    vm_name_children(l->m, lay, pt, name_child, l);
}

/* A one-slot frame is the function in the lower half of a slot, and a link,
 * which is no tag, in the upper one (lj_frame.h). */
static void visit_frames(struct late *l, uint64_t stack, uint64_t n)
{
  uint32_t faults = l->m->faults;
  for (uint64_t i = 0; i < n && l->m->faults == faults; i++) {
    uint64_t slot = vm_load8(l->m, stack + 8 * i);
    if (vm_value_type(l->lay, slot) > VM_TYPE_INT)
      visit_ref(l, vm_value_obj(l->lay, slot), VM_GCT_FUNC);
  }
}

static void visit_thread(struct late *l, uint64_t L)
{
  const struct vm_layout *lay = l->lay;
  uint64_t stack = vm_ref(l->m, lay, L + lay->L_stack);
  uint64_t top = vm_load8(l->m, L + lay->L_top);
  uint64_t n = (top - stack) / 8;
  if (!vm_plausible(stack) || top < stack ||
      n > vm_load4(l->m, L + lay->L_stacksize) || n > STACK_MAX)
    return;
  visit_values(l, stack, n, 8);
  if (!lay->gc64)
    visit_frames(l, stack, n);
}

/* GCudata has its environment where GCfunc has it (lj_obj.h). */
static void visit_userdata(struct late *l, uint64_t ud)
{
  visit_ref(l, vm_ref(l->m, l->lay, ud + l->lay->fn_env), VM_GCT_TAB);
  visit_ref(l, vm_ref(l->m, l->lay, ud + l->lay->ud_metatable), VM_GCT_TAB);
}

static void visit_object(struct late *l, const struct late_object *o)
{
  if (!late_is(l, o->addr, o->gct))
    return; /* collected since */
  switch (o->gct) {
  case VM_GCT_TAB:
    visit_table(l, o->addr);
    break;
  case VM_GCT_FUNC:
    visit_function(l, o->addr);
    break;
  case VM_GCT_PROTO:
    visit_proto(l, o->addr);
    break;
  case VM_GCT_THREAD:
    visit_thread(l, o->addr);
    break;
  case VM_GCT_UDATA:
    visit_userdata(l, o->addr);
    break;
  }
}

static void start(struct late *l)
{
  l->incomplete = false;
  l->walking = true;
  for (size_t i = 0; i < l->want_count; i++)
    l->want[i].place = (struct late_place){.rank = LATE_NOWHERE};
  visit_value(l, vm_load8(l->m, l->g + l->lay->g_registrytv));
  visit_ref(l, vm_ref(l->m, l->lay, l->g + l->lay->g_mainthref), VM_GCT_THREAD);
}

/* Objects until the time is up.  One that was cut short comes again with the
 * whole time of the next call; if that does not do, it stays cut. */
static bool visit_all(struct late *l)
{
  size_t first = l->head;
  while (l->head < l->tail && l->left > 0) {
    struct late_object o = l->queue[l->head++];
    visit_object(l, &o);
    if (l->late && l->head == first + 1)
      l->incomplete = true;
    else if (l->late)
      l->head--;
    if (l->late || (l->head % CLOCK_EVERY == 0 && !in_time(l)))
      return false;
  }
  return true;
}

enum late_state late_run(struct late *l, struct vm_mem *m, uint64_t cpu_ns,
                         late_name_fn *fn, void *ctx)
{
  l->m = m;
  l->fn = fn;
  l->ctx = ctx;
  l->late = false;
  l->deadline = late_clock() + cpu_ns;
  if (!vm_is_global(m, l->lay, l->g))
    return LATE_FAIL;
  if (!l->walking)
    start(l);
  if (!visit_all(l))
    return LATE_MORE;
  if (l->left > 0)
    late_pick(l);
  forget_walk(l);
  return LATE_DONE;
}
