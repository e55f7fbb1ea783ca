/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of this room only.
 */
#ifndef CAPTURE_CAPTURE_INTERNAL_H
#define CAPTURE_CAPTURE_INTERNAL_H

#include "capture/capture.h"

/* ---- context.c ---- */

/* Where a thread is, and where its VM was left: the same place, unless one of
 * the program's own signal handlers is running. */
struct moment {
  const struct capture_thread *thread;
  uint64_t sp, stack_hi;
  uint64_t vm_reg[TECS_REGS]; /* outside of all signal handlers */
  uint64_t vm_sp, vm_stack_hi;
  bool other_stack; /* the handler runs on an alternate stack */
};
void context_capture(struct vm_mem *m, struct moment *mo,
                     const struct capture_thread *th);

/* ---- find.c ---- */

struct live_vm {
  struct capture_vm *entry;
  unsigned index;
  uint64_t cframe;
};
/* The VMs that run on this thread, the innermost first; at most CAPTURE_LIVE.
 * One that is not known yet is looked for. */
unsigned find_live_vms(struct capture *c, const struct moment *mo,
                       struct live_vm live[CAPTURE_LIVE]);
/* Sets c->walk up for VM number index of the registry. */
void find_prepare(struct capture *c, const struct moment *mo,
                  const struct capture_vm *e, unsigned index);

/* ---- intern.c ---- */

uint32_t intern_proto(void *capture, uint64_t pt);
uint32_t intern_string(struct capture *c, uint64_t str); /* a GCstr */
uint32_t intern_text(struct capture *c, uint64_t text);  /* NUL-terminated */
void intern_mcode(struct capture *c, const struct capture_vm *vm,
                  unsigned index);

/* Was this met with the same key?  And: it is met now.  addr is a number that
 * no object that is interned otherwise has. */
bool intern_met(struct capture *c, uint64_t addr, uint32_t key);
void intern_meet(struct capture *c, uint64_t addr, uint32_t key);

/* ---- traces.c ---- */

/* Sends an image of the trace that the VM being walked runs (c->walk.vm), and
 * of what it refers to, unless that was done.  false: there is no image of it;
 * it makes no sense, is too large, or the ring is full. */
bool intern_trace(struct capture *c);

/* ---- zones.c ---- */

/* Fill c->zone, native ones first, then those of VM number vm of the sample. */
void zones_add_native(struct capture *c);
void zones_add_vm(struct capture *c, struct capture_vm *e, unsigned vm);

#endif
