/* SPDX-License-Identifier: MIT
 *
 * Private to the room.  A module is one ELF file as it is mapped once; its
 * bytes come from the file in pieces (a mapping of our own would raise SIGBUS
 * when somebody truncates the file), or from the target's memory.
 */
#ifndef SYMBOLS_SYMBOLS_INTERNAL_H
#define SYMBOLS_SYMBOLS_INTERNAL_H

#include <elf.h>
#include <libelf.h>

#include "symbols/symbols.h"

/* ---- image.c ---- */

#define IMAGE_CHUNK 16384u
#define IMAGE_SEGMENTS 32

struct image_segment {
  uint64_t start, end; /* run-time */
  uint64_t offset;     /* in the file */
  bool x;
  uint8_t **chunk; /* (end - start) / IMAGE_CHUNK of them, filled on demand */
};

struct image {
  struct target *target;
  int fd; /* -1: read the target's memory */
  struct image_segment seg[IMAGE_SEGMENTS];
  size_t seg_count;
};

/* n bytes at a run-time address; false when any of them is not mapped. */
bool image_read(struct image *im, uint64_t addr, void *buf, size_t n);
/* n bytes at an offset of the file. */
bool image_read_file(struct image *im, uint64_t offset, void *buf, size_t n);
/* First segment whose mapping is executable; NULL: none. */
const struct image_segment *image_code(const struct image *im);
/* Gives the descriptor back. */
void image_close(struct image *im);
void image_free(struct image *im);

/* ---- symtab.c ---- */

struct sym {
  uint64_t start; /* elf address */
  uint64_t size;
  const char *raw; /* as in the string table */
  char *text;      /* for people; made at the first use */
  uint8_t rank;    /* the smaller, the better */
};

/* Where strings of a table live. */
struct sym_source {
  Elf *elf;
  int fd;
};

struct symtab {
  struct sym *sym;   /* by start; of one start the best comes last */
  uint64_t *max_end; /* of sym[0..i] */
  size_t count, cap;
  bool loaded;
  bool failed; /* no memory */
  struct sym_source source[2];
  size_t source_count;
  char *strings; /* of a table that was read from memory */
};

/* Adds one symbol unless it is of no use for naming code. */
void symtab_add(struct symtab *t, const Elf64_Sym *s, const char *name);
/* Adds the first section of this type; returns whether there is one. */
bool symtab_add_section(struct symtab *t, Elf *elf, Elf64_Word type);
/* Closes the files; names that were read stay. */
void symtab_retire(struct symtab *t);
void symtab_free(struct symtab *t);

/* ---- dynsym.c: from the target's memory ---- */

void symtab_add_dynamic(struct symtab *t, struct module *mod);

/* ---- debugfile.c ---- */

/* Opens the separate debug file that belongs to elf.  pid: its file system is
 * looked at as well as our own.  The caller closes *out. */
bool debugfile_open(Elf *elf, const char *path, pid_t pid,
                    struct sym_source *out);

/* ---- fde.c ---- */

struct fde_ref {
  int32_t start; /* relative to the index's base */
  int32_t fde;
};

struct fde_index {
  uint64_t base;
  struct fde_ref *ref; /* by start */
  size_t count;
  bool loaded;
};

void fde_index_free(struct fde_index *ix);

/* ---- module.c ---- */

struct module {
  struct image im;
  char *path;
  const char *name;
  uint64_t end; /* of its last mapping */
  uint64_t inode;
  uint32_t dev_major, dev_minor;
  bool vdso;
  bool live; /* still mapped */
  bool seen; /* during a refresh */
  bool elf;  /* the fields below are valid */
  uint64_t bias;
  uint64_t entry;
  uint64_t hdr, hdr_size; /* .eh_frame_hdr; 0: none */
  uint64_t dynamic, dynamic_size;
  struct fde_index fde;
  struct symtab symtab;
  Elf *handle; /* of im.fd, at the first use */
  bool handle_tried;
};

/* Fills what the program headers say; mod->elf stays false when it is no
 * ELF file of this machine. */
void module_load_headers(struct module *mod);
/* libelf's handle of the file; NULL when the file can't be reached. */
Elf *module_elf(struct module *mod);
/* Gives file and bytes back; symbols that were looked up stay. */
void module_retire(struct module *mod);
void module_free(struct module *mod);

#endif
