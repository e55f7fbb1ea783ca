/* SPDX-License-Identifier: MIT
 *
 * Is this a LuaJIT VM, and which layout has it?  Structural checks only: names
 * and version texts do not tell one layout from the next.
 */
#ifndef VMCORE_DISCOVER_H
#define VMCORE_DISCOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "vmcore/layout.h"
#include "vmcore/mem.h"

/* Addresses that user space can have and that can hold an object. */
static inline bool vm_plausible(uint64_t addr)
{
  return addr >= 0x10000 && !(addr >> 47) && !(addr & 7);
}

/* Is the lua_State at addr worth a closer look?  One load. */
bool vm_may_be_thread(struct vm_mem *m, uint64_t addr);

/* The address of an object that a word of the native stack may hold; 0: none.
 */
uint64_t vm_candidate(uint64_t word);

/* Is g the global_State of a live VM of this layout?  Three loads: cheap enough
 * for every sample.  lua_close frees g, so a stale one fails here. */
bool vm_is_global(struct vm_mem *m, const struct vm_layout *lay, uint64_t g);

/* Is L a lua_State of this layout?  Returns its global_State, 0: no. */
uint64_t vm_thread_global(struct vm_mem *m, const struct vm_layout *lay,
                          uint64_t L);
/* Same, for any layout: to look up a VM whose layout was identified. */
uint64_t vm_global_of(struct vm_mem *m, uint64_t L);

/* All structural checks of a layout against the VM at g: main thread, running
 * thread, opcodes, dispatch table, traces. */
bool vm_matches(struct vm_mem *m, const struct vm_layout *lay, uint64_t g);

/* Is the trace at T, a finished one, laid out like this?  What tells layouts
 * apart that differ in traces alone: a VM that has none yet matches several. */
bool vm_trace_fits(struct vm_mem *m, const struct vm_layout *lay, uint64_t T);

/* The layout of the VM at g: of those that match, the one whose GG_State has
 * the size that was allocated.  VM_LAYOUT_UNKNOWN when none matches. */
uint32_t vm_identify_global(struct vm_mem *m, uint64_t g);
/* Same, of the VM that lua_State L belongs to, and its global_State in *g (0:
 * none). */
uint32_t vm_identify(struct vm_mem *m, uint64_t L, uint64_t *g);
/* Same, of the VM whose dispatch table (GG_State.dispatch) is there. */
uint32_t vm_identify_dispatch(struct vm_mem *m, uint64_t dispatch, uint64_t *g);

/* The main thread of a VM when the word at addr, a multiple of 8, may be its
 * glref: that points a little beyond itself.  0: it is not. */
uint64_t vm_main_thread_by(uint64_t addr, uint64_t word);

/* Does L look like a lua_State of any LuaJIT?  Returns what must be its
 * global_State.  For saying "unknown layout", never for reading frames. */
uint64_t vm_resembles(struct vm_mem *m, uint64_t L);

/* Bounds of the interpreter's machine code: from the unwind table at hdr (run
 * time address of .eh_frame_hdr) when that covers it with one entry, else from
 * the dispatch table, widened.  false: neither. */
bool vm_asm_range(struct vm_mem *m, const struct vm_layout *lay, uint64_t g,
                  uint64_t hdr, uint64_t *lo, uint64_t *hi);
/* An address in that code: where BC_MOV is interpreted. */
uint64_t vm_asm_pc(struct vm_mem *m, const struct vm_layout *lay, uint64_t g);

/* Does that vmstate say that bytecode or a fast function is interpreted?
 * Tarantool's LuaJIT tells the two apart. */
static inline bool vm_state_interprets(const struct vm_layout *lay,
                                       int32_t vmstate)
{
  return vmstate == ~(int32_t)lay->vmst_interp ||
         vmstate == ~(int32_t)lay->vmst_lfunc ||
         vmstate == ~(int32_t)lay->vmst_ffunc;
}

/* Is the VM's JIT compiler on?  It is off also where the jit library was never
 * opened. */
bool vm_jit_on(struct vm_mem *m, const struct vm_layout *lay, uint64_t g);

#endif
