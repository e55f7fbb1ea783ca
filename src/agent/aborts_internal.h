/* SPDX-License-Identifier: MIT
 *
 * The parts of the abort listener.  All but aborts.c are functions of what
 * they are given: no state of the agent, every load through a vm_mem.
 */
#ifndef AGENT_ABORTS_INTERNAL_H
#define AGENT_ABORTS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/events.h"
#include "tecs/abi.h"
#include "vmcore/ffnames.h"
#include "vmcore/layout.h"
#include "vmcore/mem.h"

/* ---- aborts.c ---- */

/* What a "trace" event says, by its first argument. */
enum abort_event {
  ABORT_EVENT_START,
  ABORT_EVENT_STOP,
  ABORT_EVENT_ABORT,
  ABORT_EVENT_FLUSH,
  ABORT_EVENT_OTHER
};
enum abort_event aborts_what(struct vm_mem *m, const struct vm_layout *lay,
                             uint64_t tv);
/* The "trace" event: n arguments from address base on, on VM v's thread. */
void aborts_event(struct vm_mem *m, struct vm_events *v, enum abort_event what,
                  uint64_t base, unsigned n);

/* ---- aborts_text.c: bounded texts ---- */

/* Text that is made at `to`, max bytes at most; what no text of a row may hold
 * is replaced: invalid UTF-8 by U+FFFD, control bytes by `?`. */
struct abort_text {
  char *to;
  unsigned len, max;
  bool cut;
};
void abort_text_add(struct abort_text *t, const char *bytes, size_t n);
void abort_text_add_str(struct abort_text *t, const char *s);
void abort_text_add_number(struct abort_text *t, int64_t v);
/* When something did not fit: ends it in "...".  Returns its length. */
unsigned abort_text_end(struct abort_text *t);
/* Copies up to max bytes of string object str, its first or its last ones;
 * *full is its length. */
enum abort_text_part { ABORT_TEXT_HEAD, ABORT_TEXT_TAIL };
size_t abort_text_load(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t str, enum abort_text_part part, char *to,
                       size_t max, uint32_t *full);

/* ---- aborts_reason.c ---- */

/* reason of row, from the last two arguments of "abort": what was thrown, and
 * the details (lj_trace.c, trace_abort). */
enum tecs_severity aborts_reason(struct vm_mem *m, const struct vm_layout *lay,
                                 const struct vm_ffnames *words, uint64_t err,
                                 uint64_t info, struct tecs_abort *row);
/* Did an abort of the trace that began at opcode `start` make LuaJIT give that
 * bytecode up, so that it is `now`?  Only for root traces. */
bool aborts_gave_up(const struct vm_texts *texts, uint8_t start, uint8_t now);
/* A number of a tagged value that is an integer. */
bool aborts_int(const struct vm_layout *lay, uint64_t tv, int64_t *v);

/* ---- aborts_place.c: where ---- */

/* location, pt, firstline, numline of row, from a prototype and a position in
 * it; pt 0: unknown. */
void aborts_location(struct vm_mem *m, const struct vm_layout *lay, uint64_t pt,
                     uint32_t pos, struct tecs_abort *row);
/* The prototype of a tagged value; 0: it is no Lua function. */
uint64_t aborts_proto(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t func);
/* The open zones, outermost first: those of native code on this thread, then
 * the VM's; of each, how many are left out, of the VM's in their middle. */
struct abort_zones {
  const char *const *native; /* in the game's memory; NULL: no name */
  uint32_t natives, natives_left_out;
  const uint64_t *value;
  uint32_t values, values_left_out;
};
/* zone of row. */
void aborts_zone(struct vm_mem *m, const struct vm_layout *lay,
                 const struct abort_zones *zones, struct tecs_abort *row);

/* ---- aborts_rows.c: the table ---- */

#define ABORTS_INDEX 32768 /* a power of two, more than rows */

struct abort_table {
  struct tecs_aborts *totals;
  struct tecs_abort *rows;            /* TECS_ABORT_ROWS */
  uint32_t backed;                    /* rows with memory behind them */
  bool (*more)(struct abort_table *); /* raises backed; false: it can't */
  uint32_t session;                   /* that the rows belong to */
  uint32_t used; /* rows; what the segment says may be spoilt */
  volatile uint32_t lock;
  uint32_t index[ABORTS_INDEX]; /* by hash: its upper 16 bits, 1 + row */
};
/* Takes the table for this thread, emptied when the session is new.  false: a
 * thread that has it does not let go. */
bool abort_table_open(struct abort_table *t, uint32_t session);
void abort_table_close(struct abort_table *t);
/* Counts row's texts once, in an open table. */
void abort_table_add(struct abort_table *t, const struct tecs_abort *row);

#endif
