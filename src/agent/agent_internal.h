/* SPDX-License-Identifier: MIT
 *
 * The agent inside a game.  What runs where:
 *  - constructor and fork child: init.c;
 *  - the tick's signal handler: handler.c, guard.c and room capture.  It
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

#include "capture/capture.h"
#include "shm/shm.h"
#include "vmcore/layout.h"
#include "vmcore/mem.h"

/* State without which nothing works.  *ready is set last; it lies in a page
 * that the kernel wipes in every child, a raw clone's too, where no fork
 * handler runs and the segment is not mapped. */
struct agent {
  struct shm shm;
  uint32_t cookie;
  uint64_t main_stack_end; /* of the main thread's stack */
  volatile uint32_t *ready;
  bool started;
  bool late; /* loaded into a running process: late.c */
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
/* Passes a signal on to the handler that the program has for it.  caller: the
 * return address of ours; another than the kernel's: the program's handler
 * calls the one that it found in its place. */
void signals_chain(int signo, siginfo_t *info, void *uc, const void *caller);
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

extern struct capture_vms registry;
/* Adds the VM of layout id at g, or returns the entry that has it; NULL when
 * full.  Safe in a handler. */
struct capture_vm *registry_add(struct vm_mem *m, uint32_t layout, uint64_t g,
                                enum tecs_vm_found found);
void registry_add_unknown(uint64_t g, enum tecs_vm_found found);
void registry_remove(uint64_t g);
struct capture_vm *registry_find(uint64_t g);
/* Says what hears the VM's "trace" event: enum tecs_vm_event. */
void registry_events(struct capture_vm *e, uint32_t events);
/* There is a new segment: writes all entries into it. */
void registry_republish(void);

/* ---- names.c: names taken when functions are loaded ---- */

/* The "bc" event: prototype pt has just been made. */
void names_proto_made(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t pt);
/* The name of prototype pt; false: not known (no event was seen).  *len 0: the
 * source gives it none.  Safe in a handler. */
bool names_find(struct vm_mem *m, const struct vm_layout *lay, uint64_t pt,
                const char **name, uint32_t *len);

/* ---- late.c: the agent came into a running process ---- */

/* At the start: sets agent.late, and looks then for the Lua APIs there are. */
void late_look(void);
/* Of the sample that was just taken in this handler, of thread th: asks its VM
 * for a moment at which it can be installed into. */
void late_visit(struct capture *c, const struct capture_thread *th);

/* ---- install.c: what the agent puts into a VM ---- */

/* lua_State L may be used by this thread now.  Registers its VM and installs
 * modules and events once. */
void install_into(void *L, enum tecs_vm_found found);
/* The package library of L, into which things are installed, is being opened.
 */
void install_loaded(void *L);

#endif
