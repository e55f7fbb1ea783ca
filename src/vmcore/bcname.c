/* SPDX-License-Identifier: MIT
 *
 * LuaJIT keeps no names of functions.  But the bytecode of the function around
 * one shows where the source put it: FNEW makes the closure in a register, a
 * later instruction stores it.  The rules, each with the place in lj_parse.c
 * that it follows from, stand where they are applied:
 *
 *   bcname_sink.c   the closure is followed to the instruction that stores it;
 *   bcname_path.c   the place it was stored in is spelled out;
 *   bcname_vars.c   registers that hold local variables;
 *   bcname_proto.c, bcname_text.c   reading and writing.
 *
 * A closure that is passed, returned or called at once has no name, and gets
 * none: nothing is taken from the call.
 */
#include "vmcore/bcname_internal.h"

/* PROTO_CHILD in lj_obj.h: the prototype makes closures. */
#define PROTO_CHILD 0x01

/* Steps (instructions and variables looked at) for each instruction of a
 * prototype; ordinary code needs less than two. */
#define WORK_PER_INS 32u
#define WORK_BASE 4096u
#define WORK_MAX (1u << 22)

/* LuaJIT 2.0 has no ISTYPE, ISNUM, TGETR and TSETR; 2.1 has seven bit
 * operations behind JMP since 2026-07 (lj_bc.h, BCDEF). */
enum {
  BCS_20 = 93,
  BCS_21 = 97,
  BCS_2026 = 104,
  BITOPS = BCS_2026 - BCS_21,
};

bool bcname_numbers_known(const struct vm_layout *lay)
{
  switch (lay->bc_max) {
  case BCS_20:
    return lay->bc_mov == BC_MOV - 2 && lay->bc_funcf == BC_FUNCF - 4;
  case BCS_21:
    return lay->bc_mov == BC_MOV && lay->bc_funcf == BC_FUNCF;
  case BCS_2026:
    return lay->bc_mov == BC_MOV && lay->bc_funcf == BC_FUNCF + BITOPS;
  }
  return false;
}

unsigned bcname_op(const struct vm_layout *lay, unsigned op)
{
  if (lay->bc_max == BCS_20) {
    op += op >= BC_ISTYPE ? 2 : 0;
    op += op >= BC_TGETR ? 1 : 0;
    op += op >= BC_TSETR ? 1 : 0;
  } else if (lay->bc_max == BCS_2026 && op > BC_JMP) {
    op = op <= BC_JMP + BITOPS ? op - BC_JMP - 1 + BC_BNOT : op - BITOPS;
  }
  return op;
}

/* `function C:hit()` and `C.hit = function(self)` are the same bytecode but for
 * one thing: the statement gives its store the line of the word `function`
 * (lj_parse.c, parse_func), an assignment the line where the function ends.
 * `function C.hit(self)` can't be told from the first. */
static bool is_method(struct namer *n, const struct sink *s, uint64_t child)
{
  if (n->text.separator == 0)
    return false;
  if (n->class_member)
    return vm_takes_self(n->m, n->lay, child);
  if (!n->rooted || n->constructed)
    return false;
  uint32_t firstline = vm_load4(n->m, child + n->lay->pt_firstline);
  return bcname_line(n, s->pc) == firstline &&
         vm_takes_self(n->m, n->lay, child);
}

/* false: the data or the work allowed came to an end; what was found last may
 * be wrong. */
static bool name_child(struct namer *n, uint32_t pc, uint32_t ins,
                       vm_name_fn *fn, void *ctx)
{
  struct text *t = &n->text;
  struct sink sink;
  uint64_t child = bcname_kgc(n, bc_d(ins), VM_GCT_PROTO);
  bcname_vars_move(n, pc);
  bcname_closure_sink(n, pc, bc_a(ins), &sink);
  bool named = bcname_place(n, &sink);
  if (named && is_method(n, &sink, child))
    t->bytes[t->separator] = ':';
  if (child == 0 || n->work == 0 || n->m->faults != n->faults)
    return false;
  fn(ctx, child, t->bytes + t->start, named ? VM_NAME_MAX - t->start : 0);
  return true;
}

void vm_name_children(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t pt, vm_name_fn *fn, void *ctx)
{
  struct namer n;
  if (!bcname_numbers_known(lay) ||
      (vm_load1(m, pt + lay->pt_flags) & PROTO_CHILD) == 0 ||
      !bcname_open(&n, m, lay, pt))
    return;
  n.work = WORK_BASE + WORK_PER_INS * n.sizebc;
  if (n.work > WORK_MAX)
    n.work = WORK_MAX;
  bcname_vars_open(&n);
  for (uint32_t pc = 1; pc < n.sizebc; pc++) {
    uint32_t ins = bcname_ins(&n, pc);
    if (bc_op(ins) == BC_FNEW && !name_child(&n, pc, ins, fn, ctx))
      return;
    bcname_note_write(&n, pc, ins);
  }
}
