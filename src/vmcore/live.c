/* SPDX-License-Identifier: MIT
 *
 * Which thread of a VM runs on this native stack, and on which C frame.
 */
#include "vmcore/walk_internal.h"

bool is_innermost_cframe(struct vm_walk *w, uint64_t L, uint64_t cf)
{
  return is_thread(w, L) &&
         CFRAME_RAW(vm_load8(w->mem, L + w->lay->L_cframe)) == cf;
}

static uint64_t innermost_cframe(struct vm_walk *w, uint64_t L)
{
  return CFRAME_RAW(vm_load8(w->mem, L + w->lay->L_cframe));
}

static bool cframe_on_stack(struct vm_walk *w, uint64_t cf)
{
  /* below sp: the interpreter's own pushes and calls */
  return cf && cf + 256 >= w->sp && cf < w->stack_hi;
}

/* In a coroutine switch cur_L's cframe is 0 already, or still: the interpreter
 * holds L in its own frame (SAVE_L), at its stack pointer or a few words above
 * it within a helper; else the frame of the ended coroutine is left and its
 * resumer's is the next one. */
static uint64_t switching_cframe(struct vm_walk *w, uint64_t *L)
{
  const struct vm_layout *lay = w->lay;
  if (!in_interpreter(w))
    return 0;
  for (unsigned k = 0; k < HELPER_WORDS; k++) {
    uint64_t at = w->sp + 8 * k;
    uint64_t L2 = cframe_thread(w, at);
    if (!is_thread(w, L2))
      continue;
    uint64_t cf = innermost_cframe(w, L2);
    if (!cframe_on_stack(w, cf)) {
      L2 = cframe_thread(w, at + lay->cframe_sizeof);
      if (!is_thread(w, L2))
        continue;
      cf = innermost_cframe(w, L2);
    }
    if (cframe_on_stack(w, cf)) {
      *L = L2;
      return cf;
    }
  }
  return 0;
}

/* The innermost C frame on this stack that its thread calls its own, below
 * `end`; 0: none. */
static uint64_t search_cframe(struct vm_walk *w, uint64_t end, uint64_t *L)
{
  uint64_t p = w->sp & ~UINT64_C(7);
  for (unsigned i = 0; i < PARENT_SCAN && p < end; i++, p += 8) {
    uint64_t L2 = cframe_thread(w, p);
    if (is_innermost_cframe(w, L2, p)) {
      *L = L2;
      return p;
    }
  }
  return 0;
}

/* When lua_resume, or a call on another thread, has returned to C, cur_L still
 * is the thread that ended. */
static uint64_t left_cframe(struct vm_walk *w, uint64_t *L)
{
  uint64_t main_L = w->g - w->lay->gg_g;
  uint64_t cf = innermost_cframe(w, main_L);
  if (!cframe_on_stack(w, cf) || cframe_thread(w, cf) != main_L)
    return 0;
  uint64_t found = search_cframe(w, cf, L);
  if (found)
    return found;
  *L = main_L;
  return cf;
}

/* LuaJIT 2.0 has no cur_L.  Where the main thread has no C frame, others may
 * still run: C code calls functions on them directly. */
static uint64_t sought_cframe(struct vm_walk *w, uint64_t *L)
{
  uint64_t main_L = w->g - w->lay->gg_g;
  uint64_t cf = innermost_cframe(w, main_L);
  w->vm.rule = 0;
  if (cf && !cframe_on_stack(w, cf))
    return 0;
  uint64_t found = search_cframe(w, cf ? cf : w->stack_hi, L);
  if (!found && cf) {
    *L = main_L;
    found = cf;
  }
  /* in the interpreter its stack pointer is the frame, or nearly */
  if (found > w->sp + 8 * HELPER_WORDS && in_interpreter(w))
    w->vm.rule = RULE_SWITCHING;
  return found;
}

/* What the VM itself says: cur_L, in LuaJIT 2.0 jit_L, which is NULL outside of
 * traces. */
static uint64_t current_thread(struct vm_walk *w)
{
  const struct vm_layout *lay = w->lay;
  uint16_t at = lay->g_cur_L != VM_ABSENT16 ? lay->g_cur_L : lay->g_jit_L;
  return vm_ref(w->mem, lay, w->g + at);
}

uint64_t vm_live_cframe(struct vm_walk *w, uint64_t *L)
{
  const struct vm_layout *lay = w->lay;
  bool sought = lay->g_cur_L == VM_ABSENT16;
  if (!vm_is_global(w->mem, lay, w->g))
    return 0;
  uint64_t cur = current_thread(w);
  if (sought && !cur)
    return sought_cframe(w, L);
  if (!is_thread(w, cur))
    return 0;
  uint64_t cf = innermost_cframe(w, cur);
  if (cframe_on_stack(w, cf) && cframe_thread(w, cf) == cur) {
    *L = cur;
    w->vm.rule = 0;
    return cf;
  }
  if (sought)
    return sought_cframe(w, L);
  cf = switching_cframe(w, L);
  w->vm.rule = cf ? RULE_SWITCHING : 0;
  return cf ? cf : left_cframe(w, L);
}
