/* SPDX-License-Identifier: MIT
 *
 * Private to dwarf.c and inlined.c: the debug information of one module.
 */
#ifndef SYMBOLS_DWARF_INTERNAL_H
#define SYMBOLS_DWARF_INTERNAL_H

#include <elfutils/libdw.h>

#include "symbols/symbols_internal.h"
#include "util/interner.h"

/* Deeper nesting than compilers make: damaged. */
#define DIE_DEPTH_MAX 128

struct unit {
  Dwarf_Die die; /* of the split unit, where there is one */
  bool indexed;
  Dwarf_Die *function; /* DW_TAG_subprogram with code */
  size_t function_count, function_cap;
  struct spans code; /* index: of function */
};

struct inlines {
  struct sym_source source, alt; /* fd -1 and elf NULL: the module's own */
  Dwarf *dwarf, *alt_dwarf;      /* NULL: none */
  struct unit *unit;
  size_t unit_count, unit_cap;
  struct spans code; /* index: of unit */
  struct interner *names;
};

/* The debug information of the module, opened at the first call; NULL: it has
 * none. */
struct inlines *dwarf_of(struct module *mod);
/* The function (not an inlined one) whose code holds addr. */
bool dwarf_function(struct inlines *in, uint64_t elf_addr, Dwarf_Die *out);

#endif
