/* SPDX-License-Identifier: MIT
 *
 * The agent inside a game.  What runs where:
 *  - constructor and fork child: init.c;
 *  - the tick's signal handler: handler.c, sample.c, intern.c, guard.c.  It
 *    never allocates, locks, prints, exits or calls into the VM, and keeps its
 *    working memory out of the thread's stack;
 *  - on the game's own threads, at points where the VM may be used:
 *    interpose.c, install.c, names.c, events.c, aborts*.c, profile*.c.
 */
#ifndef AGENT_AGENT_INTERNAL_H
#define AGENT_AGENT_INTERNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <ucontext.h>

#include "shm/shm.h"
#include "vmcore/layout.h"
#include "vmcore/mem.h"
#include "vmcore/walk.h"
#include "vmcore/zone.h"

/* State without which nothing works.  *ready is set last; it lies in a page
 * that the kernel wipes in every child, a raw clone's too, where no fork
 * handler runs and the segment is not mapped. */
struct agent {
  struct shm shm;
  uint32_t cookie;
  uint64_t main_stack_end; /* of the main thread's stack */
  volatile uint32_t *ready;
  bool started;
};
extern struct agent agent;

/* May the segment be touched?  Cheap, and safe in a handler. */
static inline bool agent_ready(void)
{
  return agent.ready && *agent.ready;
}

/* For variables of a thread: resolved without a call, so that a handler may
 * use them.  The library is there from the program's start. */
#define AGENT_TLS static __thread __attribute__((tls_model("initial-exec")))

/* ---- guard.c: loads that survive any address ---- */

/* Installs the SIGSEGV and SIGBUS handlers; safe in a handler, idempotent. */
void guard_install(void);
/* Are they still in place?  Puts them back; four system calls at most. */
void guard_check(void);
/* A vm_mem whose loads are guarded; faults go to m->faults.  The previous one
 * of this thread is returned and must be put back with guard_leave. */
struct vm_mem *guard_enter(struct vm_mem *m);
void guard_leave(struct vm_mem *previous);
/* Stores a byte, or does not where that faults. */
void guard_store1(uint64_t addr, uint8_t value);
/* Copies up to n bytes; returns how many could be read. */
size_t guard_copy(void *to, uint64_t from, size_t n);

/* ---- signals.c ---- */

/* Installs the handler of SIGURG. */
bool signals_install(void);
/* Passes a signal on to the handler that the program has for it. */
void signals_chain(int signo, siginfo_t *info, void *uc);
/* The system's own sigaction, never ours. */
int signals_sigaction(int signo, const struct sigaction *act,
                      struct sigaction *old);
bool signals_still_ours(int signo, void (*handler)(int, siginfo_t *, void *));
/* From now on the program's actions for signo are kept here. */
void signals_adopt(int signo, const struct sigaction *program);

/* ---- handler.c ---- */
void handler_tick(int signo, siginfo_t *info, void *uc);
void handler_forked(void);

/* ---- registry.c: VMs of this process ---- */

struct vm_entry {
  volatile uint32_t state; /* enum tecs_vm_state */
  uint32_t layout;
  uint64_t g;
  uint64_t asm_pc, asm_lo, asm_hi;
  uint32_t tid;
  uint32_t found;              /* enum tecs_vm_found */
  volatile uint32_t installed; /* modules and events are in place */
  uint32_t events;             /* enum tecs_vm_event */
  uint32_t replaced_s;
  struct vm_zone_place zone;
};
struct vm_entry *registry_at(unsigned index); /* index < TECS_VMS */
/* Number of entries that may be in use. */
unsigned registry_count(void);
/* Adds the VM of layout id at g, or returns the entry that has it; NULL when
 * full.  Safe in a handler. */
struct vm_entry *registry_add(struct vm_mem *m, uint32_t layout, uint64_t g,
                              enum tecs_vm_found found);
void registry_add_unknown(uint64_t g, enum tecs_vm_found found);
void registry_remove(uint64_t g);
struct vm_entry *registry_find(uint64_t g);
/* Says what hears the VM's "trace" event: enum tecs_vm_event. */
void registry_events(struct vm_entry *e, uint32_t events);
/* Writes all entries into a new segment (fork child). */
void registry_republish(void);

/* ---- per-slot state of the handler ---- */

#define INTERN_ENTRIES 4096
#define FRAMES_MAX 1280
#define ZONES_MAX 64 /* of one VM or of native code */
#define LIVE_MAX 8

struct intern_entry {
  uint64_t addr;
  uint32_t key;
  uint32_t id;
};

struct slot_state {
  uint32_t generation;
  uint32_t seq;
  uint32_t next_id;
  uint32_t entries; /* of intern in use */
  uint32_t scan_wait, scan_backoff;
  uint64_t suspect_g, suspect_since; /* looks like a VM, fails the checks */
  uint32_t suspect_count;
  struct tecs_slot *slot;
  uint8_t *ring;
  const struct vm_layout *lay; /* of the VM being walked */
  uint64_t g;
  struct vm_mem mem;
  struct vm_stack_memo memo[TECS_VMS];
  uint64_t mcode_key[TECS_VMS];
  struct vm_walk walk;
  struct tecs_sample_vm vm[LIVE_MAX];
  unsigned vm_count;
  struct tecs_frame frame[FRAMES_MAX];
  unsigned frame_count;
  struct tecs_zone zone[(LIVE_MAX + 1) * (ZONES_MAX + 1)]; /* 1: a gap */
  unsigned zone_count;
  uint32_t flags; /* enum tecs_sample_flag */
  struct intern_entry intern[INTERN_ENTRIES];
};

/* Fills s from the interrupted context and writes the sample; false: the ring
 * is full.  restorer: return address of a signal handler. */
bool sample_take(struct slot_state *s, const ucontext_t *uc, uint64_t restorer);

/* ---- context.c ---- */

/* Where a thread is, and where its VM was left: the same place, unless one of
 * the program's own signal handlers is running. */
struct moment {
  uint64_t reg[TECS_REGS]; /* at the tick, DWARF numbering */
  uint64_t sp, ip, stack_hi;
  uint64_t vm_reg[TECS_REGS]; /* outside of all signal handlers */
  uint64_t vm_sp, vm_stack_hi;
  bool other_stack; /* the handler runs on an alternate stack */
};
void context_capture(struct vm_mem *m, struct moment *mo, const ucontext_t *uc,
                     uint64_t restorer);

/* ---- intern.c ---- */
void intern_reset(struct slot_state *s);
uint32_t intern_proto(void *slot_state, uint64_t pt);
uint32_t intern_string(struct slot_state *s, uint64_t str); /* a GCstr */
uint32_t intern_text(struct slot_state *s, const char *text);
void intern_mcode(struct slot_state *s, const struct vm_entry *vm,
                  unsigned index);

/* ---- names.c: names taken when functions are loaded ---- */

/* The "bc" event: prototype pt has just been made. */
void names_proto_made(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t pt);
/* The name of prototype pt; false: not known (no event was seen).  *len 0: the
 * source gives it none.  Safe in a handler. */
bool names_find(struct vm_mem *m, const struct vm_layout *lay, uint64_t pt,
                const char **name, uint32_t *len);
uint32_t names_proto_key(struct vm_mem *m, const struct vm_layout *lay,
                         uint64_t pt);

/* ---- install.c: what the agent puts into a VM ---- */

/* lua_State L may be used by this thread now.  Registers its VM and installs
 * modules and events once. */
void install_into(void *L, enum tecs_vm_found found);
/* The package library of L, into which things are installed, is being opened.
 */
void install_loaded(void *L);

#endif
