/* SPDX-License-Identifier: MIT
 *
 * The agent's handlers of VM events: "bc" (a prototype was made: names.c),
 * "trace" (aborts.c, reclog.c) and "record" (reclog.c).
 *
 * LuaJIT has one place for each event, and jit.attach puts a handler there
 * over whoever was.  Ours stay in front: the C function behind jit.attach is
 * replaced (the value jit.attach stays the same, copies of it included), and
 * what a program attaches to one of these events is called by ours, with the
 * same arguments and its errors passed on, until the program detaches it.
 * Whoever writes to registry._VMEVENTS by another way than jit.attach has the
 * place; that is noticed when code is loaded and said in the segment.
 * A listener puts a program at risk in some versions of LuaJIT: events_fault.c.
 */
#ifndef AGENT_EVENTS_H
#define AGENT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "agent/luaapi.h"
#include "vmcore/ffnames.h"
#include "vmcore/layout.h"
#include "vmcore/mem.h"
#include "vmcore/zone.h"

enum event_kind { EVENT_BC, EVENT_TRACE, EVENT_RECORD, EVENT_KINDS };

/* What is known of a VM that has our handlers. */
struct vm_events {
  volatile uint64_t g; /* 0: free */
  const struct api *api;
  uint32_t layout;
  const struct vm_layout *lay;
  bool asked[VM_FFIDS];    /* for a name that was not in words */
  struct vm_ffnames words; /* LuaJIT's own, of this VM */
  lua_CFunction *attach;   /* LuaJIT's own jit.attach; NULL: not taken over */
  uint64_t current[EVENT_KINDS]; /* our closure that is in the place */
  uint64_t foreign; /* handler that came into the trace event's place past
                       jit.attach, 0: none */
  bool heard;       /* and calls ours */
  uint64_t foreign_record; /* the same of the record event */
  bool log;       /* traces get a record log, so that we listen all the time */
  unsigned place; /* in the registry and in the segment */
  bool shared;    /* the program has attached handlers, too */
  bool withdrawn; /* ours is not in the trace event's place: it could kill */
  uint64_t code_lo, code_hi; /* code of the object that holds the VM's */
  struct vm_zone_place zone; /* not the sampler's, which interrupts us */
};

/* Puts the handlers into VM g of layout number id, whose thread L runs here
 * and now, and whose code is at `code`.  Needs 8 Lua stack slots, as the next.
 */
void events_install(const struct api *api, lua_State *L, uint32_t id,
                    uint64_t g, uint64_t code);
/* Looks whether they are still there; takes jit.attach over when it has
 * appeared.  For moments at which the API may be called anyway. */
void events_check(lua_State *L);
/* Lets the "trace" event through while aborts are wanted, where it is not all
 * the time.  Safe in a handler.
 */
void events_follow(void);
/* A SIGSEGV in uc: was it LuaJIT's own fault on the way to our listener, and
 * can it go on?  Then its registers are mended.  Safe in a handler. */
bool events_fault(ucontext_t *uc);
/* VM g is about to be closed. */
void events_forget(uint64_t g);
/* This is a child by fork, with a segment of its own. */
void events_forked(void);

#endif
