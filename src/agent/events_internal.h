/* SPDX-License-Identifier: MIT */
#ifndef AGENT_EVENTS_INTERNAL_H
#define AGENT_EVENTS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/events.h"
#include "vmcore/mem.h"

/* ---- events.c ---- */

/* index < TECS_VMS; its g may be 0. */
const struct vm_events *events_at(unsigned index);

/* ---- events_fault.c ---- */

/* Before anything else in our "trace" handler, whose n arguments begin at arg:
 * undoes what events_fault did, for those that the handler passes on to. */
void events_settle_search(struct vm_mem *m, const struct vm_events *v,
                          uint64_t arg, unsigned n);
/* At the start of a trace, in a handler of VM v: could our listening to its end
 * kill the program?  Four system calls. */
bool events_may_kill(struct vm_mem *m, const struct vm_events *v);
/* After that: can it no longer? */
bool events_may_return(const struct vm_events *v);
/* Fills in code_lo and code_hi: of the object that holds the code at pc. */
void events_find_code(struct vm_events *v, uint64_t pc);

#endif
