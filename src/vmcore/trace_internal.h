/* SPDX-License-Identifier: MIT
 *
 * Shared by trace.c and snap.c.
 */
#ifndef VMCORE_TRACE_INTERNAL_H
#define VMCORE_TRACE_INTERNAL_H

#include "vmcore/walk_internal.h"

static inline uint64_t jit_state(const struct vm_walk *w)
{
  return w->g - w->lay->gg_g + w->lay->gg_J;
}

/* The trace that runs: at the instruction pointer, or the one that the C code
 * there will return to; *pc is within the call then.  0: none. */
uint64_t trace_find(struct vm_walk *w, uint64_t *pc, uint32_t *number);
/* Trace i of the array at `trace` (J->trace), 0: none. */
uint64_t trace_number(struct vm_walk *w, uint64_t trace, uint32_t i);
/* The VM's machine code areas, in w->mcode: how many. */
unsigned trace_areas(struct vm_walk *w);
bool trace_in_areas(const struct tecs_range *area, unsigned n, uint64_t pc);

/* The number of the snapshot that describes the frames while pc in T's machine
 * code runs.  false: T has none. */
bool snap_number(struct vm_walk *w, uint64_t T, uint64_t pc, uint32_t *number);

#endif
