/* SPDX-License-Identifier: MIT
 *
 * Shared by the parts of the walk.  A "frame" here is the address of the slot
 * that holds the link to the caller: base-1 with two-slot frames, the function
 * one below it (lj_frame.h, LJ_FR2).  A "pc" points behind the instruction that
 * is being executed, as in the interpreter.
 */
#ifndef VMCORE_WALK_INTERNAL_H
#define VMCORE_WALK_INTERNAL_H

#include "vmcore/walk.h"

/* Flag bits of L->cframe: CFRAME_RESUME, CFRAME_UNWIND_FF (lj_frame.h). */
#define CFRAME_RAW(cf) ((cf) & ~UINT64_C(3))
#define CFRAME_RESUME 1u

/* Walks from frame f, whose current pc is pc (0: unknown), to the bottom of
 * w->L's stack.  false: vm.error says why not. */
bool walk_stack(struct vm_walk *w, uint64_t f, uint64_t pc);

/* Frame and pc of the innermost Lua frame of w->L, when it is not in a trace.
 * false: vm.error. */
bool leaf_in_asm(struct vm_walk *w, uint64_t *f, uint64_t *pc);
bool leaf_saved(struct vm_walk *w, uint64_t *f, uint64_t *pc);
/* In a C function that the interpreter called without storing L->base. */
bool leaf_direct_call(struct vm_walk *w, uint64_t *f, uint64_t *pc);

/* In a trace: lays the snapshot over the stack.  false: not in one, or
 * vm.error. */
bool leaf_in_trace(struct vm_walk *w, uint64_t *f, uint64_t *pc);

bool pc_in_proto(struct vm_walk *w, uint64_t pt, uint64_t pc);
/* Prototype that holds the bytecode at pc, by going back to its header. */
uint64_t proto_of_pc(struct vm_walk *w, uint64_t pc);
uint64_t slot_read(struct vm_walk *w, uint64_t addr);
/* Ends the run on w->cframe and goes on with the next one out. */
void walk_end_run(struct vm_walk *w);
void skip_bare_cframes(struct vm_walk *w, uint64_t f);
uint64_t cframe_prev(struct vm_walk *w, uint64_t cf);
uint64_t cframe_saved_pc(struct vm_walk *w, uint64_t cf);

#endif
