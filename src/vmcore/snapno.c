/* SPDX-License-Identifier: MIT
 *
 * Which snapshot belongs to an address in a trace's machine code.
 */
#include "vmcore/trace_internal.h"

enum {
  GUARD_SEARCH = 512, /* bytes of machine code searched for a guard */
  JCC_SIZE = 6,       /* 0f 8x rel32 */
  JMP_SIZE = 5,       /* e9 rel32 */
};

/* Taken at or before that offset: mcofs is where the part that a snapshot
 * guards starts (lj_asm.c, asm_snap_prep). */
static uint32_t by_offset(struct vm_walk *w, uint64_t snap, uint32_t n,
                          uint64_t ofs)
{
  uint32_t lo = 0, hi = n;
  while (hi - lo > 1) {
    uint32_t mid = (lo + hi) / 2;
    uint64_t at = snap + (uint64_t)mid * w->lay->snap_sizeof;
    if (ofs < vm_load2(w->mem, at + w->lay->snap_mcofs))
      hi = mid;
    else
      lo = mid;
  }
  return lo;
}

/* ---- before mcofs: by the exits ---- */

/* Number of the exit whose stub is at `at`; -1: that is no stub.  A stub pushes
 * the number's lower byte and jumps to where its group pushes the upper one
 * (lj_asm_x86.h, asm_exitstub_gen). */
static int32_t exit_of_stub(struct vm_walk *w, uint64_t at)
{
  uint32_t code = vm_load4(w->mem, at);
  if ((code & 0xff) != 0x6a) /* push imm8 */
    return -1;
  uint32_t low = code >> 8 & 0xff;
  uint64_t second = at + 2;
  if ((code >> 16 & 0xff) == 0xeb) /* jmp rel8 */
    second = at + 4 + (code >> 24 & 0x7f);
  code = vm_load2(w->mem, second);
  return (code & 0xff) == 0x6a ? (int32_t)(code & 0xff00) | (int32_t)low : -1;
}

/* Exit of the guard at `at`, the end of one at the loop's back edge included
 * (asm_guardcc); -1: no guard there, or one that leads to a side trace. */
static int32_t exit_of_guard(struct vm_walk *w, uint64_t at,
                             const struct tecs_range *area, unsigned n)
{
  uint32_t code = vm_load2(w->mem, at);
  unsigned size = (code & 0xff) == 0xe9       ? JMP_SIZE
                  : (code & 0xf0ff) == 0x800f ? JCC_SIZE
                                              : 0;
  if (!size)
    return -1;
  uint64_t to =
      at + size + (uint64_t)(int64_t)(int32_t)vm_load4(w->mem, at + size - 4);
  return trace_in_areas(area, n, to) ? exit_of_stub(w, to) : -1;
}

/* A guard's exit has the number of the snapshot that was the last one when the
 * guard was made, so the next guard tells what was current before it; behind
 * the last one, that one does. */
static uint32_t by_exits(struct vm_walk *w, uint64_t T, uint64_t pc, uint32_t n)
{
  const struct tecs_range *area = w->mcode->range;
  unsigned areas = trace_areas(w);
  uint64_t lo = vm_load8(w->mem, T + w->lay->tr_mcode);
  uint64_t hi = lo + vm_load4(w->mem, T + w->lay->tr_szmcode);
  int32_t exit = -1;
  for (uint64_t at = pc; at < hi && at < pc + GUARD_SEARCH && exit < 0; at++)
    exit = exit_of_guard(w, at, area, areas);
  for (uint64_t at = pc; at > lo && pc - at < GUARD_SEARCH && exit < 0; at--)
    exit = exit_of_guard(w, at - 1, area, areas);
  return exit >= 0 && (uint32_t)exit < n ? (uint32_t)exit : 0;
}

bool snap_number(struct vm_walk *w, uint64_t T, uint64_t pc, uint32_t *number)
{
  const struct vm_layout *lay = w->lay;
  uint32_t n = vm_load2(w->mem, T + lay->tr_nsnap);
  uint64_t snap = vm_load8(w->mem, T + lay->tr_snap);
  if (!n || !vm_plausible(snap & ~UINT64_C(7)))
    return false;
  if (lay->snap_mcofs == VM_ABSENT16)
    *number = by_exits(w, T, pc, n);
  else
    *number = by_offset(w, snap, n, pc - vm_load8(w->mem, T + lay->tr_mcode));
  return true;
}
