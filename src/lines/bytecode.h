/* SPDX-License-Identifier: MIT
 *
 * LuaJIT's bytecodes by name (lj_bc.h, BCDEF), and what may be recorded after
 * one.
 */
#ifndef LINES_BYTECODE_H
#define LINES_BYTECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "lines/lines.h"

/* clang-format off */
#define LINES_BCS(X)                                                           \
  X(ISLT) X(ISGE) X(ISLE) X(ISGT) X(ISEQV) X(ISNEV) X(ISEQS) X(ISNES) X(ISEQN) \
  X(ISNEN) X(ISEQP) X(ISNEP) X(ISTC) X(ISFC) X(IST) X(ISF) X(ISTYPE) X(ISNUM)  \
  X(MOV) X(NOT) X(UNM) X(LEN) X(ADDVN) X(SUBVN) X(MULVN) X(DIVVN) X(MODVN)     \
  X(ADDNV) X(SUBNV) X(MULNV) X(DIVNV) X(MODNV) X(ADDVV) X(SUBVV) X(MULVV)      \
  X(DIVVV) X(MODVV) X(POW) X(CAT) X(KSTR) X(KCDATA) X(KSHORT) X(KNUM) X(KPRI)  \
  X(KNIL) X(UGET) X(USETV) X(USETS) X(USETN) X(USETP) X(UCLO) X(FNEW) X(TNEW)  \
  X(TDUP) X(GGET) X(GSET) X(TGETV) X(TGETS) X(TGETB) X(TGETR) X(TSETV) X(TSETS)\
  X(TSETB) X(TSETM) X(TSETR) X(CALLM) X(CALL) X(CALLMT) X(CALLT) X(ITERC)      \
  X(ITERN) X(VARG) X(ISNEXT) X(RETM) X(RET) X(RET0) X(RET1) X(FORI) X(JFORI)   \
  X(FORL) X(IFORL) X(JFORL) X(ITERL) X(IITERL) X(JITERL) X(LOOP) X(ILOOP)      \
  X(JLOOP) X(JMP) X(BNOT) X(BAND) X(BOR) X(BXOR) X(BSHL) X(BSHR) X(BSAR)       \
  X(FUNCF) X(IFUNCF) X(JFUNCF) X(FUNCV) X(IFUNCV) X(JFUNCV) X(FUNCC) X(FUNCCW)
/* clang-format on */

enum lines_bc {
#define LINES_BC_ENUM(name) LINES_BC_##name,
  LINES_BCS(LINES_BC_ENUM)
#undef LINES_BC_ENUM
      LINES_BC_COUNT,
  LINES_BC_START = LINES_BC_COUNT, /* before the first: what a trace inherits */
  LINES_BC_ALL
};

/* Fills to[] with the bytecode of each number; returns how many there are, 0
 * for a set that is none. */
unsigned lines_bcs(enum lines_bcset set, uint8_t to[LINES_BC_COUNT]);
/* The one that the interpreter knows, of those patched by the JIT (JFORL,
 * IFORL: FORL). */
unsigned lines_bc_plain(unsigned bc);
bool lines_bc_compares(unsigned bc);

/* Which way: a comparison or loop goes on, or jumps. */
enum lines_way { LINES_WAY_ONLY, LINES_WAY_NEXT, LINES_WAY_JUMP };

#endif
