/* SPDX-License-Identifier: MIT
 *
 * Trace aborts: a listener for LuaJIT's "trace" event counts them by reason,
 * location and zone into the table of the segment (struct tecs_aborts and
 * tecs_abort of tecs/abi.h), while a trace session is on.
 *
 * A session is control->trace_session, set by whoever holds the claim on it:
 * the lock (F_OFD_SETLK, exclusive) on byte ABORTS_CLAIM_BYTE of the segment's
 * file.  The holder first puts memory behind the table (shm_back_aborts), then
 * sets trace_paused and trace_stop to 0, trace_owner to its pid, and last
 * trace_session to a number that differs from the one before and from 0.  The
 * agent empties the table when it meets the new number, so that a session has
 * nothing to subtract.  It ends with trace_session 0.  Whether each VM is heard
 * at all: tecs_vm.events; whether its compiler is on: vm_jit_on (vmcore).
 */
#ifndef AGENT_ABORTS_H
#define AGENT_ABORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/luaapi.h"
#include "base/result.h"
#include "tecs/abi.h"

#define ABORTS_CLAIM_BYTE 1

/* In a child by fork, before its segment is published. */
void aborts_forked(void);
/* A session from the first event on, before the segment is published, for the
 * collector that started this process: it takes the claim when it has found the
 * segment, and goes on with the number that it finds there. */
void aborts_from_start(uint32_t owner);
/* Once in such a process, when its first VM has been registered and has not run
 * yet: waits until that collector has the claim, for a second at most, so that
 * even a program of a few milliseconds is seen. */
void aborts_await_collector(void);

/* ---- a session of the game itself (tecs.utils.profile) ---- */

/* Begins one, on the thread of VM L, where its API may be called.  BUSY: there
 * is one, *owner is its pid; FULL: no memory for the table; IO: the game has
 * closed the segment's file. */
enum result aborts_begin(lua_State *L, uint32_t *owner);
void aborts_pause(bool paused);
/* Ends it.  The table may be emptied from now on: read it before, between
 * aborts_pause(true) and this. */
void aborts_end(void);
/* The totals of the session, and its rows (totals->rows of them, in no order;
 * severity is the worst of that row in this session).  All zero when nothing
 * has happened yet. */
const struct tecs_abort *aborts_read(struct tecs_aborts *totals);

/* Is a session on, paused or not?  Safe in a handler. */
bool aborts_wanted(void);

#endif
