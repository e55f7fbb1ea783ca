/* SPDX-License-Identifier: MIT
 *
 * One sample: which VMs run on this thread, their Lua frames, the zones, the
 * native stack.  Runs in the signal handler.
 */
#include <string.h>

#include "agent/agent_internal.h"
#include "agent/zones.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "vmcore/discover.h"

#define SUSPECT_NS UINT64_C(300000000)

enum {
  STACK_MAX = 131072,    /* bytes of native stack, whatever is asked */
  SCAN_BYTES = 16384,    /* native stack searched for a lua_State */
  SCAN_BACKOFF_MAX = 64, /* ticks between two fruitless searches */
  CFRAME_SPARE = 64,     /* entries that vmcore keeps for C frames */
  DWARF_R14 = 14,
  SUSPECT_MIN = 4, /* fruitless searches that met the same VM */
};

/* ---- VMs that are not known yet ---- */

/* A VM that is being made or changed fails the checks for a moment: only one
 * that never passes them has an unknown layout. */
static void suspect(struct slot_state *s, uint64_t g)
{
  if (s->suspect_g != g || s->mem.faults) {
    s->suspect_g = g;
    s->suspect_count = 0;
    s->suspect_since = clock_mono_ns();
  }
  if (++s->suspect_count >= SUSPECT_MIN &&
      clock_mono_ns() - s->suspect_since > SUSPECT_NS)
    registry_add_unknown(g, TECS_FOUND_SCAN);
}

static bool add_thread(struct slot_state *s, uint64_t L)
{
  uint64_t g;
  uint32_t id = vm_identify(&s->mem, L, &g);
  if (id != VM_LAYOUT_UNKNOWN)
    return registry_add(&s->mem, id, g, TECS_FOUND_SCAN) != NULL;
  g = vm_resembles(&s->mem, L);
  if (g)
    suspect(s, g);
  return false;
}

/* In the interpreter and in traces r14 is DISPATCH (vm_x64.dasc). */
static bool add_dispatch(struct slot_state *s, const struct moment *mo)
{
  for (uint32_t id = 0; id < vm_layout_count(); id++) {
    const struct vm_layout *lay = vm_layout_get(id);
    uint64_t g = mo->vm_reg[DWARF_R14] - lay->gg_dispatch + lay->gg_g;
    if (!vm_is_global(&s->mem, lay, g) || registry_find(g))
      continue;
    if (vm_matches(&s->mem, lay, g))
      return registry_add(&s->mem, id, g, TECS_FOUND_SCAN) != NULL;
  }
  return false;
}

/* Is v worth a look?  Objects do not lie on the native stack here. */
static bool add_candidate(struct slot_state *s, const struct moment *mo,
                          uint64_t v)
{
  if (!vm_plausible(v) || (v >= mo->vm_sp && v < mo->vm_stack_hi) ||
      (vm_load4(&s->mem, v + 8) >> 8 & 0xffff) != (0x100 | VM_GCT_THREAD))
    return false;
  return add_thread(s, v);
}

static bool scan(struct slot_state *s, const struct moment *mo)
{
  static const uint8_t first[] = {3, 6, 12, 13, 15, 5, 4, 0, 2, 1, 8};
  for (unsigned i = 0; i < sizeof first; i++)
    if (add_candidate(s, mo, mo->vm_reg[first[i]]))
      return true;
  uint64_t end = mo->vm_sp + SCAN_BYTES;
  end = end < mo->vm_stack_hi ? end : mo->vm_stack_hi;
  uint32_t limit = s->mem.faults + 16; /* a caught fault costs 10 us */
  for (uint64_t p = mo->vm_sp & ~UINT64_C(7); p < end && s->mem.faults < limit;
       p += 8)
    if (add_candidate(s, mo, vm_load8(&s->mem, p)))
      return true;
  return false;
}

/* ---- VMs that run on this thread ---- */

struct live_vm {
  struct vm_entry *entry;
  unsigned index;
  uint64_t cframe;
};

static void prepare(struct slot_state *s, const struct moment *mo,
                    const struct vm_entry *e, unsigned index)
{
  struct vm_walk *w = &s->walk;
  s->lay = w->lay = vm_layout_get(e->layout);
  s->g = w->g = e->g;
  w->mem = &s->mem;
  w->reg = mo->vm_reg;
  w->sp = mo->vm_sp;
  w->stack_hi = mo->vm_stack_hi;
  w->asm_lo = e->asm_lo;
  w->asm_hi = e->asm_hi;
  w->memo = &s->memo[index];
  w->proto_id = intern_proto;
  w->ctx = s;
}

/* Sorted by C frame: the innermost VM first. */
static void insert(struct live_vm *live, unsigned *n, struct live_vm v)
{
  unsigned i = *n < LIVE_MAX ? (*n)++ : LIVE_MAX - 1;
  for (; i > 0 && live[i - 1].cframe > v.cframe; i--)
    live[i] = live[i - 1];
  live[i] = v;
}

static unsigned find_live(struct slot_state *s, const struct moment *mo,
                          struct live_vm *live)
{
  unsigned n = 0;
  for (unsigned i = 0; i < registry_count(); i++) {
    struct vm_entry *e = registry_at(i);
    if (atomic_acquire(&e->state) != TECS_VM_LIVE)
      continue;
    uint64_t L, cframe;
    prepare(s, mo, e, i);
    cframe = vm_live_cframe(&s->walk, &L);
    if (cframe)
      insert(live, &n, (struct live_vm){e, i, cframe});
    else if (!vm_is_global(&s->mem, s->lay, e->g))
      registry_remove(e->g);
  }
  return n;
}

static unsigned live_vms(struct slot_state *s, const struct moment *mo,
                         struct live_vm *live)
{
  add_dispatch(s, mo);
  unsigned n = find_live(s, mo, live);
  if (n) {
    s->scan_wait = s->scan_backoff = 0;
    return n;
  }
  if (s->scan_wait) {
    s->scan_wait--;
    return 0;
  }
  if (scan(s, mo))
    return find_live(s, mo, live);
  s->scan_backoff = s->scan_backoff ? s->scan_backoff * 2 : 1;
  if (s->scan_backoff > SCAN_BACKOFF_MAX)
    s->scan_backoff = SCAN_BACKOFF_MAX;
  s->scan_wait = s->scan_backoff;
  return 0;
}

/* ---- parts of the sample ---- */

static void walk_vm(struct slot_state *s, const struct moment *mo,
                    const struct live_vm *v, unsigned depth)
{
  struct vm_walk *w = &s->walk;
  unsigned room = FRAMES_MAX - s->frame_count;
  unsigned want = depth + CFRAME_SPARE;
  prepare(s, mo, v->entry, v->index);
  if (s->vm_count) /* the registers belong to the innermost VM */
    w->reg = NULL;
  w->frame = s->frame + s->frame_count;
  w->frame_max = want < room ? want : room;
  w->vm_index = (uint8_t)s->vm_count;
  intern_mcode(s, v->entry, v->index);
  vm_walk_frames(w);
  w->vm.layout = v->entry->layout;
  s->frame_count += w->count;
  s->vm[s->vm_count++] = w->vm;
}

static bool in_syscall(struct slot_state *s, uint64_t ip)
{
  return vm_load2(&s->mem, ip - 2) == 0x050f;
}

/* ---- writing ---- */

static uint8_t *put(uint8_t *at, const void *from, size_t n)
{
  memcpy(at, from, n);
  return at + n;
}

/* Bytes of stack to copy from sp on. */
static uint32_t stack_bytes(uint64_t sp, uint64_t hi)
{
  const struct tecs_control *c = agent.shm.control;
  uint64_t want = atomic_get(&c->stack_max);
  uint64_t have = (hi - (sp & ~UINT64_C(7))) & ~UINT64_C(7);
  if (atomic_get(&c->flags) & TECS_CONTROL_NO_STACK)
    return 0;
  want = want < STACK_MAX ? want & ~UINT64_C(7) : STACK_MAX;
  return (uint32_t)(have < want ? have : want);
}

static uint32_t copy_stack(struct slot_state *s, uint8_t *at, uint64_t base,
                           uint32_t len, uint64_t hi)
{
  uint32_t got = (uint32_t)guard_copy(at, base, len) & ~7u;
  if (got == len && base + len < hi)
    s->flags |= TECS_SAMPLE_STACK_CUT;
  return got;
}

static void put_stacks(struct slot_state *s, struct tecs_sample *r, uint8_t *at,
                       const struct moment *mo, uint32_t len, uint32_t outer)
{
  r->native_form = TECS_NATIVE_STACK;
  r->stack_base = mo->sp & ~UINT64_C(7);
  r->stack_len = copy_stack(s, at, r->stack_base, len, mo->stack_hi);
  if (!outer)
    return;
  r->outer_base = mo->vm_sp & ~UINT64_C(7);
  r->outer_len =
      copy_stack(s, at + r->stack_len, r->outer_base, outer, mo->vm_stack_hi);
}

static bool write_sample(struct slot_state *s, const struct moment *mo,
                         uint64_t start_ns)
{
  size_t vms = s->vm_count * sizeof s->vm[0];
  size_t frames = s->frame_count * sizeof s->frame[0];
  size_t zones = s->zone_count * sizeof s->zone[0];
  uint32_t stack = stack_bytes(mo->sp, mo->stack_hi);
  uint32_t outer =
      mo->other_stack ? stack_bytes(mo->vm_sp, mo->vm_stack_hi) : 0;
  uint32_t fixed =
      (uint32_t)(sizeof(struct tecs_sample) + vms + frames + zones);
  struct tecs_sample *r =
      shm_ring_reserve(s->slot, s->ring, fixed + stack + outer);
  if (!r)
    return false;
  memset(r, 0, sizeof *r);
  r->rec.type = TECS_RECORD_SAMPLE;
  r->time_ns = start_ns;
  r->tid = s->slot->tid;
  r->seq = s->seq;
  r->vm_count = (uint8_t)s->vm_count;
  r->lua_count = (uint16_t)s->frame_count;
  r->zone_count = (uint16_t)s->zone_count;
  memcpy(r->reg, mo->reg, sizeof r->reg);
  uint8_t *at = put((uint8_t *)(r + 1), s->vm, vms);
  at = put(at, s->frame, frames);
  at = put(at, s->zone, zones);
  if (stack)
    put_stacks(s, r, at, mo, stack, outer);
  r->flags = s->flags | (s->mem.faults ? TECS_SAMPLE_FAULT : 0);
  r->rec.len = fixed + r->stack_len + r->outer_len;
  r->cost_ns = (uint32_t)(clock_mono_ns() - start_ns);
  shm_ring_commit(s->slot, r->rec.len);
  return true;
}

bool sample_take(struct slot_state *s, const ucontext_t *uc, uint64_t restorer)
{
  struct live_vm live[LIVE_MAX];
  struct moment mo;
  uint64_t start = clock_mono_ns();
  s->vm_count = s->frame_count = s->zone_count = s->flags = 0;
  context_capture(&s->mem, &mo, uc, restorer);
  if (in_syscall(s, mo.ip))
    s->flags |= TECS_SAMPLE_SYSCALL;
  if (atomic_get(&agent.shm.control->paused))
    s->flags |= TECS_SAMPLE_PAUSED; /* sent before, delivered after */
  unsigned depth = atomic_get(&agent.shm.control->depth_max);
  unsigned n = live_vms(s, &mo, live);
  for (unsigned i = 0; i < n; i++)
    walk_vm(s, &mo, &live[i], depth < FRAMES_MAX ? depth : FRAMES_MAX);
  zones_add_native(s);
  for (unsigned i = 0; i < n; i++)
    zones_add_vm(s, live[i].entry, i);
  return write_sample(s, &mo, start);
}
