/* SPDX-License-Identifier: MIT */
#ifndef MERGE_MERGE_INTERNAL_H
#define MERGE_MERGE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "merge/merge.h"
#include "util/idmap.h"
#include "util/strbuf.h"

#define NATIVE_LIMIT 240u /* bytes of a native frame's text */
#define INLINED_MAX 64    /* at one address */
/* Addresses that are remembered; then all are forgotten: other compilers' code
 * moves on for as long as the program runs. */
#define CODE_MAX 32768u

/* What is known of the code at one address. */
struct native_code {
  uint64_t ip;
  const struct module *mod;
  uint32_t text;                     /* frame of the profile */
  bool hidden;                       /* the VM's own assembly */
  uint64_t symbol_lo, symbol_hi;     /* empty: no symbol */
  uint64_t function_lo, function_hi; /* by the unwind table; empty: none */
  /* inlined there, outermost first: of merge_memory's list */
  size_t inlined_first, inlined_count;
};

/* One element of a stack that is being put together, innermost first. */
struct item {
  uint32_t frame; /* of the profile */
  bool mark;      /* a [mark]: not counted by the depth */
  size_t native;  /* 1 + index of the native frame it shows; 0: none */
};

/* Frames of a VM that one C frame executed: sample->lua[first, first + count),
 * innermost first. */
struct run {
  size_t first, count;
  uint64_t cframe; /* 0: unknown */
  uint8_t vm;
  bool reached; /* the native walk came to its C frame */
  bool done;
  enum { RUN_WHOLE, RUN_CUT, RUN_BROKEN } end; /* where the VM's walk ended */
};

enum fixed_frame {
  FIXED_PARTIAL,
  FIXED_TRUNCATED,
  FIXED_SIGNAL,
  FIXED_IDLE,
  FIXED_START,
  FIXED_THREAD,
  FIXED_UNKNOWN,
  FIXED_VDSO,
  FIXED_CODE, /* made by other compilers at run time: drivers, JITs */
  FIXED_COUNT,
};

/* Remembered between the samples of one profile. */
struct merge_memory {
  struct profile *profile;
  uint32_t fixed[FIXED_COUNT];
  struct idmap code_of_ip;
  struct native_code *code;
  size_t code_count, code_cap;
  uint32_t *inlined; /* frames of the profile */
  size_t inlined_count, inlined_cap;
  struct idmap with_state; /* frame and letter to frame */
  struct item *item;
  size_t item_count, item_cap;
  struct run *run;
  size_t run_count, run_cap;
  uint32_t *stack;
  size_t stack_count, stack_cap;
  struct strbuf text;
};

/* One sample on its way. */
struct merging {
  const struct merge_options *o;
  unsigned slot;
  const struct sample_view *s;
  const struct unwind_stack *native;
  struct modules *modules;
  struct vm_store *vm;
  struct merge_memory *m;
  size_t segment; /* first item since the last VM frame */
  enum merge_compiled compiled;
  bool nomem;
};

/* NULL: no memory. */
struct merge_memory *merge_memory_of(struct profile *p);
/* What is known by addresses and modules, which another process may use
 * again. */
void merge_forget_code(struct profile *p);

uint32_t merge_intern(struct merging *g, const char *text);
void merge_push(struct merging *g, struct item it);
/* Adjacent equal marks become one. */
void merge_push_mark(struct merging *g, enum fixed_frame f);

/* Code at ip, or NULL without memory; valid until the next call.  mod may be
 * NULL: then nothing is known but that it has no module. */
const struct native_code *merge_native(struct merging *g, uint64_t ip,
                                       const struct module *mod);
/* Does the code at ip belong to the function that starts at value? */
bool merge_is_function(struct merging *g, uint64_t ip, const struct module *mod,
                       uint64_t value);

/* Cuts the sample's Lua frames into runs. */
void merge_split_runs(struct merging *g);
/* Pushes the frames of a run; found: its C frame stands in the native stack
 * just outside the items since g->segment. */
void merge_push_run(struct merging *g, struct run *r, bool found);
/* Pushes the frames of the innermost VM down to the one that its trace runs on,
 * by the trace's lines; sets g->compiled.  How many frames of the run that does
 * away with; 0: the sample is in no trace, or nothing more is known than the
 * walk's own. */
size_t merge_push_compiled(struct merging *g, const struct run *r);
/* All of them, native and Lua, innermost first, into m->item. */
void merge_interleave(struct merging *g);

#endif
