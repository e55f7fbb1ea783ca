/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the function namer (bcname*.c); see bcname.c for how
 * they fit together.
 */
#ifndef VMCORE_BCNAME_INTERNAL_H
#define VMCORE_BCNAME_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmcore/bcname.h"
#include "vmcore/value.h"

/* Opcode numbers of LuaJIT 2.1 before 2026, in the order of BCDEF in lj_bc.h;
 * behind them the bit operations that came then.  bcname_op() turns the numbers
 * of other versions into these. */
/* clang-format off */
enum bc_op {
  BC_ISLT, BC_ISGE, BC_ISLE, BC_ISGT, BC_ISEQV, BC_ISNEV, BC_ISEQS, BC_ISNES,
  BC_ISEQN, BC_ISNEN, BC_ISEQP, BC_ISNEP,
  BC_ISTC, BC_ISFC, BC_IST, BC_ISF, BC_ISTYPE, BC_ISNUM,
  BC_MOV, BC_NOT, BC_UNM, BC_LEN,
  BC_ADDVN, BC_SUBVN, BC_MULVN, BC_DIVVN, BC_MODVN,
  BC_ADDNV, BC_SUBNV, BC_MULNV, BC_DIVNV, BC_MODNV,
  BC_ADDVV, BC_SUBVV, BC_MULVV, BC_DIVVV, BC_MODVV, BC_POW, BC_CAT,
  BC_KSTR, BC_KCDATA, BC_KSHORT, BC_KNUM, BC_KPRI, BC_KNIL,
  BC_UGET, BC_USETV, BC_USETS, BC_USETN, BC_USETP, BC_UCLO, BC_FNEW,
  BC_TNEW, BC_TDUP, BC_GGET, BC_GSET,
  BC_TGETV, BC_TGETS, BC_TGETB, BC_TGETR,
  BC_TSETV, BC_TSETS, BC_TSETB, BC_TSETM, BC_TSETR,
  BC_CALLM, BC_CALL, BC_CALLMT, BC_CALLT, BC_ITERC, BC_ITERN, BC_VARG,
  BC_ISNEXT,
  BC_RETM, BC_RET, BC_RET0, BC_RET1,
  BC_FORI, BC_JFORI, BC_FORL, BC_IFORL, BC_JFORL,
  BC_ITERL, BC_IITERL, BC_JITERL, BC_LOOP, BC_ILOOP, BC_JLOOP, BC_JMP,
  BC_FUNCF, BC_IFUNCF, BC_JFUNCF, BC_FUNCV, BC_IFUNCV, BC_JFUNCV,
  BC_FUNCC, BC_FUNCCW,
  BC_BNOT, BC_BAND, BC_BOR, BC_BXOR, BC_BSHL, BC_BSHR, BC_BSAR,
};
/* clang-format on */

/* Instruction fields (lj_bc.h, bc_op and following). */
static inline unsigned bc_op(uint32_t ins)
{
  return ins & 0xff;
}
static inline unsigned bc_a(uint32_t ins)
{
  return ins >> 8 & 0xff;
}
static inline unsigned bc_b(uint32_t ins)
{
  return ins >> 24;
}
static inline unsigned bc_c(uint32_t ins)
{
  return ins >> 16 & 0xff;
}
static inline unsigned bc_d(uint32_t ins)
{
  return ins >> 16;
}
static inline int32_t bc_j(uint32_t ins)
{
  return (int32_t)bc_d(ins) - 0x8000; /* BCBIAS_J */
}

/* LJ_MAX_LOCVAR in lj_def.h: local variables active at the same time. */
#define BCNAME_LOCALS 200
/* Tables under construction whose destination is remembered: nesting deeper
 * than that costs time, nothing else. */
#define BCNAME_TABLES 8

/* One entry of GCproto.varinfo; name 0: there are no more. */
struct var {
  uint32_t name;  /* offset of the name from the prototype */
  uint32_t start; /* first instruction that sees the variable */
  uint32_t end;   /* first that does not any more */
  uint32_t next;  /* offset of the next entry */
};

/* Local variables active at instruction `at`, by register; `ahead` is the
 * first entry that starts later. */
struct vars {
  struct var ahead;
  uint32_t count;
  uint32_t name[BCNAME_LOCALS];
  uint32_t end[BCNAME_LOCALS];
};

enum sink_kind {
  SINK_NONE, /* argument, return value, called at once, dropped */
  SINK_LOCAL,
  SINK_UPVALUE,
  SINK_GLOBAL,
  SINK_STRING_KEY, /* table[...] by TSETS, TSETB or TSETV */
  SINK_BYTE_KEY,
  SINK_VALUE_KEY,
};

/* What consumes a new closure or table. */
struct sink {
  uint32_t pc;         /* the consuming instruction */
  uint32_t var;        /* SINK_LOCAL: offset of the variable's name */
  uint32_t key_writer; /* SINK_VALUE_KEY: what wrote the key, 0 unknown */
  uint8_t kind;
};

struct table_memo {
  uint32_t made; /* TNEW or TDUP; 0: empty */
  uint8_t reg;
  struct sink sink;
};

/* A name is built backwards, from the last field to the root. */
struct text {
  uint32_t start;     /* first byte in use */
  uint32_t field;     /* start when it was last a whole field, else the end */
  uint32_t separator; /* of the last field, 0: none */
  char bytes[VM_NAME_MAX];
};

struct namer {
  struct vm_mem *m;
  const struct vm_layout *lay;
  uint64_t pt;
  uint64_t k; /* the split constant array's middle */
  uint32_t sizebc, sizekgc, sizekn, sizept;
  uint32_t uvinfo, varinfo, lineinfo; /* offsets from pt */
  uint32_t firstline, numline;
  uint32_t faults;      /* of m before we began */
  uint32_t work;        /* steps left */
  uint32_t at;          /* the FNEW that is looked at */
  uint32_t class_store; /* MoonScript: last `__base` store found, 0 none */
  uint64_t class_name;  /* its class's name, 0 none */
  uint32_t framesize;
  /* Of the last place: */
  bool rooted;       /* it starts with a variable */
  bool constructed;  /* it went through a table under construction */
  bool class_member; /* the root is a MoonScript class */
  uint32_t
      writer[256]; /* last instruction before `at` that wrote the register */
  struct vars vars;
  struct table_memo table[BCNAME_TABLES];
  struct text text;
};

/* Takes one step of the work allowed; false when there is none left. */
static inline bool bcname_step(struct namer *n)
{
  if (n->work == 0)
    return false;
  n->work--;
  return true;
}

/* The layout's opcode numbers are known to bcname_op(). */
bool bcname_numbers_known(const struct vm_layout *lay);
/* An opcode of this layout as enum bc_op has it. */
unsigned bcname_op(const struct vm_layout *lay, unsigned op);

/* ---- bcname_proto.c: what is read of a prototype ---- */
/* false: not a prototype, no debug information, or fields that contradict. */
bool bcname_open(struct namer *n, struct vm_mem *m, const struct vm_layout *lay,
                 uint64_t pt);
/* pc below sizebc; the opcode is one of enum bc_op. */
uint32_t bcname_ins(struct namer *n, uint32_t pc);
/* Address of the collectable constant idx when it has that type, else 0. */
uint64_t bcname_kgc(struct namer *n, uint32_t idx, enum vm_gct gct);
/* Bits of the number constant idx; NaN when there is none. */
uint64_t bcname_knum(struct namer *n, uint32_t idx);
uint32_t bcname_line(struct namer *n, uint32_t pc);
/* Offset of an upvalue's name from pt, 0 when there is none. */
uint32_t bcname_upvalue(struct namer *n, uint32_t idx);
bool bcname_str_is(struct namer *n, uint64_t str, const char *want);
/* Same for a NUL-terminated name in the debug information. */
bool bcname_name_is(struct vm_mem *m, uint64_t addr, const char *want);
/* A string field of a constant table, 0 when there is none. */
uint64_t bcname_tab_str(struct namer *n, uint64_t tab, const char *key);

/* ---- bcname_vars.c: local variables ---- */
void bcname_vars_open(struct namer *n);
/* Moves `at` forward. */
void bcname_vars_move(struct namer *n, uint32_t pc);
/* Offset of the name of the variable that holds register reg at pc (not
 * before `at`), 0: a temporary. */
uint32_t bcname_var_at(struct namer *n, uint32_t pc, unsigned reg);
/* Same; finds also a variable whose scope begins and ends at pc. */
uint32_t bcname_var_born(struct namer *n, uint32_t pc, unsigned reg);
/* A loop's hidden variable, not one of the source. */
bool bcname_var_hidden(struct namer *n, uint32_t var);

/* ---- bcname_sink.c: where values go ---- */
bool bcname_writes(uint32_t ins, unsigned reg);
void bcname_note_write(struct namer *n, uint32_t pc, uint32_t ins);
/* Last instruction before `before` (not after `at`) that wrote reg; 0 none. */
uint32_t bcname_writer(struct namer *n, uint32_t before, unsigned reg);
void bcname_closure_sink(struct namer *n, uint32_t pc, unsigned reg,
                         struct sink *out);
/* Of the table that `made` put into reg; it is still there at pc. */
const struct sink *bcname_table_sink(struct namer *n, uint32_t made,
                                     unsigned reg, uint32_t pc);
/* What the value in reg, loaded by the instruction before `before`, is called
 * setmetatable in the source. */
bool bcname_is_setmetatable(struct namer *n, uint32_t before, unsigned reg);

/* ---- bcname_path.c: names of places ---- */
/* Fills n->text with the name of the place; false: it has none. */
bool bcname_place(struct namer *n, const struct sink *s);

/* ---- bcname_text.c ---- */
void bcname_text_clear(struct text *t);
bool bcname_text_char(struct text *t, char c);
/* NUL-terminated name in the debug information, at offset from pt. */
bool bcname_text_name(struct namer *n, uint32_t offset);
bool bcname_text_str(struct namer *n, uint64_t str); /* a GCstr's bytes */
bool bcname_text_int(struct text *t, int64_t v);
/* false when it is neither whole nor a short decimal fraction. */
bool bcname_text_num(struct text *t, uint64_t bits);

#endif
