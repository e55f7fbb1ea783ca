/* SPDX-License-Identifier: MIT */
#include <stdbool.h>

#include "lines/ops.h"

/* Opcodes that a version does not have (lj_ir.h of each). */
static const struct {
  uint8_t n, op[8];
} missing[] = {
    [LINES_IR_20] = {8,
                     {LINES_OP_PROF, LINES_OP_TMPREF, LINES_OP_LREF,
                      LINES_OP_ALEN, LINES_OP_BUFHDR, LINES_OP_BUFPUT,
                      LINES_OP_BUFSTR, LINES_OP_CALLA}},
    [LINES_IR_21_BETA] = {2, {LINES_OP_TMPREF, LINES_OP_ALEN}},
    [LINES_IR_21_NO_ALEN] = {3,
                             {LINES_OP_ATAN2, LINES_OP_TMPREF, LINES_OP_ALEN}},
    [LINES_IR_21_NO_TMPREF] = {2, {LINES_OP_ATAN2, LINES_OP_TMPREF}},
    [LINES_IR_21] = {1, {LINES_OP_ATAN2}},
};

static bool has(enum lines_irset set, unsigned op)
{
  for (unsigned i = 0; i < missing[set].n; i++)
    if (missing[set].op[i] == op)
      return false;
  return true;
}

unsigned lines_ops(enum lines_irset set, uint8_t to[LINES_OP_COUNT])
{
  unsigned n = 0;
  if ((unsigned)set >= sizeof missing / sizeof *missing)
    return 0;
  for (unsigned op = 0; op < LINES_OP_COUNT; op++)
    if (has(set, op))
      to[n++] = (uint8_t)op;
  return n;
}
