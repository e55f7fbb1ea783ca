/* SPDX-License-Identifier: MIT */
#include "lines/bytecode.h"

/* Does a version have it (lj_bc.h of each)? */
static bool has(enum lines_bcset set, unsigned bc)
{
  if (bc >= LINES_BC_BNOT && bc <= LINES_BC_BSAR)
    return set == LINES_BC_21_2026;
  return set != LINES_BC_20 || (bc != LINES_BC_ISTYPE && bc != LINES_BC_ISNUM &&
                                bc != LINES_BC_TGETR && bc != LINES_BC_TSETR);
}

unsigned lines_bcs(enum lines_bcset set, uint8_t to[LINES_BC_COUNT])
{
  unsigned n = 0;
  if ((unsigned)set > LINES_BC_21_2026)
    return 0;
  for (unsigned bc = 0; bc < LINES_BC_COUNT; bc++)
    if (has(set, bc))
      to[n++] = (uint8_t)bc;
  return n;
}

unsigned lines_bc_plain(unsigned bc)
{
  switch (bc) {
  case LINES_BC_JFORL:
  case LINES_BC_IFORL:
    return LINES_BC_FORL;
  case LINES_BC_JFORI:
    return LINES_BC_FORI;
  case LINES_BC_JITERL:
  case LINES_BC_IITERL:
    return LINES_BC_ITERL;
  case LINES_BC_JLOOP:
  case LINES_BC_ILOOP:
    return LINES_BC_LOOP;
  case LINES_BC_JFUNCF:
  case LINES_BC_IFUNCF:
    return LINES_BC_FUNCF;
  case LINES_BC_JFUNCV:
  case LINES_BC_IFUNCV:
    return LINES_BC_FUNCV;
  default:
    return bc;
  }
}

bool lines_bc_compares(unsigned bc)
{
  return bc <= LINES_BC_ISF;
}
