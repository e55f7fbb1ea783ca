/* SPDX-License-Identifier: MIT
 *
 * LuaJIT's IR opcodes by name (lj_ir.h, IRDEF).  Their numbers differ between
 * versions, but each version's list is this one with some left out
 * (enum lines_irset).
 */
#ifndef LINES_OPS_H
#define LINES_OPS_H

#include <stdint.h>

#include "lines/lines.h"

/* clang-format off */
#define LINES_OPS(X)                                                           \
  X(LT) X(GE) X(LE) X(GT) X(ULT) X(UGE) X(ULE) X(UGT) X(EQ) X(NE) X(ABC)       \
  X(RETF) X(NOP) X(BASE) X(PVAL) X(GCSTEP) X(HIOP) X(LOOP) X(USE) X(PHI)       \
  X(RENAME) X(PROF) X(KPRI) X(KINT) X(KGC) X(KPTR) X(KKPTR) X(KNULL) X(KNUM)   \
  X(KINT64) X(KSLOT) X(BNOT) X(BSWAP) X(BAND) X(BOR) X(BXOR) X(BSHL) X(BSHR)   \
  X(BSAR) X(BROL) X(BROR) X(ADD) X(SUB) X(MUL) X(DIV) X(MOD) X(POW) X(NEG)     \
  X(ABS) X(ATAN2) X(LDEXP) X(MIN) X(MAX) X(FPMATH) X(ADDOV) X(SUBOV) X(MULOV)  \
  X(AREF) X(HREFK) X(HREF) X(NEWREF) X(UREFO) X(UREFC) X(FREF) X(TMPREF)       \
  X(STRREF) X(LREF) X(ALOAD) X(HLOAD) X(ULOAD) X(FLOAD) X(XLOAD) X(SLOAD)      \
  X(VLOAD) X(ALEN) X(ASTORE) X(HSTORE) X(USTORE) X(FSTORE) X(XSTORE) X(SNEW)   \
  X(XSNEW) X(TNEW) X(TDUP) X(CNEW) X(CNEWI) X(BUFHDR) X(BUFPUT) X(BUFSTR)      \
  X(TBAR) X(OBAR) X(XBAR) X(CONV) X(TOBIT) X(TOSTR) X(STRTO) X(CALLN) X(CALLA) \
  X(CALLL) X(CALLS) X(CALLXS) X(CARG)
/* clang-format on */

enum lines_op {
#define LINES_OP_ENUM(name) LINES_OP_##name,
  LINES_OPS(LINES_OP_ENUM)
#undef LINES_OP_ENUM
      LINES_OP_COUNT,
  /* what the assembler adds around a trace's instructions: its entry with the
   * registers taken over, and its end (asm_head_*, asm_tail_link) */
  LINES_OP_HEAD = LINES_OP_COUNT,
  LINES_OP_TAIL,
  LINES_OP_ALL
};

/* Fills to[] with the opcode of each number; returns how many there are, 0 for
 * a set that is none. */
unsigned lines_ops(enum lines_irset set, uint8_t to[LINES_OP_COUNT]);

#endif
