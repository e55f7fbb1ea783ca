/* SPDX-License-Identifier: MIT
 *
 * The VMs that were found.
 */
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "capture/capture.h"
#include "vmcore/discover.h"

unsigned capture_vm_count(const struct capture_vms *vms)
{
  return atomic_acquire(&vms->used);
}

struct capture_vm *capture_vm_find(struct capture_vms *vms, uint64_t g)
{
  for (unsigned i = 0; i < capture_vm_count(vms); i++)
    if (atomic_acquire(&vms->entry[i].state) != TECS_VM_FREE &&
        vms->entry[i].g == g)
      return &vms->entry[i];
  return NULL;
}

static void publish(struct capture_vms *vms, const struct capture_vm *e)
{
  if (!vms->published)
    return;
  struct tecs_vm *vm = &vms->published[e - vms->entry];
  vm->layout = e->layout;
  vm->g = e->g;
  vm->asm_pc = e->asm_pc;
  vm->asm_lo = e->asm_lo;
  vm->asm_hi = e->asm_hi;
  vm->tid = e->tid;
  vm->found = e->found;
  vm->events = e->events;
  vm->replaced_s = e->replaced_s;
  atomic_release(&vm->state, e->state);
}

static struct capture_vm *claim(struct capture_vms *vms)
{
  for (unsigned i = 0; i < TECS_VMS; i++) {
    uint32_t free_state = TECS_VM_FREE;
    if (!__atomic_compare_exchange_n(&vms->entry[i].state, &free_state,
                                     TECS_VM_CLAIMED, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
      continue;
    uint32_t n = atomic_get(&vms->used);
    while (n <= i &&
           !__atomic_compare_exchange_n(&vms->used, &n, i + 1, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      ;
    return &vms->entry[i];
  }
  return NULL;
}

struct capture_vm *capture_vm_add(struct capture_vms *vms, struct vm_mem *m,
                                  uint32_t layout, uint64_t g,
                                  enum tecs_vm_found found, uint32_t tid)
{
  struct capture_vm *e = capture_vm_find(vms, g);
  if (e && atomic_acquire(&e->state) != TECS_VM_UNKNOWN)
    return e;
  if (!e)
    e = claim(vms);
  if (!e)
    return NULL;
  const struct vm_layout *lay = vm_layout_get(layout);
  e->layout = layout;
  e->g = g;
  e->installed = 0;
  e->events = e->replaced_s = 0;
  e->found = found;
  e->dispatch = g - lay->gg_g + lay->gg_dispatch;
  e->asm_pc = vm_asm_pc(m, lay, g);
  e->tid = tid;
  memset(&e->zone, 0, sizeof e->zone);
  if (!vm_asm_range(m, lay, g, vms->unwind_table(vms->ctx, e->asm_pc),
                    &e->asm_lo, &e->asm_hi)) {
    atomic_release(&e->state, (uint32_t)TECS_VM_FREE);
    return NULL;
  }
  atomic_release(&e->state, (uint32_t)TECS_VM_LIVE);
  publish(vms, e);
  return e;
}

bool capture_vm_recheck(struct capture_vms *vms, struct vm_mem *m,
                        struct capture_vm *e)
{
  uint32_t id = vm_identify_global(m, e->g);
  if (id == VM_LAYOUT_UNKNOWN || id == e->layout)
    return false;
  e->layout = id;
  publish(vms, e);
  return true;
}

void capture_vm_add_unknown(struct capture_vms *vms, uint64_t g,
                            enum tecs_vm_found found, uint32_t tid)
{
  if (capture_vm_find(vms, g))
    return;
  struct capture_vm *e = claim(vms);
  if (!e)
    return;
  e->layout = VM_LAYOUT_UNKNOWN;
  e->g = g;
  e->found = found;
  e->dispatch = e->asm_pc = e->asm_lo = e->asm_hi = 0;
  e->events = e->replaced_s = 0;
  e->tid = tid;
  atomic_release(&e->state, (uint32_t)TECS_VM_UNKNOWN);
  publish(vms, e);
}

void capture_vm_remove(struct capture_vms *vms, uint64_t g)
{
  struct capture_vm *e = capture_vm_find(vms, g);
  if (!e)
    return;
  if (vms->published)
    atomic_release(&vms->published[e - vms->entry].state,
                   (uint32_t)TECS_VM_FREE);
  atomic_release(&e->state, (uint32_t)TECS_VM_FREE);
}

void capture_vm_events(struct capture_vms *vms, struct capture_vm *e,
                       uint32_t events)
{
  if (events & ~e->events & TECS_VM_REPLACED)
    e->replaced_s = (uint32_t)(clock_mono_ns() / 1000000000u);
  e->events = events;
  if (!vms->published)
    return;
  struct tecs_vm *vm = &vms->published[e - vms->entry];
  atomic_set(&vm->replaced_s, e->replaced_s);
  atomic_release(&vm->events, events);
}

void capture_vm_republish(struct capture_vms *vms)
{
  for (unsigned i = 0; i < capture_vm_count(vms); i++)
    if (vms->entry[i].state == TECS_VM_LIVE ||
        vms->entry[i].state == TECS_VM_UNKNOWN)
      publish(vms, &vms->entry[i]);
}
