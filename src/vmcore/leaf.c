/* SPDX-License-Identifier: MIT
 *
 * The innermost Lua frame outside of traces.
 */
#include "vmcore/discover.h"
#include "vmcore/walk_internal.h"

/* The interpreter's registers on x86-64, SysV (vm_x64.dasc, BASE and PC). */
enum { REG_BASE = 1 /* rdx */, REG_PC = 3 /* rbx */ };

static bool base_in_stack(struct vm_walk *w, uint64_t base)
{
  const struct vm_layout *lay = w->lay;
  return base > vm_load8(w->mem, w->L + lay->L_stack) + 8 && !(base & 7) &&
         base <= vm_load8(w->mem, w->L + lay->L_maxstack) +
                     8 * (uint64_t)lay->stack_extra;
}

static bool is_function(struct vm_walk *w, uint64_t fn)
{
  return vm_plausible(fn) &&
         vm_load1(w->mem, fn + w->lay->L_gct) == VM_GCT_FUNC;
}

/* L->base and the pc saved in the C frame: right whenever C code runs, since
 * the VM stores both before it calls out (vm_x64.dasc, SAVE_PC). */
bool leaf_saved(struct vm_walk *w, uint64_t *f, uint64_t *pc)
{
  const struct vm_layout *lay = w->lay;
  uint64_t base = vm_load8(w->mem, w->L + lay->L_base);
  if (!base_in_stack(w, base) && w->memo->L == w->L) {
    base += vm_load8(w->mem, w->L + lay->L_stack) - w->memo->stack;
    w->vm.rule = 8;
  }
  if (!base_in_stack(w, base)) {
    w->vm.error = TECS_WALK_BAD_BASE;
    return false;
  }
  *f = base - 8;
  skip_bare_cframes(w, *f);
  uint64_t saved = cframe_saved_pc(w, w->cframe);
  uint64_t pt =
      vm_func_proto(w->mem, lay, vm_load8(w->mem, base - 16) & VM_GCV_MASK);
  *pc = pt && pc_in_proto(w, pt, saved) ? saved : 0;
  return true;
}

/* Between two frames: PC is the caller's already (return) or still (call). */
static bool leaf_in_transit(struct vm_walk *w, uint64_t frame, uint64_t PC,
                            bool builtin, uint64_t *f, uint64_t *pc)
{
  uint64_t stack = vm_load8(w->mem, w->L + w->lay->L_stack);
  uint32_t ins = vm_load4(w->mem, PC - 4);
  uint64_t caller = frame - 8 * (2 + (uint64_t)((ins >> 8) & 255));
  if (caller <= stack || caller > frame)
    return false;
  uint64_t pt =
      vm_func_proto(w->mem, w->lay, vm_load8(w->mem, caller - 8) & VM_GCV_MASK);
  if (!pt || !pc_in_proto(w, pt, PC))
    return false;
  bool in_builtin = builtin && vm_load8(w->mem, frame) == PC;
  *f = in_builtin ? frame : caller;
  *pc = in_builtin ? 0 : PC;
  return true;
}

bool leaf_in_asm(struct vm_walk *w, uint64_t *f, uint64_t *pc)
{
  uint64_t base = w->reg[REG_BASE], PC = w->reg[REG_PC];
  if (base_in_stack(w, base)) {
    uint64_t frame = base - 8;
    uint64_t fn = vm_load8(w->mem, frame - 8) & VM_GCV_MASK;
    uint64_t pt = vm_func_proto(w->mem, w->lay, fn);
    bool builtin = !pt && is_function(w, fn);
    if (pt && pc_in_proto(w, pt, PC)) {
      w->vm.rule = 1;
      *f = frame;
      *pc = PC;
      return true;
    }
    if (PC >= 0x10000 && !(PC & 3) && !(PC >> 47) &&
        leaf_in_transit(w, frame, PC, builtin, f, pc)) {
      w->vm.rule = 2;
      return true;
    }
    if (builtin) {
      w->vm.rule = 3;
      *f = frame;
      *pc = 0;
      return true;
    }
  }
  w->vm.rule = 4; /* BASE holds something else for a moment */
  return leaf_saved(w, f, pc);
}
