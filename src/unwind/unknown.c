/* SPDX-License-Identifier: MIT
 *
 * A frame pointer that nobody told.
 *
 * Of a thread that sleeps only the stack and the program counter can be had
 * from outside; one that was told wrong is forgotten first.  That is enough for
 * code that finds its frame by the stack pointer; a function that keeps it in
 * rbp (lj_vm_ffi_call, code compiled without optimisation) has put the caller's
 * rbp on the stack, right below its return address, but where?
 *
 * Every place below a return address is tried.  From the right one the walk
 * comes out at the VM's next recorded C frame, by its very address (or, where
 * there is none, at the outermost frame).  From the frames further out it does
 * so as well, and from what an earlier call has left behind it may.  The call
 * decides: one that leads to this very function is taken, when it is the only
 * one; without such a call, the only place there is.  Otherwise nothing is.
 */
#include <string.h>

#include "unwind/unwind_internal.h"

#define WORDS 4096u /* of stack that are looked at */
#define TRIALS 48u  /* places that are tried */
#define STEPS 64u   /* of one trial */

/* What a return address says about the function that was called. */
enum call {
  CALL_THIS,   /* it was this one */
  CALL_OTHER,  /* another one, from which this one may have been jumped to */
  CALL_UNKNOWN /* through a pointer or a PLT */
};

static enum call call_before(struct unwinder *u, uint64_t ret, uint64_t start)
{
  const struct module *mod = modules_find(u->modules, ret);
  uint8_t code[5];
  int32_t distance;
  uint64_t target, lo, hi;

  if (mod == NULL || !module_read(mod, ret - sizeof code, code, sizeof code) ||
      code[0] != 0xe8)
    return CALL_UNKNOWN;
  memcpy(&distance, code + 1, sizeof distance);
  target = ret + (uint64_t)(int64_t)distance;
  if (target == start)
    return CALL_THIS;
  mod = modules_find(u->modules, target);
  return mod != NULL && module_function_range(mod, target, &lo, &hi) &&
                 lo == target
             ? CALL_OTHER
             : CALL_UNKNOWN;
}

/* Where the walk has to come out; 0: at the outermost frame. */
static uint64_t anchor(const struct unwinder *u)
{
  size_t i = u->cframe_next;

  while (i < u->cframe_count && u->cframe[i].addr < u->reg[DWARF_RSP])
    i++;
  return i < u->cframe_count ? u->cframe[i].addr : 0;
}

/* ---- one place ---- */

struct trial {
  uint64_t met[STEPS]; /* where the return addresses stood */
  size_t count;
};

static bool leads_to(struct unwinder *u, uint64_t lookup, uint64_t end,
                     struct trial *t)
{
  for (t->count = 0; t->count < STEPS; lookup = u->reg[DWARF_RIP] - 1) {
    enum step step = unwind_native_step(u, lookup);
    if (step != STEP_OK)
      return step == STEP_END && end == 0;
    t->met[t->count++] = u->reg[DWARF_RSP] - 8;
    if (end != 0 && u->reg[DWARF_RSP] >= end)
      return u->reg[DWARF_RSP] == end;
  }
  return false;
}

static bool met(const struct trial *t, uint64_t slot)
{
  for (size_t i = 0; i < t->count; i++)
    if (t->met[i] == slot)
      return true;
  return false;
}

/* Leaves the unwinder as it was. */
static bool passes(struct unwinder *u, uint64_t lookup, uint64_t rbp,
                   uint64_t end, struct trial *t)
{
  uint64_t reg[TECS_REGS];
  uint32_t known = u->known;
  bool exact = u->exact;

  memcpy(reg, u->reg, sizeof reg);
  u->reg[DWARF_RBP] = rbp;
  u->known |= UINT32_C(1) << DWARF_RBP;
  bool ok = leads_to(u, lookup, end, t);
  memcpy(u->reg, reg, sizeof reg);
  u->known = known;
  u->exact = exact;
  return ok;
}

/* ---- all of them ---- */

struct search {
  uint64_t at;        /* of the one to take; 0: none so far */
  struct trial taken; /* the walk from there */
  unsigned proven, others, unknown;
  bool doubt;
};

static void add(struct search *s, enum call call, uint64_t at,
                const struct trial *t)
{
  s->others += call == CALL_OTHER;
  if (call == CALL_OTHER)
    return;
  if (call == CALL_THIS) {
    s->doubt = s->doubt || s->unknown > 0; /* further in */
    s->proven++;
  } else {
    s->doubt = s->doubt || (s->proven > 0 && !met(&s->taken, at + 8));
    s->unknown++;
  }
  if (s->at == 0) {
    s->at = at;
    s->taken = *t;
  }
}

static bool decided(const struct search *s)
{
  if (s->doubt || s->at == 0)
    return false;
  return s->proven == 1 ||
         (s->proven == 0 && s->others == 0 && s->unknown == 1);
}

bool unwind_find_frame(struct unwinder *u, uint64_t lookup)
{
  const struct module *mod = modules_find(u->modules, lookup);
  uint64_t start, stop, ret, end = anchor(u);
  uint64_t at = u->reg[DWARF_RSP] & ~UINT64_C(7);
  struct search s = {0};
  struct trial t;
  unsigned trials = 0;

  if ((u->known >> DWARF_RBP & 1) != 0 || mod == NULL ||
      !module_function_range(mod, lookup, &start, &stop))
    return false;
  for (unsigned i = 0; i < WORDS; i++, at += 8) {
    if (!unwind_stack_word(u, at + 8, &ret) || (end != 0 && at + 16 > end))
      break;
    if (!unwind_is_return(u, ret))
      continue;
    if (trials++ == TRIALS)
      return false;
    if (passes(u, lookup, at, end, &t))
      add(&s, call_before(u, ret, start), at, &t);
  }
  if (!decided(&s))
    return false;
  u->reg[DWARF_RBP] = s.at;
  u->known |= UINT32_C(1) << DWARF_RBP;
  return true;
}
