/* SPDX-License-Identifier: MIT
 *
 * Names of built-in functions by their number.  Builds of one layout differ in
 * which functions they have (the options LUAJIT_ENABLE_LUA52COMPAT and
 * LUAJIT_DISABLE_FFI, functions that came in between, forks), so the libraries
 * of the very VM tell the numbers, and a list of LuaJIT's names the rest.
 */
#ifndef VMCORE_FFNAMES_H
#define VMCORE_FFNAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "vmcore/layout.h"
#include "vmcore/mem.h"
#include "vmcore/texts.h"

#define VM_FFIDS 256

struct vm_ffnames {
  const struct vm_texts *texts;
  uint8_t at[VM_FFIDS]; /* by ffid: place in texts->ffname; 0: not known */
};

/* As LuaJIT's list has them: for a VM whose libraries cannot be read.  Forks
 * have functions of their own in between: nothing is known of theirs. */
void vm_ffnames_listed(struct vm_ffnames *f, uint32_t layout);
/* As the libraries in registry._LOADED of the VM at g have them.  false, and f
 * as it was: too few are there. */
bool vm_ffnames_read(struct vm_ffnames *f, struct vm_mem *m, uint32_t layout,
                     uint64_t g);
/* `string.gsub`; NULL: no builtin (lj_obj.h: FF_LUA 0, FF_C 1), or not known.
 */
const char *vm_ffname(const struct vm_ffnames *f, uint32_t ffid);

#endif
