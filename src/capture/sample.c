/* SPDX-License-Identifier: MIT
 *
 * One sample: which VMs run on this thread, their Lua frames, the zones, the
 * native stack.
 */
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "capture/capture_internal.h"

enum {
  STACK_MAX = 131072,  /* bytes of native stack, whatever is asked */
  STACK_LEAST = 16384, /* where the ring has no room for more */
  CFRAME_SPARE = 64,   /* entries that vmcore keeps for C frames */
  /* Bytes below rsp that are the function's own (System V ABI for
   * AMD64, 3.2.2); the kernel delivers no signal into them.  Compilers take
   * them for granted in their tables: in the middle of an epilogue GCC's still
   * say of the registers that were popped already that they are where they were
   * pushed. */
  RED_ZONE = 128,
};

/* ---- parts of the sample ---- */

static void walk_vm(struct capture *c, const struct moment *mo,
                    const struct live_vm *v, unsigned depth)
{
  struct vm_walk *w = &c->walk;
  unsigned room = CAPTURE_FRAMES - c->frame_count;
  unsigned want = depth + CFRAME_SPARE;
  do {
    find_prepare(c, mo, v->entry, v->index);
    if (c->vm_count) /* the registers belong to the innermost VM */
      w->reg = NULL;
    w->frame = c->frame + c->frame_count;
    w->frame_max = want < room ? want : room;
    w->vm_index = (uint8_t)c->vm_count;
    intern_mcode(c, v->entry, v->index);
    vm_walk_frames(w);
  } while (w->misfit && capture_vm_recheck(c->host->vms, &c->mem, v->entry));
  w->vm.layout = v->entry->layout;
  if (w->vm.trace && intern_trace(c))
    w->vm.flags |= TECS_SAMPLE_VM_TRACE;
  c->frame_count += w->count;
  c->vm[c->vm_count++] = w->vm;
}

/* ---- writing ---- */

static uint8_t *put(uint8_t *at, const void *from, size_t n)
{
  memcpy(at, from, n);
  return at + n;
}

static uint32_t least(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

/* Where the copy of a stack begins. */
static uint64_t copied_from(uint64_t sp)
{
  sp &= ~UINT64_C(7);
  return sp > RED_ZONE ? sp - RED_ZONE : sp;
}

/* Bytes of stack to copy from there on. */
static uint32_t stack_bytes(const struct tecs_control *control, uint64_t sp,
                            uint64_t hi)
{
  uint64_t want = atomic_get(&control->stack_max);
  uint64_t have = (hi - copied_from(sp)) & ~UINT64_C(7);
  if (atomic_get(&control->flags) & TECS_CONTROL_NO_STACK)
    return 0;
  want = want < STACK_MAX ? want & ~UINT64_C(7) : STACK_MAX;
  return (uint32_t)(have < want ? have : want);
}

/* At most len bytes, without the red zone where that cannot be read; *base: the
 * first one's address. */
static uint32_t copy_stack(struct capture *c, uint8_t *at, uint64_t sp,
                           uint32_t len, uint64_t hi, uint64_t *base)
{
  *base = copied_from(sp);
  uint32_t got = (uint32_t)c->host->copy(c, at, *base, len) & ~7u;
  if (got < len && *base + got <= sp) {
    len -= least(len, RED_ZONE);
    *base = sp & ~UINT64_C(7);
    got = (uint32_t)c->host->copy(c, at, *base, len) & ~7u;
  }
  if (got == len && *base + len < hi)
    c->flags |= TECS_SAMPLE_STACK_CUT;
  return got;
}

static void put_stacks(struct capture *c, struct tecs_sample *r, uint8_t *at,
                       const struct moment *mo, uint32_t len, uint32_t outer)
{
  r->native_form = TECS_NATIVE_STACK;
  r->stack_len = copy_stack(c, at, mo->sp, len, mo->stack_hi, &r->stack_base);
  if (!outer)
    return;
  r->outer_len = copy_stack(c, at + r->stack_len, mo->vm_sp, outer,
                            mo->vm_stack_hi, &r->outer_base);
}

static bool write_sample(struct capture *c, const struct moment *mo,
                         uint64_t start_ns)
{
  size_t vms = c->vm_count * sizeof c->vm[0];
  size_t frames = c->frame_count * sizeof c->frame[0];
  size_t zones = c->zone_count * sizeof c->zone[0];
  const struct tecs_control *control = c->host->control;
  uint32_t stack = stack_bytes(control, mo->sp, mo->stack_hi);
  uint32_t outer =
      mo->other_stack ? stack_bytes(control, mo->vm_sp, mo->vm_stack_hi) : 0;
  uint32_t fixed =
      (uint32_t)(sizeof(struct tecs_sample) + vms + frames + zones);
  struct tecs_sample *r =
      shm_ring_reserve(c->slot, c->ring, fixed + stack + outer);
  if (!r) { /* a part of a deep stack is better than nothing */
    stack = least(stack, STACK_LEAST);
    outer = least(outer, STACK_LEAST);
    r = shm_ring_reserve(c->slot, c->ring, fixed + stack + outer);
  }
  c->written = r;
  if (!r)
    return false;
  memset(r, 0, sizeof *r);
  r->rec.type = TECS_RECORD_SAMPLE;
  r->time_ns = start_ns;
  r->tid = c->slot->tid;
  r->seq = c->seq;
  r->vm_count = (uint8_t)c->vm_count;
  r->lua_count = (uint16_t)c->frame_count;
  r->zone_count = (uint16_t)c->zone_count;
  memcpy(r->reg, mo->thread->reg, sizeof r->reg);
  uint8_t *at = put((uint8_t *)(r + 1), c->vm, vms);
  at = put(at, c->frame, frames);
  at = put(at, c->zone, zones);
  if (stack)
    put_stacks(c, r, at, mo, stack, outer);
  r->flags = c->flags | (c->mem.faults ? TECS_SAMPLE_FAULT : 0);
  r->rec.len = fixed + r->stack_len + r->outer_len;
  r->cost_ns = (uint32_t)(clock_mono_ns() - start_ns);
  shm_ring_commit(c->slot, r->rec.len);
  return true;
}

bool capture_take(struct capture *c, const struct capture_thread *th)
{
  const struct tecs_control *control = c->host->control;
  struct live_vm live[CAPTURE_LIVE];
  struct moment mo;
  uint64_t start = clock_mono_ns();
  c->vm_count = c->frame_count = c->zone_count = c->flags = 0;
  context_capture(&c->mem, &mo, th);
  if (th->in_syscall)
    c->flags |= TECS_SAMPLE_SYSCALL;
  if (atomic_get(&control->paused))
    c->flags |= TECS_SAMPLE_PAUSED; /* asked for before, taken after */
  unsigned depth = atomic_get(&control->depth_max);
  unsigned n = find_live_vms(c, &mo, live);
  for (unsigned i = 0; i < n; i++)
    walk_vm(c, &mo, &live[i], depth < CAPTURE_FRAMES ? depth : CAPTURE_FRAMES);
  zones_add_native(c);
  for (unsigned i = 0; i < n; i++)
    zones_add_vm(c, live[i].entry, i);
  return write_sample(c, &mo, start);
}
