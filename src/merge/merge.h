/* SPDX-License-Identifier: MIT
 *
 * One sample into one stack: zones, then native and Lua frames exactly as they
 * called each other, then the VM state.
 */
#ifndef MERGE_MERGE_H
#define MERGE_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "shm/shm.h"
#include "unwind/unwind.h"
#include "vm/vm.h"

struct merge_options {
  bool native; /* native frames */
  bool lua;    /* Lua frames and builtins */
  bool zones;
  bool state;     /* the _[N] frame */
  bool asleep;    /* the thread sleeps: [idle] is its innermost frame */
  bool lines;     /* current line instead of the first */
  bool inlined;   /* inlined native functions, too */
  unsigned depth; /* native and Lua frames kept, innermost first */
  const char *zone_prefix; /* NULL: every sample */
  const char *root;        /* frame put outermost (threads, VMs); NULL: none */
};

enum merge_verdict {
  MERGE_KEPT = 1,
  MERGE_FILTERED = 2, /* another zone */
};

/* How the frames of compiled code were found. */
enum merge_compiled {
  MERGE_COMPILED_NOT = 0,      /* the innermost VM is not in a trace */
  MERGE_COMPILED_LINE = 1,     /* by the trace's lines */
  MERGE_COMPILED_FUNCTION = 2, /* the function, not the line in it */
  MERGE_COMPILED_TRACE = 3,    /* where the trace starts, no more */
  MERGE_COMPILED_SNAPSHOT = 4, /* what the snapshot before it would restore */
};

/* With lines, the innermost frame of compiled code where its line is not known
 * ends in one of these, behind the first line of the function, or that where
 * the trace starts. */
#define MERGE_MARK_FUNCTION " [function]"
#define MERGE_MARK_TRACE " [trace]"

struct merge_result {
  enum merge_verdict verdict;
  bool partial; /* the stack carries a [partial] mark */
  bool has_vm;
  enum merge_compiled compiled;
  char state; /* N, I, C, G or J; 0: of an unknown layout */
};

/* Adds one stack with weight 1 to the profile: root, zones, [truncated] where
 * the depth cut, then native and Lua frames, outermost first.  The VM state is
 * the end of the innermost frame's text (`update (game.lua:12)_[N]`), a frame
 * of its own where there is no other.
 * native may be NULL when o->native is false, modules NULL when neither native
 * frames nor C functions are to be named (replay).
 * OK, NOMEM.  What is remembered between samples lives in the profile. */
enum result merge_sample(const struct merge_options *o, unsigned slot,
                         const struct sample_view *s,
                         const struct unwind_stack *native,
                         struct modules *modules, struct vm_store *vm,
                         struct profile *p, struct merge_result *res);

/* Gives the frames whose names were open their names, as far as `vm` knows them
 * by now, and forgets the modules.  To be called when sampling (or one program
 * of a process) has ended and vm_store_name_late has run, before the store and
 * the modules are freed; may be called before that too, for a look at the
 * profile. */
enum result merge_finish(struct profile *p, struct vm_store *vm);

#endif
