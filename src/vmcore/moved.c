/* SPDX-License-Identifier: MIT
 *
 * A Lua stack that is being moved: L->stack is the new one already, L->base
 * still points into the old one until the new slots are cleared (lj_state.c,
 * resizestack).  Before that the allocator copies the slots and frees the old
 * place, which it then writes into (lj_alloc.c, lj_alloc_realloc).
 */
#include "vmcore/walk_internal.h"

enum {
  WORDS_SEARCHED = 1024,
  FRAMES_CHECKED = 4096,
  SLOTS_COMPARED = 65536, /* lj_def.h, LJ_STACK_MAX */
};

/* Are there functions from frame f down to the bottom? */
static bool reaches_bottom(struct vm_walk *w, uint64_t f)
{
  uint64_t bottom = thread_stack(w, w->L) + frame_words(w->lay) - 8;
  for (unsigned i = 0; i < FRAMES_CHECKED && f > bottom; i++) {
    uint64_t link = frame_link(w, f), delta = link & ~UINT64_C(7);
    if (!is_function(w, frame_func(w, f)))
      return false;
    if ((link & 3) == FRAME_LUA) {
      if (link < 0x10000 || link >> 47)
        return false;
      f = frame_below_call(w, f, link);
    } else {
      if (!delta || delta > f)
        return false;
      f -= delta;
    }
  }
  return f == bottom;
}

static bool is_base(struct vm_walk *w, uint64_t base)
{
  return base_in_stack(w, base) && reaches_bottom(w, base - 8);
}

/* The old stack's place is a local variable of resizestack, and so is how far
 * it moves: in a register, or saved by what it called. */
static uint64_t by_local(struct vm_walk *w, uint64_t base, uint64_t v)
{
  uint64_t stack = thread_stack(w, w->L);
  uint64_t bytes = 8 * (uint64_t)vm_load4(w->mem, w->L + w->lay->L_stacksize);
  if (base - v < bytes && is_base(w, stack + (base - v)))
    return stack + (base - v);
  return is_base(w, base + v) ? base + v : 0;
}

uint64_t moved_base(struct vm_walk *w, uint64_t base)
{
  static const uint8_t saved[] = {3, 6, 12, 13, 14, 15}; /* by a callee */
  uint64_t found = base + thread_stack(w, w->L) - w->memo->stack;
  if (w->memo->L == w->L && is_base(w, found))
    return found;
  found = 0;
  for (unsigned i = 0; w->reg && i < sizeof saved && !found; i++)
    found = by_local(w, base, w->reg[saved[i]]);
  uint64_t p = w->sp & ~UINT64_C(7);
  for (unsigned i = 0; i < WORDS_SEARCHED && p < w->cframe && !found; i++) {
    found = by_local(w, base, vm_load8(w->mem, p));
    p += 8;
  }
  return found ? found : base;
}

/* ---- the copy ---- */

/* Is `copy` that of w->L's stack?  The dummy frame at the bottom names the
 * thread (lj_state.c, stack_init); whatever the allocator left alone is the
 * same. */
static bool is_copy(struct vm_walk *w, uint64_t copy)
{
  uint64_t stack = thread_stack(w, w->L);
  uint64_t top = vm_load8(w->mem, w->L + w->lay->L_top);
  uint64_t bytes = top - stack;
  uint32_t faults = w->mem->faults;
  if (!vm_plausible(copy) || (copy & 7) || top < stack ||
      bytes <= FREED_BYTES || bytes > 8 * SLOTS_COMPARED ||
      copy - stack < bytes || stack - copy < bytes)
    return false;
  uint64_t dummy = vm_load8(w->mem, copy);
  if ((w->lay->gc64 ? dummy & VM_GCV_MASK : (uint32_t)dummy) != w->L)
    return false;
  for (uint64_t at = FREED_BYTES; at < bytes; at += 8)
    if (vm_load8(w->mem, stack + at) != vm_load8(w->mem, copy + at) ||
        w->mem->faults != faults)
      return false;
  return true;
}

static bool take_copy(struct vm_walk *w, uint64_t copy)
{
  if (!is_copy(w, copy))
    return false;
  w->freed = thread_stack(w, w->L);
  w->copy = copy;
  return true;
}

bool find_copy(struct vm_walk *w)
{
  for (unsigned i = 0; w->reg && i < TECS_REGS; i++)
    if (take_copy(w, w->reg[i]))
      return true;
  uint64_t p = w->sp & ~UINT64_C(7);
  for (unsigned i = 0; i < WORDS_SEARCHED && p < w->vm.cframe; i++, p += 8)
    if (take_copy(w, vm_load8(w->mem, p)))
      return true;
  return false;
}
