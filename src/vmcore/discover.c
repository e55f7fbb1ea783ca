/* SPDX-License-Identifier: MIT */
#include "vmcore/discover.h"

#include <stddef.h>

#include "vmcore/value.h"

enum {
  TRACES_CHECKED = 16,
  ASM_SPAN_MAX = 0x8000, /* lj_vm_asm_begin to lj_vm_ffi_call is 16 KB */
  ASM_TAIL = 0x700,      /* code behind the last dispatch target */
  ASM_TAIL_MAX = 0x1000,
  LUA_MINSTACK = 20, /* lua.h */
  SLOTS_MIN = 16,    /* of a Lua stack, whatever the version */
  SLOTS_MAX = 1 << 24,
  SLOTS_EXTRA = 16,
};

/* ---- threads ---- */

/* The first fields of a lua_State, the same in all LuaJITs that have references
 * of the same size; where a global_State may lie behind its main thread. */
static const struct shape {
  uint8_t gct, dummy_ffid, glref, base, top, maxstack, stack;
  uint8_t ref, gg_g_min, gg_g_max;
} shapes[] = {
    {9, 10, 0x10, 0x20, 0x28, 0x30, 0x38, 8, 0x60, 0x90},
    {5, 6, 0x08, 0x10, 0x18, 0x20, 0x24, 4, 0x40, 0x60},
};

/* gct and dummy_ffid (FF_C, 1: lj_obj.h) of both shapes, in one load. */
bool vm_may_be_thread(struct vm_mem *m, uint64_t addr)
{
  if (!vm_plausible(addr))
    return false;
  uint64_t head = vm_load8(m, addr + 4);
  return (head >> 8 & 0xffff) == (0x100 | VM_GCT_THREAD) ||
         (head >> 40 & 0xffff) == (0x100 | VM_GCT_THREAD);
}

/* The interpreter's C frame has two references of 32 bits in one word: SAVE_L
 * below SAVE_PC (vm_x86.dasc). */
uint64_t vm_candidate(uint64_t word)
{
  if (!(word >> 47))
    return word;
  uint64_t upper = word >> 32;
  return upper >= 0x10000 && !(upper >> 31) ? (uint32_t)word : 0;
}

bool vm_is_global(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  if (!vm_plausible(g))
    return false;
  uint64_t main_L = g - lay->gg_g; /* GG_State starts with the main thread */
  return vm_ref(m, lay, g + lay->g_mainthref) == main_L &&
         vm_load1(m, main_L + lay->L_gct) == VM_GCT_THREAD &&
         vm_ref(m, lay, main_L + lay->L_glref) == g;
}

/* lua_State.dummy_ffid is FF_C, 1 (lj_obj.h); maxstack is set from the stack's
 * size by resizestack and stack_init (lj_state.c). */
uint64_t vm_thread_global(struct vm_mem *m, const struct vm_layout *lay,
                          uint64_t L)
{
  if (!vm_plausible(L) || vm_load1(m, L + lay->L_gct) != VM_GCT_THREAD ||
      vm_load1(m, L + lay->L_dummy_ffid) != 1)
    return 0;
  uint64_t stack = vm_ref(m, lay, L + lay->L_stack);
  uint64_t size = vm_load4(m, L + lay->L_stacksize);
  if (!vm_plausible(stack) || size <= (uint64_t)lay->stack_extra + 1 ||
      vm_ref(m, lay, L + lay->L_maxstack) !=
          stack + 8 * (size - lay->stack_extra - 1))
    return 0;
  uint64_t g = vm_ref(m, lay, L + lay->L_glref);
  return vm_is_global(m, lay, g) ? g : 0;
}

uint64_t vm_main_thread_by(uint64_t addr, uint64_t word)
{
  for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const struct shape *s = &shapes[i];
    uint64_t L = addr - s->glref;
    uint64_t gg_g = (s->ref == 4 ? (uint32_t)word : word) - L;
    if (gg_g >= s->gg_g_min && gg_g <= s->gg_g_max)
      return L;
  }
  return 0;
}

uint64_t vm_global_of(struct vm_mem *m, uint64_t L)
{
  if (!vm_may_be_thread(m, L))
    return 0;
  for (uint32_t id = 0; id < vm_layout_count(); id++) {
    uint64_t g = vm_thread_global(m, vm_layout_get(id), L);
    if (g)
      return g;
  }
  return 0;
}

/* ---- traces ---- */

/* A trace is one allocation: itself, its instructions, its snapshots and their
 * map (lj_trace.c, trace_save; lj_mem in 2.0).  One that is being made (J->cur)
 * has buffers instead. */
bool vm_trace_fits(struct vm_mem *m, const struct vm_layout *lay, uint64_t T)
{
  uint64_t ir = vm_load8(m, T + lay->tr_ir);
  uint64_t snap = vm_load8(m, T + lay->tr_snap);
  uint64_t nk = vm_load4(m, T + lay->tr_nk);
  uint64_t nins = vm_load4(m, T + lay->tr_nins);
  uint64_t nsnap = vm_load2(m, T + lay->tr_nsnap);
  return ir + 8 * nk == T + ((lay->tr_sizeof + 7u) & ~7u) &&
         snap == ir + 8 * nins &&
         vm_load8(m, T + lay->tr_snapmap) == snap + nsnap * lay->snap_sizeof;
}

static bool traces_ok(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  uint64_t J = g - lay->gg_g + lay->gg_J;
  if (!lay->hasjit)
    return true;
  uint64_t trace = vm_load8(m, J + lay->J_trace);
  uint32_t size = vm_load4(m, J + lay->J_sizetrace);
  if (size > 65536 || (size && !vm_plausible(trace)))
    return false;
  for (uint32_t i = 1; i < size && i <= TRACES_CHECKED; i++) {
    uint64_t T = vm_ref(m, lay, trace + vm_ref_size(lay) * (uint64_t)i);
    if (!T || T == J)
      continue;
    if (!vm_plausible(T) || vm_load1(m, T + lay->L_gct) != VM_GCT_TRACE ||
        vm_load2(m, T + lay->tr_traceno) != i || !vm_trace_fits(m, lay, T))
      return false;
  }
  return true;
}

/* ---- the interpreter ---- */

/* Code addresses of the bytecodes and the fast functions, those that hooks
 * replace included (lj_dispatch.h, GG_LEN_DISP): all within the span of the
 * interpreter. */
static bool dispatch_span(struct vm_mem *m, const struct vm_layout *lay,
                          uint64_t g, uint64_t *lo, uint64_t *hi)
{
  uint64_t dispatch = g - lay->gg_g + lay->gg_dispatch;
  uint64_t end = g - lay->gg_g + lay->gg_bcff;
  *lo = UINT64_MAX;
  *hi = 0;
  for (uint64_t at = dispatch; at < end; at += 8) {
    uint64_t pc = vm_load8(m, at);
    if (pc < 0x10000 || pc >> 47)
      return false;
    *lo = pc < *lo ? pc : *lo;
    *hi = pc > *hi ? pc : *hi;
  }
  return *hi - *lo < ASM_SPAN_MAX;
}

/* The word before the table is a hot counter, never a code address: tells
 * layouts apart whose table is shifted by one. */
static bool dispatch_ok(struct vm_mem *m, const struct vm_layout *lay,
                        uint64_t g)
{
  uint64_t lo, hi;
  if (!dispatch_span(m, lay, g, &lo, &hi))
    return false;
  uint64_t before = vm_load8(m, g - lay->gg_g + lay->gg_dispatch - 8);
  return before < lo - ASM_SPAN_MAX || before > hi + ASM_SPAN_MAX;
}

/* Instructions that the VM keeps for itself tell the opcodes' numbers and where
 * GG_State ends (lj_dispatch.c, lj_dispatch_init). */
static bool opcodes_ok(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t g)
{
  uint64_t bcff = g - lay->gg_g + lay->gg_bcff;
  return vm_load4(m, g + lay->g_bc_cfunc_int) ==
             (uint32_t)(lay->bc_funcc | LUA_MINSTACK << 8) &&
         vm_load4(m, bcff) == lay->bc_max &&
         vm_load4(m, bcff + 4) == lay->bc_max + 1u;
}

/* Where the interpreter enters its C frame it saves registers and makes room:
 * the size of both is CFRAME_SIZE (saveregs in vm_x64.dasc and vm_x86.dasc; two
 * more registers with LJ_NO_UNWIND).  0: no such place. */
static unsigned entered_cframe_size(struct vm_mem *m, uint64_t lo, uint64_t hi)
{
  const uint64_t push_rbp_rbx_r15_r14 = UINT64_C(0x564157415355);
  const uint32_t push_r13_r12 = 0x54415541;
  uint32_t faults = m->faults;
  for (uint64_t at = lo; at < hi && m->faults == faults; at++) {
    if ((vm_load8(m, at) & 0xffffffffffff) != push_rbp_rbx_r15_r14)
      continue;
    unsigned pushed = vm_load4(m, at + 6) == push_r13_r12 ? 6 : 4;
    uint32_t sub = vm_load4(m, at + (pushed == 6 ? 10 : 6));
    if ((sub & 0xffffff) == 0xec8348) /* sub rsp, imm8 */
      return 8 + 8 * pushed + (sub >> 24);
  }
  return 0;
}

static bool cframe_ok(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  uint64_t lo, hi;
  if (!dispatch_span(m, lay, g, &lo, &hi))
    return false;
  unsigned size = entered_cframe_size(m, lo, hi);
  return !size || size == lay->cframe_sizeof;
}

/* ---- the whole VM ---- */

bool vm_matches(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  uint32_t faults = m->faults;
  if (!vm_is_global(m, lay, g) || !opcodes_ok(m, lay, g))
    return false;
  /* cur_L is 0 until the first call, and a thread of this VM ever after
   * (lj_state.c, lua_newstate; vm_x64.dasc, vm_call). */
  uint64_t cur =
      lay->g_cur_L == VM_ABSENT16 ? 0 : vm_ref(m, lay, g + lay->g_cur_L);
  if (cur && vm_thread_global(m, lay, cur) != g)
    return false;
  return vm_thread_global(m, lay, g - lay->gg_g) == g &&
         dispatch_ok(m, lay, g) && cframe_ok(m, lay, g) &&
         traces_ok(m, lay, g) && m->faults == faults;
}

/* LuaJIT's own allocator keeps the size of a block in the word before it
 * (lj_alloc.c), and GG_State is one block. */
static bool allocated_as(struct vm_mem *m, const struct vm_layout *lay,
                         uint64_t g)
{
  uint64_t word = vm_load8(m, g - lay->gg_g - 8);
  return (word & ~UINT64_C(7)) - 8 == lay->gg_sizeof;
}

uint32_t vm_identify_global(struct vm_mem *m, uint64_t g)
{
  uint32_t best = VM_LAYOUT_UNKNOWN;
  for (uint32_t id = 0; id < vm_layout_count(); id++) {
    const struct vm_layout *lay = vm_layout_get(id);
    if (!vm_matches(m, lay, g))
      continue;
    if (allocated_as(m, lay, g))
      return id;
    if (best == VM_LAYOUT_UNKNOWN)
      best = id;
  }
  return best;
}

uint32_t vm_identify(struct vm_mem *m, uint64_t L, uint64_t *g)
{
  *g = vm_global_of(m, L);
  uint32_t id = *g ? vm_identify_global(m, *g) : VM_LAYOUT_UNKNOWN;
  if (id == VM_LAYOUT_UNKNOWN)
    *g = 0;
  return id;
}

uint32_t vm_identify_dispatch(struct vm_mem *m, uint64_t dispatch, uint64_t *g)
{
  /* a table of code addresses, that of ISLT and that of ISGE near each other */
  *g = 0;
  if (!vm_plausible(dispatch))
    return VM_LAYOUT_UNKNOWN;
  uint64_t first = vm_load8(m, dispatch);
  if (first < 0x10000 || first >> 47 ||
      vm_load8(m, dispatch + 8) - first + ASM_SPAN_MAX > 2 * ASM_SPAN_MAX)
    return VM_LAYOUT_UNKNOWN;
  for (uint32_t i = 0; i < vm_layout_count(); i++) {
    const struct vm_layout *lay = vm_layout_get(i);
    uint64_t at = dispatch - lay->gg_dispatch + lay->gg_g;
    if (!vm_is_global(m, lay, at))
      continue;
    uint32_t id = vm_identify_global(m, at);
    if (id == VM_LAYOUT_UNKNOWN)
      return id;
    lay = vm_layout_get(id);
    if (at - lay->gg_g + lay->gg_dispatch != dispatch)
      continue;
    *g = at;
    return id;
  }
  return VM_LAYOUT_UNKNOWN;
}

static uint64_t shape_ref(struct vm_mem *m, const struct shape *s, uint64_t at)
{
  return m->load(m, at, s->ref);
}

/* A main thread a little before the global_State, which points at it. */
static bool global_resembles(struct vm_mem *m, const struct shape *s,
                             uint64_t g)
{
  for (uint64_t gg_g = s->gg_g_min; gg_g <= s->gg_g_max; gg_g += 8)
    if (vm_load1(m, g - gg_g + s->gct) == VM_GCT_THREAD &&
        shape_ref(m, s, g - gg_g + s->glref) == g)
      return true;
  return false;
}

/* By the first fields alone: what comes behind the stack is not where it is in
 * any layout that is known. */
static uint64_t resembles(struct vm_mem *m, const struct shape *s, uint64_t L)
{
  if (vm_load1(m, L + s->gct) != VM_GCT_THREAD ||
      vm_load1(m, L + s->dummy_ffid) != 1)
    return 0;
  uint64_t base = vm_load8(m, L + s->base), top = vm_load8(m, L + s->top);
  uint64_t max = shape_ref(m, s, L + s->maxstack);
  uint64_t stack = shape_ref(m, s, L + s->stack);
  uint64_t slots = (max - stack) / 8;
  if (!vm_plausible(stack) || (max & 7) || base <= stack || top < base ||
      top > max + 8 * SLOTS_EXTRA || slots < SLOTS_MIN || slots > SLOTS_MAX)
    return 0;
  uint64_t g = shape_ref(m, s, L + s->glref);
  return vm_plausible(g) && global_resembles(m, s, g) ? g : 0;
}

uint64_t vm_resembles(struct vm_mem *m, uint64_t L)
{
  uint64_t g = 0;
  if (!vm_plausible(L))
    return 0;
  for (unsigned i = 0; i < sizeof shapes / sizeof *shapes && !g; i++)
    g = resembles(m, &shapes[i], L);
  return g;
}

uint64_t vm_asm_pc(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  return vm_load8(m, g - lay->gg_g + lay->gg_dispatch + 8u * lay->bc_mov);
}

/* ---- .eh_frame_hdr: the sorted table of functions ---- */

enum {
  DW_EH_PE_pcrel_sdata4 = 0x1b,
  DW_EH_PE_udata4 = 0x03,
  DW_EH_PE_datarel_sdata4 = 0x3b,
};

static uint64_t relative4(struct vm_mem *m, uint64_t origin, uint64_t at)
{
  return origin + (uint64_t)(int64_t)(int32_t)vm_load4(m, at);
}

/* Entry of the table whose function starts at or before pc. */
static uint64_t find_fde(struct vm_mem *m, uint64_t hdr, uint64_t pc)
{
  if (vm_load1(m, hdr) != 1 || vm_load1(m, hdr + 1) != DW_EH_PE_pcrel_sdata4 ||
      vm_load1(m, hdr + 2) != DW_EH_PE_udata4 ||
      vm_load1(m, hdr + 3) != DW_EH_PE_datarel_sdata4)
    return 0;
  uint32_t lo = 0, hi = vm_load4(m, hdr + 8);
  if (!hi || hi > (1u << 24))
    return 0;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (relative4(m, hdr, hdr + 12 + 8 * (uint64_t)mid) <= pc)
      lo = mid;
    else
      hi = mid;
  }
  return relative4(m, hdr, hdr + 12 + 8 * (uint64_t)lo + 4);
}

/* FDE: length, CIE pointer, start (pc-relative, 4 bytes: what the CIE of
 * LuaJIT's assembly says, buildvm_asm.c), size. */
static bool fde_range(struct vm_mem *m, uint64_t hdr, uint64_t pc, uint64_t *lo,
                      uint64_t *hi)
{
  uint64_t fde = find_fde(m, hdr, pc);
  if (!fde)
    return false;
  *lo = relative4(m, fde + 8, fde + 8);
  *hi = *lo + vm_load4(m, fde + 12);
  return pc >= *lo && pc < *hi;
}

/* The end of the interpreter behind its last dispatch target: lj_vm_ffi_call,
 * by the code that it begins with, where there is FFI. */
static uint64_t asm_end(struct vm_mem *m, uint64_t last)
{
  /* push rbp; mov rbp, rsp; push rbx; mov rbx, rdi */
  const uint64_t ffi_call = UINT64_C(0xfb894853e5894855);
  uint32_t faults = m->faults;
  for (uint64_t at = last; at < last + ASM_TAIL_MAX; at++) {
    if (vm_load8(m, at) == ffi_call)
      return at;
    if (m->faults != faults)
      break;
  }
  return last + ASM_TAIL;
}

bool vm_asm_range(struct vm_mem *m, const struct vm_layout *lay, uint64_t g,
                  uint64_t hdr, uint64_t *lo, uint64_t *hi)
{
  uint64_t first, last;
  if (!dispatch_span(m, lay, g, &first, &last))
    return false;
  if (hdr && fde_range(m, hdr, vm_asm_pc(m, lay, g), lo, hi) && *lo <= first &&
      last < *hi)
    return true;
  *lo = first; /* lj_vm_asm_begin: the first bytecode */
  *hi = asm_end(m, last);
  return true;
}

bool vm_jit_on(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  return lay->hasjit && (vm_load4(m, g - lay->gg_g + lay->gg_J + lay->J_flags) &
                         lay->jit_f_on) != 0;
}
