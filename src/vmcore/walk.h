/* SPDX-License-Identifier: MIT
 *
 * The Lua frames of one VM at one instant.
 */
#ifndef VMCORE_WALK_H
#define VMCORE_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "tecs/abi.h"
#include "vmcore/layout.h"
#include "vmcore/mem.h"

#define VM_OVERLAY_MAX 64

/* A Lua stack slot as a trace's snapshot says it would be. */
struct vm_overlay {
  uint64_t addr;
  uint64_t value;
};

/* Last known place of a Lua stack: L->base still points into the old one while
 * the stack is being moved (lj_state.c, resizestack). */
struct vm_stack_memo {
  uint64_t L, stack, bytes;
};

#define VM_MCODE_AREAS 32

/* Machine code areas of the VM at g as they were last read; hundreds of links
 * are not followed again until the newest area or the size of all is another
 * one (lj_mcode.c: areas are added one by one, and freed all at once). */
struct vm_mcode_memo {
  uint64_t g, area, next, size;
  unsigned count;
  struct tecs_range range[VM_MCODE_AREAS];
};

struct vm_walk {
  /* in */
  struct vm_mem *mem;
  const struct vm_layout *lay;
  uint64_t g;
  const uint64_t *reg; /* TECS_REGS of them; NULL: not the innermost VM */
  uint64_t sp;         /* native stack pointer */
  uint64_t stack_hi;   /* end of the native stack */
  uint64_t asm_lo, asm_hi;
  struct vm_stack_memo *memo;
  struct vm_mcode_memo *mcode; /* all zero at first */
  /* Id of prototype pt for the stream; 0: it could not be recorded. */
  uint32_t (*proto_id)(void *ctx, uint64_t pt);
  void *ctx;
  struct tecs_frame *frame; /* where frames go */
  unsigned frame_max;
  uint8_t vm_index;
  /* out */
  unsigned count;
  struct tecs_sample_vm vm;
  bool misfit; /* a trace is not laid out as lay says: identify the VM anew */
  /* within the walk */
  uint64_t L;
  uint64_t cframe;      /* C frame of the run being emitted */
  uint64_t trace_frame; /* link slot that jit_base stands for, 0: no trace */
  struct vm_overlay overlay[VM_OVERLAY_MAX];
  unsigned overlay_count;
  uint64_t freed, copy; /* a Lua stack that was freed, and where it is copied;
                           0: none */
};

/* Innermost C frame of VM g when it runs on the native stack [sp, stack_hi),
 * else 0.  *L is the running lua_State.  In the middle of a coroutine switch
 * it is taken from the interpreter's frame at reg's stack pointer. */
uint64_t vm_live_cframe(struct vm_walk *w, uint64_t *L);

/* Fills frame[0..count), innermost first, and vm.  w->vm.error says whether it
 * reached the bottom. */
void vm_walk_frames(struct vm_walk *w);

/* Machine code areas of the VM's traces, those that touch as one; returns how
 * many there are, at most max.  *key changes when they do. */
unsigned vm_mcode_areas(struct vm_mem *m, const struct vm_layout *lay,
                        uint64_t g, struct tecs_range *out, unsigned max);
uint64_t vm_mcode_key(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t g);

/* ---- objects ---- */

/* Is pt a prototype? */
bool vm_is_proto(struct vm_mem *m, const struct vm_layout *lay, uint64_t pt);
/* Prototype of a Lua function, 0 for anything else. */
uint64_t vm_func_proto(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t fn);
/* Line of instruction number pos, counted from the function's header; 0:
 * unknown. */
uint32_t vm_proto_line(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t pt, uint32_t pos);

#endif
