/* SPDX-License-Identifier: MIT
 *
 * Which VMs run on the thread: those that are known, else one that its
 * registers or its native stack lead to.
 */
#include "base/atomics.h"
#include "base/clock.h"
#include "capture/capture_internal.h"
#include "vmcore/discover.h"

#define SUSPECT_NS UINT64_C(300000000)

enum {
  SCAN_BYTES = 16384,    /* native stack searched for a lua_State */
  SCAN_BACKOFF_MAX = 64, /* ticks between two fruitless searches */
  DWARF_R14 = 14,
  SUSPECT_MIN = 4, /* fruitless searches that met the same VM */
};

/* ---- VMs that are not known yet ---- */

static bool add(struct capture *c, uint32_t layout, uint64_t g)
{
  return capture_vm_add(c->host->vms, &c->mem, layout, g, TECS_FOUND_SCAN,
                        c->slot->tid) != NULL;
}

/* A VM that is being made or changed fails the checks for a moment: only one
 * that never passes them has an unknown layout. */
static void suspect(struct capture *c, uint64_t g)
{
  if (c->suspect_g != g || c->mem.faults) {
    c->suspect_g = g;
    c->suspect_count = 0;
    c->suspect_since = clock_mono_ns();
  }
  if (++c->suspect_count >= SUSPECT_MIN &&
      clock_mono_ns() - c->suspect_since > SUSPECT_NS)
    capture_vm_add_unknown(c->host->vms, g, TECS_FOUND_SCAN, c->slot->tid);
}

static bool add_thread(struct capture *c, uint64_t L)
{
  uint64_t g;
  uint32_t id = vm_identify(&c->mem, L, &g);
  if (id != VM_LAYOUT_UNKNOWN)
    return add(c, id, g);
  g = vm_resembles(&c->mem, L);
  if (g)
    suspect(c, g);
  return false;
}

static bool is_known_dispatch(struct capture *c, uint64_t dispatch)
{
  struct capture_vms *vms = c->host->vms;
  for (unsigned i = 0; i < capture_vm_count(vms); i++)
    if (atomic_acquire(&vms->entry[i].state) == TECS_VM_LIVE &&
        vms->entry[i].dispatch == dispatch)
      return true;
  return false;
}

/* In the interpreter and in traces r14 is DISPATCH (vm_x64.dasc; where
 * references have 32 bits a trace may use it for something else). */
static bool add_dispatch(struct capture *c, const struct moment *mo)
{
  uint64_t g, dispatch = mo->vm_reg[DWARF_R14];
  if (!vm_plausible(dispatch) || dispatch == c->no_dispatch ||
      (dispatch >= mo->vm_sp && dispatch < mo->vm_stack_hi) ||
      is_known_dispatch(c, dispatch))
    return false;
  uint32_t id = vm_identify_dispatch(&c->mem, dispatch, &g);
  c->no_dispatch = id == VM_LAYOUT_UNKNOWN ? dispatch : 0;
  return id != VM_LAYOUT_UNKNOWN && add(c, id, g);
}

/* Is it worth a look?  Objects do not lie on the native stack here. */
static bool add_candidate(struct capture *c, const struct moment *mo,
                          uint64_t word)
{
  uint64_t v = vm_candidate(word);
  if (!v || (v >= mo->vm_sp && v < mo->vm_stack_hi) ||
      !vm_may_be_thread(&c->mem, v))
    return false;
  return add_thread(c, v);
}

static bool scan(struct capture *c, const struct moment *mo)
{
  static const uint8_t first[] = {3, 6, 12, 13, 15, 5, 4, 0, 2, 1, 8};
  for (unsigned i = 0; i < sizeof first; i++)
    if (add_candidate(c, mo, mo->vm_reg[first[i]]))
      return true;
  uint64_t end = mo->vm_sp + SCAN_BYTES;
  end = end < mo->vm_stack_hi ? end : mo->vm_stack_hi;
  uint32_t limit = c->mem.faults + 16; /* a caught fault costs 10 us */
  for (uint64_t p = mo->vm_sp & ~UINT64_C(7); p < end && c->mem.faults < limit;
       p += 8)
    if (add_candidate(c, mo, vm_load8(&c->mem, p)))
      return true;
  return false;
}

/* ---- VMs that run on this thread ---- */

void find_prepare(struct capture *c, const struct moment *mo,
                  const struct capture_vm *e, unsigned index)
{
  struct vm_walk *w = &c->walk;
  c->lay = w->lay = vm_layout_get(e->layout);
  c->g = w->g = e->g;
  w->mem = &c->mem;
  w->reg = mo->vm_reg;
  w->sp = mo->vm_sp;
  w->stack_hi = mo->vm_stack_hi;
  w->asm_lo = e->asm_lo;
  w->asm_hi = e->asm_hi;
  w->memo = &c->memo[index];
  w->mcode = &c->mcode;
  w->proto_id = intern_proto;
  w->ctx = c;
}

/* Sorted by C frame: the innermost VM first. */
static void insert(struct live_vm *live, unsigned *n, struct live_vm v)
{
  unsigned i = *n < CAPTURE_LIVE ? (*n)++ : CAPTURE_LIVE - 1;
  for (; i > 0 && live[i - 1].cframe > v.cframe; i--)
    live[i] = live[i - 1];
  live[i] = v;
}

/* Where a library was unloaded with its VM and loaded again elsewhere, another
 * VM may have come to the same place: its interpreter is not where the old
 * one's was. */
static bool has_moved(struct capture *c, const struct capture_vm *e)
{
  uint64_t pc = vm_asm_pc(&c->mem, c->lay, e->g);
  return pc < e->asm_lo || pc >= e->asm_hi;
}

static unsigned find_live(struct capture *c, const struct moment *mo,
                          struct live_vm *live)
{
  struct capture_vms *vms = c->host->vms;
  unsigned n = 0;
  for (unsigned i = 0; i < capture_vm_count(vms); i++) {
    struct capture_vm *e = &vms->entry[i];
    if (atomic_acquire(&e->state) != TECS_VM_LIVE)
      continue;
    uint64_t L, cframe;
    find_prepare(c, mo, e, i);
    cframe = vm_live_cframe(&c->walk, &L);
    if (cframe && has_moved(c, e))
      capture_vm_remove(vms, e->g); /* and is found anew, as any other */
    else if (cframe)
      insert(live, &n, (struct live_vm){e, i, cframe});
    else if (!vm_is_global(&c->mem, c->lay, e->g))
      capture_vm_remove(vms, e->g);
  }
  return n;
}

unsigned find_live_vms(struct capture *c, const struct moment *mo,
                       struct live_vm live[CAPTURE_LIVE])
{
  add_dispatch(c, mo);
  unsigned n = find_live(c, mo, live);
  if (n) {
    c->scan_wait = c->scan_backoff = 0;
    return n;
  }
  if (c->scan_wait) {
    c->scan_wait--;
    return 0;
  }
  if (scan(c, mo))
    return find_live(c, mo, live);
  c->scan_backoff = c->scan_backoff ? c->scan_backoff * 2 : 1;
  if (c->scan_backoff > SCAN_BACKOFF_MAX)
    c->scan_backoff = SCAN_BACKOFF_MAX;
  c->scan_wait = c->scan_backoff;
  return 0;
}
