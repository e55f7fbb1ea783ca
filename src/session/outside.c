/* SPDX-License-Identifier: MIT
 *
 * The process's VMs as its memory shows them while it runs.  What is read may
 * be changing: values are single words, checked before they are followed.
 */
#include <string.h>

#include "base/atomics.h"
#include "session/session_internal.h"
#include "vmcore/discover.h"
#include "vmcore/layout.h"
#include "vmcore/zone.h"

/* ---- memory ---- */

static const uint8_t *page_of(struct outside *o, uint64_t addr)
{
  uint64_t number = addr / OUTSIDE_PAGE;
  struct outside_page *p = &o->page[number % OUTSIDE_PAGES];
  if (p->number != number) {
    p->number = number;
    p->readable = target_read(o->target, number * OUTSIDE_PAGE, p->bytes,
                              OUTSIDE_PAGE) == RESULT_OK;
  }
  return p->readable ? p->bytes + addr % OUTSIDE_PAGE : NULL;
}

static uint64_t load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  uint64_t value = 0; /* little endian: the low bytes come first */
  struct outside *o = m->ctx;
  bool ok = !(addr >> 47);
  if (ok && addr % OUTSIDE_PAGE + width <= OUTSIDE_PAGE) {
    const uint8_t *at = page_of(o, addr);
    ok = at != NULL;
    if (at)
      memcpy(&value, at, width);
  } else if (ok) {
    ok = target_read(o->target, addr, &value, width) == RESULT_OK;
  }
  m->faults += !ok;
  return ok ? value : 0;
}

struct vm_mem *outside_open(struct outside *o, struct target *t)
{
  o->mem = (struct vm_mem){.load = load, .ctx = o};
  o->target = t;
  for (unsigned i = 0; i < OUTSIDE_PAGES; i++)
    o->page[i].number = UINT64_MAX;
  return &o->mem;
}

/* ---- VMs ---- */

void outside_look(struct vm_mem *m, struct session_vm *vm)
{
  const struct vm_layout *lay = vm_layout_get(vm->layout_id);
  struct vm_zone_place place = {0};
  if (!lay || !vm_is_global(m, lay, vm->g))
    return; /* just closed */
  vm->require = vm_module_loaded(m, lay, vm->g, "package");
  vm->zones = vm_zone_table(m, lay, vm->g, &place) != 0;
  vm->jit = vm_jit_on(m, lay, vm->g);
}

unsigned session_vms(struct target *t, const struct shm *shm,
                     struct session_vm out[TECS_VMS])
{
  struct outside mem;
  struct vm_mem *m = outside_open(&mem, t);
  unsigned n = 0;
  for (unsigned i = 0; i < TECS_VMS; i++) {
    uint32_t state = atomic_acquire(&shm->vms[i].state);
    struct tecs_vm vm = shm->vms[i];
    if (state != TECS_VM_LIVE && state != TECS_VM_UNKNOWN)
      continue;
    const struct vm_layout *lay =
        state == TECS_VM_LIVE ? vm_layout_get(vm.layout) : NULL;
    out[n] = (struct session_vm){.layout = lay ? lay->name : NULL,
                                 .layout_id = vm.layout,
                                 .g = vm.g,
                                 .found = vm.found,
                                 .tid = vm.tid,
                                 .events = vm.events,
                                 .replaced_ns = vm.replaced_s * SEC};
    if (lay)
      outside_look(m, &out[n]);
    n++;
  }
  return n;
}
