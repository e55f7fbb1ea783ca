/* SPDX-License-Identifier: MIT
 *
 * What is known of the code at an address, so that a frame met again costs a
 * few loads: its module, and where its callers' registers stand.
 *
 * libunwind gives registers, not the row of the unwind table that they come
 * from.  So a step from each new address is tried with made-up registers, all
 * far apart, over memory in which each word tells its own address: what comes
 * out shows the row.  Twice, with other numbers: a row is kept only if both
 * say the same.  Whatever is not a distance from one register (an expression
 * that reads memory, a register taken from another one) is left to libunwind,
 * each time.
 */
#include <stdlib.h>
#include <string.h>

#include "unwind/unwind_internal.h"
#include "util/hash.h"

/* A power of two; when half of them are in use all are forgotten. */
#define PLACES 8192u

/* No address of a process has these upper halves. */
#define TRIAL_REGS UINT64_C(0xa000000000000000)
#define TRIAL_WORD UINT64_C(0x1000000000000000) /* address to its word */
#define TRIAL_APART 40                          /* registers: 2 to this */
#define TRIAL_REACH (INT64_C(1) << 30)

bool unwind_places_init(struct unwinder *u)
{
  u->place = u->last_place = calloc(PLACES, sizeof *u->place);
  return u->place != NULL;
}

void unwind_places_free(struct unwinder *u)
{
  free(u->place);
}

void unwind_places_forget(struct unwinder *u)
{
  memset(u->place, 0, PLACES * sizeof *u->place);
  u->place_count = 0;
}

/* ---- a step with made-up registers ---- */

static uint64_t trial_reg(unsigned reg, uint64_t shift)
{
  return TRIAL_REGS + ((uint64_t)reg << TRIAL_APART) + shift;
}

bool unwind_trial_word(const struct unwinder *u, uint64_t addr, uint64_t *out)
{
  if (!u->trial || addr < TRIAL_REGS || addr >= TRIAL_REGS + TRIAL_WORD)
    return false;
  *out = addr + TRIAL_WORD;
  return true;
}

static bool is_near(uint64_t addr, uint64_t of, int32_t *distance)
{
  int64_t d = (int64_t)(addr - of);

  *distance = (int32_t)d;
  return d > -TRIAL_REACH && d < TRIAL_REACH;
}

static bool find_base(uint64_t cfa, uint64_t shift, struct unwind_row *row)
{
  for (unsigned i = 0; i < DWARF_RIP; i++) {
    row->base = (uint8_t)i;
    if (is_near(cfa, trial_reg(i, shift), &row->cfa))
      return true;
  }
  return false;
}

static bool is_row(const struct unwind_caller *c, uint64_t shift,
                   struct unwind_row *row)
{
  if (!find_base(c->sp, shift, row) ||
      !is_near(c->ip, c->sp + TRIAL_WORD, &row->ret))
    return false;
  for (unsigned i = 0; i < UNWIND_SAVED; i++) {
    if (!(c->known >> i & 1))
      row->how[i] = UNWIND_ROW_LOST;
    else if (c->saved[i] == trial_reg(unwind_saved[i], shift))
      row->how[i] = UNWIND_ROW_KEPT;
    else if (is_near(c->saved[i], c->sp + TRIAL_WORD, &row->at[i]))
      row->how[i] = UNWIND_ROW_SAVED;
    else
      return false;
  }
  return true;
}

static bool try_row(struct unwinder *u, uint64_t lookup, uint64_t shift,
                    struct unwind_row *row)
{
  struct unwind_caller c;

  memset(row, 0, sizeof *row);
  for (unsigned i = 0; i < TECS_REGS; i++)
    u->reg[i] = trial_reg(i, shift);
  u->reg[DWARF_RIP] = lookup;
  return unwind_native_caller(u, &c) > 0 && is_row(&c, shift, row);
}

static bool learn_row(struct unwinder *u, uint64_t lookup,
                      struct unwind_row *row)
{
  uint64_t reg[TECS_REGS];
  uint32_t known = u->known;
  struct unwind_row again;

  memcpy(reg, u->reg, sizeof reg);
  u->known = (UINT32_C(1) << TECS_REGS) - 1;
  u->trial = true;
  bool ok = try_row(u, lookup, 0x10000, row) &&
            try_row(u, lookup, 0x34568, &again) &&
            memcmp(row, &again, sizeof again) == 0;
  u->trial = false;
  u->known = known;
  memcpy(u->reg, reg, sizeof reg);
  return ok;
}

/* ---- places ---- */

static bool is_of(const struct unwinder *u, const struct unwind_place *p,
                  uint64_t lookup)
{
  return p->lookup == lookup && p->exact == u->exact;
}

static struct unwind_place *find(const struct unwinder *u, uint64_t lookup)
{
  size_t i = hash_u64(lookup << 1 | u->exact) & (PLACES - 1);

  while (u->place[i].used && !is_of(u, &u->place[i], lookup))
    i = (i + 1) & (PLACES - 1);
  return &u->place[i];
}

const struct unwind_place *unwind_place(struct unwinder *u, uint64_t lookup)
{
  struct unwind_place *p = u->last_place;

  if (p->used && is_of(u, p, lookup))
    return p;
  p = u->last_place = find(u, lookup);
  if (p->used)
    return p;
  if (u->place_count == PLACES / 2) {
    unwind_places_forget(u);
    p = u->last_place = find(u, lookup);
  }
  u->place_count++;
  *p = (struct unwind_place){.lookup = lookup, .exact = u->exact, .used = true};
  p->mod = modules_find(u->modules, lookup);
  p->sigreturn = unwind_is_sigreturn(u, lookup + (u->exact ? 0 : 1));
  p->entry = unwind_is_entry(p->mod, lookup);
  return p;
}

const struct unwind_row *unwind_place_row(struct unwinder *u, uint64_t lookup)
{
  struct unwind_place *p = (struct unwind_place *)unwind_place(u, lookup);

  if (!p->row_tried)
    p->has_row = learn_row(u, lookup, &p->row);
  p->row_tried = true;
  return p->has_row ? &p->row : NULL;
}
