/* SPDX-License-Identifier: MIT
 *
 * The innermost Lua frame outside of traces.
 */
#include "vmcore/walk_internal.h"

/* The interpreter's registers on x86-64, SysV (vm_x64.dasc: BASE, PC, RB). */
enum { REG_BASE = 1 /* rdx */, REG_PC = 3 /* rbx */, REG_RB = 6 /* rbp */ };

#define LINK_MAX (UINT64_C(1) << 24) /* a distance, no bytecode address */

enum {
  SAVED_WORDS = 8, /* a callee saves registers right below its return */
  SEARCHED_WORDS = 512,
  LINKS_SEARCHED = 4096,
};

/* A builtin's fallback in C leaves its result where its frame was (lj_ffh_*,
 * FFH_RES): then the caller is the innermost frame.  nil overwrites the upper
 * half of a one-slot frame alone: the link becomes a tag. */
static void overwritten_builtin(struct vm_walk *w, uint64_t *f, uint64_t *pc,
                                uint64_t saved)
{
  uint64_t fn = frame_func(w, *f);
  bool tag = !w->lay->gc64 && frame_link(w, *f) >> 31;
  if (fn == w->L || (is_function(w, fn) && !tag) || saved < 0x10000 ||
      (saved & 3))
    return;
  uint64_t caller = frame_below_call(w, *f, saved);
  uint64_t pt = caller > thread_stack(w, w->L) ? frame_proto(w, caller) : 0;
  if (pt && pc_in_proto(w, pt, saved)) {
    *f = caller;
    *pc = saved;
  }
}

/* Is entry the link by which the innermost frames, at f, were entered from C?
 * true also when that cannot be seen. */
static bool entered_by(struct vm_walk *w, uint64_t f, uint64_t entry)
{
  uint64_t bottom = thread_stack(w, w->L) + frame_words(w->lay) - 8;
  for (unsigned i = 0; i < LINKS_SEARCHED; i++) {
    if (f <= bottom)
      return f < bottom;
    uint64_t link = frame_link(w, f), delta = link & ~UINT64_C(7);
    bool bytecode = link >= 0x10000 && !(link >> 47);
    if ((link & 3) == FRAME_LUA && bytecode)
      f = frame_below_call(w, f, link);
    else if ((link & 3) == FRAME_C) /* or FRAME_CP */
      return link == entry;
    else if (!delta || delta >= LINK_MAX || delta > f)
      return true;
    else
      f -= delta;
  }
  return true;
}

/* C code calls an object with a metamethod __call: SAVE_PC has the link to be
 * while lj_meta_call runs, and L->base is the caller's (vm_x64.dasc,
 * vmeta_call).  It stays there afterwards. */
static bool about_to_enter(struct vm_walk *w, uint64_t f)
{
  uint64_t saved = cframe_saved_pc(w, w->cframe);
  return saved < LINK_MAX && (saved & 3) == FRAME_C && !entered_by(w, f, saved);
}

/* L->base and the pc saved in the C frame: right whenever C code runs, since
 * the VM stores both before it calls out (vm_x64.dasc, SAVE_PC). */
bool leaf_saved(struct vm_walk *w, uint64_t *f, uint64_t *pc)
{
  const struct vm_layout *lay = w->lay;
  uint64_t base = vm_load8(w->mem, w->L + lay->L_base);
  if (!base_in_stack(w, base)) {
    base = moved_base(w, base);
    w->vm.rule = RULE_MOVED;
  }
  if (!base_in_stack(w, base)) {
    w->vm.error = TECS_WALK_BAD_BASE;
    return false;
  }
  *f = base - 8;
  skip_bare_cframes(w, *f);
  if (about_to_enter(w, *f)) {
    walk_end_run(w);
    skip_bare_cframes(w, *f);
  }
  uint64_t saved = cframe_saved_pc(w, w->cframe);
  uint64_t pt = frame_proto(w, *f);
  *pc = pt && pc_in_proto(w, pt, saved) ? saved : 0;
  if (!pt)
    overwritten_builtin(w, f, pc, saved);
  return true;
}

/* Between two frames: PC is the caller's already (return) or still (call). */
static bool leaf_in_transit(struct vm_walk *w, uint64_t frame, uint64_t PC,
                            bool builtin, uint64_t *f, uint64_t *pc)
{
  uint64_t caller = frame_below_call(w, frame, PC);
  if (caller <= thread_stack(w, w->L) || caller > frame)
    return false;
  uint64_t pt = frame_proto(w, caller);
  if (!pt || !pc_in_proto(w, pt, PC))
    return false;
  bool in_builtin = builtin && frame_link(w, frame) == PC;
  *f = in_builtin ? frame : caller;
  *pc = in_builtin ? 0 : PC;
  return true;
}

/* Is `base` that of a C function, or of the bottom of the stack? */
static bool c_base(struct vm_walk *w, uint64_t base)
{
  if (!base_in_stack(w, base))
    return false;
  uint64_t fn = frame_func(w, base - 8);
  return fn == w->L ||
         (is_function(w, fn) && vm_load1(w->mem, fn + w->lay->fn_ffid) != 0);
}

/* Base of the C function that called, when the function at `base` is on its way
 * back to it: its link is a distance (FRAME_C, FRAME_CP).  0: it is not. */
static uint64_t returning_to(struct vm_walk *w, uint64_t base)
{
  uint64_t link = base_in_stack(w, base) ? frame_link(w, base - 8) : 0;
  uint64_t caller = base - (link & ~UINT64_C(7));
  return (link & 3) == 1 && link < LINK_MAX && c_base(w, caller) ? caller : 0;
}

/* call r64: ff /2, behind a REX prefix or not. */
static bool at_call(struct vm_walk *w)
{
  uint64_t ip = w->reg[TECS_REG_RIP];
  ip += (vm_load1(w->mem, ip) & 0xf0) == 0x40;
  return vm_load1(w->mem, ip) == 0xff &&
         (vm_load1(w->mem, ip + 1) & 0xf8) == 0xd0;
}

/* Around the return to C vmstate says C (vm_x64.dasc, vm_return).  PC becomes
 * the caller's base, L->base follows.  vmstate says C around the call of a C
 * function as well (BC_FUNCC): then the call follows, or the return address
 * just popped is near. */
static uint64_t border_in_c(struct vm_walk *w)
{
  uint64_t near = w->reg[TECS_REG_RIP] - vm_load8(w->mem, w->sp - 8);
  if (near < 64 || at_call(w))
    return 0;
  if (c_base(w, w->reg[REG_PC]))
    return w->reg[REG_PC];
  uint64_t caller = returning_to(w, w->reg[REG_BASE]);
  uint64_t base = vm_load8(w->mem, w->L + w->lay->L_base);
  return caller ? caller : c_base(w, base) ? base : 0;
}

/* Before that, and on the way in (vm_call), PC holds a link of the kind that
 * leads to C.  On the way in BASE is still the caller's; on the way out it is
 * the function's, whose own slot its result may have taken. */
static uint64_t border_in_interpreter(struct vm_walk *w)
{
  uint64_t base = w->reg[REG_BASE], PC = w->reg[REG_PC];
  if (PC >= LINK_MAX || !base_in_stack(w, base))
    return 0;
  uint64_t link = frame_link(w, base - 8);
  uint64_t saved = cframe_saved_pc(w, w->cframe);
  if ((link & ~UINT64_C(3)) != (PC & ~UINT64_C(3)))
    /* vm_call and its like mark the C frame so until bytecode runs on it,
     * vmeta_call by the link */
    return (saved == w->L || saved == PC) && c_base(w, base) ? base : 0;
  uint64_t fn = frame_func(w, base - 8);
  return is_function(w, fn) ? 0 : returning_to(w, base);
}

/* At the border to C the interpreter has a C frame with no Lua frame on it any
 * more, or yet: the innermost frame is the calling C function's, on the next C
 * frame out. */
static bool leaf_at_border(struct vm_walk *w, uint64_t *f)
{
  uint64_t base = 0;
  if (w->cframe != w->sp)
    return false;
  if (w->vm.vmstate == ~(int32_t)w->lay->vmst_c)
    base = border_in_c(w);
  else if (vm_state_interprets(w->lay, w->vm.vmstate))
    base = border_in_interpreter(w);
  if (!base)
    return false;
  walk_end_run(w);
  *f = base - 8;
  return true;
}

/* ins_NEXT (vm_x64.dasc) reads the instruction before it moves PC past it:
 * behind a jump PC - 4 is then not what runs, but what stands before the jump's
 * target. */
static bool before_fetch(struct vm_walk *w)
{
  static const uint8_t code[] = {0x8b, 0x03, 0x0f, 0xb6, 0xcc, 0x0f,
                                 0xb6, 0xe8, 0x48, 0x83, 0xc3, 0x04};
  static const uint8_t at[] = {0, 2, 5, 8};
  unsigned rex = w->lay->gc64 ? 0 : 1; /* add PC, 4 is one of 32 bits there */
  uint64_t ip = w->reg[TECS_REG_RIP];
  for (unsigned i = 0; i < sizeof at; i++) {
    unsigned k = 0;
    while (k < sizeof code - rex &&
           vm_load1(w->mem, ip - at[i] + k) == code[k < 8 ? k : k + rex])
      k++;
    if (k == sizeof code - rex)
      return true;
  }
  return false;
}

/* BASE is moved down from a vararg frame, whose link PC still has (BC_RETV). */
static bool left_vararg(struct vm_walk *w, uint64_t frame, uint64_t PC)
{
  uint64_t vararg = frame + (PC & ~UINT64_C(7));
  return (PC & 7) == FRAME_VARG && base_in_stack(w, vararg + 8) &&
         frame_link(w, vararg) == PC &&
         frame_func(w, vararg) == frame_func(w, frame);
}

/* A return fetches the frame's link into PC before it takes the frame down: on
 * the way to C it turns the link's lowest bit (vm_return), for a continuation
 * it clears the type (cont_dispatch).  A vararg frame is left for the one below
 * first. */
static bool returns_by_link(struct vm_walk *w, uint64_t frame, uint64_t PC)
{
  uint64_t link = frame_link(w, frame);
  if (PC >= LINK_MAX || !PC)
    return false;
  if (left_vararg(w, frame, PC))
    return true;
  if ((link & 3) == 0)
    return (PC & 7) == FRAME_VARG;
  return (PC | 1) == (link | 1) || PC == (link & ~UINT64_C(7));
}

/* The pc at which the function at `base` goes on after a metamethod of its,
 * when BASE is its already and RB still the metamethod's (cont_dispatch). */
static uint64_t continued_pc(struct vm_walk *w, uint64_t base, uint64_t pt,
                             uint64_t PC)
{
  uint64_t meta = w->reg[REG_RB];
  if (PC >= LINK_MAX || (PC & 7) || meta != base + PC ||
      !base_in_stack(w, meta))
    return 0;
  uint64_t pc = frame_contpc(w, meta - 8);
  return pc_in_proto(w, pt, pc) ? pc : 0;
}

/* Is `base` the base of a builtin that a Lua function is calling right now? */
static bool builtin_base(struct vm_walk *w, uint64_t base)
{
  if (!base_in_stack(w, base))
    return false;
  uint64_t fn = frame_func(w, base - 8);
  if (!is_function(w, fn) || vm_load1(w->mem, fn + w->lay->fn_ffid) < 2)
    return false; /* FF_LUA, FF_C */
  uint64_t link = frame_link(w, base - 8);
  if ((link & 3) || link < 0x10000 || link >> 47)
    return false;
  uint64_t pt = frame_proto(w, frame_below_call(w, base - 8, link));
  return pt && pc_in_proto(w, pt, link);
}

/* Is `base` that of pcall or xpcall?  Those may call each other. */
static bool pcall_base(struct vm_walk *w, uint64_t base)
{
  if (builtin_base(w, base))
    return true;
  uint64_t link = base_in_stack(w, base) ? frame_link(w, base - 8) : 0;
  uint64_t caller = base - (link & ~UINT64_C(7));
  return link < LINK_MAX && (link & 6) == FRAME_PCALL &&
         vm_load1(w->mem, frame_func(w, base - 8) + w->lay->fn_ffid) > 1 &&
         base_in_stack(w, caller) && is_function(w, frame_func(w, caller - 8));
}

/* Base of the function that calls or has called the one at `base`, where link
 * PC is not in its frame: not yet (vm_call_dispatch), or no more, since results
 * have taken its place (coroutine.resume puts true there).  A Lua function
 * called with a continuation, as metamethods are and what a stitched trace
 * calls, or pcall.  0: it is not so. */
static uint64_t calling_by(struct vm_walk *w, uint64_t base, uint64_t PC,
                           uint64_t *pc)
{
  uint64_t type = PC & 7, caller = base - (PC & ~UINT64_C(7));
  if (PC >= LINK_MAX || PC < 8 || frame_link(w, base - 8) == PC ||
      !base_in_stack(w, caller))
    return 0;
  *pc = 0;
  if ((type & 6) == FRAME_PCALL)
    return pcall_base(w, caller) ? caller : 0;
  /* vm_return turns the lowest bit, cont_dispatch clears the type */
  if (type && (type & 6) != FRAME_CONT)
    return 0;
  uint64_t pt = frame_proto(w, caller - 8);
  *pc = frame_contpc(w, base - 8);
  return pt && *pc && pc_in_proto(w, pt, *pc) ? caller : 0;
}

/* The same, with a link that SAVE_PC still has where nothing is one
 * (coroutine_resume_wrap). */
static uint64_t calling(struct vm_walk *w, uint64_t base, uint64_t PC,
                        uint64_t *pc)
{
  uint64_t caller = calling_by(w, base, PC, pc);
  uint64_t link = frame_link(w, base - 8);
  if (caller || (link & 3) == 0 || link < LINK_MAX)
    return caller;
  return calling_by(w, base, cframe_saved_pc(w, w->cframe), pc);
}

/* Compiled code goes back to the interpreter for a call of the builtin at
 * `base` (vm_exit_interp, which sets vmstate late): that is still what its
 * caller does.
 */
static uint64_t exiting_to(struct vm_walk *w, uint64_t base, uint64_t PC,
                           uint64_t *pc)
{
  uint64_t link = frame_link(w, base - 8), caller;
  if (w->vm.vmstate <= 0 || !pc_of_c_function(w, PC))
    return 0;
  if ((link & 3) == FRAME_LUA && link >= 0x10000 && !(link >> 47)) {
    caller = frame_below_call(w, base - 8, link) + 8;
    *pc = link;
  } else {
    caller = base - (link & ~UINT64_C(7));
    *pc = (link & 7) == FRAME_CONT ? frame_contpc(w, base - 8) : 0;
  }
  uint64_t pt = base_in_stack(w, caller) ? frame_proto(w, caller - 8) : 0;
  return pt && *pc && pc_in_proto(w, pt, *pc) ? caller : 0;
}

/* BASE is one, or will be. */
static bool leaf_at_base(struct vm_walk *w, uint64_t base, uint64_t PC,
                         uint64_t *f, uint64_t *pc)
{
  uint64_t frame = base - 8;
  uint64_t fn = frame_func(w, frame);
  uint64_t pt = vm_func_proto(w->mem, w->lay, fn);
  bool builtin = !pt && is_function(w, fn);
  *f = frame;
  if (pt && pc_in_proto(w, pt, PC)) {
    w->vm.rule = 1;
    if (PC == pt + w->lay->pt_sizeof || /* entering: ins_callt */
        (before_fetch(w) && pc_in_proto(w, pt, PC + 4)))
      PC += 4;
    *pc = PC;
    return true;
  }
  if (PC >= 0x10000 && !(PC & 3) && !(PC >> 47) &&
      leaf_in_transit(w, frame, PC, builtin, f, pc)) {
    w->vm.rule = 2;
    return true;
  }
  w->vm.rule = 10;
  if (pt && returns_by_link(w, frame, PC))
    return true;
  *pc = pt ? continued_pc(w, base, pt, PC) : 0;
  if (*pc)
    return true;
  uint64_t caller = builtin ? exiting_to(w, base, PC, pc) : 0;
  caller = caller ? caller : calling(w, base, PC, pc);
  if (caller) {
    *f = caller - 8;
    return true;
  }
  *pc = 0;
  w->vm.rule = 3;
  return builtin;
}

/* On the way out to C L->cframe is the next one out, and L->base its, while the
 * C frame is still being taken down (vm_leave_unw): BASE is the function's that
 * has returned. */
static bool has_left(struct vm_walk *w)
{
  return w->vm.vmstate == ~(int32_t)w->lay->vmst_c &&
         w->cframe > w->sp + 8 * HELPER_WORDS;
}

bool leaf_in_asm(struct vm_walk *w, uint64_t *f, uint64_t *pc)
{
  uint64_t base = w->reg[REG_BASE], PC = w->reg[REG_PC];
  *pc = 0;
  if (has_left(w))
    return leaf_saved(w, f, pc);
  if (leaf_at_border(w, f)) {
    w->vm.rule = 7;
    return true;
  }
  if (base_in_stack(w, base) && leaf_at_base(w, base, PC, f, pc))
    return true;
  w->vm.rule = 4; /* BASE holds something else for a moment */
  return leaf_saved(w, f, pc);
}

/* ---- leaf functions of C, called from the assembly without L ---- */

/* The pc of a Lua function at `base`: PC is callee-saved too. */
static uint64_t lua_base_pc(struct vm_walk *w, uint64_t base, uint64_t saved)
{
  if (!base_in_stack(w, base))
    return 0;
  uint64_t pt = frame_proto(w, base - 8);
  if (!pt)
    return 0;
  if (pc_in_proto(w, pt, w->reg[REG_PC]))
    return w->reg[REG_PC];
  for (unsigned i = 0; i < SAVED_WORDS; i++) {
    uint64_t word = vm_load8(w->mem, saved - 8 * (uint64_t)i);
    if (pc_in_proto(w, pt, word))
      return word;
  }
  return 0;
}

/* Some C functions do not need L: libm's, lj_tab_get, lj_tab_len and others.
 * The assembly then keeps BASE in RB and leaves L->base as it was, so that it
 * may be any older frame's.  RB is callee-saved: it is in its register or on
 * the native stack, in the frame of the function that was called (its return
 * address lies right below the C frame).  Where L is passed, RB holds L. */
bool leaf_direct_call(struct vm_walk *w, uint64_t *f, uint64_t *pc)
{
  uint64_t saved = w->cframe - 16;
  uint64_t end = w->sp & ~UINT64_C(7);
  for (int i = -1; i < SEARCHED_WORDS; i++) {
    uint64_t at = saved - 8 * (uint64_t)(i < 0 ? 0 : i);
    if (i >= 0 && at < end)
      break;
    uint64_t v = i < 0 ? w->reg[REG_RB] : vm_load8(w->mem, at);
    if (builtin_base(w, v)) {
      *f = v - 8;
      *pc = 0;
      w->vm.rule = 5;
      return true;
    }
    uint64_t lua_pc = i < SAVED_WORDS ? lua_base_pc(w, v, saved) : 0;
    if (lua_pc) {
      *f = v - 8;
      *pc = lua_pc;
      w->vm.rule = 6;
      return true;
    }
  }
  return false;
}
