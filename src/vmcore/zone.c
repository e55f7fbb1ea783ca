/* SPDX-License-Identifier: MIT */
#include "vmcore/zone.h"

#include <string.h>

#include "vmcore/discover.h"

enum {
  NODES_MAX = 8192,      /* entries of a table that are looked at */
  SEARCH_EVERY = 64,     /* calls between two searches for a missing module */
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

static void search(struct vm_mem *m, const struct vm_layout *lay, uint64_t g,
                   struct vm_zone_place *p)
{
  memset(p, 0, sizeof *p);
  p->wait = SEARCH_EVERY;
  uint64_t registry = vm_load8(m, g + lay->g_registrytv) & VM_GCV_MASK;
  uint64_t entry = find_string(m, lay, registry, "_LOADED", 7);
  p->loaded = table_value(m, lay, entry);
  p->entry = find_string(m, lay, p->loaded, "jit.zone", 8);
  p->table = table_value(m, lay, p->entry);
  if (!p->table)
    return;
  p->node = vm_load8(m, p->loaded + lay->tab_node);
  p->key = vm_load8(m, p->entry + lay->node_key);
}

/* The entry is still where it was and holds the same table. */
static bool still_there(struct vm_mem *m, const struct vm_layout *lay,
                        const struct vm_zone_place *p)
{
  return p->table && vm_load8(m, p->loaded + lay->tab_node) == p->node &&
         vm_load8(m, p->entry + lay->node_key) == p->key &&
         table_value(m, lay, p->entry) == p->table;
}

uint64_t vm_zone_table(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t g, struct vm_zone_place *p)
{
  if (still_there(m, lay, p))
    return p->table;
  if (!p->table && p->wait) {
    p->wait--;
    return 0;
  }
  search(m, lay, g, p);
  return p->table;
}

/* Integer keys outside DUALNUM builds are doubles. */
static unsigned key_index(uint64_t key, unsigned max)
{
  double d;
  memcpy(&d, &key, sizeof d);
  return d >= 1 && d <= max && d == (double)(unsigned)d ? (unsigned)d : 0;
}

/* The first entries of a table that grows by t[#t+1] live in its hash part. */
static void read_hashed(struct vm_mem *m, const struct vm_layout *lay,
                        uint64_t table, uint64_t *value, unsigned max)
{
  uint64_t node = vm_load8(m, table + lay->tab_node);
  uint64_t n = (uint64_t)vm_load4(m, table + lay->tab_hmask) + 1;
  if (n > HASHED_NODES_MAX)
    return;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t at = node + i * lay->node_sizeof;
    unsigned index = key_index(vm_load8(m, at + lay->node_key), max);
    if (index)
      value[index - 1] = vm_load8(m, at + lay->node_val);
  }
}

unsigned vm_zone_read(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t table, uint64_t *value, unsigned max, bool *cut)
{
  const uint64_t nil = ~UINT64_C(0);
  uint64_t array = vm_load8(m, table + lay->tab_array);
  uint64_t asize = vm_load4(m, table + lay->tab_asize);
  *cut = false;
  for (unsigned i = 0; i < max; i++)
    value[i] = nil;
  if (asize <= max)
    read_hashed(m, lay, table, value, max);
  unsigned n = 0;
  for (; n < max; n++) {
    if (n + 1 < asize)
      value[n] = vm_load8(m, array + 8 * ((uint64_t)n + 1));
    if (vm_itype_inv(value[n]) == 0) /* nil */
      return n;
  }
  *cut = n + 1 < asize &&
         vm_itype_inv(vm_load8(m, array + 8 * ((uint64_t)n + 1))) != 0;
  return n;
}
