/* SPDX-License-Identifier: MIT */
#include "vmcore/discover.h"

enum {
  TRACES_CHECKED = 16,
  ASM_SPAN_MAX = 0x8000, /* lj_vm_asm_begin to lj_vm_ffi_call is 16 KB */
  ASM_TAIL = 0x700,      /* code behind the last dispatch target */
  ASM_HEAD = 0x1000,     /* lj_vm_return* and lj_vm_call* before the first */
};

bool vm_is_global(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  if (!vm_plausible(g))
    return false;
  uint64_t main_L = g - lay->gg_g; /* GG_State starts with the main thread */
  return vm_load8(m, g + lay->g_mainthref) == main_L &&
         vm_load1(m, main_L + lay->L_gct) == VM_GCT_THREAD &&
         vm_load8(m, main_L + lay->L_glref) == g;
}

/* lua_State.dummy_ffid is FF_C, 1 (lj_obj.h); maxstack is set from the stack's
 * size by resizestack and stack_init (lj_state.c). */
uint64_t vm_thread_global(struct vm_mem *m, const struct vm_layout *lay,
                          uint64_t L)
{
  if (!vm_plausible(L) || vm_load1(m, L + lay->L_gct) != VM_GCT_THREAD ||
      vm_load1(m, L + lay->L_dummy_ffid) != 1)
    return 0;
  uint64_t stack = vm_load8(m, L + lay->L_stack);
  uint64_t size = vm_load4(m, L + lay->L_stacksize);
  if (!vm_plausible(stack) || size <= (uint64_t)lay->stack_extra + 1 ||
      vm_load8(m, L + lay->L_maxstack) !=
          stack + 8 * (size - lay->stack_extra - 1))
    return 0;
  uint64_t g = vm_load8(m, L + lay->L_glref);
  return vm_is_global(m, lay, g) ? g : 0;
}

static bool traces_ok(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  uint64_t J = g - lay->gg_g + lay->gg_J;
  uint64_t trace = vm_load8(m, J + lay->J_trace);
  uint32_t size = vm_load4(m, J + lay->J_sizetrace);
  if (size > 65536 || (size && !vm_plausible(trace)))
    return false;
  for (uint32_t i = 1; i < size && i <= TRACES_CHECKED; i++) {
    uint64_t T = vm_load8(m, trace + 8 * (uint64_t)i);
    if (!T)
      continue;
    if (!vm_plausible(T) || vm_load1(m, T + lay->L_gct) != VM_GCT_TRACE ||
        vm_load2(m, T + lay->tr_traceno) != i)
      return false;
  }
  return true;
}

/* Code addresses of the bytecodes: all within the span of the interpreter. */
static bool dispatch_span(struct vm_mem *m, const struct vm_layout *lay,
                          uint64_t g, uint64_t *lo, uint64_t *hi)
{
  uint64_t dispatch = g - lay->gg_g + lay->gg_dispatch;
  *lo = UINT64_MAX;
  *hi = 0;
  for (unsigned i = 0; i < lay->bc_max; i++) {
    uint64_t pc = vm_load8(m, dispatch + 8 * i);
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

bool vm_matches(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  uint32_t faults = m->faults;
  if (!vm_is_global(m, lay, g))
    return false;
  /* cur_L is 0 until the first call, and a thread of this VM ever after
   * (lj_state.c, lua_newstate; vm_x64.dasc, vm_call). */
  uint64_t cur = vm_load8(m, g + lay->g_cur_L);
  if (cur && vm_thread_global(m, lay, cur) != g)
    return false;
  return vm_thread_global(m, lay, g - lay->gg_g) == g &&
         dispatch_ok(m, lay, g) && traces_ok(m, lay, g) && m->faults == faults;
}

uint32_t vm_identify(struct vm_mem *m, uint64_t L, uint64_t *g)
{
  for (uint32_t id = 0; id < vm_layout_count(); id++) {
    const struct vm_layout *lay = vm_layout_get(id);
    *g = vm_thread_global(m, lay, L);
    if (*g && vm_matches(m, lay, *g))
      return id;
  }
  *g = 0;
  return VM_LAYOUT_UNKNOWN;
}

/* What every GC64 layout since 2.1.0-beta3 has in common: the first fields of
 * lua_State, and a main thread a little before the global_State. */
uint64_t vm_resembles(struct vm_mem *m, uint64_t L)
{
  if (!vm_plausible(L) || vm_load1(m, L + 9) != VM_GCT_THREAD ||
      vm_load1(m, L + 10) != 1)
    return 0;
  uint64_t base = vm_load8(m, L + 0x20), top = vm_load8(m, L + 0x28);
  uint64_t max = vm_load8(m, L + 0x30), stack = vm_load8(m, L + 0x38);
  uint64_t size = vm_load4(m, L + 0x58);
  if (!vm_plausible(stack) || base <= stack || top < base || max < stack ||
      size < 16 || size > (1u << 24))
    return 0;
  uint64_t extra = size - (max - stack) / 8;
  uint64_t g = vm_load8(m, L + 0x10);
  if (extra < 5 || extra > 12 || !vm_plausible(g))
    return 0;
  for (uint64_t gg_g = 0x60; gg_g <= 0x80; gg_g += 8)
    if (vm_load1(m, g - gg_g + 9) == VM_GCT_THREAD &&
        vm_load8(m, g - gg_g + 0x10) == g)
      return g;
  return 0;
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

bool vm_asm_range(struct vm_mem *m, const struct vm_layout *lay, uint64_t g,
                  uint64_t hdr, uint64_t *lo, uint64_t *hi)
{
  uint64_t first, last;
  if (!dispatch_span(m, lay, g, &first, &last))
    return false;
  if (hdr && fde_range(m, hdr, vm_asm_pc(m, lay, g), lo, hi) && *lo <= first &&
      last < *hi)
    return true;
  *lo = first - ASM_HEAD;
  *hi = last + ASM_TAIL;
  return true;
}

/* lj_jit.h, JIT_F_ON: the lowest bit since the flags were reordered in 2020. */
bool vm_jit_on(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  return vm_load4(m, g - lay->gg_g + lay->gg_J + lay->J_flags) & 1;
}
