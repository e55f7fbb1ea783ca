/* SPDX-License-Identifier: MIT
 *
 * Machine instructions, reduced to what tells IR instructions apart.
 */
#ifndef LINES_DECODE_H
#define LINES_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Groups of mnemonics that LuaJIT's x64 backend emits. */
#define LINES_GROUPS(X)                                                        \
  X(OTHER, "?")                                                                \
  X(ADD, "add")                                                                \
  X(ADDSD, "addsd")                                                            \
  X(AND, "and")                                                                \
  X(ANDPS, "andps")                                                            \
  X(BSWAP, "bswap")                                                            \
  X(CALL, "call")                                                              \
  X(CMP, "cmp")                                                                \
  X(CVTSI2SD, "cvtsi2sd")                                                      \
  X(CVTTSD2SI, "cvttsd2si")                                                    \
  X(DIVSD, "divsd")                                                            \
  X(IMUL, "imul")                                                              \
  X(JCC, "jcc")                                                                \
  X(JMP, "jmp")                                                                \
  X(LEA, "lea")                                                                \
  X(MAXSD, "maxsd")                                                            \
  X(MINSD, "minsd")                                                            \
  X(MOV, "mov")                                                                \
  X(MOVI, "movi")                                                              \
  X(MOVSD, "movsd")                                                            \
  X(MULSD, "mulsd")                                                            \
  X(NEG, "neg")                                                                \
  X(NOT, "not")                                                                \
  X(OR, "or")                                                                  \
  X(ROUNDSD, "roundsd")                                                        \
  X(SHIFT, "shift")                                                            \
  X(SQRTSD, "sqrtsd")                                                          \
  X(SUB, "sub")                                                                \
  X(SUBSD, "subsd")                                                            \
  X(TEST, "test")                                                              \
  X(UCOMISD, "ucomisd")                                                        \
  X(XOR, "xor")                                                                \
  X(XORPS, "xorps")                                                            \
  X(ZERO, "zero")

enum lines_group {
#define LINES_GROUP_ENUM(name, text) LINES_GROUP_##name,
  LINES_GROUPS(LINES_GROUP_ENUM)
#undef LINES_GROUP_ENUM
      LINES_GROUP_COUNT
};

/* A class is a group and what it does with memory. */
enum { LINES_PLAIN, LINES_LOAD, LINES_STORE, LINES_MEM_COUNT };
#define LINES_CLASS(group, mem) ((group)*LINES_MEM_COUNT + (mem))
#define LINES_CLASS_COUNT (LINES_GROUP_COUNT * LINES_MEM_COUNT)

/* Registers as in IRIns.r: 0-15 general, 16-31 xmm (lj_target_x86.h). */
struct lines_insn {
  uint32_t ofs;
  uint32_t regs; /* set of those read: sources, base and index */
  int8_t dst;    /* register written, -1: none */
  uint8_t cls;
  bool has_imm; /* imm is what it writes to memory (class MOVI, LINES_STORE) */
  int32_t imm;
};

/* Decodes code from its start; false: there is something that is no
 * instruction, or the last one does not end at its end.  out has room for one
 * instruction a byte. */
bool lines_decode(const uint8_t *code, uint32_t size, struct lines_insn *out,
                  uint32_t *count);

#endif
