/* SPDX-License-Identifier: MIT
 *
 * Steps by unwind tables: libunwind without a process, over callbacks.
 *
 * Each step starts from a fresh cursor at the address to look up.  libunwind
 * keys its row cache by the address that it is given, so a return address that
 * is also somebody's exact address would share a row with it otherwise.
 */
#include <string.h>

#include "unwind/unwind_internal.h"

/* Exported by libunwind for users with their own tables, though in no header
 * (src/dwarf/Gfind_proc_info-lsb.c). */
extern int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t, unw_word_t,
                                              unw_dyn_info_t *,
                                              unw_proc_info_t *, int, void *);

/* Where the search table of one entry is read from; no process has memory
 * there. */
#define TABLE_ADDR UINT64_C(0xffffe00000000000)
#define CACHE_ROWS 8192

const uint8_t unwind_saved[UNWIND_SAVED] = {DWARF_RBX, DWARF_RBP, DWARF_R12,
                                            DWARF_R13, DWARF_R14, DWARF_R15};

/* ---- callbacks ---- */

static int find_proc_info(unw_addr_space_t as, unw_word_t ip,
                          unw_proc_info_t *pi, int need, void *arg)
{
  struct unwinder *u = arg;
  const struct module *mod = modules_find(u->modules, ip);
  unw_dyn_info_t di;
  struct fde f;
  int64_t offset;

  u->no_info = true;
  if (mod == NULL || !module_fde(mod, ip, &f) || f.end - f.start > INT32_MAX)
    return -UNW_ENOINFO;
  offset = (int64_t)(f.addr - f.start);
  if (offset != (int32_t)offset)
    return -UNW_ENOINFO;
  u->table = (uint64_t)(uint32_t)offset << 32; /* {start 0, fde offset} */
  memset(&di, 0, sizeof di);
  di.format = UNW_INFO_FORMAT_REMOTE_TABLE;
  di.start_ip = f.start;
  di.end_ip = f.end;
  di.u.rti.segbase = f.start;
  di.u.rti.table_data = TABLE_ADDR;
  di.u.rti.table_len = 1;
  u->no_info = false;
  return _Ux86_64_dwarf_search_unwind_table(as, ip, &di, pi, need, arg);
}

static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *pi, void *arg)
{
  (void)as;
  (void)pi;
  (void)arg;
}

static int get_dyn_info_list_addr(unw_addr_space_t as, unw_word_t *addr,
                                  void *arg)
{
  (void)as;
  (void)addr;
  (void)arg;
  return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *val,
                      int write, void *arg)
{
  struct unwinder *u = arg;
  const struct module *mod;

  (void)as;
  if (write || addr > UINT64_MAX - sizeof *val)
    return -UNW_EINVAL;
  if (u->trial ? unwind_trial_word(u, addr, val)
               : unwind_stack_word(u, addr, val))
    return 0;
  if (addr == TABLE_ADDR) {
    *val = u->table;
    return 0;
  }
  mod = modules_find(u->modules, addr);
  if (mod == NULL || !module_read(mod, addr, val, sizeof *val))
    return -UNW_EINVAL;
  return 0;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *val,
                      int write, void *arg)
{
  struct unwinder *u = arg;

  (void)as;
  if (write || reg < 0 || reg >= TECS_REGS || !(u->known >> reg & 1))
    return -UNW_EBADREG;
  *val = u->reg[reg];
  return 0;
}

static int access_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *val,
                        int write, void *arg)
{
  (void)as;
  (void)reg;
  (void)val;
  (void)write;
  (void)arg;
  return -UNW_EBADREG;
}

static int resume(unw_addr_space_t as, unw_cursor_t *c, void *arg)
{
  (void)as;
  (void)c;
  (void)arg;
  return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t as, unw_word_t addr, char *buf,
                         size_t len, unw_word_t *offset, void *arg)
{
  (void)as;
  (void)addr;
  (void)buf;
  (void)len;
  (void)offset;
  (void)arg;
  return -UNW_EINVAL;
}

enum result unwind_native_init(struct unwinder *u, struct error *e)
{
  static unw_accessors_t accessors = {
      .find_proc_info = find_proc_info,
      .put_unwind_info = put_unwind_info,
      .get_dyn_info_list_addr = get_dyn_info_list_addr,
      .access_mem = access_mem,
      .access_reg = access_reg,
      .access_fpreg = access_fpreg,
      .resume = resume,
      .get_proc_name = get_proc_name,
  };

  u->space = unw_create_addr_space(&accessors, 0);
  if (u->space == NULL)
    return error_set(e, RESULT_NOMEM, "no memory for libunwind");
  unw_set_caching_policy(u->space, UNW_CACHE_GLOBAL);
  unw_set_cache_size(u->space, CACHE_ROWS, 0);
  return RESULT_OK;
}

void unwind_native_free(struct unwinder *u)
{
  if (u->space != NULL)
    unw_destroy_addr_space(u->space);
}

/* ---- steps ---- */

/* A caller at the very address that was looked up is possible (recursion, seen
 * from an exact address), but only if the stack says so: tables of hand-made
 * code that leave rip as it is would go on for ever. */
static bool goes_nowhere(const struct unwinder *u, uint64_t ip, uint64_t cfa)
{
  uint64_t ret;

  return ip == u->reg[DWARF_RIP] &&
         (!unwind_stack_word(u, cfa - 8, &ret) || ret != ip);
}

/* The last instruction of _Unwind_RaiseException jumps by a register when the
 * stack pointer is the catching frame's already (__builtin_eh_return). */
static bool goes_up(const struct unwinder *u, uint64_t cfa)
{
  uint64_t sp = u->reg[DWARF_RSP];

  return cfa > sp || (u->exact && cfa == sp);
}

int unwind_native_caller(struct unwinder *u, struct unwind_caller *out)
{
  unw_word_t ip = 0, sp = 0, val;
  unw_cursor_t c;
  int r;

  u->no_info = false;
  r = unw_init_remote(&c, u->space, u);
  if (r == 0)
    r = unw_step(&c);
  /* without a table libunwind guesses along rbp: not taken */
  if (r < 0 || u->no_info)
    return -1;
  if (r == 0)
    return 0;
  if (unw_get_reg(&c, UNW_REG_IP, &ip) < 0 ||
      unw_get_reg(&c, UNW_REG_SP, &sp) < 0)
    return -1;
  out->ip = ip;
  out->sp = sp;
  out->known = 0;
  for (unsigned i = 0; i < UNWIND_SAVED; i++) {
    if (unw_get_reg(&c, unwind_saved[i], &val) == 0) {
      out->saved[i] = val;
      out->known |= UINT32_C(1) << i;
    }
  }
  return 1;
}

/* false: what the row asks for is not there. */
static bool caller_by_row(const struct unwinder *u,
                          const struct unwind_row *row,
                          struct unwind_caller *out)
{
  uint64_t cfa = u->reg[row->base] + (uint64_t)(int64_t)row->cfa;

  if (!(u->known >> row->base & 1) ||
      !unwind_stack_word(u, cfa + (uint64_t)(int64_t)row->ret, &out->ip))
    return false;
  out->sp = cfa;
  out->known = 0;
  for (unsigned i = 0; i < UNWIND_SAVED; i++) {
    unsigned reg = unwind_saved[i];
    bool known = false;
    if (row->how[i] == UNWIND_ROW_SAVED) {
      known = unwind_stack_word(u, cfa + (uint64_t)(int64_t)row->at[i],
                                &out->saved[i]);
    } else if (row->how[i] == UNWIND_ROW_KEPT) {
      out->saved[i] = u->reg[reg];
      known = u->known >> reg & 1;
    }
    out->known |= (uint32_t)known << i;
  }
  return true;
}

static void take(struct unwinder *u, const struct unwind_caller *c)
{
  for (unsigned i = 0; i < UNWIND_SAVED; i++) {
    uint32_t bit = UINT32_C(1) << unwind_saved[i];
    u->known &= ~bit;
    if (c->known >> i & 1) {
      u->reg[unwind_saved[i]] = c->saved[i];
      u->known |= bit;
    }
  }
  u->reg[DWARF_RSP] = c->sp;
  u->reg[DWARF_RIP] = c->ip;
  u->exact = false;
}

enum step unwind_native_step(struct unwinder *u, uint64_t lookup)
{
  const struct unwind_row *row = unwind_place_row(u, lookup);
  uint64_t rip = u->reg[DWARF_RIP];
  struct unwind_caller c;
  int r = 1;

  u->no_info = false;
  u->reg[DWARF_RIP] = lookup;
  if (row == NULL || !caller_by_row(u, row, &c))
    r = unwind_native_caller(u, &c);
  if (r > 0 && goes_up(u, c.sp) && !goes_nowhere(u, c.ip, c.sp)) {
    if (c.ip != 0) {
      take(u, &c);
      return STEP_OK;
    }
    r = 0;
  }
  if (r == 0)
    return STEP_END;
  u->reg[DWARF_RIP] = rip;
  return STEP_FAIL;
}

/* struct ucontext of the kernel stands where sp points after the handler's
 * return; its registers in the order of struct sigcontext_64. */
enum step unwind_signal_step(struct unwinder *u)
{
  static const uint8_t order[TECS_REGS] = {8, 9, 10, 11, 12, 13, 14, 15, 5,
                                           4, 6, 3,  2,  0,  1,  7,  16};
  const uint64_t gregs = 40;
  uint64_t reg[TECS_REGS];

  for (unsigned i = 0; i < TECS_REGS; i++) {
    if (!unwind_stack_word(u, u->reg[DWARF_RSP] + gregs + 8 * i,
                           &reg[order[i]]))
      return STEP_FAIL;
  }
  /* Down is possible: the handler ran on an alternate stack. */
  if (reg[DWARF_RSP] <= u->reg[DWARF_RSP] && u->jumps++ == 8)
    return STEP_FAIL;
  memcpy(u->reg, reg, sizeof reg);
  u->known = (UINT32_C(1) << TECS_REGS) - 1;
  u->exact = true;
  return STEP_OK;
}
