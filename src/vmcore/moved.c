/* SPDX-License-Identifier: MIT
 *
 * A Lua stack that is being moved: L->stack is the new one already, L->base
 * still points into the old one until the new slots are cleared (lj_state.c,
 * resizestack).
 */
#include "vmcore/walk_internal.h"

enum {
  WORDS_SEARCHED = 1024,
  FRAMES_CHECKED = 4096,
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
