/* SPDX-License-Identifier: MIT
 *
 * The walk from the innermost frame outward.
 */
#include <stdlib.h>
#include <string.h>

#include "unwind/unwind_internal.h"

#define ENTRY_BYTES 128u

enum result unwinder_new(struct modules *m, struct unwinder **out,
                         struct error *e)
{
  struct unwinder *u = calloc(1, sizeof *u);
  enum result r;

  *out = NULL;
  if (u == NULL)
    return error_set(e, RESULT_NOMEM, "no memory for the unwinder");
  u->modules = m;
  if (!unwind_places_init(u)) {
    free(u);
    return error_set(e, RESULT_NOMEM, "no memory for the unwinder");
  }
  r = unwind_native_init(u, e);
  if (r != RESULT_OK) {
    unwinder_free(u);
    return r;
  }
  *out = u;
  return RESULT_OK;
}

void unwinder_free(struct unwinder *u)
{
  if (u == NULL)
    return;
  unwind_native_free(u);
  unwind_places_free(u);
  free(u);
}

void unwinder_flush(struct unwinder *u)
{
  unw_flush_cache(u->space, 0, 0);
  unwind_places_forget(u);
}

/* The code that the kernel started: the function at e_entry.  Where no unwind
 * table covers it (ld.so, small C libraries), a short piece of code that is
 * covered by none either. */
bool unwind_is_entry(const struct module *mod, uint64_t ip)
{
  uint64_t entry = mod != NULL ? module_entry(mod) : 0;
  uint64_t start, end;

  if (entry == 0 || ip < entry || ip - entry >= 4096)
    return false;
  if (module_function_range(mod, entry, &start, &end))
    return ip < end;
  return ip - entry < ENTRY_BYTES &&
         !module_function_range(mod, ip, &start, &end);
}

static struct unwind_frame *add(struct unwinder *u, struct unwind_stack *out,
                                enum unwind_kind kind, uint64_t ip)
{
  struct unwind_frame *f = &out->frame[out->count++];

  *f = (struct unwind_frame){.kind = kind, .ip = ip, .sp = u->reg[DWARF_RSP]};
  return f;
}

/* A frame that can't be unwound, and the VM's next one further out. */
static enum step add_gap(struct unwinder *u, struct unwind_stack *out)
{
  uint64_t sp = u->reg[DWARF_RSP], cframe;
  enum step step;
  struct unwind_frame *f;

  if (out->count + 2 > UNWIND_MAX || !unwind_vm_resume(u, &cframe, &step))
    return STEP_FAIL;
  out->frame[out->count++] =
      (struct unwind_frame){.kind = UNWIND_GAP, .sp = sp};
  f = add(u, out, UNWIND_VM, 0);
  f->sp = cframe;
  f->cframe = cframe;
  return step == STEP_OK ? STEP_OK : add_gap(u, out);
}

/* Static programs have jumps to the functions that suit the processor
 * (IRELATIVE relocations), without unwind tables: nothing was pushed yet. */
static enum step step_plt(struct unwinder *u)
{
  uint64_t ret;

  if (!u->exact || !u->no_info || !unwind_is_plt(u, u->reg[DWARF_RIP]) ||
      !unwind_stack_word(u, u->reg[DWARF_RSP], &ret) ||
      !unwind_is_return(u, ret))
    return STEP_FAIL;
  u->reg[DWARF_RIP] = ret;
  u->reg[DWARF_RSP] += 8;
  u->exact = false;
  return STEP_OK;
}

/* The caller's rbp is not always what the tables say: when an error has found
 * who catches it, uw_install_context_1 of libgcc puts that frame's registers
 * where _Unwind_RaiseException has saved its caller's. */
static enum step step_native(struct unwinder *u, uint64_t lookup)
{
  uint32_t known = u->known;
  enum step step = unwind_native_step(u, lookup);

  if (step == STEP_FAIL)
    step = step_plt(u);
  if (step != STEP_FAIL)
    return step;
  u->known &= ~(UINT32_C(1) << DWARF_RBP);
  if (unwind_find_frame(u, lookup))
    return unwind_native_step(u, lookup);
  u->known = known;
  return STEP_FAIL;
}

static enum step add_native(struct unwinder *u, struct unwind_stack *out,
                            uint64_t lookup)
{
  const struct unwind_place *p = unwind_place(u, lookup);

  if (p->sigreturn) {
    uint64_t ip = u->reg[DWARF_RIP];
    add(u, out, UNWIND_SIGNAL, ip)->mod = modules_find(u->modules, ip);
    return unwind_signal_step(u);
  }
  add(u, out, UNWIND_NATIVE, lookup)->mod = p->mod;
  if (p->entry) {
    out->end = UNWIND_END_ENTRY;
    return STEP_END;
  }
  out->end = UNWIND_END_THREAD; /* if it ends here */
  return step_native(u, lookup);
}

static enum step add_frame(struct unwinder *u, struct unwind_stack *out)
{
  uint64_t lookup = u->reg[DWARF_RIP] - (u->exact ? 0 : 1);
  const struct unwind_vm *vm = unwind_vm_find(u, lookup);

  if (vm == NULL)
    return add_native(u, out, lookup);
  struct unwind_frame *f = add(u, out, UNWIND_VM, lookup);
  f->mod = modules_find(u->modules, lookup);
  return unwind_vm_step(u, vm, &f->cframe);
}

static void walk(struct unwinder *u, struct unwind_stack *out)
{
  enum step step = STEP_OK;

  while (step == STEP_OK) {
    if (out->count == UNWIND_MAX) {
      out->end = UNWIND_END_FULL;
      return;
    }
    step = add_frame(u, out);
    if (step == STEP_FAIL)
      step = add_gap(u, out);
  }
  if (step == STEP_FAIL)
    out->end = UNWIND_END_PARTIAL;
}

void unwind_sample(struct unwinder *u, const struct sample_view *s,
                   const struct unwind_vm *vm, struct unwind_stack *out)
{
  out->count = 0;
  out->end = UNWIND_END_PARTIAL;
  if (s->sample->native_form != TECS_NATIVE_STACK)
    return;
  u->s = s;
  u->vm = vm;
  memcpy(u->reg, s->sample->reg, sizeof u->reg);
  u->known = s->sample->flags & TECS_SAMPLE_ASLEEP
                 ? UINT32_C(1) << TECS_REG_RSP | UINT32_C(1) << TECS_REG_RIP
                 : (UINT32_C(1) << TECS_REGS) - 1;
  u->exact = true;
  u->jumps = 0;
  unwind_vm_begin(u);
  unwind_sigmask_quiet(true);
  walk(u, out);
  unwind_sigmask_quiet(false);
}
