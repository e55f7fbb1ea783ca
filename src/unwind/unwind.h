/* SPDX-License-Identifier: MIT
 *
 * Native frames of a sample: libunwind over the sample's registers and stack
 * bytes, stepping out of the VM's machine code (interpreter and traces) by the
 * C frames that the VM recorded.
 */
#ifndef UNWIND_UNWIND_H
#define UNWIND_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "shm/shm.h"
#include "symbols/symbols.h"
#include "util/error.h"

#define UNWIND_MAX 1024 /* native frames per sample */

enum unwind_kind {
  UNWIND_NATIVE = 1,
  UNWIND_VM = 2,     /* the VM's own frame: Lua frames of `cframe` go here */
  UNWIND_SIGNAL = 3, /* a signal frame: the frame outside it was interrupted */
  UNWIND_GAP = 4,    /* code that can't be unwound; resumed further out */
};

struct unwind_frame {
  enum unwind_kind kind;
  /* Return address - 1 for callers: a place in the call.  Exact for the
   * innermost frame, a signal frame and what a signal interrupted.  0 for a
   * gap and for the VM frame behind it. */
  uint64_t ip;
  uint64_t sp; /* stack pointer in this frame */
  /* UNWIND_VM: address of the C frame; 0: one that the VM has not recorded yet
   * or no longer (it is being entered or left): no Lua frames belong to it. */
  uint64_t cframe;
  const struct module *mod; /* NULL: none */
};

enum unwind_end {
  UNWIND_END_ENTRY = 1,  /* reached the ELF entry (_start) */
  UNWIND_END_THREAD = 2, /* outermost frame of a thread */
  UNWIND_END_PARTIAL = 3,
  UNWIND_END_FULL = 4, /* UNWIND_MAX frames */
};

struct unwind_stack {
  struct unwind_frame frame[UNWIND_MAX]; /* innermost first */
  size_t count;
  enum unwind_end end;
};

/* Machine code of one VM; cframe_size is a layout fact. */
struct unwind_vm {
  uint64_t g;
  /* Interpreter: the whole of what module_function_range() gives for an
   * address in it, not only what the dispatch table shows; 0: unknown. */
  uint64_t asm_lo, asm_hi;
  const struct tecs_range *mcode;
  size_t mcode_count;
  uint32_t cframe_size;
};

/* One thread at a time: an unwinder caches. */
struct unwinder;
enum result unwinder_new(struct modules *m, struct unwinder **out,
                         struct error *e);
void unwinder_free(struct unwinder *u);
/* After modules_refresh reported a change. */
void unwinder_flush(struct unwinder *u);
/* vm: what is known of each VM in the sample, vm_count = sample->vm_count
 * entries in its order.  Never fails: the end says how far it came. */
void unwind_sample(struct unwinder *u, const struct sample_view *s,
                   const struct unwind_vm *vm, struct unwind_stack *out);

#endif
