/* SPDX-License-Identifier: MIT
 *
 * In compiled code: which trace, and the frames that its snapshot describes.
 * Frames that the trace inlined are not on the Lua stack; a snapshot says what
 * would be there on an exit (lj_snap.c, lj_snap_restore).
 */
#include "vmcore/discover.h"
#include "vmcore/walk_internal.h"

enum {
  TRACES_SEARCHED = 8192, /* when vmstate does not name the trace */
  MCODE_AREAS = 32,
  STACK_WORDS = 4096, /* native stack searched for a return into a trace */
  REF_BIAS = 0x8000,  /* lj_ir.h: constants lie below */
  SNAP_FRAME_OR_CONT = 0x30000, /* lj_jit.h: SNAP_FRAME | SNAP_CONT */
};

static uint64_t jit_state(const struct vm_walk *w)
{
  return w->g - w->lay->gg_g + w->lay->gg_J;
}

unsigned vm_mcode_areas(struct vm_mem *m, const struct vm_layout *lay,
                        uint64_t g, struct tecs_range *out, unsigned max)
{
  uint64_t J = g - lay->gg_g + lay->gg_J;
  uint64_t area = vm_load8(m, J + lay->J_mcarea);
  unsigned n = 0;
  /* each area starts with {next, size} (lj_mcode.c, MCLink) */
  while (n < max && area >= 0x10000 && !(area & 4095) && !(area >> 47)) {
    uint64_t size = vm_load8(m, area + 8);
    if (!size || size > (UINT64_C(1) << 31))
      break;
    out[n].lo = area;
    out[n].hi = area + size;
    n++;
    area = vm_load8(m, area);
  }
  return n;
}

uint64_t vm_mcode_key(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  uint64_t J = g - lay->gg_g + lay->gg_J;
  return vm_load8(m, J + lay->J_mcarea) + vm_load8(m, J + lay->J_szallmcarea);
}

static bool in_trace(struct vm_walk *w, uint64_t T, uint64_t pc)
{
  if (!vm_plausible(T) || vm_load1(w->mem, T + w->lay->L_gct) != VM_GCT_TRACE)
    return false;
  uint64_t mcode = vm_load8(w->mem, T + w->lay->tr_mcode);
  return mcode && pc >= mcode &&
         pc - mcode < vm_load4(w->mem, T + w->lay->tr_szmcode);
}

/* vmstate is the trace's number while its code runs, hence tried first; it is
 * not while the collector runs from it. */
static uint64_t trace_at(struct vm_walk *w, uint64_t pc, uint32_t *number)
{
  uint64_t J = jit_state(w);
  uint64_t trace = vm_load8(w->mem, J + w->lay->J_trace);
  uint32_t size = vm_load4(w->mem, J + w->lay->J_sizetrace);
  int32_t vs = w->vm.vmstate;
  if (!vm_plausible(trace) || size > 65536)
    return 0;
  if (vs > 0 && (uint32_t)vs < size) {
    uint64_t T = vm_load8(w->mem, trace + 8 * (uint64_t)vs);
    if (in_trace(w, T, pc)) {
      *number = (uint32_t)vs;
      return T;
    }
  }
  for (uint32_t i = 1; i < size && i < TRACES_SEARCHED; i++) {
    uint64_t T = vm_load8(w->mem, trace + 8 * (uint64_t)i);
    if (T && in_trace(w, T, pc)) {
      *number = i;
      return T;
    }
  }
  return 0;
}

static bool in_areas(const struct tecs_range *area, unsigned n, uint64_t pc)
{
  for (unsigned i = 0; i < n; i++)
    if (pc >= area[i].lo && pc < area[i].hi)
      return true;
  return false;
}

/* Where C code that trace T called returns to: T's stack pointer is a fixed
 * distance below the C frame (lj_asm_x86.h, asm_head_root; BC_JLOOP). */
static uint64_t return_place(struct vm_walk *w, uint64_t T)
{
  return w->cframe - w->lay->trace_saved -
         vm_load2(w->mem, T + w->lay->tr_spadjust) - 8;
}

/* vmstate names the trace, unless the collector runs in it. */
static uint64_t trace_by_state(struct vm_walk *w, uint64_t *pc,
                               uint32_t *number)
{
  int32_t vs = w->vm.vmstate;
  uint64_t J = jit_state(w);
  if (vs <= 0 || (uint32_t)vs >= vm_load4(w->mem, J + w->lay->J_sizetrace))
    return 0;
  uint64_t T = vm_load8(w->mem, vm_load8(w->mem, J + w->lay->J_trace) +
                                    8 * (uint64_t)vs);
  if (!vm_plausible(T))
    return 0;
  uint64_t ra = vm_load8(w->mem, return_place(w, T));
  if (!in_trace(w, T, ra - 1))
    return 0;
  *pc = ra - 1; /* within the call */
  *number = (uint32_t)vs;
  return T;
}

/* Any word on the stack may look like a return into a trace: a buffer that was
 * never filled holds old ones. */
static uint64_t trace_by_stack(struct vm_walk *w, const struct tecs_range *area,
                               unsigned n, uint64_t *pc, uint32_t *number)
{
  uint32_t faults = w->mem->faults;
  uint64_t p = w->sp & ~UINT64_C(7);
  for (unsigned i = 0; i < STACK_WORDS && p < w->cframe; i++, p += 8) {
    uint64_t ra = vm_load8(w->mem, p);
    if (w->mem->faults != faults)
      return 0;
    if (!in_areas(area, n, ra))
      continue;
    uint64_t T = trace_at(w, ra - 1, number);
    if (T && return_place(w, T) == p) {
      *pc = ra - 1;
      return T;
    }
  }
  return 0;
}

/* The trace that runs: at the instruction pointer, or the one that the C code
 * there will return to. */
static uint64_t find_trace(struct vm_walk *w, uint64_t *pc, uint32_t *number)
{
  struct tecs_range area[MCODE_AREAS];
  unsigned n = vm_mcode_areas(w->mem, w->lay, w->g, area, MCODE_AREAS);
  uint64_t ip = w->reg ? w->reg[TECS_REG_RIP] : 0;
  if (in_areas(area, n, ip)) {
    w->vm.vm_class = TECS_CLASS_TRACE;
    *pc = ip;
    return trace_at(w, ip, number);
  }
  w->vm.vm_class = TECS_CLASS_TRACE_C;
  uint64_t T = trace_by_state(w, pc, number);
  return T ? T : trace_by_stack(w, area, n, pc, number);
}

/* Value of a constant, 0 for anything computed.  64-bit payloads stand in the
 * next instruction slot (lj_ir.h, LJ_GC64). */
static uint64_t ir_constant(struct vm_walk *w, uint64_t T, uint32_t ref)
{
  if (ref >= REF_BIAS)
    return 0;
  uint64_t ir = vm_load8(w->mem, T + w->lay->tr_ir) + 8 * (uint64_t)ref;
  unsigned op = vm_load1(w->mem, ir + 5);
  bool wide =
      op == w->lay->ir_kgc || op == w->lay->ir_knum || op == w->lay->ir_kint64;
  return wide ? vm_load8(w->mem, ir + 8) : 0;
}

static void overlay_add(struct vm_walk *w, uint64_t addr, uint64_t value)
{
  if (w->overlay_count < VM_OVERLAY_MAX)
    w->overlay[w->overlay_count++] = (struct vm_overlay){addr, value};
}

/* Snapshot taken at or before this offset in the machine code: mcofs is where
 * its guarded part starts (lj_asm.c, asm_snap_prep). */
static uint64_t snapshot_at(struct vm_walk *w, uint64_t T, uint64_t pc)
{
  const struct vm_layout *lay = w->lay;
  uint64_t snap = vm_load8(w->mem, T + lay->tr_snap);
  uint64_t ofs = pc - vm_load8(w->mem, T + lay->tr_mcode);
  uint32_t lo = 0, hi = vm_load2(w->mem, T + lay->tr_nsnap);
  if (!hi || !vm_plausible(snap & ~UINT64_C(7)))
    return 0;
  while (hi - lo > 1) {
    uint32_t mid = (lo + hi) / 2;
    uint64_t at = snap + (uint64_t)mid * lay->snap_sizeof;
    if (ofs < vm_load2(w->mem, at + lay->snap_mcofs))
      hi = mid;
    else
      lo = mid;
  }
  w->vm.snapshot = (uint16_t)lo;
  return snap + (uint64_t)lo * lay->snap_sizeof;
}

/* Entries are slot << 24 | flags | IR reference.  Only links (FRAME, CONT) and
 * the function below each are needed; slot 1 is the trace's own frame, which
 * is on the stack.  A function that is not a constant becomes 0: its bytecode
 * position tells which prototype it is. */
static void lay_over(struct vm_walk *w, uint64_t T, uint64_t map, uint32_t n,
                     uint64_t slot0)
{
  for (uint32_t i = 0; i < n; i++) {
    uint32_t e = vm_load4(w->mem, map + 4 * (uint64_t)i);
    uint64_t slot = e >> 24;
    uint64_t value = ir_constant(w, T, e & 0xffff);
    if (e & SNAP_FRAME_OR_CONT) {
      if (slot != 1 && value)
        overlay_add(w, slot0 + 8 * slot, value);
      continue;
    }
    uint32_t next =
        i + 1 < n ? vm_load4(w->mem, map + 4 * (uint64_t)(i + 1)) : 0;
    if ((next & SNAP_FRAME_OR_CONT) && next >> 24 == slot + 1)
      overlay_add(w, slot0 + 8 * slot, value);
  }
  if (!w->overlay_count) /* still a trace: slots may be unwritten */
    overlay_add(w, 1, 0);
}

/* At the jump that ends a trace in another one: the stack has been restored
 * and jit_base moved to the innermost frame already (lj_asm_x86.h,
 * asm_tail_link), so the last snapshot must not be laid over it again. */
static bool at_tail_jump(struct vm_walk *w, uint64_t T, uint64_t pc)
{
  uint64_t end = vm_load8(w->mem, T + w->lay->tr_mcode) +
                 vm_load4(w->mem, T + w->lay->tr_szmcode);
  return pc == end - 5 && vm_load1(w->mem, pc) == 0xe9; /* jmp rel32 */
}

/* The frame at jit_base is complete; the linked trace says where it goes on. */
static bool leaf_at_tail(struct vm_walk *w, uint64_t T, uint64_t jit_base,
                         uint64_t *f, uint64_t *pc)
{
  uint64_t trace = vm_load8(w->mem, jit_state(w) + w->lay->J_trace);
  uint64_t link = vm_load2(w->mem, T + w->lay->tr_link);
  uint64_t next = link ? vm_load8(w->mem, trace + 8 * link) : 0;
  uint64_t start = next ? vm_load8(w->mem, next + w->lay->tr_startpc) + 4 : 0;
  uint64_t pt = vm_func_proto(w->mem, w->lay,
                              vm_load8(w->mem, jit_base - 16) & VM_GCV_MASK);
  overlay_add(w, 1, 0);
  *f = jit_base - 8;
  *pc = pt && pc_in_proto(w, pt, start) ? start : 0;
  return true;
}

bool leaf_in_trace(struct vm_walk *w, uint64_t *f, uint64_t *pc)
{
  const struct vm_layout *lay = w->lay;
  uint32_t number = 0;
  uint64_t mcode_pc = 0;
  uint64_t T = find_trace(w, &mcode_pc, &number);
  if (!T)
    return false;
  w->vm.trace = (uint16_t)number;
  w->vm.mcode_pc = mcode_pc;
  uint64_t snap = snapshot_at(w, T, mcode_pc);
  uint64_t jit_base = vm_load8(w->mem, w->g + lay->g_jit_base);
  if (!snap || !jit_base) {
    w->vm.error = TECS_WALK_NO_SNAPSHOT;
    return false;
  }
  uint64_t map = vm_load8(w->mem, T + lay->tr_snapmap) +
                 4 * (uint64_t)vm_load4(w->mem, snap + lay->snap_mapofs);
  uint32_t nent = vm_load1(w->mem, snap + lay->snap_nent);
  uint64_t slot0 = jit_base - 16;
  /* behind the entries: pc << 8 | base slot - 2 (lj_snap.c, SNAP_PC) */
  uint64_t last = vm_load8(w->mem, map + 4 * (uint64_t)nent);
  w->trace_frame = jit_base - 8;
  if ((last & 255) && at_tail_jump(w, T, mcode_pc))
    return leaf_at_tail(w, T, jit_base, f, pc);
  lay_over(w, T, map, nent, slot0);
  *f = slot0 + 8 * ((last & 255) + 2) - 8;
  *pc = (last >> 8) + 4;
  return true;
}
