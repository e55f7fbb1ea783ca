/* SPDX-License-Identifier: MIT */
#include "vmcore/zone.h"

#include <string.h>

#include "vmcore/discover.h"
#include "vmcore/table.h"
#include "vmcore/value.h"

enum {
  NODES_MAX = 8192, /* that a table's search looks at */
  /* a search for a missing module costs each call this many entries */
  NODES_PER_CALL = 16,
  HASHED_NODES_MAX = 64, /* zone entries can only be in a small hash part */
};

bool vm_module_loaded(struct vm_mem *m, const struct vm_layout *lay, uint64_t g,
                      const char *name)
{
  uint64_t loaded = vm_loaded_table(m, lay, g);
  uint32_t len = (uint32_t)strlen(name);
  return vm_node_table(m, lay, vm_table_node(m, lay, loaded, name, len)) != 0;
}

static struct vm_zone_field find_field(struct vm_mem *m,
                                       const struct vm_layout *lay,
                                       uint64_t table, const char *name)
{
  struct vm_zone_field f = {.table = table};
  f.entry = vm_table_node(m, lay, table, name, (uint32_t)strlen(name));
  f.value = vm_node_table(m, lay, f.entry);
  if (f.value) {
    f.node = vm_ref(m, lay, table + lay->tab_node);
    f.key = vm_load8(m, f.entry + lay->node_key);
  }
  return f;
}

static void search(struct vm_mem *m, const struct vm_layout *lay, uint64_t g,
                   struct vm_zone_place *p)
{
  uint64_t registry = vm_value_obj(lay, vm_load8(m, g + lay->g_registrytv));
  uint64_t loaded = vm_loaded_table(m, lay, g);
  p->loaded = find_field(m, lay, loaded, "jit.zone");
  p->own = find_field(m, lay, registry, VM_ZONE_OWN);
  p->wait = loaded ? vm_load4(m, loaded + lay->tab_hmask) / NODES_PER_CALL : 0;
  if (p->wait > NODES_MAX / NODES_PER_CALL)
    p->wait = NODES_MAX / NODES_PER_CALL;
}

/* The entry is still where it was and holds the same table. */
static bool still_there(struct vm_mem *m, const struct vm_layout *lay,
                        const struct vm_zone_field *f)
{
  return f->value && vm_ref(m, lay, f->table + lay->tab_node) == f->node &&
         vm_load8(m, f->entry + lay->node_key) == f->key &&
         vm_node_table(m, lay, f->entry) == f->value;
}

static bool is_empty(struct vm_mem *m, const struct vm_layout *lay,
                     uint64_t table)
{
  uint64_t value[2];
  uint32_t left_out;
  return !table || !vm_zone_read(m, lay, table, value, 2, &left_out);
}

uint64_t vm_zone_table(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t g, struct vm_zone_place *p)
{
  if (!still_there(m, lay, &p->loaded)) {
    if (p->loaded.value || !p->wait) {
      search(m, lay, g, p);
    } else {
      p->wait--;
    }
  }
  uint64_t loaded = p->loaded.value, own = p->own.value;
  if (own && own != loaded && still_there(m, lay, &p->own) &&
      is_empty(m, lay, loaded))
    return own;
  return loaded;
}

/* Integer keys outside DUALNUM builds are doubles. */
static uint32_t key_index(const struct vm_layout *lay, uint64_t key)
{
  double d;
  if (vm_value_type(lay, key) == VM_TYPE_INT)
    return (int32_t)key >= 1 ? (uint32_t)key : 0;
  memcpy(&d, &key, sizeof d);
  return d >= 1 && d <= INT32_MAX && d == (double)(int32_t)d ? (uint32_t)d : 0;
}

/* A stack: in the array part, then in the hash part, where LuaJIT puts what
 * follows a full array, until it grows. */
struct stack {
  struct vm_mem *mem;
  const struct vm_layout *lay;
  uint64_t array;
  uint32_t last;                     /* index of the array's last slot, or 0 */
  uint64_t hashed[HASHED_NODES_MAX]; /* t[last + 1], ... */
};

static bool is_nil(const struct stack *s, uint64_t tv)
{
  return vm_value_type(s->lay, tv) == 0;
}

/* t[i], i in 1 .. last + HASHED_NODES_MAX */
static uint64_t at(struct stack *s, uint32_t i)
{
  return i <= s->last ? vm_load8(s->mem, s->array + 8 * (uint64_t)i)
                      : s->hashed[i - s->last - 1];
}

static void read_hashed(struct stack *s, uint64_t table)
{
  const struct vm_layout *lay = s->lay;
  uint64_t node = vm_ref(s->mem, lay, table + lay->tab_node);
  uint64_t n = (uint64_t)vm_load4(s->mem, table + lay->tab_hmask) + 1;
  memset(s->hashed, 0xff, sizeof s->hashed); /* nil */
  for (uint64_t i = 0; n <= HASHED_NODES_MAX && i < n; i++) {
    uint64_t from = node + i * lay->node_sizeof;
    uint32_t index = key_index(lay, vm_load8(s->mem, from + lay->node_key));
    if (index > s->last && index - s->last <= HASHED_NODES_MAX)
      s->hashed[index - s->last - 1] = vm_load8(s->mem, from + lay->node_val);
  }
}

/* The first nil after t[lo], which is none, or the end. */
static uint32_t scan(struct stack *s, uint32_t lo, uint32_t end)
{
  while (lo < end && !is_nil(s, at(s, lo + 1)))
    lo++;
  return lo;
}

/* Number of zones.  Within the first max by looking at each, then as lj_tab_len
 * has it (lj_tab.c). */
static uint32_t depth_of(struct stack *s, uint64_t table, uint32_t max)
{
  uint32_t lo = scan(s, 0, s->last < max ? s->last : max), hi = s->last;
  if (lo < max && lo < hi)
    return lo;
  if (lo < hi && is_nil(s, at(s, hi))) {
    while (hi - lo > 1) {
      uint32_t mid = lo + (hi - lo) / 2;
      if (is_nil(s, at(s, mid)))
        hi = mid;
      else
        lo = mid;
    }
    return lo;
  }
  read_hashed(s, table);
  return scan(s, hi, hi + HASHED_NODES_MAX);
}

unsigned vm_zone_read(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t table, uint64_t *value, unsigned max,
                      uint32_t *left_out)
{
  struct stack s = {
      .mem = m, .lay = lay, .array = vm_ref(m, lay, table + lay->tab_array)};
  uint32_t asize = vm_load4(m, table + lay->tab_asize);
  s.last = asize ? asize - 1 : 0;
  uint32_t depth = depth_of(&s, table, max);
  uint32_t n = depth < max ? depth : max, outer = depth > max ? max / 2 : n;
  for (uint32_t i = 0; i < outer; i++)
    value[i] = at(&s, i + 1);
  for (uint32_t i = outer; i < n; i++)
    value[i] = at(&s, depth - n + i + 1);
  *left_out = depth - n;
  return n;
}
