/* SPDX-License-Identifier: MIT
 *
 * Functions that the compiler inlined at an address, with the names they would
 * have as symbols: by the linkage name, or where there is none (functions of
 * one file) by the scopes around the declaration.
 */
#include "symbols/dwarf_internal.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "util/strbuf.h"

#define UNKNOWN "[unknown]" /* its name can't be read */

/* ---- names ---- */

static bool is_cplusplus(Dwarf_Die *die)
{
  Dwarf_Die cu;

  if (dwarf_diecu(die, &cu, NULL, NULL) == NULL)
    return false;
  switch (dwarf_srclang(&cu)) {
  case DW_LANG_C_plus_plus:
  case DW_LANG_C_plus_plus_03:
  case DW_LANG_C_plus_plus_11:
  case DW_LANG_C_plus_plus_14:
    return true;
  default:
    return false;
  }
}

/* Where a function is declared: DW_AT_abstract_origin to the inlined one,
 * DW_AT_specification to its place in a class or namespace. */
static Dwarf_Die declaration(const Dwarf_Die *die)
{
  static const unsigned next[] = {DW_AT_abstract_origin, DW_AT_specification};
  Dwarf_Die d = *die, ref;
  Dwarf_Attribute a;

  for (unsigned hops = 0; hops < 8; hops++) {
    size_t i = 0;
    while (i < 2 && (dwarf_attr(&d, next[i], &a) == NULL ||
                     dwarf_formref_die(&a, &ref) == NULL))
      i++;
    if (i == 2)
      break;
    d = ref;
  }
  return d;
}

static void add_scope(struct strbuf *b, Dwarf_Die *scope)
{
  const char *name;

  switch (dwarf_tag(scope)) {
  case DW_TAG_namespace:
    name = dwarf_diename(scope);
    strbuf_add_str(b, name != NULL ? name : "(anonymous namespace)");
    break;
  case DW_TAG_class_type:
  case DW_TAG_structure_type:
  case DW_TAG_union_type:
    name = dwarf_diename(scope);
    strbuf_add_str(b, name != NULL ? name : "{unnamed type}");
    break;
  case DW_TAG_subprogram:
    name = dwarf_diename(scope);
    strbuf_add_str(b, name != NULL ? name : UNKNOWN);
    break;
  default:
    return;
  }
  strbuf_add_str(b, "::");
}

static void add_scopes(struct strbuf *b, Dwarf_Die *die)
{
  Dwarf_Die decl = declaration(die), *scope = NULL;
  int n = dwarf_getscopes_die(&decl, &scope);

  for (int i = n - 1; i > 0; i--) /* the outermost last, 0 is itself */
    add_scope(b, &scope[i]);
  free(scope);
}

static const char *keep(struct inlines *in, const char *text)
{
  uint32_t id = interner_add_str(in->names, text);

  return id != INTERNER_NONE ? interner_text(in->names, id) : UNKNOWN;
}

static const char *linkage_name(Dwarf_Die *die)
{
  static const unsigned attr[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name};
  Dwarf_Attribute a;

  for (size_t i = 0; i < 2; i++) {
    const char *s = dwarf_formstring(dwarf_attr_integrate(die, attr[i], &a));
    if (s != NULL && s[0] != '\0')
      return s;
  }
  return NULL;
}

static const char *name_of(struct inlines *in, Dwarf_Die *die)
{
  const char *link = linkage_name(die), *plain, *text;
  char *readable = link != NULL ? symbols_demangle(link) : NULL;
  struct strbuf b = STRBUF_INIT;

  if (link != NULL) {
    text = keep(in, readable != NULL ? readable : link);
    free(readable);
    return text;
  }
  plain = dwarf_diename(die);
  if (is_cplusplus(die))
    add_scopes(&b, die);
  strbuf_add_str(&b, plain != NULL && plain[0] != '\0' ? plain : UNKNOWN);
  text = b.failed ? UNKNOWN : keep(in, strbuf_text(&b));
  strbuf_free(&b);
  return text;
}

/* ---- the chain ---- */

static bool is_scope(int tag)
{
  return tag == DW_TAG_lexical_block || tag == DW_TAG_try_block ||
         tag == DW_TAG_catch_block || tag == DW_TAG_with_stmt;
}

/* The child that holds the address: an inlined function or a block. */
static bool step_in(Dwarf_Die *die, uint64_t elf_addr)
{
  Dwarf_Die child;

  if (dwarf_child(die, &child) != 0)
    return false;
  do {
    int tag = dwarf_tag(&child);
    if ((tag == DW_TAG_inlined_subroutine || is_scope(tag)) &&
        dwarf_haspc(&child, elf_addr) == 1) {
      *die = child;
      return true;
    }
  } while (dwarf_siblingof(&child, &child) == 0);
  return false;
}

size_t module_inlined(const struct module *cmod, uint64_t addr,
                      const char **name, size_t max)
{
  struct module *mod = (struct module *)cmod;
  struct inlines *in = dwarf_of(mod);
  size_t count = 0;
  Dwarf_Die die;

  if (in == NULL || !dwarf_function(in, addr - mod->bias, &die))
    return 0;
  for (unsigned depth = 0; depth < DIE_DEPTH_MAX && count < max; depth++) {
    if (!step_in(&die, addr - mod->bias))
      break;
    if (dwarf_tag(&die) == DW_TAG_inlined_subroutine)
      name[count++] = name_of(in, &die);
  }
  return count;
}

bool module_has_debug_info(const struct module *mod)
{
  return dwarf_of((struct module *)mod) != NULL;
}
