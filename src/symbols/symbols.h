/* SPDX-License-Identifier: MIT
 *
 * The ELF files mapped into a target: which one an address belongs to, its
 * unwind tables, its symbols.  Addresses are the target's run-time ones
 * unless called "elf" (the file's own virtual addresses).
 */
#ifndef SYMBOLS_SYMBOLS_H
#define SYMBOLS_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/target.h"
#include "util/error.h"

struct modules;
struct module;

/* Reads the maps once.  The target outlives the modules. */
enum result modules_new(struct target *t, struct modules **out,
                        struct error *e);
void modules_free(struct modules *m);
/* Reads the maps again; modules that are still mapped the same way stay (their
 * pointers too), others are no longer found.  Their pointers and names last
 * until modules_free, their bytes until the next call.
 * Returns whether a module came or went.  Cheap enough for once a second. */
bool modules_refresh(struct modules *m);
/* Module whose executable (or any, for data) mapping holds addr, or NULL. */
const struct module *modules_find(struct modules *m, uint64_t addr);
/* Any mapping at all at addr, executable?  (anonymous code: JITs) */
bool modules_is_anon_exec(struct modules *m, uint64_t addr);

const char *module_name(const struct module *mod); /* base name, "[vdso]" */
const char *module_path(const struct module *mod);
bool module_is_vdso(const struct module *mod);
uint64_t module_bias(const struct module *mod); /* run-time minus elf */
/* Run-time e_entry of a program or a dynamic linker, 0 for anything else:
 * that field means nothing in a library. */
uint64_t module_entry(const struct module *mod);
/* Run-time address of .eh_frame_hdr and its size; false: none. */
bool module_eh_frame_hdr(const struct module *mod, uint64_t *addr,
                         uint64_t *size);
/* .eh_frame, also of files without the header (static executables). */
bool module_eh_frame(const struct module *mod, uint64_t *addr, uint64_t *size);
/* n bytes of the file image at a run-time address in a loaded segment (from
 * the file, or from memory when the file can't be reached). */
bool module_read(const struct module *mod, uint64_t addr, void *buf, size_t n);

struct symbol {
  const char *name; /* demangled; lives as long as the modules */
  uint64_t start;   /* run-time */
  uint64_t size;    /* never 0 */
};
/* The symbol whose [value, value + size) holds addr, from .symtab; a file
 * without one: from .dynsym, .gnu_debugdata and its separate debug file
 * (build-id, debuglink) together.  The dynamic symbols of a file that can't be
 * reached, or has no section headers, are read from memory.  false: none. */
bool module_symbol(const struct module *mod, uint64_t addr, struct symbol *out);
/* The functions that the compiler inlined at addr, outermost first, by the
 * file's debug information or its separate debug file's; of the function whose
 * symbol is there, nothing.  Returns how many of them (at most max) stand in
 * name; those live as long as the modules.  Reads a unit of debug information
 * whole at the first address in it: remember what it says. */
size_t module_inlined(const struct module *mod, uint64_t addr,
                      const char **name, size_t max);
bool module_has_debug_info(const struct module *mod);
/* Where a module has what it exports under a name, by its dynamic symbols in
 * memory: functions and objects that are defined there.  Of several versions of
 * one symbol, the first in the table. */
struct export
{
  const char *name; /* the caller's */
  uint64_t start;   /* run-time; 0: not exported */
  uint64_t size;
};
/* Fills start and size of want[0, n); returns how many were found. */
unsigned module_exports(const struct module *mod, struct export *want,
                        unsigned n);
/* The unwind table's entry that covers addr.  All run-time addresses. */
struct fde {
  uint64_t addr;       /* of the entry itself, in .eh_frame */
  uint64_t start, end; /* the code it covers */
};
/* By .eh_frame_hdr's search table, or one that is built from .eh_frame where
 * the header is missing or has an unusual encoding; false: none. */
bool module_fde(const struct module *mod, uint64_t addr, struct fde *out);
/* Start (run-time) of the function that the unwind table covers at addr;
 * false: none. */
bool module_function_range(const struct module *mod, uint64_t addr,
                           uint64_t *start, uint64_t *end);

/* C++ and Rust names for people; NULL when it is neither.  malloc'ed. */
char *symbols_demangle(const char *mangled);

#endif
