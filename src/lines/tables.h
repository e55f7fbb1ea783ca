/* SPDX-License-Identifier: MIT
 *
 * What IR instructions were seen to become: counts, learned from programs run
 * by an instrumented VM.  tables.c and path_tables.c are made by
 * tests/lines/learn; how, is told in tests/lines/README.md.
 */
#ifndef LINES_TABLES_H
#define LINES_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* Kinds of IR instructions that become different code: opcode, type, whether
 * it is a guard, whether it has a register. */
enum {
  LINES_TYPE_OTHER,
  LINES_TYPE_FLOAT,
  LINES_TYPE_INT,
  LINES_TYPE_INT64,
  LINES_TYPE_PRI,
  LINES_TYPE_COUNT
};
#define LINES_KIND(op, type, guard, reg)                                       \
  ((((op)*LINES_TYPE_COUNT + (type)) * 2 + (guard)) * 2 + (reg))

/* Is the register that is written that of the IR instruction?  Are registers
 * of its operands read? */
enum {
  LINES_DST_NONE,
  LINES_DST_SAME,
  LINES_DST_OTHER,
  LINES_DST_NO_REG,
  LINES_DST_COUNT
};
enum { LINES_SRC_NO, LINES_SRC_YES, LINES_SRC_UNKNOWN, LINES_SRC_COUNT };
#define LINES_REGS(dst, src) ((dst)*LINES_SRC_COUNT + (src))
#define LINES_REGS_COUNT (LINES_DST_COUNT * LINES_SRC_COUNT)

enum { LINES_LENGTHS = 17 }; /* the last: that many or more */

struct lines_count {
  uint16_t kind;
  uint8_t what, regs;
  uint16_t n;
};
struct lines_counts {
  const struct lines_count *row;
  size_t n;
};

extern const struct lines_counts lines_count_length; /* what: instructions */
extern const struct lines_counts lines_count_class;  /* what: class */
extern const struct lines_counts lines_count_last;   /* class of a run's last */
extern const struct lines_counts lines_count_regs;   /* class, and LINES_REGS */

/* What bytecodes were recorded as: a path is a bytecode and an enum lines_way.
 */
#define LINES_PATH(bc, way) ((bc)*3 + (way))
/* A kind without LINES_KIND's register. */
#define LINES_PATH_KIND(op, type, guard)                                       \
  (((op)*LINES_TYPE_COUNT + (type)) * 2 + (guard))
enum { LINES_PATH_LENGTHS = 21 }; /* the last: that many or more */

struct lines_path_count {
  uint16_t path; /* ascending */
  uint16_t what;
  uint16_t n;
};
struct lines_path_counts {
  const struct lines_path_count *row;
  size_t n;
};
extern const struct lines_path_counts
    lines_count_path_length;                               /* IR instructions */
extern const struct lines_path_counts lines_count_path_ir; /* LINES_PATH_KIND */

#endif
