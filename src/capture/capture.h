/* SPDX-License-Identifier: MIT
 *
 * One sample of a thread that stands still meanwhile: interrupted by the tick
 * (the agent's handler, on that very thread) or stopped by a tracer (a
 * collector).  Registers in, records in a ring out: images of what is new, then
 * the sample.  No malloc, stdio, locks or calls into the VM: the agent links
 * it.  How memory is read, and what else differs between the two sides, is the
 * host's.
 */
#ifndef CAPTURE_CAPTURE_H
#define CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/shm.h"
#include "vmcore/layout.h"
#include "vmcore/mem.h"
#include "vmcore/walk.h"
#include "vmcore/zone.h"

/* ---- the VMs of a process (vms.c) ---- */

struct capture_vm {
  volatile uint32_t state; /* enum tecs_vm_state */
  uint32_t layout;
  uint64_t g;
  uint64_t dispatch; /* address of GG_State.dispatch */
  uint64_t asm_pc, asm_lo, asm_hi;
  uint32_t tid;
  uint32_t found;              /* enum tecs_vm_found */
  volatile uint32_t installed; /* agent: modules and events are in place */
  uint32_t events;             /* enum tecs_vm_event */
  uint32_t replaced_s;
  struct vm_zone_place zone;
};

/* Entries are added by any thread, also in a handler: one is claimed by
 * compare-and-swap, so nobody waits.  All zero but unwind_table at first. */
struct capture_vms {
  struct capture_vm entry[TECS_VMS];
  volatile uint32_t used;    /* entries [0, used) have been in use */
  struct tecs_vm *published; /* TECS_VMS of them, for readers; NULL: nowhere */
  /* Run-time address of .eh_frame_hdr of the object that pc lies in; 0: none */
  uint64_t (*unwind_table)(void *ctx, uint64_t pc);
  void *ctx;
};

struct capture_vm *capture_vm_find(struct capture_vms *vms, uint64_t g);
/* Number of entries that may be in use. */
unsigned capture_vm_count(const struct capture_vms *vms);
/* Adds the VM of layout id at g, seen by thread tid, or returns the entry that
 * has it; NULL when full, or when its interpreter cannot be located. */
struct capture_vm *capture_vm_add(struct capture_vms *vms, struct vm_mem *m,
                                  uint32_t layout, uint64_t g,
                                  enum tecs_vm_found found, uint32_t tid);
/* The VM seems to be laid out otherwise: identifies it anew.  true: it is. */
bool capture_vm_recheck(struct capture_vms *vms, struct vm_mem *m,
                        struct capture_vm *e);
void capture_vm_add_unknown(struct capture_vms *vms, uint64_t g,
                            enum tecs_vm_found found, uint32_t tid);
void capture_vm_remove(struct capture_vms *vms, uint64_t g);
/* Says what hears the VM's "trace" event: enum tecs_vm_event. */
void capture_vm_events(struct capture_vms *vms, struct capture_vm *e,
                       uint32_t events);
/* Writes all entries into `published`, which is new. */
void capture_vm_republish(struct capture_vms *vms);

/* ---- the thread ---- */

/* Where it was interrupted, as far as the host knows. */
struct capture_thread {
  uint64_t reg[TECS_REGS];
  uint64_t pointer;             /* the thread pointer (base of fs) */
  uint64_t main_stack_end;      /* of the process's main thread */
  uint64_t alt_stack, alt_size; /* its alternate stack; size 0: none is known */
  bool in_handler; /* a signal handler of the program may be running */
  bool in_syscall;
  /* Return addresses of signal handlers (SA_RESTORER). */
  const uint64_t *restorer;
  unsigned restorers;
};

/* Registers in DWARF order out of those of a signal frame or ucontext. */
extern const uint8_t capture_greg[TECS_REGS];

/* ---- one sample ---- */

#define CAPTURE_INTERNED 4096
#define CAPTURE_FRAMES 1280
#define CAPTURE_ZONES 64    /* of one VM or of native code */
#define CAPTURE_LIVE 8      /* VMs of one thread */
#define CAPTURE_OBJECTS 128 /* that a trace refers to */

struct capture;

/* What differs between the two sides. */
struct capture_host {
  struct capture_vms *vms;
  const struct tecs_control *control; /* depth_max, stack_max, flags, paused */
  /* Copies up to n bytes of the program's memory; how many could be read. */
  size_t (*copy)(struct capture *c, void *to, uint64_t from, size_t n);
  /* Name of prototype pt of layout c->lay, as capture_proto_key knows it;
   * false: not known.  *len 0: the source gives it none.  NULL: none is. */
  bool (*name)(struct capture *c, uint64_t pt, const char **name,
               uint32_t *len);
  /* How many zones of native code are open, and addresses of the names of as
   * many as there is room for, outermost first.  NULL: there are none. */
  uint32_t (*zones)(struct capture *c, uint64_t name[CAPTURE_ZONES]);
  /* The record log of a trace, which may change while it is read; false: none.
   * NULL: there are none. */
  bool (*log)(struct capture *c, const struct shm_log_key *key,
              struct shm_log *out);
  void *ctx;
};

struct capture_image {
  uint64_t addr;
  uint32_t key;
  uint32_t id;
};

/* State of one slot.  The host sets host, slot, ring and mem.load (and what
 * that needs), calls capture_reset for each new generation of the slot, and
 * leaves the rest alone.  Large: never on a stack. */
struct capture {
  const struct capture_host *host;
  struct tecs_slot *slot;
  uint8_t *ring;
  struct vm_mem mem;
  uint32_t generation; /* of the slot, since capture_reset */
  uint32_t seq;        /* of the next sample; the host counts it up */
  uint32_t flags;      /* enum tecs_sample_flag */
  /* The sample that was taken last, in the ring: a host that is its reader,
   * too, may complete it before it reads.  NULL: there was no room. */
  struct tecs_sample *written;
  const struct vm_layout *lay; /* of the VM being walked */
  uint64_t g;
  uint32_t scan_wait, scan_backoff;
  uint64_t suspect_g, suspect_since; /* looks like a VM, fails the checks */
  uint32_t suspect_count;
  uint64_t no_dispatch; /* what a register held that was no VM's */
  uint32_t next_id;
  uint32_t images; /* in use */
  struct vm_stack_memo memo[TECS_VMS];
  uint64_t mcode_key[TECS_VMS];
  struct vm_mcode_memo mcode; /* of the VM that ran in a trace last */
  struct vm_walk walk;
  struct tecs_sample_vm vm[CAPTURE_LIVE];
  unsigned vm_count;
  struct tecs_frame frame[CAPTURE_FRAMES];
  unsigned frame_count;
  struct tecs_zone zone[(CAPTURE_LIVE + 1) * (CAPTURE_ZONES + 1)]; /* 1: gap */
  unsigned zone_count;
  struct tecs_trace_object object[CAPTURE_OBJECTS]; /* of a trace's image */
  unsigned object_count;
  struct capture_image image[CAPTURE_INTERNED];
};

/* A new generation of the slot: nothing is known of its images. */
void capture_reset(struct capture *c, uint32_t generation);
/* Takes the sample and writes it; false: the ring is full.  mem.faults of
 * before stay in the count. */
bool capture_take(struct capture *c, const struct capture_thread *th);

/* Without a sample: writes the image of prototype pt of the VM at c->g, laid
 * out as c->lay, unless it was written already; its id, 0: the ring is full. */
uint32_t capture_function(struct capture *c, uint64_t pt);

/* Changes when another prototype is at pt. */
uint32_t capture_proto_key(struct vm_mem *m, const struct vm_layout *lay,
                           uint64_t pt);

#endif
