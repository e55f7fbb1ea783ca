/* SPDX-License-Identifier: MIT
 *
 * Shared by the parts of the walk.  A "frame" here is the address of the slot
 * that holds the link to the caller, base-1.  With two-slot frames (lj_frame.h,
 * LJ_FR2) the function is one below it; else it has the slot's lower half, the
 * link its upper one.  A "pc" points behind the instruction that
 * is being executed, as in the interpreter.
 */
#ifndef VMCORE_WALK_INTERNAL_H
#define VMCORE_WALK_INTERNAL_H

#include "vmcore/discover.h"
#include "vmcore/value.h"
#include "vmcore/walk.h"

enum {
  PARENT_SCAN = 2048, /* words of native stack searched for a C frame */
  HELPER_WORDS = 4,   /* that the interpreter's own subroutines push */
  RULE_MOVED = 8,     /* vm.rule: the Lua stack is being moved */
  RULE_SWITCHING = 9, /* vm.rule: between two coroutines */
  /* Bytes that an allocator writes into a block that is freed: lj_alloc.c's
   * struct tree_chunk has fd, bk, child[2], parent and bindex there; the C
   * library's have less. */
  FREED_BYTES = 48,
};

/* lj_frame.h: type bits of a link. */
enum frame_type {
  FRAME_LUA = 0,
  FRAME_C = 1,
  FRAME_CONT = 2,
  FRAME_VARG = 3,
  FRAME_LUAP = 4, /* a Lua frame: bit 2 belongs to the pc */
  FRAME_CP = 5,
  FRAME_PCALL = 6,
  FRAME_PCALLH = 7,
};

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

/* The allocator has copied w->L's stack and freed it, but L->stack does not say
 * so yet: finds the copy, from which the freed slots are read from now on.
 * false: no such place. */
bool find_copy(struct vm_walk *w);
/* In a piece of the assembly that the running trace has called: lj_vm_next, the
 * helpers of arithmetic.  They push a few words at most; on the way out of a
 * trace its stack pointer is above, or something else is there. */
bool trace_calls_helper(struct vm_walk *w);

/* Where L->base will point when the stack that is being moved is in its place;
 * outside of the stack: not found. */
uint64_t moved_base(struct vm_walk *w, uint64_t base);

bool pc_in_proto(struct vm_walk *w, uint64_t pt, uint64_t pc);
/* Prototype that holds the bytecode at pc, by going back to its header. */
uint64_t proto_of_pc(struct vm_walk *w, uint64_t pc);
/* Ends the run on w->cframe and goes on with the next one out. */
void walk_end_run(struct vm_walk *w);
void skip_bare_cframes(struct vm_walk *w, uint64_t f);
uint64_t cframe_prev(struct vm_walk *w, uint64_t cf);
uint64_t cframe_saved_pc(struct vm_walk *w, uint64_t cf);
uint64_t cframe_thread(struct vm_walk *w, uint64_t cf); /* SAVE_L */
/* Is cf where L->cframe says that L runs? */
bool is_innermost_cframe(struct vm_walk *w, uint64_t L, uint64_t cf);

static inline bool in_interpreter(const struct vm_walk *w)
{
  uint64_t ip = w->reg ? w->reg[TECS_REG_RIP] : 0;
  return ip >= w->asm_lo && ip < w->asm_hi;
}

/* ---- frames ---- */

static inline uint64_t slot_read(struct vm_walk *w, uint64_t addr)
{
  for (unsigned i = 0; i < w->overlay_count; i++)
    if (w->overlay[i].addr == addr)
      return w->overlay[i].value;
  if (w->copy && addr - w->freed < FREED_BYTES)
    addr = addr - w->freed + w->copy;
  return vm_load8(w->mem, addr);
}

/* Bytes of a frame's own slots. */
static inline uint64_t frame_words(const struct vm_layout *lay)
{
  return lay->gc64 ? 16 : 8;
}

static inline uint64_t frame_func(struct vm_walk *w, uint64_t f)
{
  return w->lay->gc64 ? slot_read(w, f - 8) & VM_GCV_MASK
                      : (uint32_t)slot_read(w, f);
}

static inline uint64_t frame_link(struct vm_walk *w, uint64_t f)
{
  uint64_t slot = slot_read(w, f);
  return w->lay->gc64 ? slot : slot >> 32;
}

/* Of a continuation frame: where its caller goes on, and the continuation
 * (lj_frame.h, frame_contpc and frame_contv). */
static inline uint64_t frame_contpc(struct vm_walk *w, uint64_t f)
{
  return w->lay->gc64 ? slot_read(w, f - 16) : slot_read(w, f - 8) >> 32;
}

static inline uint64_t frame_cont(struct vm_walk *w, uint64_t f)
{
  return w->lay->gc64 ? slot_read(w, f - 24) : (uint32_t)slot_read(w, f - 8);
}

/* Caller of a frame whose link leads behind a call (frame_prevl). */
static inline uint64_t frame_below_call(struct vm_walk *w, uint64_t f,
                                        uint64_t link)
{
  uint32_t ins = vm_load4(w->mem, link - 4);
  return f - frame_words(w->lay) - 8 * (uint64_t)((ins >> 8) & 255);
}

/* Prototype of a frame of a Lua function, 0: of none. */
static inline uint64_t frame_proto(struct vm_walk *w, uint64_t f)
{
  return vm_func_proto(w->mem, w->lay, frame_func(w, f));
}

/* ---- the Lua stack ---- */

static inline uint64_t thread_stack(struct vm_walk *w, uint64_t L)
{
  return vm_ref(w->mem, w->lay, L + w->lay->L_stack);
}

/* Is L a thread of this VM?  Its stack may be about to move. */
static inline bool is_thread(struct vm_walk *w, uint64_t L)
{
  const struct vm_layout *lay = w->lay;
  return vm_plausible(L) && vm_load1(w->mem, L + lay->L_gct) == VM_GCT_THREAD &&
         vm_load1(w->mem, L + lay->L_dummy_ffid) == 1 &&
         vm_ref(w->mem, lay, L + lay->L_glref) == w->g;
}

/* The end of its slots, those kept in reserve included. */
static inline uint64_t thread_stack_end(struct vm_walk *w, uint64_t L)
{
  return vm_ref(w->mem, w->lay, L + w->lay->L_maxstack) +
         8 * (uint64_t)w->lay->stack_extra;
}

static inline bool base_in_stack(struct vm_walk *w, uint64_t base)
{
  return base >= thread_stack(w, w->L) + frame_words(w->lay) && !(base & 7) &&
         base <= thread_stack_end(w, w->L);
}

static inline bool is_function(struct vm_walk *w, uint64_t fn)
{
  return vm_plausible(fn) &&
         vm_load1(w->mem, fn + w->lay->L_gct) == VM_GCT_FUNC;
}

/* The bytecode of C functions lies in GG_State (lj_dispatch.h, bcff; lj_obj.h,
 * bc_cfunc_ext).  A trace that is stitched to a C call ends with a snapshot at
 * that function's entry: it is about to be called, by the next frame out. */
static inline bool pc_of_c_function(const struct vm_walk *w, uint64_t pc)
{
  uint64_t gg = w->g - w->lay->gg_g;
  return pc >= gg && pc < gg + w->lay->gg_sizeof;
}

#endif
