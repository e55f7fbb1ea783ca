/* SPDX-License-Identifier: MIT
 *
 * The name of a function whose parent is gone, from where it is kept.  The
 * order of belief is enum late_rank's; within a rank the shortest path, then
 * the first in byte order, so that it does not depend on the order in which
 * the walk met things.
 *
 * An upvalue only counts when all closures of the function that has it hold
 * the very same value, in the chunk where the function was written, and when
 * it is not known to be a parameter: what wrappers call `fn` is no name.
 */
#include <string.h>

#include "util/hash.h"
#include "vm/late_internal.h"

enum {
  TABLES_MAX = 3,       /* on a path: a.b.c.f */
  NODES_MAX = 1 << 16,  /* of a table that is looked through */
  NESTED_MAX = 1 << 12, /* of a table whose tables are, too */
  WORK_MAX = 1 << 20,   /* nodes looked at in one pick */
  SCOPES_MAX = 16,
  KEY_MAX = VM_NAME_MAX,
  PROTO_UV_LOCAL = 0x8000, /* lj_obj.h */
};

struct path {
  const struct path *up;
  uint64_t tab;
  char name[VM_NAME_MAX];
  size_t len;
  unsigned depth; /* tables */
};

/* What the search is about. */
struct search {
  enum late_rank rank;
  uint64_t chunk;  /* only functions of this chunk; 0: of any */
  uint64_t hidden; /* a table that is not entered: _G, package.loaded */
  uint32_t work;
};

/* ---- choosing ---- */

static int compare(const struct late_place *a, const struct late_place *b)
{
  if (a->rank != b->rank)
    return a->rank < b->rank ? -1 : 1;
  if (a->depth != b->depth)
    return a->depth < b->depth ? -1 : 1;
  size_t len = a->len < b->len ? a->len : b->len;
  int c = memcmp(a->name, b->name, len);
  return c ? c : (int)a->len - (int)b->len;
}

static void propose(struct late_want *w, enum late_rank rank, unsigned depth,
                    const char *name, size_t len)
{
  struct late_place p = {.rank = (uint8_t)rank, .depth = (uint8_t)depth};
  if (len == 0 || len > sizeof p.name)
    return;
  p.len = (uint8_t)len;
  memcpy(p.name, name, len);
  bool rival = w->place.rank == rank && rank == LATE_UPVALUE;
  if (rival && compare(&p, &w->place) != 0)
    w->place.doubtful = true; /* two captures disagree: one is an alias */
  else if (compare(&p, &w->place) < 0)
    w->place = p;
}

/* ---- tables ---- */

/* Appends a key to a path; ':' for what takes self, as the source would. */
static bool join(struct path *p, const struct path *up, char separator,
                 const char *key, size_t len)
{
  size_t sep = up->len ? 1 : 0;
  if (up->len + sep + len > sizeof p->name)
    return false;
  memcpy(p->name, up->name, up->len);
  if (sep)
    p->name[up->len] = separator;
  memcpy(p->name + up->len + sep, key, len);
  p->len = up->len + sep + len;
  return true;
}

static void function_in(struct late *l, const struct search *s,
                        const struct path *in, uint64_t fn, const char *key,
                        size_t len)
{
  struct path p;
  uint64_t pt = late_proto(l, fn);
  struct late_want *w = pt ? late_find(l, pt) : NULL;
  if (!w)
    return;
  if (s->chunk && vm_ref(l->m, l->lay, pt + l->lay->pt_chunkname) != s->chunk)
    return;
  char separator = vm_takes_self(l->m, l->lay, pt) ? ':' : '.';
  if (join(&p, in, separator, key, len))
    propose(w, s->rank, in->depth, p.name, p.len);
}

static bool on_the_way(const struct path *p, uint64_t tab)
{
  for (; p; p = p->up)
    if (p->tab == tab)
      return true;
  return false;
}

/* `package.loaded["lib.busy"]` is used as `busy`. */
static void skip_folders(const char **key, size_t *len)
{
  for (size_t i = *len; i-- > 0;)
    if ((*key)[i] == '.' || (*key)[i] == '/') {
      if (i + 1 < *len) {
        *key += i + 1;
        *len -= i + 1;
      }
      return;
    }
}

static void table(struct late *l, struct search *s, const struct path *p);

static void table_in(struct late *l, struct search *s, const struct path *in,
                     uint64_t tab, const char *key, size_t len)
{
  struct path p = {.up = in, .tab = tab, .depth = in->depth + 1};
  if (in->depth + 1 > TABLES_MAX || tab == s->hidden || on_the_way(in, tab))
    return;
  if (len >= 2 && key[0] == '_' && key[1] == '_')
    return; /* __index and the like lead to what has a name of its own */
  if (s->rank == LATE_LOADED && in->depth == 0)
    skip_folders(&key, &len);
  if (join(&p, in, '.', key, len))
    table(l, s, &p);
}

static void table(struct late *l, struct search *s, const struct path *p)
{
  const struct vm_layout *lay = l->lay;
  uint64_t node = vm_ref(l->m, lay, p->tab + lay->tab_node);
  uint32_t hmask = vm_load4(l->m, p->tab + lay->tab_hmask);
  uint32_t faults = l->m->faults;
  bool nested = hmask < NESTED_MAX;
  char key[KEY_MAX];
  if (hmask >= NODES_MAX)
    return;
  for (uint32_t i = 0; i <= hmask && l->m->faults == faults; i++) {
    uint64_t at = node + (uint64_t)i * lay->node_sizeof;
    uint64_t tv = vm_load8(l->m, at + lay->node_val);
    uint64_t fn = late_value(l, tv, VM_GCT_FUNC);
    uint64_t tab = fn || !nested ? 0 : late_value(l, tv, VM_GCT_TAB);
    if (s->work == 0 || l->left == 0)
      return;
    s->work--;
    if (!fn && !tab)
      continue;
    uint64_t str =
        late_value(l, vm_load8(l->m, at + lay->node_key), VM_GCT_STR);
    size_t len = late_string(l, str, key, sizeof key);
    if (len > 0 && fn)
      function_in(l, s, p, fn, key, len);
    else if (len > 0)
      table_in(l, s, p, tab, key, len);
  }
}

/* The table under a string key, 0: none. */
static uint64_t member(struct late *l, uint64_t tab, const char *want)
{
  const struct vm_layout *lay = l->lay;
  uint64_t node = vm_ref(l->m, lay, tab + lay->tab_node);
  uint32_t hmask = vm_load4(l->m, tab + lay->tab_hmask);
  char key[32];
  for (uint32_t i = 0; i <= hmask && i < NODES_MAX; i++) {
    uint64_t at = node + (uint64_t)i * lay->node_sizeof;
    uint64_t str =
        late_value(l, vm_load8(l->m, at + lay->node_key), VM_GCT_STR);
    size_t len = late_string(l, str, key, sizeof key);
    if (len == strlen(want) && memcmp(key, want, len) == 0)
      return late_value(l, vm_load8(l->m, at + lay->node_val), VM_GCT_TAB);
  }
  return 0;
}

/* ---- the rules ---- */

/* All functions of a module have it as the same upvalue. */
static bool first_time(struct late *l, const struct search *s,
                       const struct path *p)
{
  uint64_t key = hash_u64(p->tab) + hash_u64(s->chunk) * 31 +
                 ((uint64_t)hash_bytes(p->name, p->len) << 32);
  uint32_t there;
  return !idmap_get(&l->looked_through, key, &there) &&
         idmap_put(&l->looked_through, key, 1);
}

/* The variable that an upvalue stands for is a parameter of the function that
 * has it (lj_obj.h, PROTO_UV_LOCAL: a local of the parent, else the parent's
 * upvalue).  false when that function is gone: main chunks, mostly, which have
 * none. */
static bool is_parameter(struct late *l, const struct late_upvalue *u)
{
  const struct vm_layout *lay = l->lay;
  uint64_t pt = u->proto;
  uint32_t idx = u->idx;
  for (unsigned i = 0; i < SCOPES_MAX; i++) {
    uint64_t uv = vm_ref(l->m, lay, pt + lay->pt_uv);
    uint32_t of = vm_load2(l->m, uv + 2 * (uint64_t)idx);
    pt = late_parent(l, pt);
    if (!pt)
      return false;
    if (of & PROTO_UV_LOCAL)
      return (of & 0xff) < vm_load1(l->m, pt + lay->pt_numparams);
    idx = of & 0xff;
  }
  return false;
}

static void upvalue(struct late *l, struct search *s,
                    const struct late_upvalue *u)
{
  struct path p = {.depth = 1};
  if (u->several || !late_is(l, u->proto, VM_GCT_PROTO))
    return;
  s->chunk = vm_ref(l->m, l->lay, u->proto + l->lay->pt_chunkname);
  uint64_t fn = late_value(l, u->value, VM_GCT_FUNC);
  uint64_t pt = fn ? late_proto(l, fn) : 0;
  struct late_want *w = pt ? late_find(l, pt) : NULL;
  p.tab = fn ? 0 : late_value(l, u->value, VM_GCT_TAB);
  if ((!p.tab && !w) || is_parameter(l, u))
    return;
  if (w && vm_ref(l->m, l->lay, pt + l->lay->pt_chunkname) != s->chunk)
    return;
  p.len = vm_upvalue_name(l->m, l->lay, u->proto, u->idx, p.name);
  if (w)
    propose(w, LATE_UPVALUE, 0, p.name, p.len);
  else if (p.len > 0 && p.tab != s->hidden && first_time(l, s, &p))
    table(l, s, &p);
}

static uint64_t loaded(struct late *l)
{
  uint64_t tv = vm_load8(l->m, l->g + l->lay->g_registrytv);
  uint64_t registry = late_value(l, tv, VM_GCT_TAB);
  return registry ? member(l, registry, "_LOADED") : 0;
}

void late_pick(struct late *l)
{
  struct search s = {.work = WORK_MAX};
  struct path root = {.depth = 0};
  uint64_t modules = loaded(l);
  uint64_t globals = modules ? member(l, modules, "_G") : 0;
  s.rank = LATE_FIELD;
  s.hidden = globals;
  /* Closures that were not seen may hold another value. */
  for (size_t i = 0; i < l->upvalue_count && !l->incomplete; i++)
    upvalue(l, &s, &l->upvalue[i]);
  for (size_t i = 0; i < l->want_count; i++)
    if (l->want[i].place.doubtful)
      l->want[i].place = (struct late_place){.rank = LATE_NOWHERE};
  s.chunk = 0;
  s.rank = LATE_GLOBAL;
  s.hidden = modules;
  root.tab = globals;
  if (globals)
    table(l, &s, &root);
  s.rank = LATE_LOADED;
  s.hidden = globals;
  root.tab = modules;
  if (modules)
    table(l, &s, &root);
  for (size_t i = 0; i < l->want_count; i++) {
    struct late_want *w = &l->want[i];
    if (w->place.rank != LATE_NOWHERE)
      late_named(l, w, w->place.name, w->place.len);
  }
}
