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

/* Where the module was found; all zero at first.  Checked at every use. */
struct vm_zone_place {
  uint64_t loaded; /* registry._LOADED */
  uint64_t node;   /* its hash part */
  uint64_t entry;  /* the entry "jit.zone" in it */
  uint64_t key;    /* that entry's key, as a value */
  uint64_t table;  /* the module; 0: not found */
  uint32_t wait;   /* calls until it is looked for again */
};

/* Table of the VM's jit.zone, 0 when it has none. */
uint64_t vm_zone_table(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t g, struct vm_zone_place *place);

/* The values t[1], t[2], ... up to the first nil: at most max, outermost
 * first; *cut says that there are more. */
unsigned vm_zone_read(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t table, uint64_t *value, unsigned max, bool *cut);

#endif
