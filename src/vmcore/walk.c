/* SPDX-License-Identifier: MIT
 *
 * From a Lua frame down to the bottom of its stack, and on into the coroutine's
 * resumer.  Follows lj_frame.h; the walk back is that of lj_debug_frame and
 * lj_err.c's unwinder, made to survive any instant.
 */
#include "vmcore/walk.h"

#include <stddef.h>
#include <string.h>

#include "vmcore/discover.h"
#include "vmcore/walk_internal.h"

enum {
  DELTA_MAX = 1 << 24,     /* bytes; a Lua stack has at most 65,500 slots */
  HEADER_DISTANCE = 40000, /* instructions searched back for a FUNC* header */
  CONT_FFI_CALLBACK = 1,   /* lj_frame.h, LJ_CONT_FFI_CALLBACK */
  PARENTS_MAX = 32,
  CFRAMES_MAX = 64,
};

bool vm_is_proto(struct vm_mem *m, const struct vm_layout *lay, uint64_t pt)
{
  uint32_t n = vm_load4(m, pt + lay->pt_sizebc);
  return vm_load1(m, pt + lay->L_gct) == VM_GCT_PROTO && n && n < (1u << 26);
}

uint64_t vm_func_proto(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t fn)
{
  if (!vm_plausible(fn) || vm_load1(m, fn + lay->L_gct) != VM_GCT_FUNC ||
      vm_load1(m, fn + lay->fn_ffid) != 0) /* FF_LUA */
    return 0;
  uint64_t pt = vm_ref(m, lay, fn + lay->fn_pc) - lay->pt_sizeof;
  return vm_plausible(pt) && vm_is_proto(m, lay, pt) ? pt : 0;
}

/* lj_debug.c, lj_debug_line. */
uint32_t vm_proto_line(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t pt, uint32_t pos)
{
  uint64_t table = vm_ref(m, lay, pt + lay->pt_lineinfo);
  uint32_t size = vm_load4(m, pt + lay->pt_sizebc);
  uint32_t first = vm_load4(m, pt + lay->pt_firstline);
  uint32_t lines = vm_load4(m, pt + lay->pt_numline);
  unsigned width = lines < 256 ? 1 : lines < 65536 ? 2 : 4;
  if (!table || pos > size)
    return 0;
  if (pos == size)
    return first + lines;
  if (!pos)
    return first;
  return first +
         (uint32_t)m->load(m, table + (uint64_t)(pos - 1) * width, width);
}

bool pc_in_proto(struct vm_walk *w, uint64_t pt, uint64_t pc)
{
  uint64_t bc = pt + w->lay->pt_sizeof;
  return !(pc & 3) && pc >= bc &&
         pc - bc <= 4 * (uint64_t)vm_load4(w->mem, pt + w->lay->pt_sizebc);
}

uint64_t proto_of_pc(struct vm_walk *w, uint64_t pc)
{
  const struct vm_layout *lay = w->lay;
  uint32_t faults = w->mem->faults;
  if (pc & 3)
    return 0;
  for (unsigned i = 0; i < HEADER_DISTANCE && w->mem->faults == faults; i++) {
    pc -= 4;
    unsigned op = vm_load1(w->mem, pc);
    if (op < lay->bc_funcf || op > lay->bc_funccw)
      continue;
    uint64_t pt = pc - lay->pt_sizeof;
    if (vm_is_proto(w->mem, lay, pt) && pc_in_proto(w, pt, pc + 4))
      return pt;
  }
  return 0;
}

uint64_t cframe_prev(struct vm_walk *w, uint64_t cf)
{
  return CFRAME_RAW(vm_load8(w->mem, cf + w->lay->cframe_prev));
}

uint64_t cframe_thread(struct vm_walk *w, uint64_t cf)
{
  return vm_ref(w->mem, w->lay, cf + w->lay->cframe_L);
}

uint64_t cframe_saved_pc(struct vm_walk *w, uint64_t cf)
{
  return cf ? vm_ref(w->mem, w->lay, cf + w->lay->cframe_PC) : 0;
}

static bool fail(struct vm_walk *w, enum tecs_walk_error error)
{
  w->vm.error = (uint8_t)error;
  return false;
}

/* false: no room. */
static bool emit(struct vm_walk *w, enum tecs_frame_kind kind, uint64_t value,
                 uint32_t pc, unsigned flags)
{
  if (w->count >= w->frame_max)
    return false;
  struct tecs_frame *f = &w->frame[w->count++];
  f->value = value;
  f->pc = pc;
  f->kind = (uint8_t)kind;
  f->flags = (uint8_t)flags;
  f->vm = w->vm_index;
  f->reserved = 0;
  return true;
}

/* The last places are kept for C frames: the native unwinder needs them also
 * where the Lua frames were cut. */
static bool emit_lua_kind(struct vm_walk *w, enum tecs_frame_kind kind,
                          uint64_t value, uint32_t pc, unsigned flags)
{
  if (w->count + CFRAMES_MAX >= w->frame_max)
    return fail(w, TECS_WALK_DEPTH);
  return emit(w, kind, value, pc, flags);
}

void walk_end_run(struct vm_walk *w)
{
  emit(w, TECS_FRAME_CFRAME, w->cframe, 0, 0);
  if (w->cframe)
    w->cframe = cframe_prev(w, w->cframe);
}

/* A protected C call without a Lua frame of its own (parser, trace recorder)
 * has a C frame whose nres is minus the saved top; it ends a run that is empty
 * (the test of debug_framepc, lj_debug.c). */
void skip_bare_cframes(struct vm_walk *w, uint64_t f)
{
  uint64_t stack = thread_stack(w, w->L);
  for (unsigned i = 0; w->cframe && i < CFRAMES_MAX; i++) {
    int32_t nres = (int32_t)vm_load4(w->mem, w->cframe + w->lay->cframe_nres);
    if (nres >= 0 || f >= stack + (uint64_t)(-(int64_t)nres))
      return;
    walk_end_run(w);
  }
}

static bool emit_lua(struct vm_walk *w, uint64_t pt, uint64_t pc,
                     unsigned flags)
{
  uint32_t index = pc ? (uint32_t)((pc - (pt + w->lay->pt_sizeof)) / 4) : 0;
  uint32_t id = w->proto_id(w->ctx, pt);
  if (!id) {
    emit_lua_kind(w, TECS_FRAME_LOST, pt, 0, flags);
    return fail(w, TECS_WALK_INTERN);
  }
  return emit_lua_kind(w, TECS_FRAME_LUA, id, index, flags);
}

/* The function of frame f.  In a trace its slot may not have been written: then
 * the bytecode position tells. */
static bool emit_function(struct vm_walk *w, uint64_t f, uint64_t pc)
{
  struct vm_mem *m = w->mem;
  const struct vm_layout *lay = w->lay;
  uint64_t fn = frame_func(w, f);
  if (fn == w->L) /* the dummy frame at the bottom (lj_state.c, stack_init) */
    return true;
  bool traced = w->overlay_count > 0;
  unsigned flags =
      w->trace_frame && f > w->trace_frame ? TECS_FRAME_INLINED : 0;
  bool is_func =
      vm_plausible(fn) && vm_load1(m, fn + lay->L_gct) == VM_GCT_FUNC;
  if (!is_func && !traced)
    return fail(w, TECS_WALK_NOT_FUNC);
  uint32_t ffid = is_func ? vm_load1(m, fn + lay->fn_ffid) : 0;
  uint64_t pt = is_func ? vm_func_proto(m, lay, fn) : 0;
  if (!pt && ffid == 0) { /* unwritten slot, or a Lua function gone bad */
    if (traced && !is_func && pc_of_c_function(w, pc))
      return true;
    pt = traced && pc ? proto_of_pc(w, pc) : 0;
    if (!pt)
      return fail(w, TECS_WALK_BAD_PROTO);
  }
  if (!pt)
    return emit_lua_kind(w, TECS_FRAME_C, vm_load8(m, fn + lay->fn_f), ffid,
                         flags);
  if (pc && !pc_in_proto(w, pt, pc)) {
    uint64_t other = traced ? proto_of_pc(w, pc) : 0;
    if (!other)
      return fail(w, TECS_WALK_BAD_PC);
    pt = other;
  }
  return emit_lua(w, pt, pc, flags);
}

/* A C frame ends the run; the caller's pc was saved in the next one out. */
static uint64_t leave_cframe(struct vm_walk *w, uint64_t caller)
{
  walk_end_run(w);
  skip_bare_cframes(w, caller);
  uint64_t pc = cframe_saved_pc(w, w->cframe);
  uint64_t pt = frame_proto(w, caller);
  return pt && pc && pc_in_proto(w, pt, pc) ? pc : 0;
}

/* Caller of frame *f by its link; *pc becomes the caller's. */
static bool step(struct vm_walk *w, uint64_t *f, uint64_t *pc)
{
  uint64_t link = frame_link(w, *f);
  unsigned type = link & 7;
  if ((type & 3) == FRAME_LUA) {
    if (link < 0x10000 || link >> 47)
      return fail(w, TECS_WALK_BAD_LINK);
    *pc = link;
    *f = frame_below_call(w, *f, link);
    return true;
  }
  uint64_t delta = link & ~UINT64_C(7);
  if (!delta || delta > DELTA_MAX || delta > *f)
    return fail(w, TECS_WALK_BAD_LINK);
  uint64_t caller = *f - delta;
  if (type == FRAME_CONT) {
    *pc = frame_contpc(w, *f);
    if (frame_cont(w, *f) == CONT_FFI_CALLBACK)
      *pc = leave_cframe(w, caller);
  } else if (type == FRAME_C || type == FRAME_CP) {
    *pc = leave_cframe(w, caller);
  } else if (type != FRAME_VARG) { /* a vararg frame repeats its function */
    *pc = 0;
  }
  *f = caller;
  return true;
}

bool walk_stack(struct vm_walk *w, uint64_t f, uint64_t pc)
{
  uint64_t stack = thread_stack(w, w->L);
  uint64_t bottom =
      stack + frame_words(w->lay) - 8; /* the dummy frame's link */
  uint64_t top = thread_stack_end(w, w->L);
  while (f > bottom) {
    if (f > top || (f & 7))
      return fail(w, TECS_WALK_BAD_FRAME);
    bool repeated = (frame_link(w, f) & 7) == FRAME_VARG;
    if (!repeated && !emit_function(w, f, pc))
      return false;
    if (!step(w, &f, &pc))
      return false;
  }
  return f == bottom || fail(w, TECS_WALK_BAD_FRAME);
}

/* ---- coroutines ---- */

/* Outermost C frame of w->L with its flag bits, 0 when it has none. */
static uint64_t outermost_cframe(struct vm_walk *w)
{
  uint64_t cf = vm_load8(w->mem, w->L + w->lay->L_cframe);
  for (unsigned i = 0; cf && i < CFRAMES_MAX; i++) {
    uint64_t prev = vm_load8(w->mem, CFRAME_RAW(cf) + w->lay->cframe_prev);
    if (!prev)
      break;
    cf = prev;
  }
  return cf;
}

/* lua_State that resumed w->L, whose outermost C frame is X.  From Lua the
 * resumer's frame is next to X (vm_x64.dasc, coroutine_resume_wrap calls
 * vm_resume); from C, through lua_resume, it is further out.  *none: there is
 * none, as all of the native stack was searched: C code that no Lua code called
 * has resumed it. */
static uint64_t resumer(struct vm_walk *w, uint64_t X, bool *none)
{
  const struct vm_layout *lay = w->lay;
  uint64_t next = X + lay->cframe_sizeof;
  uint64_t ret = vm_load8(w->mem, next - 8);
  if (ret >= w->asm_lo && ret < w->asm_hi) {
    uint64_t L = cframe_thread(w, next);
    return is_thread(w, L) ? L : 0;
  }
  uint64_t main_L = w->g - lay->gg_g;
  uint64_t cf = CFRAME_RAW(vm_load8(w->mem, main_L + lay->L_cframe));
  for (unsigned i = 0; i < PARENT_SCAN && next < w->stack_hi; i++, next += 8) {
    uint64_t L = cframe_thread(w, next);
    if (is_innermost_cframe(w, L, next))
      return L;
  }
  bool main_runs = cf > X && cf < w->stack_hi;
  *none = !main_runs && next >= w->stack_hi;
  return main_runs ? main_L : 0;
}

/* The frames of those who resumed, outward, down to the main thread. */
static bool walk_resumers(struct vm_walk *w)
{
  uint64_t main_L = w->g - w->lay->gg_g;
  for (unsigned i = 0; i < PARENTS_MAX && w->L != main_L; i++) {
    uint64_t X = outermost_cframe(w);
    if (!X)
      return fail(w, TECS_WALK_NO_PARENT);
    /* Not resumed is a thread that C code calls functions on directly; it may
     * do so at the bottom of everything, too. */
    bool none = false;
    uint64_t L = resumer(w, CFRAME_RAW(X), &none);
    if (!L)
      return none || !(X & CFRAME_RESUME) || fail(w, TECS_WALK_NO_PARENT);
    w->L = L;
    w->overlay_count = 0;
    w->trace_frame = 0;
    w->cframe = CFRAME_RAW(vm_load8(w->mem, L + w->lay->L_cframe));
    uint64_t f = vm_load8(w->mem, L + w->lay->L_base) - 8;
    skip_bare_cframes(w, f);
    if (!walk_stack(w, f, 0))
      return false;
  }
  return true;
}

/* Where the walk was cut the C frames further out are still worth having. */
static void emit_rest_of_cframes(struct vm_walk *w)
{
  for (unsigned i = 0; w->cframe && i < CFRAMES_MAX; i++) {
    if (!emit(w, TECS_FRAME_CFRAME, w->cframe, 0, 0))
      return;
    uint64_t prev = cframe_prev(w, w->cframe);
    w->cframe = prev > w->cframe ? prev : 0;
  }
}

/* ---- entry ---- */

static void remember_stack(struct vm_walk *w)
{
  uint64_t stack = thread_stack(w, w->L);
  uint64_t base = vm_load8(w->mem, w->L + w->lay->L_base);
  uint64_t bytes = 8 * (uint64_t)vm_load4(w->mem, w->L + w->lay->L_stacksize);
  if (base > stack && base < stack + bytes)
    *w->memo = (struct vm_stack_memo){w->L, stack, bytes};
}

/* jit_base is NULL outside of traces (lj_obj.h), in LuaJIT 2.0 jit_L; vmstate
 * hides a trace while the collector runs in it. */
static bool in_compiled_code(struct vm_walk *w)
{
  const struct vm_layout *lay = w->lay;
  uint16_t at = lay->g_jit_L != VM_ABSENT16 ? lay->g_jit_L : lay->g_jit_base;
  return lay->hasjit && vm_ref(w->mem, lay, w->g + at) != 0;
}

/* Innermost frame, by where the thread was interrupted. */
static bool find_leaf(struct vm_walk *w, uint64_t *f, uint64_t *pc)
{
  uint64_t ip = w->reg ? w->reg[TECS_REG_RIP] : 0;
  bool in_asm = ip >= w->asm_lo && ip < w->asm_hi;
  if (w->vm.rule == RULE_SWITCHING) {
    w->vm.vm_class = TECS_CLASS_VMASM;
    return leaf_saved(w, f, pc);
  }
  if (in_asm && in_compiled_code(w) && trace_calls_helper(w))
    return leaf_in_trace(w, f, pc);
  if (in_asm) {
    w->vm.vm_class = TECS_CLASS_VMASM;
    return leaf_in_asm(w, f, pc);
  }
  if (in_compiled_code(w)) {
    if (leaf_in_trace(w, f, pc))
      return true;
    if (w->vm.error)
      return false;
    w->vm.vm_class = TECS_CLASS_TRACE_EXIT;
  } else {
    w->vm.vm_class = w->reg ? TECS_CLASS_C : TECS_CLASS_OUTER;
    /* vmstate says C only in functions that were called through Lua */
    if (w->reg && vm_state_interprets(w->lay, w->vm.vmstate) &&
        leaf_direct_call(w, f, pc))
      return true;
  }
  return leaf_saved(w, f, pc);
}

/* Innermost VM first: false, with vm.error, when not all could be read. */
static bool walk_all(struct vm_walk *w)
{
  uint64_t f = 0, pc = 0;
  w->count = 0;
  w->overlay_count = 0;
  w->trace_frame = 0;
  w->vm.error = TECS_WALK_OK;
  w->vm.rule = 0;
  w->cframe = vm_live_cframe(w, &w->L);
  if (!w->cframe)
    return fail(w, TECS_WALK_NO_THREAD);
  w->vm.L = w->L;
  w->vm.cframe = w->cframe;
  return find_leaf(w, &f, &pc) && walk_stack(w, f, pc) && walk_resumers(w);
}

/* Did the walk end on a stack that is no more?  C code runs meanwhile. */
static bool stack_is_freed(struct vm_walk *w)
{
  return w->reg && w->L == w->vm.L && w->vm.error != TECS_WALK_OK &&
         w->vm.error < TECS_WALK_NO_SNAPSHOT &&
         w->vm.vm_class == TECS_CLASS_C && find_copy(w);
}

void vm_walk_frames(struct vm_walk *w)
{
  w->misfit = false;
  w->freed = w->copy = 0;
  memset(&w->vm, 0, sizeof w->vm);
  w->vm.g = w->g;
  w->vm.vmstate = (int32_t)vm_load4(w->mem, w->g + w->lay->g_vmstate);
  if (!walk_all(w) && (!stack_is_freed(w) || !walk_all(w)))
    emit_rest_of_cframes(w);
  if (!w->vm.L)
    return;
  w->L = w->vm.L;
  remember_stack(w);
}
