/* SPDX-License-Identifier: MIT
 *
 * Where the recorder can go from a bytecode (lj_record.c, lj_record_ins).
 * Costs are logarithms: what is possible but rarely so.
 */
#include <stdlib.h>

#include "lines/path_internal.h"

enum { JUMP_BIAS = 0x8000 /* lj_bc.h, BCBIAS_J */ };
enum { UNROLLED = 3 /* calls (lj_record.c, check_call_unroll) */ };
enum { STEPS_MAX = 1 << 21 };
static const float ENTER = -1.5f, ENTER_CONT = -3, TAIL_ENTER = -1,
                   TAIL_LEAVE = -1.5f, METAMETHOD = -5, UNLIKELY = -10,
                   BELOW = -.5f;

struct here {
  struct lines_walk *w;
  uint32_t pos, frame, index;
  const struct lines_proto *proto;
  uint32_t ins;
  unsigned bc; /* plain */
};

static void add(struct here *h, enum lines_way way, uint32_t pos,
                uint32_t frame, float cost, uint32_t instead)
{
  struct lines_walk *w = h->w;
  if (w->nstep == w->step_cap) {
    uint32_t cap = w->step_cap ? w->step_cap * 2 : 256;
    void *more =
        cap > STEPS_MAX ? NULL : realloc(w->step, cap * sizeof *w->step);
    if (!more) {
      w->failed = true;
      return;
    }
    w->step = more;
    w->step_cap = cap;
  }
  uint32_t to = lines_walk_state(w, pos, frame);
  w->step[w->nstep++] =
      (struct lines_step){to, instead, (uint16_t)LINES_PATH(h->bc, way), cost};
}

/* Position of a bytecode of the same prototype; 0: there is none. */
static uint32_t nearby(const struct here *h, int64_t index)
{
  return index >= 0 && index < h->proto->nbc
             ? h->pos - h->index + (uint32_t)index
             : 0;
}

static int32_t jump_of(uint32_t ins)
{
  return (int32_t)(ins >> 16) - JUMP_BIAS;
}

/* What stood where a trace's number does now (lj_trace.c, trace_stop): also
 * returns are patched to JLOOP. */
static uint32_t unpatched(const struct lines_walk *w, uint32_t ins)
{
  unsigned bc = (ins & 255) < w->nbc ? w->bc[ins & 255] : LINES_BC_JMP;
  if (bc == LINES_BC_JFORL || bc == LINES_BC_JITERL || bc == LINES_BC_JLOOP)
    for (uint32_t i = 0; i < w->code->nstart; i++)
      if (w->code->start[i].traceno == ins >> 16)
        return w->code->start[i].startins;
  return ins;
}

static void compare(struct here *h)
{
  if (h->index + 1 >= h->proto->nbc)
    return;
  uint32_t next = nearby(h, (int64_t)h->index + 2);
  uint32_t jump =
      nearby(h, (int64_t)h->index + 2 + jump_of(h->proto->bc[h->index + 1]));
  add(h, LINES_WAY_JUMP, jump, h->frame, 0, next);
  add(h, LINES_WAY_NEXT, next, h->frame, 0, jump);
}

static void loop(struct here *h)
{
  uint32_t next = nearby(h, (int64_t)h->index + 1);
  uint32_t jump = nearby(h, (int64_t)h->index + 1 + jump_of(h->ins));
  add(h, LINES_WAY_JUMP, jump, h->frame, 0, next);
  add(h, LINES_WAY_NEXT, next, h->frame, 0, jump);
}

/* The frame that a return goes to, past continuations. */
static uint32_t skip_conts(const struct lines_walk *w, uint32_t frame)
{
  while (frame && w->frame[frame].ret == LINES_CONT)
    frame = w->frame[frame].parent;
  return frame;
}

static void leave(struct here *h, float cost)
{
  struct lines_walk *w = h->w;
  uint32_t frame = skip_conts(w, h->frame);
  if (frame)
    add(h, LINES_WAY_ONLY, w->frame[frame].ret, w->frame[frame].parent, cost,
        0);
}

static void ret(struct here *h)
{
  if (skip_conts(h->w, h->frame)) {
    leave(h, 0);
    return;
  }
  for (uint32_t i = 0; i < h->w->nback; i++)
    add(h, LINES_WAY_ONLY, h->w->back[i], 0, BELOW, 0);
  add(h, LINES_WAY_ONLY, 0, 0, BELOW, 0); /* out of the trace, at its end */
}

/* Is this call already open too often? */
static bool recurses(const struct lines_walk *w, uint32_t frame, uint32_t ret)
{
  int n = 0;
  for (; frame; frame = w->frame[frame].parent)
    n += w->frame[frame].ret == ret;
  return n >= UNROLLED;
}

static void enter(struct here *h, float plain, float cont)
{
  struct lines_walk *w = h->w;
  uint32_t behind = nearby(h, (int64_t)h->index + 1);
  if (w->frame[h->frame].depth >= w->depth_max || recurses(w, h->frame, behind))
    return;
  for (uint32_t i = 0; i < w->nentry; i++) {
    uint32_t frame = lines_walk_frame(w, behind, h->frame);
    add(h, LINES_WAY_ONLY, w->entry[i], frame, plain, 0);
    if (cont < 0)
      add(h, LINES_WAY_ONLY, w->entry[i],
          lines_walk_frame(w, LINES_CONT, frame), cont, 0);
  }
}

static void tail_call(struct here *h)
{
  for (uint32_t i = 0; i < h->w->nentry; i++)
    add(h, LINES_WAY_ONLY, h->w->entry[i], h->frame, TAIL_ENTER, 0);
  leave(h, TAIL_LEAVE);
}

static bool may_call_metamethod(unsigned bc)
{
  return (bc >= LINES_BC_ADDVN && bc <= LINES_BC_CAT) ||
         (bc >= LINES_BC_TGETV && bc <= LINES_BC_TGETB) ||
         (bc >= LINES_BC_TSETV && bc <= LINES_BC_TSETB) || bc == LINES_BC_UNM ||
         bc == LINES_BC_LEN;
}

static void dispatch(struct here *h)
{
  uint32_t next = nearby(h, (int64_t)h->index + 1);
  switch (h->bc) {
  case LINES_BC_JMP:
  case LINES_BC_ISNEXT:
  case LINES_BC_UCLO:
    add(h, LINES_WAY_ONLY, nearby(h, (int64_t)h->index + 1 + jump_of(h->ins)),
        h->frame, 0, 0);
    return;
  case LINES_BC_FORL:
  case LINES_BC_FORI:
  case LINES_BC_ITERL:
    loop(h);
    return;
  case LINES_BC_RET:
  case LINES_BC_RET0:
  case LINES_BC_RET1:
  case LINES_BC_RETM:
    ret(h);
    return;
  case LINES_BC_CALLT:
  case LINES_BC_CALLMT:
    tail_call(h);
    return;
  case LINES_BC_CALL:
  case LINES_BC_CALLM:
  case LINES_BC_ITERC:
    add(h, LINES_WAY_ONLY, next, h->frame, 0, 0);
    enter(h, ENTER, ENTER_CONT);
    return;
  default:
    add(h, LINES_WAY_ONLY, next, h->frame, 0, 0);
    if (may_call_metamethod(h->bc))
      enter(h, h->w->conts ? METAMETHOD : UNLIKELY, 0);
  }
}

uint32_t lines_walk_steps(struct lines_walk *w, uint32_t state)
{
  if (w->state[state].nstep != UINT32_MAX)
    return w->state[state].nstep;
  uint32_t first = w->nstep;
  struct here h = {
      .w = w, .pos = w->state[state].pos, .frame = w->state[state].frame};
  h.proto = lines_walk_proto(w, h.pos, &h.index);
  if (h.proto && h.index < h.proto->nbc) {
    h.ins = unpatched(w, h.proto->bc[h.index]);
    if ((h.ins & 255) < w->nbc) {
      h.bc = lines_bc_plain(w->bc[h.ins & 255]);
      if (h.bc < LINES_BC_ISTYPE)
        compare(&h);
      else
        dispatch(&h);
    }
  }
  w->state[state].step = first;
  return w->state[state].nstep = w->nstep - first;
}
