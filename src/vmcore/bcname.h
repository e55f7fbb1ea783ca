/* SPDX-License-Identifier: MIT
 *
 * Names of Lua functions, decoded from the bytecode of the function that makes
 * them: the FNEW and the store that consumes the closure.  Rules: LuaJIT has no
 * names of its own for functions; see the comment in bcname.c for each rule and
 * the place in lj_parse.c that it follows from.
 */
#ifndef VMCORE_BCNAME_H
#define VMCORE_BCNAME_H

#include <stddef.h>
#include <stdint.h>

#include "vmcore/layout.h"
#include "vmcore/mem.h"

#define VM_NAME_MAX 200 /* bytes of a name, without a terminator */

/* Called once for each child prototype; len 0: the source gives it no name. */
typedef void vm_name_fn(void *ctx, uint64_t child, const char *name,
                        size_t len);

/* Names all children of prototype `pt` (address of a GCproto that has debug
 * information; without it nothing is called).  No malloc; bounded work. */
void vm_name_children(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t pt, vm_name_fn *fn, void *ctx);

#endif
