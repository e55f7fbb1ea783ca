/* SPDX-License-Identifier: MIT
 *
 * Where the recorder could go: positions in the bytecode with the calls around
 * them, and the steps between them.
 */
#ifndef LINES_PATH_INTERNAL_H
#define LINES_PATH_INTERNAL_H

#include "lines/lines_internal.h"
#include "util/idmap.h"

/* A position is a number over all prototypes' bytecodes, from 1; 0: none. */
struct lines_walk {
  struct lines_model *model;
  const struct lines_parts *p;
  const struct lines_code *code;
  uint8_t bc[LINES_BC_COUNT]; /* by number */
  unsigned nbc;
  uint32_t *order; /* prototypes by address */
  uint32_t *first; /* position of each prototype's first bytecode */
  uint32_t npos;
  uint32_t *entry, nentry; /* where functions that it may enter begin */
  uint32_t *back, nback;   /* where it may return to below its first frame */
  struct lines_state *state;
  struct lines_frame *frame; /* [0]: no calls */
  struct lines_step *step;
  uint32_t nstate, nframe, nstep;
  uint32_t state_cap, frame_cap, step_cap;
  struct idmap states, frames;
  uint32_t depth_max; /* of calls */
  bool conts;         /* snapshots have continuation frames */
  bool failed;        /* no memory, or too much of it */
};

/* Returns behind a call; LINES_CONT: into a metamethod's continuation or a
 * vararg frame, which are left on the way. */
#define LINES_CONT UINT32_MAX
struct lines_frame {
  uint32_t ret, parent, depth;
};
struct lines_state {
  uint32_t pos, frame;
  uint32_t step, nstep; /* from it; nstep UNKNOWN until asked for */
};
struct lines_step {
  uint32_t to;      /* state */
  uint32_t instead; /* position not gone to, 0: none */
  uint16_t path;    /* LINES_PATH */
  float cost;
};

enum result lines_walk_open(struct lines_walk *w, struct error *e);
void lines_walk_close(struct lines_walk *w);
/* Position of an address; 0: in no prototype. */
uint32_t lines_walk_pos(const struct lines_walk *w, uint64_t addr);
/* Prototype of a position, and the bytecode's index in it. */
const struct lines_proto *lines_walk_proto(const struct lines_walk *w,
                                           uint32_t pos, uint32_t *index);
uint32_t lines_walk_frame(struct lines_walk *w, uint32_t ret, uint32_t parent);
uint32_t lines_walk_state(struct lines_walk *w, uint32_t pos, uint32_t frame);
/* Its steps, at w->step + state.step; none in what is not understood. */
uint32_t lines_walk_steps(struct lines_walk *w, uint32_t state);

/* A 64-bit constant of the trace, 0: none such.  *op is its opcode. */
uint64_t lines_walk_const(const struct lines_walk *w, uint32_t ref,
                          unsigned *op);
/* A function or prototype object: where it begins.  false: not one that is
 * known; *pos 0: a builtin. */
bool lines_walk_callee(const struct lines_walk *w, uint64_t addr,
                       uint32_t *pos);

/* hints.c */
struct lines_hint {
  enum {
    LINES_HINT_NONE,
    LINES_HINT_NUMBER,
    LINES_HINT_STRING,
    LINES_HINT_CALLEE
  } kind;
  double number;
  uint64_t object;
  uint32_t pos; /* where the callee begins; 0: a builtin */
};
struct lines_hint lines_hint_of(const struct lines_walk *w,
                                const struct lines_ir *x);
/* Log of how much likelier a step from a state makes it. */
float lines_hint_match(const struct lines_walk *w, const struct lines_hint *h,
                       uint32_t state, const struct lines_step *step);

#endif
