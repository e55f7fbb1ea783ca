/* SPDX-License-Identifier: MIT
 *
 * Stepping out of LuaJIT's machine code.  Its interpreter and its traces run
 * on one C frame, whose address the VM records (L->cframe); whatever they do
 * to rsp meanwhile, the caller stands above that frame.
 */
#include <string.h>

#include "unwind/unwind_internal.h"

/* saveregs and restoreregs with their CFRAME_SPACE, then ret, as
 * vm_x64.dasc has them for POSIX: the words below the return address. */
static const uint8_t save_code[] = {0x55, 0x53, 0x41, 0x57, 0x41,
                                    0x56, 0x48, 0x83, 0xec, 0x28};
static const uint8_t restore_code[] = {0x48, 0x83, 0xc4, 0x28, 0x41, 0x5e,
                                       0x41, 0x5f, 0x5b, 0x5d, 0xc3};
/* saveregs pushes these in this order. */
static const uint8_t pushed[] = {DWARF_RBP, DWARF_RBX, DWARF_R15, DWARF_R14};

/* CFRAME_SIZE that the above belongs to (lj_frame.h, LJ_TARGET_X64). */
#define CFRAME_SIZE_POSIX 80u

/* ---- the recorded C frames ---- */

static void insert(struct unwinder *u, uint64_t addr, uint32_t size)
{
  size_t i = u->cframe_count;

  if (i == UNWIND_MAX || size < 16 || addr > UINT64_MAX - size)
    return;
  while (i > 0 && u->cframe[i - 1].addr > addr)
    i--;
  if (i > 0 && u->cframe[i - 1].addr == addr)
    return;
  memmove(&u->cframe[i + 1], &u->cframe[i],
          (u->cframe_count - i) * sizeof *u->cframe);
  u->cframe[i] = (struct cframe){addr, size};
  u->cframe_count++;
}

void unwind_vm_begin(struct unwinder *u)
{
  const struct tecs_sample *s = u->s->sample;

  u->cframe_count = 0;
  u->cframe_next = 0;
  for (size_t i = 0; i < s->lua_count; i++) {
    const struct tecs_frame *f = &u->s->lua[i];
    if (f->kind == TECS_FRAME_CFRAME && f->vm < s->vm_count)
      insert(u, f->value, u->vm[f->vm].cframe_size);
  }
}

static const struct cframe *next_cframe(struct unwinder *u)
{
  while (u->cframe_next < u->cframe_count &&
         u->cframe[u->cframe_next].addr < u->reg[DWARF_RSP])
    u->cframe_next++;
  return u->cframe_next < u->cframe_count ? &u->cframe[u->cframe_next] : NULL;
}

/* ---- whose code ---- */

static bool in_mcode(const struct unwind_vm *vm, uint64_t addr)
{
  for (size_t i = 0; i < vm->mcode_count; i++) {
    if (addr >= vm->mcode[i].lo && addr < vm->mcode[i].hi)
      return true;
  }
  return false;
}

const struct unwind_vm *unwind_vm_find(const struct unwinder *u,
                                       uint64_t lookup)
{
  for (size_t i = 0; i < u->s->sample->vm_count; i++) {
    const struct unwind_vm *vm = &u->vm[i];
    uint64_t pc = u->s->vm[i].mcode_pc;
    if (lookup >= vm->asm_lo && lookup < vm->asm_hi)
      return vm;
    if (in_mcode(vm, lookup))
      return vm;
    /* the handler found a trace there, in an area that is not known yet */
    if (pc != 0 && (pc == lookup || pc == lookup + 1))
      return vm;
  }
  return NULL;
}

/* ---- registers ---- */

static void load(struct unwinder *u, unsigned reg, uint64_t addr)
{
  if (unwind_stack_word(u, addr, &u->reg[reg]))
    u->known |= UINT32_C(1) << reg;
  else
    u->known &= ~(UINT32_C(1) << reg);
}

/* `count` of the four registers were pushed below the return address. */
static enum step leave(struct unwinder *u, uint64_t cfa, unsigned count)
{
  uint64_t ret;

  if (!unwind_stack_word(u, cfa - 8, &ret) || ret == 0)
    return STEP_FAIL;
  for (unsigned i = 0; i < count; i++)
    load(u, pushed[i], cfa - 16 - 8 * i);
  u->reg[DWARF_RIP] = ret;
  u->reg[DWARF_RSP] = cfa;
  u->exact = false;
  return STEP_OK;
}

/* A trace's entry makes 16 bytes of room below the C frame and saves r12 and
 * r13 around that border (BC_JLOOP in vm_x64.dasc; vm_exit_interp reads them
 * back).  The interpreter itself leaves both alone. */
static void leave_trace(struct unwinder *u, const struct cframe *cf)
{
  if (cf->size == CFRAME_SIZE_POSIX) {
    load(u, DWARF_R12, cf->addr);
    load(u, DWARF_R13, cf->addr - 8);
  } else {
    u->known &= ~(UINT32_C(1) << DWARF_R12 | UINT32_C(1) << DWARF_R13);
  }
}

static enum step leave_cframe(struct unwinder *u, const struct cframe *cf)
{
  if (u->reg[DWARF_RSP] <= UINT64_MAX - 16 &&
      u->reg[DWARF_RSP] + 16 <= cf->addr)
    leave_trace(u, cf);
  u->cframe_next++;
  return leave(u, cf->addr + cf->size, sizeof pushed);
}

/* ---- frames that are not recorded ---- */

/* Inside saveregs or restoreregs?  *words: pushed ones that are on the stack.
 */
static bool in_prologue(struct unwinder *u, unsigned *words)
{
  static const struct {
    uint8_t at, words;
  } save[] = {{0, 0}, {1, 1}, {2, 2}, {4, 3}, {6, 4}},
    restore[] = {{4, 4}, {6, 3}, {8, 2}, {9, 1}, {10, 0}};
  uint64_t ip = u->reg[DWARF_RIP];
  const struct module *mod = modules_find(u->modules, ip);
  uint8_t b[sizeof restore_code];

  for (size_t i = 0; mod != NULL && i < sizeof save / sizeof *save; i++) {
    /* the callback entry has pushed rbp elsewhere: saveregs_ */
    unsigned skip = save[i].at > 0;
    size_t n = sizeof save_code - skip;
    *words = save[i].words;
    if (module_read(mod, ip - save[i].at + skip, b, n) &&
        memcmp(b, save_code + skip, n) == 0)
      return true;
  }
  for (size_t i = 0; mod != NULL && i < sizeof restore / sizeof *restore; i++) {
    *words = restore[i].words;
    if (module_read(mod, ip - restore[i].at, b, sizeof restore_code) &&
        memcmp(b, restore_code, sizeof restore_code) == 0)
      return true;
  }
  return false;
}

/* Being entered or left: the frame is there, but L->cframe names the one
 * outside it.  The return address proves it. */
static bool is_unrecorded(struct unwinder *u, uint32_t size,
                          const struct cframe *cf)
{
  uint64_t sp = u->reg[DWARF_RSP], ret;

  if (size < 16 || sp > UINT64_MAX - size ||
      (cf != NULL && (sp == cf->addr || sp + size > cf->addr)))
    return false;
  return unwind_stack_word(u, sp + size - 8, &ret) && unwind_is_return(u, ret);
}

enum step unwind_vm_step(struct unwinder *u, const struct unwind_vm *vm,
                         uint64_t *cframe)
{
  const struct cframe *cf = next_cframe(u);
  uint64_t sp = u->reg[DWARF_RSP];
  unsigned words;

  *cframe = 0;
  if (u->exact && vm->cframe_size == CFRAME_SIZE_POSIX &&
      (cf == NULL || sp != cf->addr) && in_prologue(u, &words) &&
      sp <= UINT64_MAX - 8 * words - 8)
    return leave(u, sp + 8 * words + 8, words);
  if (u->reg[DWARF_RIP] >= vm->asm_lo && u->reg[DWARF_RIP] < vm->asm_hi &&
      is_unrecorded(u, vm->cframe_size, cf))
    return leave(u, sp + vm->cframe_size, sizeof pushed);
  if (cf == NULL)
    return STEP_FAIL;
  *cframe = cf->addr;
  return leave_cframe(u, cf);
}

bool unwind_vm_resume(struct unwinder *u, uint64_t *cframe, enum step *step)
{
  const struct cframe *cf = next_cframe(u);

  if (cf == NULL)
    return false;
  *cframe = cf->addr;
  /* nothing is known of the code in between */
  u->known = 0;
  u->reg[DWARF_RSP] = cf->addr;
  u->cframe_next++;
  *step = leave(u, cf->addr + cf->size, sizeof pushed);
  u->known |= UINT32_C(1) << DWARF_RIP | UINT32_C(1) << DWARF_RSP;
  return true;
}
