/* SPDX-License-Identifier: MIT
 *
 * Where a new closure or table goes: its register is followed forward to the
 * instruction that consumes it.  And back: which instruction wrote a register.
 *
 * Both work on the linear bytecode.  Within one expression, where all of this
 * happens, the parser only jumps forward (and, or, not), and no variable
 * begins or ends.
 */
#include "vmcore/bcname_internal.h"

/* How an instruction writes registers (lj_bc.h, BCDEF: modes dst and base). */
enum write_mode {
  WRITES_NONE,
  WRITES_A,
  WRITES_A_TO_D,
  WRITES_FROM_A, /* calls: results land there, the rest is dead */
};

static enum write_mode write_mode(unsigned op)
{
  switch (op) {
  case BC_KNIL:
    return WRITES_A_TO_D;
  case BC_CALLM:
  case BC_CALL:
  case BC_ITERC:
  case BC_ITERN:
  case BC_VARG:
    return WRITES_FROM_A;
  case BC_ISTC:
  case BC_ISFC:
  case BC_UGET:
  case BC_FNEW:
  case BC_TNEW:
  case BC_TDUP:
  case BC_GGET:
    return WRITES_A;
  }
  bool plain = (op >= BC_MOV && op <= BC_KPRI) ||
               (op >= BC_TGETV && op <= BC_TGETR) ||
               (op >= BC_BNOT && op <= BC_BSAR);
  return plain ? WRITES_A : WRITES_NONE;
}

bool bcname_writes(uint32_t ins, unsigned reg)
{
  switch (write_mode(bc_op(ins))) {
  case WRITES_A:
    return bc_a(ins) == reg;
  case WRITES_A_TO_D:
    return reg >= bc_a(ins) && reg <= bc_d(ins);
  case WRITES_FROM_A:
    return reg >= bc_a(ins);
  default:
    return false;
  }
}

void bcname_note_write(struct namer *n, uint32_t pc, uint32_t ins)
{
  unsigned from = bc_a(ins), to = from;
  enum write_mode mode = write_mode(bc_op(ins));
  if (mode == WRITES_NONE)
    return;
  if (mode == WRITES_A_TO_D)
    to = bc_d(ins) & 0xff;
  else if (mode == WRITES_FROM_A)
    to = n->framesize;
  for (unsigned reg = from; reg <= to; reg++)
    n->writer[reg] = pc;
}

uint32_t bcname_writer(struct namer *n, uint32_t before, unsigned reg)
{
  if (n->writer[reg] < before)
    return n->writer[reg];
  for (uint32_t pc = before; pc-- > 1 && bcname_step(n);)
    if (bcname_writes(bcname_ins(n, pc), reg))
      return pc;
  return 0;
}

/* A key is loaded before the value in `t[k] = v`, but after it when it is a
 * constant of a constructor (lj_parse.c, expr_table). */
static uint32_t key_writer(struct namer *n, uint32_t store, unsigned reg)
{
  for (uint32_t pc = store; --pc > n->at && bcname_step(n);)
    if (bcname_writes(bcname_ins(n, pc), reg))
      return pc;
  return bcname_writer(n, n->at, reg);
}

bool bcname_is_setmetatable(struct namer *n, uint32_t before, unsigned reg)
{
  static const char want[] = "setmetatable";
  uint32_t pc = bcname_writer(n, before, reg);
  uint32_t ins = pc ? bcname_ins(n, pc) : 0;
  uint32_t name = 0;
  if (pc == 0)
    return false;
  switch (bc_op(ins)) {
  case BC_GGET:
    return bcname_str_is(n, bcname_kgc(n, bc_d(ins), VM_GCT_STR), want);
  case BC_UGET: /* local setmetatable = setmetatable is common */
    name = bcname_upvalue(n, bc_d(ins));
    break;
  case BC_MOV:
    name = bcname_var_at(n, n->at, bc_d(ins));
    break;
  }
  return name != 0 && bcname_name_is(n->m, n->pt + name, want);
}

/* The value that is followed: in register reg at pc. */
struct track {
  uint32_t pc;
  uint32_t made; /* a table: what made it; 0 for a closure */
  unsigned reg;
  struct sink *out;
};

static bool sinks(struct track *t, enum sink_kind kind)
{
  t->out->kind = (uint8_t)kind;
  t->out->pc = t->pc;
  return true;
}

static bool sinks_local(struct track *t, uint32_t var)
{
  t->out->var = var;
  return sinks(t, SINK_LOCAL);
}

/* true: the instruction stores the value (lj_parse.c, bcemit_store). */
static bool store(struct namer *n, struct track *t, uint32_t ins)
{
  unsigned op = bc_op(ins);
  if (op == BC_USETV)
    return bc_d(ins) == t->reg && sinks(t, SINK_UPVALUE);
  if (bc_a(ins) != t->reg)
    return false;
  switch (op) {
  case BC_GSET:
    return sinks(t, SINK_GLOBAL);
  case BC_TSETS:
    return sinks(t, SINK_STRING_KEY);
  case BC_TSETB:
    return sinks(t, SINK_BYTE_KEY);
  case BC_TSETV:
    t->out->key_writer = key_writer(n, t->pc, bc_c(ins));
    return sinks(t, SINK_VALUE_KEY);
  }
  return false;
}

/* Assignment to a local (`a, b = f, g` keeps the values apart until all are
 * computed), else a copy to follow.  true: it ends here. */
static bool move(struct namer *n, struct track *t, uint32_t ins)
{
  uint32_t var = bcname_var_at(n, t->pc, bc_a(ins));
  if (!var)
    var = bcname_var_at(n, t->pc + 1, bc_a(ins));
  if (var)
    return bcname_var_hidden(n, var) ? sinks(t, SINK_NONE)
                                     : sinks_local(t, var);
  t->reg = bc_a(ins);
  t->pc++;
  return false;
}

/* Called, passed or clobbered?  One contract is known: setmetatable returns
 * its first argument, so the table goes on in the call's register. */
static bool call(struct namer *n, struct track *t, uint32_t ins)
{
  unsigned func = bc_a(ins);
  unsigned first_arg = func + 1 + n->lay->gc64; /* LJ_FR2 */
  if (t->reg >= func) {
    if (bc_op(ins) == BC_CALL && t->made && t->reg == first_arg &&
        bcname_is_setmetatable(n, t->made, func))
      t->reg = func;
    else
      return sinks(t, SINK_NONE);
  }
  t->pc++;
  return false;
}

/* The side of a test on which the value lives on: closures and tables are
 * true (lj_parse.c, bcemit_branch_t and _f).  The jump follows the test. */
static void test(struct track *t, uint32_t ins)
{
  unsigned op = bc_op(ins);
  bool jumps = bc_d(ins) == t->reg && (op == BC_IST || op == BC_ISTC);
  if (jumps && op == BC_ISTC)
    t->reg = bc_a(ins);
  t->pc += jumps ? 1 : 2;
}

/* true: the loop's start, or out of the function.  UCLO jumps only when a goto
 * or break needs it to. */
static bool jump(struct track *t, uint32_t ins)
{
  int32_t delta = bc_j(ins);
  if (delta < 0)
    return sinks(t, SINK_NONE);
  t->pc += 1 + (uint32_t)delta;
  return false;
}

/* One instruction; true when the value's way ends there. */
static bool follow(struct namer *n, struct track *t)
{
  uint32_t ins = bcname_ins(n, t->pc);
  unsigned op = bc_op(ins);
  if (op <= BC_ISF) {
    test(t, ins);
    return false;
  }
  switch (op) {
  case BC_MOV:
    if (bc_d(ins) == t->reg)
      return move(n, t, ins);
    break;
  case BC_CALL:
  case BC_CALLM:
    return call(n, t, ins);
  case BC_ITERC: /* the generator stands three registers below */
  case BC_ITERN:
    if (t->reg + 3 >= bc_a(ins))
      return sinks(t, SINK_NONE);
    break;
  case BC_JMP:
  case BC_UCLO:
    return jump(t, ins);
  case BC_CALLT:
  case BC_CALLMT:
  case BC_RETM:
  case BC_RET:
  case BC_RET0:
  case BC_RET1:
    return sinks(t, SINK_NONE);
  case BC_CAT:
    if (t->reg >= bc_b(ins) && t->reg <= bc_c(ins))
      return sinks(t, SINK_NONE);
    break;
  default:
    if (store(n, t, ins))
      return true;
  }
  if (bcname_writes(ins, t->reg))
    return sinks(t, SINK_NONE);
  t->pc++;
  return false;
}

/* A variable that begins in the value's register is where it went: that covers
 * `local f = ...`, `local function f`, `local x = x or ...`. */
static void track(struct namer *n, struct track *t)
{
  while (t->pc < n->sizebc && bcname_step(n)) {
    uint32_t var = bcname_var_born(n, t->pc, t->reg);
    if (var != 0) {
      if (bcname_var_hidden(n, var))
        sinks(t, SINK_NONE);
      else
        sinks_local(t, var);
      return;
    }
    if (follow(n, t))
      return;
  }
  sinks(t, SINK_NONE);
}

void bcname_closure_sink(struct namer *n, uint32_t pc, unsigned reg,
                         struct sink *out)
{
  struct track t = {.pc = pc + 1, .reg = reg, .out = out};
  *out = (struct sink){.kind = SINK_NONE};
  /* An assignment to a local makes the closure in its register (bcemit_store);
   * pc may be the last instruction of its scope. */
  uint32_t var = bcname_var_at(n, pc, reg);
  if (var != 0 && !bcname_var_hidden(n, var))
    sinks_local(&t, var);
  else
    track(n, &t);
}

const struct sink *bcname_table_sink(struct namer *n, uint32_t made,
                                     unsigned reg, uint32_t pc)
{
  /* Nested constructors stand in successive registers. */
  struct table_memo *memo = &n->table[reg % BCNAME_TABLES];
  if (memo->made == made && memo->reg == reg)
    return &memo->sink;
  struct track t = {.pc = pc + 1, .made = made, .reg = reg, .out = &memo->sink};
  memo->made = made;
  memo->reg = (uint8_t)reg;
  memo->sink = (struct sink){.kind = SINK_NONE};
  track(n, &t);
  return &memo->sink;
}
