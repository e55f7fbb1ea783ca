/* SPDX-License-Identifier: MIT
 *
 * Reads a trace's image and checks what can be checked: it comes from another
 * process, perhaps torn, perhaps of a trace that is no more.
 */
#include <stdlib.h>
#include <string.h>

#include "lines/lines_internal.h"

enum {
  IR_SIZE = 8,           /* lj_ir.h, IRIns */
  MCODE_MAX = 1 << 20,   /* an area is smaller (lj_mcode.c) */
  NINS_MAX = 0xffff + 1, /* references have 16 bits */
  IRT_GUARD = 0x80,      /* lj_ir.h */
  IRT_TYPE = 0x1f,
  ENTRY_SEARCHED = 24, /* instructions */
};

static enum result bad(struct error *e, uint32_t traceno, const char *what)
{
  return error_set(e, RESULT_CORRUPT, "trace %u: %s", traceno, what);
}

/* lj_ir.h, IRType: the ones that the backend treats alike. */
static unsigned type_of(unsigned irt)
{
  switch (irt) {
  case 0: /* nil */
  case 1: /* false */
  case 2: /* true */
    return LINES_TYPE_PRI;
  case 13: /* float */
  case 14: /* num */
    return LINES_TYPE_FLOAT;
  case 21: /* i64 */
  case 22: /* u64 */
    return LINES_TYPE_INT64;
  default:
    return irt >= 15 && irt <= 20 ? LINES_TYPE_INT : LINES_TYPE_OTHER;
  }
}

/* Operands of these opcodes are numbers (lj_ir.h, IRMlit) that may look like
 * references. */
static bool has_literal(unsigned op)
{
  return op == LINES_OP_UREFO || op == LINES_OP_UREFC || op == LINES_OP_TNEW ||
         op == LINES_OP_PVAL || op == LINES_OP_SLOAD || op == LINES_OP_BASE ||
         op == LINES_OP_RENAME;
}

static bool looks_forward(const struct lines_ir *x, uint32_t ref)
{
  return !has_literal(x->op) && ((x->op1 >= ref && x->op1 > LINES_REF_BIAS) ||
                                 (x->op2 >= ref && x->op2 > LINES_REF_BIAS));
}

static enum result read_ir(struct lines_parts *p, struct error *e)
{
  const struct lines_trace *t = p->t;
  uint8_t ops[LINES_OP_COUNT];
  unsigned nops = lines_ops(t->irset, ops);
  const uint8_t *at = t->ir + (size_t)(LINES_REF_BIAS - t->nk) * IR_SIZE;
  if (!nops)
    return error_set(e, RESULT_UNSUPPORTED, "no such set of IR opcodes: %d",
                     (int)t->irset);
  for (uint32_t i = 0; i < p->nir; i++, at += IR_SIZE) {
    struct lines_ir *x = &p->ir[i];
    if (at[5] >= nops)
      return bad(e, t->traceno, "its IR has an opcode that there is not");
    memcpy(&x->op1, at, 2);
    memcpy(&x->op2, at + 2, 2);
    x->op = ops[at[5]];
    x->irt = at[4] & IRT_TYPE;
    x->type = (uint8_t)type_of(x->irt);
    x->guard = at[4] & IRT_GUARD;
    x->r = at[6];
    if (looks_forward(x, LINES_REF_BIAS + i))
      return bad(e, t->traceno, "its IR refers to what comes later");
    if (x->op == LINES_OP_LOOP) {
      if (p->loop)
        return bad(e, t->traceno, "its IR has two loops");
      p->loop = i;
    }
  }
  return RESULT_OK;
}

static bool is_boundary(const struct lines_parts *p, uint32_t ofs)
{
  uint32_t lo = 0, hi = p->ninsn;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (p->insn[mid].ofs < ofs)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo == p->ninsn ? ofs == p->t->szmcode : p->insn[lo].ofs == ofs;
}

static enum result check_snaps(const struct lines_parts *p, struct error *e)
{
  const struct lines_trace *t = p->t;
  for (uint32_t i = 0; i < t->nsnap; i++) {
    const struct lines_snap *s = &t->snap[i];
    if (s->ref <= LINES_REF_BIAS || s->ref > t->nins ||
        (i && s->ref < s[-1].ref))
      return bad(e, t->traceno, "its snapshots are out of order");
    if (!t->has_mcofs)
      continue;
    if (i ? s->mcofs < s[-1].mcofs : s->mcofs != 0)
      return bad(e, t->traceno, "its snapshots' code is out of order");
    if (!is_boundary(p, s->mcofs))
      return bad(e, t->traceno, "a snapshot lies within an instruction");
  }
  return RESULT_OK;
}

/* A trace begins with storing its number in vmstate (lj_asm.c,
 * asm_head_root and asm_head_side). */
static enum result check_owner(const struct lines_parts *p, struct error *e)
{
  uint32_t n = p->ninsn < ENTRY_SEARCHED ? p->ninsn : ENTRY_SEARCHED;
  for (uint32_t i = 0; i < n; i++)
    if (p->insn[i].has_imm)
      return (uint32_t)p->insn[i].imm == p->t->traceno
                 ? RESULT_OK
                 : bad(e, p->t->traceno, "its code is another trace's");
  return bad(e, p->t->traceno, "its code does not begin as a trace");
}

static bool sizes_fit(const struct lines_trace *t)
{
  return t->mcode && t->ir && t->snap && t->szmcode &&
         t->szmcode <= MCODE_MAX && t->nk <= LINES_REF_BIAS &&
         t->nins > LINES_REF_BIAS + 1 && t->nins <= NINS_MAX && t->nsnap;
}

enum result lines_parts_read(const struct lines_trace *t,
                             struct lines_parts *out, struct error *e)
{
  memset(out, 0, sizeof *out);
  out->t = t;
  if (!sizes_fit(t))
    return bad(e, t->traceno, "its image is not whole");
  out->nir = t->nins - LINES_REF_BIAS;
  out->ir = calloc(out->nir, sizeof *out->ir);
  out->insn = malloc(t->szmcode * sizeof *out->insn);
  if (!out->ir || !out->insn)
    return error_set(e, RESULT_NOMEM, "no memory for trace %u", t->traceno);
  enum result r = read_ir(out, e);
  if (r != RESULT_OK)
    return r;
  if (!lines_decode(t->mcode, t->szmcode, out->insn, &out->ninsn))
    return bad(e, t->traceno, "its code does not decode");
  r = check_snaps(out, e);
  return r == RESULT_OK ? check_owner(out, e) : r;
}

void lines_parts_free(struct lines_parts *p)
{
  free(p->ir);
  free(p->insn);
}

const struct lines_ir *lines_parts_ir(const struct lines_parts *p, uint32_t ref)
{
  return ref >= LINES_REF_BIAS && ref - LINES_REF_BIAS < p->nir
             ? &p->ir[ref - LINES_REF_BIAS]
             : NULL;
}
