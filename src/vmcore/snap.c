/* SPDX-License-Identifier: MIT
 *
 * The frames of compiled code.  Those that a trace inlined are not on the Lua
 * stack; a snapshot says what would be there on an exit (lj_snap.c,
 * lj_snap_restore).
 */
#include "vmcore/trace_internal.h"

enum {
  REF_BIAS = 0x8000,            /* lj_ir.h: constants lie below */
  SNAP_FRAME_OR_CONT = 0x30000, /* lj_jit.h: SNAP_FRAME | SNAP_CONT */
};

/* The object that a constant is, 0 for anything computed.  64-bit payloads
 * stand in the next instruction slot (lj_ir.h, LJ_GC64); an object of 32 bits
 * in the instruction itself. */
static uint64_t ir_constant(struct vm_walk *w, uint64_t T, uint32_t ref)
{
  const struct vm_layout *lay = w->lay;
  if (ref >= REF_BIAS)
    return 0;
  uint64_t ir = vm_load8(w->mem, T + lay->tr_ir) + 8 * (uint64_t)ref;
  unsigned op = vm_load1(w->mem, ir + 5);
  if (!lay->gc64)
    return op == lay->ir_kgc ? vm_load4(w->mem, ir) : 0;
  bool wide = op == lay->ir_kgc || op == lay->ir_knum || op == lay->ir_kint64;
  return wide ? vm_load8(w->mem, ir + 8) : 0;
}

static void overlay_add(struct vm_walk *w, uint64_t addr, uint64_t value)
{
  if (w->overlay_count < VM_OVERLAY_MAX)
    w->overlay[w->overlay_count++] = (struct vm_overlay){addr, value};
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
}

/* With one-slot frames an entry is the function, and the links stand behind the
 * pc: from the innermost frame outward, of a continuation frame two (lj_snap.c,
 * snapshot_framelinks).  Slot 0 is the trace's own frame.  Returns the slot of
 * the innermost one. */
static uint64_t lay_over_links(struct vm_walk *w, uint64_t T, uint64_t map,
                               uint32_t n, uint64_t slot0)
{
  uint32_t links = 0;
  uint64_t top = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t e = vm_load4(w->mem, map + 4 * (uint64_t)i);
    links += (e & SNAP_FRAME_OR_CONT) && e >> 24;
  }
  for (uint32_t i = 0; i < n && links; i++) {
    uint32_t e = vm_load4(w->mem, map + 4 * (uint64_t)i);
    if (!(e & SNAP_FRAME_OR_CONT) || !(e >> 24))
      continue;
    uint64_t link = vm_load4(w->mem, map + 4 * (uint64_t)(n + links--));
    top = e >> 24;
    overlay_add(w, slot0 + 8 * top,
                link << 32 | (uint32_t)ir_constant(w, T, e & 0xffff));
  }
  return top;
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
static void leaf_at_tail(struct vm_walk *w, uint64_t T, uint64_t *f,
                         uint64_t *pc)
{
  uint64_t trace = vm_load8(w->mem, jit_state(w) + w->lay->J_trace);
  uint32_t link = vm_load2(w->mem, T + w->lay->tr_link);
  uint64_t next = link ? trace_number(w, trace, link) : 0;
  uint64_t start =
      next ? vm_ref(w->mem, w->lay, next + w->lay->tr_startpc) + 4 : 0;
  w->overlay_count = 0;
  uint64_t pt = frame_proto(w, w->trace_frame);
  *f = w->trace_frame;
  *pc = pt && pc_in_proto(w, pt, start) ? start : 0;
}

/* Frame and pc of the innermost frame, by the snapshot. */
static void leaf_by_snapshot(struct vm_walk *w, uint64_t T, uint64_t snap,
                             uint64_t *f, uint64_t *pc)
{
  const struct vm_layout *lay = w->lay;
  uint32_t mapofs = lay->snap_sizeof == 8
                        ? vm_load2(w->mem, snap + lay->snap_mapofs)
                        : vm_load4(w->mem, snap + lay->snap_mapofs);
  uint64_t map = vm_load8(w->mem, T + lay->tr_snapmap) + 4 * (uint64_t)mapofs;
  uint32_t nent = vm_load1(w->mem, snap + lay->snap_nent);
  uint64_t slot0 = w->trace_frame + 8 - frame_words(lay);
  uint64_t behind = map + 4 * (uint64_t)nent;
  if (lay->gc64) { /* pc << 8 | base slot - 2 (lj_snap.c, SNAP_PC) */
    uint64_t last = vm_load8(w->mem, behind);
    lay_over(w, T, map, nent, slot0);
    *f = slot0 + 8 * ((last & 255) + 2) - 8;
    *pc = (last >> 8) + 4;
  } else {
    *f = slot0 + 8 * lay_over_links(w, T, map, nent, slot0);
    *pc = (uint64_t)vm_load4(w->mem, behind) + 4;
  }
}

bool leaf_in_trace(struct vm_walk *w, uint64_t *f, uint64_t *pc)
{
  const struct vm_layout *lay = w->lay;
  uint32_t number = 0, snapshot = 0;
  uint64_t mcode_pc = 0;
  uint64_t T = trace_find(w, &mcode_pc, &number);
  if (!T)
    return false;
  w->vm.trace = (uint16_t)number;
  w->vm.mcode_pc = mcode_pc;
  uint64_t snap = vm_load8(w->mem, T + lay->tr_snap);
  uint64_t jit_base = vm_ref(w->mem, lay, w->g + lay->g_jit_base);
  if (!vm_trace_fits(w->mem, lay, T)) {
    w->misfit = true;
    w->vm.error = TECS_WALK_NO_SNAPSHOT;
    return false;
  }
  if (!jit_base || !snap_number(w, T, mcode_pc, &snapshot)) {
    w->vm.error = TECS_WALK_NO_SNAPSHOT;
    return false;
  }
  w->vm.snapshot = (uint16_t)snapshot;
  snap += (uint64_t)snapshot * lay->snap_sizeof;
  w->trace_frame = jit_base - 8;
  leaf_by_snapshot(w, T, snap, f, pc);
  if (*f != w->trace_frame && at_tail_jump(w, T, mcode_pc))
    leaf_at_tail(w, T, f, pc);
  if (!w->overlay_count) /* still a trace: slots may be unwritten */
    overlay_add(w, 1, 0);
  return true;
}
