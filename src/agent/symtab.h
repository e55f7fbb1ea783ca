/* SPDX-License-Identifier: MIT
 *
 * Functions of the Lua API that an object in this process has but does not
 * export: most games link LuaJIT in and leave its names in .symtab alone, which
 * is not loaded.  So the object's file is read, or the debug file that belongs
 * to it.  Only when a VM was found; nothing is kept, and no memory of the
 * program's allocator used.
 *
 * A file is somebody's bytes: all of it is checked, and an address is taken
 * only when the file is the one that runs (see symtab_search).
 */
#ifndef AGENT_SYMTAB_H
#define AGENT_SYMTAB_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symtab_wanted {
  const char *name; /* begins with "lua" */
  uint64_t address; /* in this process; 0: not found, or not to be believed */
};

/* How an object is loaded (dl_iterate_phdr). */
struct symtab_image {
  const char *path; /* the loader's; "" for the program */
  uint64_t bias;
  const ElfW(Phdr) * phdr;
  unsigned phnum;
};

/* Looks for those that have no address in the file of the object that holds
 * `code`, then in its debug file.  Allocates nothing, leaves errno alone; not
 * for a signal handler: it reads whole tables. */
void symtab_find(uint64_t code, struct symtab_wanted *wanted, size_t n);

/* Whether a file has the code of its functions. */
enum symtab_kind {
  SYMTAB_PROGRAM, /* the very file that is loaded */
  SYMTAB_DEBUG,   /* symbols alone */
};
/* The same in one file.  Taken are functions (STT_FUNC with a size) in code of
 * the image, if a name stands for one of them only.  A program must have the
 * image's build-id, or none like it, and the very code that is in memory; a
 * debug file the image's build-id.  Symbols that are local to a source file
 * are not the API, or a copy of it that link-time optimisation has made, which
 * need not keep to the calling convention: passed over. */
void symtab_search(int fd, enum symtab_kind kind,
                   const struct symtab_image *image,
                   struct symtab_wanted *wanted, size_t n);

#endif
