/* SPDX-License-Identifier: MIT
 *
 * In compiled code: which trace.
 */
#include "vmcore/trace_internal.h"

enum {
  TRACES_SEARCHED = 8192, /* when vmstate does not name the trace */
  STACK_WORDS = 4096,     /* native stack searched for a return into a trace */
  LINKS_MAX = 4096,       /* areas are 32 KB at least (lj_jit.h, sizemcode) */
};

/* LuaJIT asks for each new area right below the last one (lj_mcode.c,
 * mcode_alloc): hundreds of them are a few ranges. */
static bool joined(struct tecs_range *last, uint64_t lo, uint64_t hi)
{
  if (last->hi == lo)
    last->hi = hi;
  else if (last->lo == hi)
    last->lo = lo;
  else
    return false;
  return true;
}

unsigned vm_mcode_areas(struct vm_mem *m, const struct vm_layout *lay,
                        uint64_t g, struct tecs_range *out, unsigned max)
{
  uint64_t J = g - lay->gg_g + lay->gg_J;
  uint64_t area = vm_load8(m, J + lay->J_mcarea);
  unsigned n = 0;
  /* each area starts with {next, size} (lj_mcode.c, MCLink) */
  for (unsigned i = 0;
       i < LINKS_MAX && area >= 0x10000 && !(area & 4095) && !(area >> 47);
       i++) {
    uint64_t size = vm_load8(m, area + 8);
    if (!size || size > (UINT64_C(1) << 31))
      break;
    if (!n || !joined(&out[n - 1], area, area + size)) {
      if (n == max)
        break;
      out[n++] = (struct tecs_range){area, area + size};
    }
    area = vm_load8(m, area);
  }
  return n;
}

uint64_t vm_mcode_key(struct vm_mem *m, const struct vm_layout *lay, uint64_t g)
{
  uint64_t J = g - lay->gg_g + lay->gg_J;
  return vm_load8(m, J + lay->J_mcarea) + vm_load8(m, J + lay->J_szallmcarea);
}

unsigned trace_areas(struct vm_walk *w)
{
  struct vm_mcode_memo *k = w->mcode;
  uint64_t J = jit_state(w);
  uint64_t area = vm_load8(w->mem, J + w->lay->J_mcarea);
  uint64_t size = vm_load8(w->mem, J + w->lay->J_szallmcarea);
  uint64_t next = vm_plausible(area) ? vm_load8(w->mem, area) : 0;
  if (k->g != w->g || k->area != area || k->size != size || k->next != next) {
    k->count = vm_mcode_areas(w->mem, w->lay, w->g, k->range, VM_MCODE_AREAS);
    k->g = w->g;
    k->area = area;
    k->size = size;
    k->next = next;
  }
  return k->count;
}

uint64_t trace_number(struct vm_walk *w, uint64_t trace, uint32_t i)
{
  return vm_ref(w->mem, w->lay, trace + vm_ref_size(w->lay) * (uint64_t)i);
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
    uint64_t T = trace_number(w, trace, (uint32_t)vs);
    if (in_trace(w, T, pc)) {
      *number = (uint32_t)vs;
      return T;
    }
  }
  for (uint32_t i = 1; i < size && i < TRACES_SEARCHED; i++) {
    uint64_t T = trace_number(w, trace, i);
    if (T && in_trace(w, T, pc)) {
      *number = i;
      return T;
    }
  }
  return 0;
}

bool trace_in_areas(const struct tecs_range *area, unsigned n, uint64_t pc)
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
  uint64_t T =
      trace_number(w, vm_load8(w->mem, J + w->lay->J_trace), (uint32_t)vs);
  if (!vm_plausible(T))
    return 0;
  uint64_t ra = vm_load8(w->mem, return_place(w, T));
  if (!in_trace(w, T, ra - 1))
    return 0;
  *pc = ra - 1; /* within the call */
  *number = (uint32_t)vs;
  return T;
}

bool trace_calls_helper(struct vm_walk *w)
{
  uint64_t pc;
  uint32_t number;
  uint64_t T = trace_by_state(w, &pc, &number);
  return T && return_place(w, T) - w->sp <= 8 * HELPER_WORDS;
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
    if (!trace_in_areas(area, n, ra))
      continue;
    uint64_t T = trace_at(w, ra - 1, number);
    if (T && return_place(w, T) == p) {
      *pc = ra - 1;
      return T;
    }
  }
  return 0;
}

uint64_t trace_find(struct vm_walk *w, uint64_t *pc, uint32_t *number)
{
  const struct tecs_range *area = w->mcode->range;
  unsigned n = trace_areas(w);
  uint64_t ip = w->reg ? w->reg[TECS_REG_RIP] : 0;
  if (trace_in_areas(area, n, ip)) {
    w->vm.vm_class = TECS_CLASS_TRACE;
    *pc = ip;
    return trace_at(w, ip, number);
  }
  w->vm.vm_class = TECS_CLASS_TRACE_C;
  uint64_t T = trace_by_state(w, pc, number);
  return T ? T : trace_by_stack(w, area, n, pc, number);
}
