/* SPDX-License-Identifier: MIT
 *
 * A fault of LuaJIT's own, until b138ccfa (2023-09-21): before it sends the
 * event "abort", trace_abort (lj_trace.c) goes down the stack from the running
 * function to the nearest Lua function, and does not stop at the bottom.  Where
 * C called the function that was being recorded, and it has returned, left by
 * an error or made way for a builtin by a tail call, there is none: the search
 * takes the empty link of the stack's lowest frame (lj_state.c, stack_init:
 * nil) for the address of a function, and dies reading what kind of function
 * that is.
 *
 * That read can only fail, and only there, so it is where the agent helps: when
 * everything says that this is the search, on this thread, for our listener, it
 * finds a Lua function that the listener brought along, and ends.  The listener
 * puts all back before anybody looks (events_settle_search).
 *
 * Without GC64 the bottom looks different, and the search goes round and round
 * instead: there the listener is taken away (events_may_kill).
 *
 * Which register holds the address is up to the compiler.  It is the mask of an
 * object's address, all 47 bits set, which may stand in other registers for its
 * own sake: each is tried in turn, since nothing has been read with it yet and
 * a wrong one faults again in the same place.
 */
#include <link.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent_internal.h"
#include "agent/events_internal.h"
#include "base/atomics.h"
#include "vmcore/discover.h"
#include "vmcore/value.h"

#define NIL UINT64_MAX

enum {
  NEAR = 8192,        /* bytes of C stack from the search to its C frame */
  FRAMES = 65536,     /* more than a Lua stack holds */
  ALT_NEEDED = 8192,  /* of an alternate stack, for a fault caught on it */
  FRAME_TYPE = 3,     /* lj_frame.h: the low bits of a frame's link, */
  FRAME_TYPEP = 7,    /* with the one that tells pcall apart */
  UNSENT = 2,         /* arguments that may not be counted in L->top yet */
  LAST_REG = REG_RCX, /* general registers but rsp: gregs[0..LAST_REG] */
};

/* ---- is it that? ---- */

struct search {
  uint64_t L;
  uint64_t bottom; /* address of the lowest frame's link */
  uint64_t found;  /* tagged: the function that we let it find */
};

static uint64_t jit_state(const struct vm_events *v)
{
  return v->g - v->lay->gg_g + v->lay->gg_J;
}

/* lj_vmevent.c, lj_vmevent_prepare: the handler and an empty slot are pushed,
 * and arguments follow. */
static bool asks_ours(struct vm_mem *m, const struct vm_events *v, uint64_t L)
{
  uint64_t top = vm_load8(m, L + v->lay->L_top);
  for (unsigned sent = 0; sent <= UNSENT; sent++) {
    uint64_t arg = top - 8 * sent;
    if (vm_load8(m, arg - 8) == NIL &&
        (vm_load8(m, arg - 16) & VM_GCV_MASK) == v->current[EVENT_TRACE])
      return true;
  }
  return false;
}

/* lj_frame.h: frame_prev, with two-slot frames (LJ_FR2) and without. */
static uint64_t previous_frame(struct vm_mem *m, const struct vm_layout *lay,
                               uint64_t frame)
{
  uint64_t link = lay->gc64 ? vm_load8(m, frame) : vm_load4(m, frame + 4);
  uint64_t slots = lay->gc64 ? 2 : 1;
  if (link & FRAME_TYPE)
    return frame - (link & ~(uint64_t)FRAME_TYPEP);
  /* a Lua frame: by operand A of the call before its return address */
  return frame - 8 * (slots + ((vm_load4(m, link - 4) >> 8) & 0xff));
}

/* Lua functions on the stack of L, no more than `enough`, which is also the
 * answer when it can't be read. */
static unsigned lua_functions(struct vm_mem *m, const struct vm_layout *lay,
                              uint64_t L, unsigned enough)
{
  uint64_t base = vm_load8(m, L + lay->L_base), frame = base - 8;
  uint64_t bottom = vm_ref(m, lay, L + lay->L_stack) + (lay->gc64 ? 8 : 0);
  unsigned count = 0;
  for (unsigned n = 0; frame > bottom && n < FRAMES && count < enough; n++) {
    uint64_t fn = vm_base_func(m, lay, frame + 8);
    uint64_t next = previous_frame(m, lay, frame);
    if (!vm_plausible(fn) || next >= frame)
      return enough;
    count += !vm_load1(m, fn + lay->fn_ffid);
    frame = next;
  }
  return frame == bottom ? count : enough;
}

/* The C frame of the protected call in which traces abort lies just above. */
static bool runs_here(struct vm_mem *m, const struct vm_events *v, uint64_t L,
                      uint64_t sp)
{
  uint64_t cframe = vm_load8(m, L + v->lay->L_cframe) & ~UINT64_C(3);
  return cframe - sp < NEAR;
}

static bool is_search(struct vm_mem *m, const struct vm_events *v, uint64_t sp,
                      struct search *s)
{
  const struct vm_layout *lay = v->lay;
  s->L = vm_load8(m, jit_state(v) + lay->J_L);
  if (!vm_plausible(s->L) || vm_thread_global(m, lay, s->L) != v->g ||
      !runs_here(m, v, s->L, sp) || !asks_ours(m, v, s->L))
    return false;
  uint64_t stack = vm_load8(m, s->L + lay->L_stack);
  s->bottom = stack + 8;
  s->found = vm_load8(m, v->current[EVENT_TRACE] + lay->fn_upvalue);
  return vm_value_as(lay, s->found, VM_GCT_FUNC) &&
         (vm_load8(m, stack) & VM_GCV_MASK) == s->L &&
         !lua_functions(m, lay, s->L, 1) && !m->faults;
}

/* ---- the end of it ---- */

/* The register that was tried last. */
AGENT_TLS struct {
  uint64_t ip, sp;
  int reg;
} tried;

static void store8(uint64_t addr, uint64_t value)
{
  *(volatile uint64_t *)addr = value;
}

/* Where to go on trying: the last one was wrong when this is the same read. */
static int first_to_try(const struct search *s, greg_t *reg)
{
  uint64_t fn = s->found & VM_GCV_MASK;
  if (*(volatile uint64_t *)s->bottom != s->found ||
      tried.ip != (uint64_t)reg[REG_RIP] ||
      tried.sp != (uint64_t)reg[REG_RSP] || (uint64_t)reg[tried.reg] != fn)
    return LAST_REG;
  reg[tried.reg] = (greg_t)VM_GCV_MASK;
  return tried.reg - 1;
}

static bool end_search(const struct search *s, greg_t *reg)
{
  for (int i = first_to_try(s, reg); i >= 0; i--) {
    if ((uint64_t)reg[i] != VM_GCV_MASK)
      continue;
    tried.ip = (uint64_t)reg[REG_RIP];
    tried.sp = (uint64_t)reg[REG_RSP];
    tried.reg = i;
    reg[i] = (greg_t)(s->found & VM_GCV_MASK);
    store8(s->bottom, s->found); /* it may read the link once more */
    return true;
  }
  store8(s->bottom, NIL);
  return false;
}

static bool mend(struct vm_mem *m, const struct vm_events *v, greg_t *reg)
{
  struct search s;
  uint64_t ip = (uint64_t)reg[REG_RIP];
  if (!v->lay->gc64 || ip < v->code_lo || ip >= v->code_hi ||
      !is_search(m, v, (uint64_t)reg[REG_RSP], &s))
    return false;
  uint64_t link = vm_load8(m, s.bottom);
  return (link == NIL || link == s.found) && end_search(&s, reg);
}

bool events_fault(ucontext_t *uc)
{
  struct vm_mem mem;
  struct vm_mem *previous = guard_enter(&mem);
  bool mended = false;
  for (unsigned i = 0; i < TECS_VMS && !mended; i++) {
    const struct vm_events *v = events_at(i);
    mem.faults = 0;
    mended = atomic_acquire(&v->g) && v->current[EVENT_TRACE] &&
             mend(&mem, v, uc->uc_mcontext.gregs);
  }
  guard_leave(previous);
  return mended;
}

/* What later versions send: the C function that is running, position 0. */
void events_settle_search(struct vm_mem *m, const struct vm_events *v,
                          uint64_t arg, unsigned n)
{
  const struct vm_layout *lay = v->lay;
  uint64_t J = jit_state(v);
  if (!lay->gc64)
    return;
  uint64_t bottom = vm_load8(m, vm_load8(m, J + lay->J_L) + lay->L_stack) + 8;
  uint64_t found = vm_load8(m, v->current[EVENT_TRACE] + lay->fn_upvalue);
  if (vm_load8(m, bottom) != found)
    return;
  store8(bottom, NIL);
  uint64_t fn = vm_load8(m, J + lay->J_fn);
  if (n > 3 && vm_load8(m, arg + 16) == found && vm_plausible(fn)) {
    store8(arg + 16, (found & ~VM_GCV_MASK) | fn);
    store8(arg + 24, 0); /* a number, the double 0 */
  }
}

/* ---- can it be ended? ---- */

static bool faults_reach_us(void)
{
  sigset_t blocked;
  stack_t alt;
  guard_check();
  if (sigprocmask(SIG_BLOCK, NULL, &blocked) || sigismember(&blocked, SIGSEGV))
    return false;
  return sigaltstack(NULL, &alt) || (alt.ss_flags & SS_DISABLE) ||
         alt.ss_size >= ALT_NEEDED;
}

/* Without GC64: with no Lua function further out than the one whose trace
 * starts.  vmthref: events have a Lua stack of their own (5c647754, 2025), long
 * after the search was mended. */
bool events_may_kill(struct vm_mem *m, const struct vm_events *v)
{
  const struct vm_layout *lay = v->lay;
  if (lay->g_vmthref != VM_ABSENT16)
    return false;
  if (lay->gc64)
    return !faults_reach_us();
  uint64_t L = vm_ref(m, lay, jit_state(v) + lay->J_L);
  return lua_functions(m, lay, L, 2) < 2;
}

bool events_may_return(const struct vm_events *v)
{
  return v->lay->gc64 && faults_reach_us();
}

/* ---- the code that it is in ---- */

struct object {
  uint64_t pc, lo, hi;
};

static int find_object(struct dl_phdr_info *info, size_t size, void *arg)
{
  struct object *o = arg;
  (void)size;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    uint64_t lo = info->dlpi_addr + p->p_vaddr;
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || o->pc < lo ||
        o->pc - lo >= p->p_memsz)
      continue;
    o->lo = lo;
    o->hi = lo + p->p_memsz;
    return 1;
  }
  return 0;
}

void events_find_code(struct vm_events *v, uint64_t pc)
{
  struct object o = {.pc = pc};
  dl_iterate_phdr(find_object, &o);
  v->code_lo = o.lo;
  v->code_hi = o.hi;
}
