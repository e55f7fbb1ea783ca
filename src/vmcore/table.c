/* SPDX-License-Identifier: MIT */
#include "vmcore/table.h"

#include "vmcore/discover.h"
#include "vmcore/value.h"

enum { NODES_MAX = 8192 };

bool vm_string_is(struct vm_mem *m, const struct vm_layout *lay, uint64_t tv,
                  const char *text, uint32_t len)
{
  uint64_t s = vm_value_as(lay, tv, VM_GCT_STR);
  if (!s || vm_load4(m, s + lay->str_len) != len)
    return false;
  for (uint32_t i = 0; i < len; i++)
    if (vm_load1(m, s + lay->str_sizeof + i) != (uint8_t)text[i])
      return false;
  return true;
}

uint64_t vm_table_node(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t table, const char *text, uint32_t len)
{
  if (!vm_plausible(table) || vm_load1(m, table + lay->L_gct) != VM_GCT_TAB)
    return 0;
  uint64_t node = vm_ref(m, lay, table + lay->tab_node);
  uint64_t n = (uint64_t)vm_load4(m, table + lay->tab_hmask) + 1;
  uint32_t faults = m->faults;
  for (uint64_t i = 0; i < n && i < NODES_MAX && m->faults == faults; i++) {
    uint64_t at = node + i * lay->node_sizeof;
    if (vm_string_is(m, lay, vm_load8(m, at + lay->node_key), text, len))
      return at;
  }
  return 0;
}

uint64_t vm_node_table(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t node)
{
  return node ? vm_value_as(lay, vm_load8(m, node + lay->node_val), VM_GCT_TAB)
              : 0;
}

uint64_t vm_loaded_table(struct vm_mem *m, const struct vm_layout *lay,
                         uint64_t g)
{
  uint64_t registry = vm_value_obj(lay, vm_load8(m, g + lay->g_registrytv));
  return vm_node_table(m, lay, vm_table_node(m, lay, registry, "_LOADED", 7));
}
