/* SPDX-License-Identifier: MIT
 *
 * Which local variable a register holds.  GCproto.varinfo lists variables in
 * the order of their first instruction; the ones that are active take the
 * registers from 0 in that order (lj_debug.c, debug_varname).  Scopes nest, so
 * the active ones are a stack, kept for the instruction that is looked at;
 * what comes a little later is read ahead from there.
 */
#include "vmcore/bcname_internal.h"

/* Names below this are numbers of hidden variables (lj_debug.h, VARNAME_*). */
#define VARNAME_MAX 7

/* lj_buf.c, lj_buf_ruleb128; *off runs past sizept on bad data. */
static uint32_t read_uleb128(struct namer *n, uint32_t *off)
{
  uint32_t v = 0;
  for (unsigned shift = 0; *off < n->sizept; shift += 7) {
    uint32_t byte = vm_load1(n->m, n->pt + (*off)++);
    if (shift < 32)
      v |= (byte & 0x7f) << shift;
    if (byte < 0x80)
      break;
  }
  return v;
}

/* The entry at `off`; its start is counted from the previous one's. */
static struct var read_var(struct namer *n, uint32_t off, uint32_t last_start)
{
  struct var none = {.name = 0, .start = UINT32_MAX};
  struct var v = {.name = off};
  if (off >= n->sizept)
    return none;
  uint32_t first = vm_load1(n->m, n->pt + off);
  if (first == 0 || !bcname_step(n))
    return none;
  if (first >= VARNAME_MAX)
    while (off < n->sizept && vm_load1(n->m, n->pt + off) != 0)
      off++;
  off++;
  v.start = last_start + read_uleb128(n, &off);
  v.end = v.start + read_uleb128(n, &off);
  v.next = off;
  return off < n->sizept ? v : none;
}

void bcname_vars_open(struct namer *n)
{
  n->vars.count = 0;
  n->vars.ahead = read_var(n, n->varinfo, 0);
}

void bcname_vars_move(struct namer *n, uint32_t pc)
{
  struct vars *vs = &n->vars;
  n->at = pc;
  while (vs->count > 0 && vs->end[vs->count - 1] <= pc)
    vs->count--;
  while (vs->ahead.name != 0 && vs->ahead.start <= pc) {
    if (vs->ahead.end > pc) {
      if (vs->count == BCNAME_LOCALS) { /* no parser's work */
        n->work = 0;
        return;
      }
      vs->name[vs->count] = vs->ahead.name;
      vs->end[vs->count++] = vs->ahead.end;
    }
    vs->ahead = read_var(n, vs->ahead.next, vs->ahead.start);
  }
}

static uint32_t still_active(const struct vars *vs, uint32_t pc)
{
  uint32_t count = vs->count;
  while (count > 0 && vs->end[count - 1] <= pc)
    count--;
  return count;
}

uint32_t bcname_var_at(struct namer *n, uint32_t pc, unsigned reg)
{
  uint32_t count = still_active(&n->vars, pc);
  if (reg < count)
    return n->vars.name[reg];
  struct var v = n->vars.ahead;
  for (; v.name != 0 && v.start <= pc; v = read_var(n, v.next, v.start))
    if (v.end > pc && count++ == reg)
      return v.name;
  return 0;
}

/* `do local x local function f() end end`: the scope ends with the instruction
 * that makes the closure, so f is never active; x was until then. */
static uint32_t empty_scope_at(struct namer *n, uint32_t pc, unsigned reg)
{
  uint32_t count = still_active(&n->vars, pc - 1);
  struct var v = n->vars.ahead;
  for (; v.name != 0 && v.start <= pc; v = read_var(n, v.next, v.start)) {
    bool empty = v.start == pc && v.end == pc;
    if (v.end >= pc && count++ == reg)
      return empty ? v.name : 0;
  }
  return 0;
}

uint32_t bcname_var_born(struct namer *n, uint32_t pc, unsigned reg)
{
  if (n->vars.ahead.start > pc) {
    uint32_t count = still_active(&n->vars, pc);
    return reg < count ? n->vars.name[reg] : 0;
  }
  uint32_t var = bcname_var_at(n, pc, reg);
  return var ? var : empty_scope_at(n, pc, reg);
}

bool bcname_var_hidden(struct namer *n, uint32_t var)
{
  return vm_load1(n->m, n->pt + var) < VARNAME_MAX;
}
