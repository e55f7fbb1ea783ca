/* SPDX-License-Identifier: MIT
 *
 * String keys of Lua tables.
 */
#ifndef VMCORE_TABLE_H
#define VMCORE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "vmcore/layout.h"
#include "vmcore/mem.h"

/* Is the tagged value that string? */
bool vm_string_is(struct vm_mem *m, const struct vm_layout *lay, uint64_t tv,
                  const char *text, uint32_t len);
/* Address of the table's node with that key, 0: none, or no table.  Looks at
 * 8192 nodes at most. */
uint64_t vm_table_node(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t table, const char *text, uint32_t len);
/* The table that a node's value is, 0: none, or node is 0. */
uint64_t vm_node_table(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t node);
/* registry._LOADED of the VM at g, 0: there is none. */
uint64_t vm_loaded_table(struct vm_mem *m, const struct vm_layout *lay,
                         uint64_t g);

#endif
