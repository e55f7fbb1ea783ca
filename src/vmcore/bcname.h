/* SPDX-License-Identifier: MIT
 *
 * Names of Lua functions, decoded from the bytecode of the function that makes
 * them: the FNEW and the store that consumes the closure.  Rules: LuaJIT has no
 * names of its own for functions; see the comment in bcname.c for each rule and
 * the place in lj_parse.c that it follows from.
 */
#ifndef VMCORE_BCNAME_H
#define VMCORE_BCNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmcore/layout.h"
#include "vmcore/mem.h"

#define VM_NAME_MAX 200 /* bytes of a name, without a terminator */

/* Called at most once for each child prototype; len 0: the source gives it no
 * name.  The bytes are the source's, not NUL-terminated, and may be any. */
typedef void vm_name_fn(void *ctx, uint64_t child, const char *name,
                        size_t len);

/* Names all children of prototype `pt` (address of a GCproto that has debug
 * information; without it nothing is called).  No malloc, no locks; about 4 KB
 * of stack; work bounded by the size of pt.  A child about which nothing can be
 * said (memory that can't be read, damaged data, work exhausted, a numbering of
 * opcodes that is not known) is not called at all. */
void vm_name_children(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t pt, vm_name_fn *fn, void *ctx);

/* The first parameter of prototype pt is named self.  false without debug
 * information. */
bool vm_takes_self(struct vm_mem *m, const struct vm_layout *lay, uint64_t pt);

/* Name of an upvalue of prototype pt; returns its length, 0: not known. */
size_t vm_upvalue_name(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t pt, uint32_t idx, char name[VM_NAME_MAX]);

/* FNV-1a over the n opcodes of pt.  The JIT compiler patches loops, returns and
 * function headers in place; the hash does not change with it. */
uint32_t vm_opcode_hash(struct vm_mem *m, const struct vm_layout *lay,
                        uint64_t pt, uint32_t n);

#endif
