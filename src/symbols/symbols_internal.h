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
  int fd;         /* -1: none any more */
  char *path;     /* NULL: no file */
  uint8_t *bytes; /* of an ELF file in memory */
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

/* ---- buildid.c ---- */

#define BUILD_ID_MAX 64

struct build_id {
  uint8_t byte[BUILD_ID_MAX];
  size_t len; /* 0: none */
};

/* Among the notes of a segment or section with that alignment. */
bool build_id_find(const uint8_t *notes, size_t size, size_t align,
                   struct build_id *id);
/* Fills mod->id, if it is still empty and the PT_NOTE segment has one. */
void build_id_of_segment(struct module *mod, const Elf64_Phdr *ph);
bool build_id_of_file(Elf *elf, struct build_id *id);
bool build_id_same(const struct build_id *a, const struct build_id *b);

/* ---- debugfile.c ---- */

void source_close(struct sym_source *s);
/* Raw bytes of a section by its name; NULL: none. */
Elf_Data *elf_section_data(Elf *elf, const char *name);
/* Opens the separate debug file that belongs to the module, in our file system
 * or in the target's.  The caller closes *out. */
bool debugfile_open(struct module *mod, struct sym_source *out);
/* The file that .gnu_debugaltlink of the debug file at path `of` names. */
bool debugfile_open_alt(struct module *mod, const char *of, const char *name,
                        const struct build_id *id, struct sym_source *out);

/* ---- debugdata.c ---- */

/* Unpacks .gnu_debugdata ("MiniDebugInfo", gdb manual), a compressed ELF file
 * with the static functions that .dynsym has not.  The caller closes *out. */
bool debugdata_open(Elf *elf, struct sym_source *out);

/* ---- spans.c ---- */

struct span {
  uint64_t start, end; /* elf addresses */
  uint32_t index;      /* the user's */
};

/* Ranges of addresses that may lie within each other. */
struct spans {
  struct span *span; /* by start once sorted */
  uint64_t *max_end; /* of span[0..i] */
  size_t count, cap;
};

bool spans_add(struct spans *s, uint64_t start, uint64_t end, uint32_t index);
bool spans_sort(struct spans *s); /* before the first search */
/* The one that holds addr and starts last, before place *at (SIZE_MAX: of
 * all); *at is where the next wider one is searched from.  NULL: none. */
const struct span *spans_find(const struct spans *s, uint64_t addr, size_t *at);
void spans_free(struct spans *s);

/* ---- dwarf.c, inlined.c ---- */

struct inlines;

/* Gives everything back but the names. */
void inlines_retire(struct inlines *in);
void inlines_free(struct inlines *in);

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
  struct build_id id;
  struct fde_index fde;
  struct symtab symtab;
  struct inlines *inlines; /* NULL: not looked for yet, or no memory */
  Elf *handle;             /* of im.fd, at the first use */
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
