/* SPDX-License-Identifier: MIT
 *
 * Debug information: which function of which unit holds an address.  Not by
 * .debug_aranges, which clang does not write.  Units are listed once; the
 * functions of a unit when an address in it is first asked for.
 */
#include "symbols/dwarf_internal.h"

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <stdlib.h>
#include <string.h>

#define UNITS_MAX (1u << 22)
#define RANGES_MAX (1u << 20) /* of one unit or function */

/* ---- ranges ---- */

static bool add_ranges(struct spans *s, Dwarf_Die *die, uint32_t index)
{
  Dwarf_Addr base, start, end;
  ptrdiff_t at = 0;

  for (size_t i = 0; i < RANGES_MAX; i++) {
    at = dwarf_ranges(die, at, &base, &start, &end);
    if (at <= 0)
      return true;
    /* Of code that the linker left out, the start is 0 or thereabouts. */
    if (start > 1 && !spans_add(s, start, end, index))
      return false;
  }
  return true;
}

/* ---- units ---- */

static bool add_unit(struct inlines *in, Dwarf_Die *ranges, Dwarf_Die *die)
{
  size_t before = in->code.count;

  if (in->unit_count == in->unit_cap) {
    size_t cap = in->unit_cap == 0 ? 64 : in->unit_cap * 2;
    void *p =
        cap > UNITS_MAX ? NULL : realloc(in->unit, cap * sizeof *in->unit);
    if (p == NULL)
      return false;
    in->unit = p;
    in->unit_cap = cap;
  }
  if (!add_ranges(&in->code, ranges, (uint32_t)in->unit_count))
    return false;
  if (in->code.count > before)
    in->unit[in->unit_count++] = (struct unit){.die = *die};
  return true;
}

static void list_units(struct inlines *in)
{
  Dwarf_CU *cu = NULL;
  Dwarf_Die die, sub;
  uint8_t type;

  /* A unit that is damaged ends the list. */
  while (dwarf_get_units(in->dwarf, cu, &cu, NULL, &type, &die, &sub) == 0) {
    bool split = type == DW_UT_skeleton && sub.addr != NULL;
    if (!add_unit(in, &die, split ? &sub : &die))
      break;
  }
  spans_sort(&in->code);
}

/* ---- the files ---- */

static Dwarf *open_dwarf(Elf *elf)
{
  Dwarf *dw = elf != NULL ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;
  Dwarf_CU *cu = NULL;

  if (dw != NULL && dwarf_get_units(dw, NULL, &cu, NULL, NULL, NULL, NULL) == 0)
    return dw;
  dwarf_end(dw);
  return NULL;
}

/* What several debug files have in common (dwz). */
static void open_alt(struct module *mod, struct inlines *in, const char *path)
{
  const void *bytes;
  const char *name;
  struct build_id id = {.len = 0};
  ssize_t n = dwelf_dwarf_gnu_debugaltlink(in->dwarf, &name, &bytes);

  if (n <= 0 || n > BUILD_ID_MAX)
    return;
  memcpy(id.byte, bytes, (size_t)n);
  id.len = (size_t)n;
  if (!debugfile_open_alt(mod, path, name, &id, &in->alt))
    return;
  in->alt_dwarf = dwarf_begin_elf(in->alt.elf, DWARF_C_READ, NULL);
  if (in->alt_dwarf != NULL)
    dwarf_setalt(in->dwarf, in->alt_dwarf);
}

static void open_files(struct module *mod, struct inlines *in)
{
  const char *path = mod->path;

  in->dwarf = open_dwarf(module_elf(mod));
  if (in->dwarf == NULL && !mod->vdso && debugfile_open(mod, &in->source)) {
    in->dwarf = open_dwarf(in->source.elf);
    path = in->source.path;
  }
  if (in->dwarf == NULL)
    return;
  open_alt(mod, in, path);
  list_units(in);
}

struct inlines *dwarf_of(struct module *mod)
{
  if (mod->inlines == NULL) {
    struct inlines *in = calloc(1, sizeof *in);
    if (in == NULL)
      return NULL;
    in->source.fd = in->alt.fd = -1;
    in->names = interner_new();
    mod->inlines = in;
    if (mod->elf && in->names != NULL)
      open_files(mod, in);
  }
  return mod->inlines->dwarf != NULL ? mod->inlines : NULL;
}

/* ---- functions of a unit ---- */

static bool add_function(struct unit *u, Dwarf_Die *die)
{
  size_t before = u->code.count;

  if (u->function_count == u->function_cap) {
    size_t cap = u->function_cap == 0 ? 64 : u->function_cap * 2;
    void *p = realloc(u->function, cap * sizeof *u->function);
    if (p == NULL)
      return false;
    u->function = p;
    u->function_cap = cap;
  }
  if (!add_ranges(&u->code, die, (uint32_t)u->function_count))
    return false;
  if (u->code.count > before)
    u->function[u->function_count++] = *die;
  return true;
}

/* Namespaces and types hold functions, functions hold local types. */
static bool may_hold_functions(int tag)
{
  switch (tag) {
  case DW_TAG_subprogram:
  case DW_TAG_lexical_block:
  case DW_TAG_namespace:
  case DW_TAG_module:
  case DW_TAG_class_type:
  case DW_TAG_structure_type:
  case DW_TAG_union_type:
  case DW_TAG_enumeration_type:
    return true;
  default:
    return false;
  }
}

static bool add_functions(struct unit *u, Dwarf_Die *parent, unsigned depth)
{
  Dwarf_Die die;

  if (depth > DIE_DEPTH_MAX || dwarf_child(parent, &die) != 0)
    return true;
  do {
    int tag = dwarf_tag(&die);
    if (tag == DW_TAG_subprogram && !add_function(u, &die))
      return false;
    if (may_hold_functions(tag) && !add_functions(u, &die, depth + 1))
      return false;
  } while (dwarf_siblingof(&die, &die) == 0);
  return true;
}

bool dwarf_function(struct inlines *in, uint64_t elf_addr, Dwarf_Die *out)
{
  const struct span *s;
  size_t at = SIZE_MAX, inner = SIZE_MAX;

  while ((s = spans_find(&in->code, elf_addr, &at)) != NULL) {
    struct unit *u = &in->unit[s->index];
    if (!u->indexed) {
      u->indexed = true;
      add_functions(u, &u->die, 0);
      spans_sort(&u->code);
    }
    inner = SIZE_MAX;
    s = spans_find(&u->code, elf_addr, &inner);
    if (s != NULL) {
      *out = u->function[s->index];
      return true;
    }
  }
  return false;
}

/* ---- the end ---- */

void inlines_retire(struct inlines *in)
{
  if (in == NULL)
    return;
  for (size_t i = 0; i < in->unit_count; i++) {
    free(in->unit[i].function);
    spans_free(&in->unit[i].code);
  }
  free(in->unit);
  spans_free(&in->code);
  dwarf_end(in->dwarf);
  dwarf_end(in->alt_dwarf);
  source_close(&in->source);
  source_close(&in->alt);
  in->unit = NULL;
  in->unit_count = in->unit_cap = 0;
  in->dwarf = in->alt_dwarf = NULL;
}

void inlines_free(struct inlines *in)
{
  if (in == NULL)
    return;
  inlines_retire(in);
  interner_free(in->names);
  free(in);
}
