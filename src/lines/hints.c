/* SPDX-License-Identifier: MIT
 *
 * What constants in the IR say of the bytecode: it has the same number or
 * string, or calls that function.
 */
#include <string.h>

#include "lines/path_internal.h"

static const float SAME_NUMBER = 2, OTHER_NUMBER = -1.5f, NO_NUMBER = -.5f,
                   SAME_STRING = 3, OTHER_STRING = -2.5f, NO_STRING = -2,
                   CALLS_IT = 2, CALLS_OTHER = -5, STEPS_OVER = 1,
                   STEPS_INTO = -4;

static bool number_of(const struct lines_walk *w, uint32_t ref, double *out)
{
  const struct lines_trace *t = w->p->t;
  uint8_t ops[LINES_OP_COUNT];
  unsigned op;
  int32_t i;
  if (ref < t->nk || ref >= LINES_REF_BIAS)
    return false;
  const uint8_t *at = t->ir + (size_t)(ref - t->nk) * 8;
  if (at[5] < lines_ops(t->irset, ops) && ops[at[5]] == LINES_OP_KINT) {
    memcpy(&i, at, 4);
    *out = i;
    return true;
  }
  uint64_t v = lines_walk_const(w, ref, &op);
  memcpy(out, &v, 8);
  return op == LINES_OP_KNUM;
}

/* The string in a key: KGC, or a KSLOT's (lj_ir.h). */
static uint64_t string_of(const struct lines_walk *w, uint32_t ref)
{
  const struct lines_trace *t = w->p->t;
  uint8_t ops[LINES_OP_COUNT];
  uint16_t key;
  unsigned op;
  if (ref < t->nk || ref >= LINES_REF_BIAS)
    return 0;
  const uint8_t *at = t->ir + (size_t)(ref - t->nk) * 8;
  if (at[5] < lines_ops(t->irset, ops) && ops[at[5]] == LINES_OP_KSLOT) {
    memcpy(&key, at, 2);
    ref = key;
  }
  uint64_t v = lines_walk_const(w, ref, &op);
  return op == LINES_OP_KGC ? v : 0;
}

static bool takes_numbers(unsigned op)
{
  return op <= LINES_OP_NE || op == LINES_OP_MIN || op == LINES_OP_MAX ||
         (op >= LINES_OP_ADD && op <= LINES_OP_POW);
}

struct lines_hint lines_hint_of(const struct lines_walk *w,
                                const struct lines_ir *x)
{
  struct lines_hint h = {.kind = LINES_HINT_NONE};
  unsigned op;
  if (x->op == LINES_OP_HREFK || x->op == LINES_OP_HREF) {
    h.object = string_of(w, x->op2);
    h.kind = h.object ? LINES_HINT_STRING : LINES_HINT_NONE;
    return h;
  }
  if ((x->op == LINES_OP_EQ || x->op == LINES_OP_NE) && x->guard &&
      x->op2 < LINES_REF_BIAS) {
    uint64_t v = lines_walk_const(w, x->op2, &op);
    if (op == LINES_OP_KGC || op == LINES_OP_KPTR) {
      if (lines_walk_callee(w, v, &h.pos))
        h.kind = LINES_HINT_CALLEE;
      return h;
    }
  }
  if (takes_numbers(x->op) &&
      (number_of(w, x->op1, &h.number) || number_of(w, x->op2, &h.number)))
    h.kind = LINES_HINT_NUMBER;
  return h;
}

/* ---- what the bytecode has ---- */

static float match_number(const struct lines_walk *w,
                          const struct lines_proto *p, uint32_t ins,
                          double number)
{
  unsigned bc = w->bc[ins & 255], index;
  double n;
  if (bc == LINES_BC_KSHORT) {
    n = (int16_t)(ins >> 16);
  } else if (bc == LINES_BC_TGETB || bc == LINES_BC_TSETB) {
    n = ins >> 16 & 255;
  } else if (bc == LINES_BC_KNUM || bc == LINES_BC_ISEQN ||
             bc == LINES_BC_ISNEN ||
             (bc >= LINES_BC_ADDVN && bc <= LINES_BC_MODNV)) {
    bool in_c = bc >= LINES_BC_ADDVN && bc <= LINES_BC_MODNV;
    index = in_c ? ins >> 16 & 255 : ins >> 16;
    if (index >= p->nkn)
      return 0;
    memcpy(&n, &p->kn[index], 8);
  } else {
    return NO_NUMBER;
  }
  return n == number ? SAME_NUMBER : OTHER_NUMBER;
}

static float match_string(const struct lines_walk *w,
                          const struct lines_proto *p, uint32_t ins,
                          uint64_t object)
{
  unsigned bc = w->bc[ins & 255];
  bool in_c = bc == LINES_BC_TGETS || bc == LINES_BC_TSETS;
  bool in_d = bc == LINES_BC_GGET || bc == LINES_BC_GSET ||
              bc == LINES_BC_ISEQS || bc == LINES_BC_ISNES ||
              bc == LINES_BC_KSTR;
  unsigned index = in_c ? ins >> 16 & 255 : ins >> 16;
  if (!p->nkgc)
    return 0;
  if (!(in_c || in_d) || index >= p->nkgc)
    return NO_STRING;
  return p->kgc[index] == object ? SAME_STRING : OTHER_STRING;
}

static float match_callee(const struct lines_walk *w,
                          const struct lines_state *from,
                          const struct lines_step *step, uint32_t pos)
{
  unsigned bc = step->path / LINES_PATH(1, 0);
  uint32_t to = w->state[step->to].pos;
  if (bc < LINES_BC_CALLM || bc > LINES_BC_ITERC)
    return 0;
  if (!pos)
    return to == from->pos + 1 ? STEPS_OVER : STEPS_INTO;
  return to == pos ? CALLS_IT : CALLS_OTHER;
}

float lines_hint_match(const struct lines_walk *w, const struct lines_hint *h,
                       uint32_t state, const struct lines_step *step)
{
  const struct lines_state *from = &w->state[state];
  uint32_t index;
  if (h->kind == LINES_HINT_NONE)
    return 0;
  if (h->kind == LINES_HINT_CALLEE)
    return match_callee(w, from, step, h->pos);
  const struct lines_proto *p = lines_walk_proto(w, from->pos, &index);
  if (!p || index >= p->nbc || (p->bc[index] & 255) >= w->nbc)
    return 0;
  return h->kind == LINES_HINT_NUMBER
             ? match_number(w, p, p->bc[index], h->number)
             : match_string(w, p, p->bc[index], h->object);
}
