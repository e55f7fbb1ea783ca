/* SPDX-License-Identifier: MIT
 *
 * The zone stack of a VM: the array part of the table that `jit.zone` is,
 * stock or ours (lib/jit/zone.lua of LuaJIT keeps t[1..n]).
 */
#ifndef VMCORE_ZONE_H
#define VMCORE_ZONE_H

#include <stdbool.h>
#include <stdint.h>

#include "vmcore/layout.h"
#include "vmcore/mem.h"

/* Key in the VM's registry under which the agent keeps its own module: there
 * whatever becomes of package.loaded. */
#define VM_ZONE_OWN "tecs.zone"

/* A string key of a table and the table that is its value. */
struct vm_zone_field {
  uint64_t table;
  uint64_t node;  /* the table's hash part */
  uint64_t entry; /* the entry in it; 0: not found */
  uint64_t key;   /* that entry's key, as a value */
  uint64_t value;
};

/* Where the modules were found; all zero at first.  Checked at every use. */
struct vm_zone_place {
  struct vm_zone_field loaded; /* package.loaded["jit.zone"] */
  struct vm_zone_field own;    /* registry[VM_ZONE_OWN] */
  uint32_t wait;               /* calls until they are looked for again */
};

/* The table that holds the VM's zones, 0 when it has none: the loaded module;
 * while that one is empty, because the game put something else in its place,
 * the agent's own. */
uint64_t vm_zone_table(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t g, struct vm_zone_place *place);

/* Is the library or module of that name loaded: is there a table for it in
 * registry._LOADED? */
bool vm_module_loaded(struct vm_mem *m, const struct vm_layout *lay, uint64_t g,
                      const char *name);

/* The values t[1], t[2], ... up to the first nil, outermost first: at most
 * max, an even number.  Of a deeper stack the outermost and the innermost half
 * of max; *left_out: how many there are between. */
unsigned vm_zone_read(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t table, uint64_t *value, unsigned max,
                      uint32_t *left_out);

#endif
