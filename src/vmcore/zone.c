/* SPDX-License-Identifier: MIT */
#include "vmcore/zone.h"

#include <string.h>

#include "vmcore/discover.h"

enum {
  NODES_MAX = 8192, /* entries of a table that are looked at */
  /* a search for a missing module costs each call this many entries */
  NODES_PER_CALL = 16,
  HASHED_NODES_MAX = 64, /* zone entries can only be in a small hash part */
};

static bool string_is(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t tv, const char *text, uint32_t len)
{
  uint64_t s = tv & VM_GCV_MASK;
  if (vm_itype_inv(tv) != VM_GCT_STR || vm_load4(m, s + lay->str_len) != len)
    return false;
  for (uint32_t i = 0; i < len; i++)
    if (vm_load1(m, s + lay->str_sizeof + i) != (uint8_t)text[i])
      return false;
  return true;
}

/* Address of the node with that key, 0: none. */
static uint64_t find_string(struct vm_mem *m, const struct vm_layout *lay,
                            uint64_t table, const char *text, uint32_t len)
{
  if (!vm_plausible(table) || vm_load1(m, table + lay->L_gct) != VM_GCT_TAB)
    return 0;
  uint64_t node = vm_load8(m, table + lay->tab_node);
  uint64_t n = (uint64_t)vm_load4(m, table + lay->tab_hmask) + 1;
  uint32_t faults = m->faults;
  for (uint64_t i = 0; i < n && i < NODES_MAX && m->faults == faults; i++) {
    uint64_t at = node + i * lay->node_sizeof;
    if (string_is(m, lay, vm_load8(m, at + lay->node_key), text, len))
      return at;
  }
  return 0;
}

static uint64_t table_value(struct vm_mem *m, const struct vm_layout *lay,
                            uint64_t node)
{
  uint64_t tv = node ? vm_load8(m, node + lay->node_val) : 0;
  return vm_itype_inv(tv) == VM_GCT_TAB ? tv & VM_GCV_MASK : 0;
}

static uint64_t loaded_table(struct vm_mem *m, const struct vm_layout *lay,
                             uint64_t g)
{
  uint64_t registry = vm_load8(m, g + lay->g_registrytv) & VM_GCV_MASK;
  return table_value(m, lay, find_string(m, lay, registry, "_LOADED", 7));
}

bool vm_module_loaded(struct vm_mem *m, const struct vm_layout *lay, uint64_t g,
                      const char *name)
{
  uint64_t loaded = loaded_table(m, lay, g);
  uint32_t len = (uint32_t)strlen(name);
  return table_value(m, lay, find_string(m, lay, loaded, name, len)) != 0;
}

static struct vm_zone_field find_field(struct vm_mem *m,
                                       const struct vm_layout *lay,
                                       uint64_t table, const char *name)
{
  struct vm_zone_field f = {.table = table};
  f.entry = find_string(m, lay, table, name, (uint32_t)strlen(name));
  f.value = table_value(m, lay, f.entry);
  if (f.value) {
    f.node = vm_load8(m, table + lay->tab_node);
    f.key = vm_load8(m, f.entry + lay->node_key);
  }
  return f;
}

static void search(struct vm_mem *m, const struct vm_layout *lay, uint64_t g,
                   struct vm_zone_place *p)
{
  uint64_t registry = vm_load8(m, g + lay->g_registrytv) & VM_GCV_MASK;
  uint64_t loaded = loaded_table(m, lay, g);
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
  return f->value && vm_load8(m, f->table + lay->tab_node) == f->node &&
         vm_load8(m, f->entry + lay->node_key) == f->key &&
         table_value(m, lay, f->entry) == f->value;
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
static uint32_t key_index(uint64_t key)
{
  double d;
  memcpy(&d, &key, sizeof d);
  return d >= 1 && d <= INT32_MAX && d == (double)(int32_t)d ? (uint32_t)d : 0;
}

/* A stack: in the array part, then in the hash part, where LuaJIT puts what
 * follows a full array, until it grows. */
struct stack {
  struct vm_mem *mem;
  uint64_t array;
  uint32_t last;                     /* index of the array's last slot, or 0 */
  uint64_t hashed[HASHED_NODES_MAX]; /* t[last + 1], ... */
};

static bool is_nil(uint64_t tv)
{
  return vm_itype_inv(tv) == 0;
}

/* t[i], i in 1 .. last + HASHED_NODES_MAX */
static uint64_t at(struct stack *s, uint32_t i)
{
  return i <= s->last ? vm_load8(s->mem, s->array + 8 * (uint64_t)i)
                      : s->hashed[i - s->last - 1];
}

static void read_hashed(struct stack *s, const struct vm_layout *lay,
                        uint64_t table)
{
  uint64_t node = vm_load8(s->mem, table + lay->tab_node);
  uint64_t n = (uint64_t)vm_load4(s->mem, table + lay->tab_hmask) + 1;
  memset(s->hashed, 0xff, sizeof s->hashed); /* nil */
  for (uint64_t i = 0; n <= HASHED_NODES_MAX && i < n; i++) {
    uint64_t from = node + i * lay->node_sizeof;
    uint32_t index = key_index(vm_load8(s->mem, from + lay->node_key));
    if (index > s->last && index - s->last <= HASHED_NODES_MAX)
      s->hashed[index - s->last - 1] = vm_load8(s->mem, from + lay->node_val);
  }
}

/* The first nil after t[lo], which is none, or the end. */
static uint32_t scan(struct stack *s, uint32_t lo, uint32_t end)
{
  while (lo < end && !is_nil(at(s, lo + 1)))
    lo++;
  return lo;
}

/* Number of zones.  Within the first max by looking at each, then as lj_tab_len
 * has it (lj_tab.c). */
static uint32_t depth_of(struct stack *s, const struct vm_layout *lay,
                         uint64_t table, uint32_t max)
{
  uint32_t lo = scan(s, 0, s->last < max ? s->last : max), hi = s->last;
  if (lo < max && lo < hi)
    return lo;
  if (lo < hi && is_nil(at(s, hi))) {
    while (hi - lo > 1) {
      uint32_t mid = lo + (hi - lo) / 2;
      if (is_nil(at(s, mid)))
        hi = mid;
      else
        lo = mid;
    }
    return lo;
  }
  read_hashed(s, lay, table);
  return scan(s, hi, hi + HASHED_NODES_MAX);
}

unsigned vm_zone_read(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t table, uint64_t *value, unsigned max,
                      uint32_t *left_out)
{
  struct stack s = {.mem = m, .array = vm_load8(m, table + lay->tab_array)};
  uint32_t asize = vm_load4(m, table + lay->tab_asize);
  s.last = asize ? asize - 1 : 0;
  uint32_t depth = depth_of(&s, lay, table, max);
  uint32_t n = depth < max ? depth : max, outer = depth > max ? max / 2 : n;
  for (uint32_t i = 0; i < outer; i++)
    value[i] = at(&s, i + 1);
  for (uint32_t i = outer; i < n; i++)
    value[i] = at(&s, depth - n + i + 1);
  *left_out = depth - n;
  return n;
}
