/* SPDX-License-Identifier: MIT
 *
 * The record log: which bytecodes LuaJIT's recorder went through for each
 * trace, and the first IR reference that each of them could use.  A trace keeps
 * its IR, but not that.  It is taken down while the trace is recorded (the
 * event "record") and published when there is a trace (the event "trace"),
 * where a collector finds it by the trace's number and machine code
 * (shm_log_find).
 *
 * All of it runs on the VM's own thread, in its handlers of events (events.c),
 * and never in a signal handler.  One VM's recordings are one after the other;
 * those of several VMs meet only when they are published.
 */
#ifndef AGENT_RECLOG_H
#define AGENT_RECLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/aborts_internal.h"
#include "agent/events.h"
#include "tecs/abi.h"
#include "vmcore/mem.h"

/* TECS_AGENT has log=off: no VM gets one.  Before the first VM. */
void reclog_off(void);
/* VM v is new: *v gets log and place. */
void reclog_made(struct vm_events *v);
/* The same VM, in a child with a segment of its own: it has no logs there. */
void reclog_forked(const struct vm_events *v);
/* Do our handlers stand in both places?  Otherwise all logs of the VM are
 * dropped: what they say of a number may be of an earlier trace. */
void reclog_listens(const struct vm_events *v, enum tecs_log_state state);
/* VM v is about to be closed. */
void reclog_forget(const struct vm_events *v);

/* The event "trace", of n arguments at address base. */
void reclog_trace(struct vm_mem *m, const struct vm_events *v,
                  enum abort_event what, uint64_t base, unsigned n);
/* The event "record", likewise.  false: no recording is known of, so that its
 * start was not heard.  Loads without a guard: all that it reads is the running
 * VM's own. */
bool reclog_record(const struct vm_events *v, uint64_t base, unsigned n);

#endif
