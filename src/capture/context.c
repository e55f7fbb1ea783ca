/* SPDX-License-Identifier: MIT
 *
 * The interrupted context.  When the tick lands in one of the program's own
 * signal handlers, the VM's registers are those that the kernel saved for that
 * handler: in the signal frame on the stack, below which the handler runs.
 */
#include <string.h>
#include <ucontext.h>

#include "capture/capture_internal.h"

enum {
  THREAD_STACK_MAX = 1 << 28,
  UNKNOWN_STACK = 131072, /* bytes looked at when the end is not known */
  SEARCHED_WORDS = 4096,  /* of stack, for a signal frame */
  NESTED_MAX = 4,         /* handlers within handlers */
  USER_CS = 0x33,
};

const uint8_t capture_greg[TECS_REGS] = {
    REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
    REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
    REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

/* End of the stack that sp is on.  A thread's ends at its control block, which
 * the thread pointer names; the main thread's block lies below its stack, whose
 * end is known.  In this order: without address randomisation the stacks of
 * threads lie close below the main one. */
static uint64_t stack_end(const struct capture_thread *th, uint64_t sp)
{
  uint64_t tp = th->pointer;
  if (sp < tp && tp - sp < THREAD_STACK_MAX)
    return tp;
  if (sp < th->main_stack_end && th->main_stack_end - sp < THREAD_STACK_MAX)
    return th->main_stack_end;
  return sp + UNKNOWN_STACK;
}

static uint64_t saved_greg(struct vm_mem *m, uint64_t uc, unsigned greg)
{
  return vm_load8(m, uc + offsetof(ucontext_t, uc_mcontext.gregs) + 8 * greg);
}

static bool is_restorer(const struct capture_thread *th, uint64_t v)
{
  for (unsigned i = 0; i < th->restorers; i++)
    if (th->restorer[i] == v)
      return true;
  return false;
}

/* Address of the next ucontext that the kernel left between sp and hi: behind
 * the return address of a handler (arch/x86, struct rt_sigframe). */
static uint64_t signal_frame(struct vm_mem *m, uint64_t sp, uint64_t hi,
                             const struct capture_thread *th)
{
  uint64_t p = sp & ~UINT64_C(7);
  uint32_t faults = m->faults;
  for (unsigned i = 0; i < SEARCHED_WORDS && p + 8 < hi; i++, p += 8) {
    if (!is_restorer(th, vm_load8(m, p)))
      continue;
    if ((saved_greg(m, p + 8, REG_CSGSFS) & 0xffff) == USER_CS)
      return p + 8;
    if (m->faults != faults)
      return 0;
  }
  return 0;
}

/* Out of every handler that is running. */
static void leave_handlers(struct vm_mem *m, struct moment *mo,
                           const struct capture_thread *th)
{
  for (unsigned n = 0; n < NESTED_MAX; n++) {
    uint64_t uc = signal_frame(m, mo->vm_sp, mo->vm_stack_hi, th);
    if (!uc)
      return;
    for (unsigned i = 0; i < TECS_REGS; i++)
      mo->vm_reg[i] = saved_greg(m, uc, capture_greg[i]);
    uint64_t sp = mo->vm_reg[TECS_REG_RSP];
    if (sp < mo->vm_sp || sp >= mo->vm_stack_hi) {
      mo->other_stack = true;
      mo->vm_stack_hi = stack_end(th, sp);
    }
    mo->vm_sp = sp;
  }
}

void context_capture(struct vm_mem *m, struct moment *mo,
                     const struct capture_thread *th)
{
  mo->thread = th;
  mo->sp = th->reg[TECS_REG_RSP];
  bool on_alt =
      mo->sp >= th->alt_stack && mo->sp - th->alt_stack < th->alt_size;
  mo->stack_hi = on_alt ? th->alt_stack + th->alt_size : stack_end(th, mo->sp);
  memcpy(mo->vm_reg, th->reg, sizeof mo->vm_reg);
  mo->vm_sp = mo->sp;
  mo->vm_stack_hi = mo->stack_hi;
  mo->other_stack = false;
  if (on_alt || th->in_handler)
    leave_handlers(m, mo, th);
}
