/* SPDX-License-Identifier: MIT
 *
 * Shared by symtab.c and symtab_files.c: what is read of one file.
 */
#ifndef AGENT_SYMTAB_INTERNAL_H
#define AGENT_SYMTAB_INTERNAL_H

#include "agent/symtab.h"

enum {
  ID_MAX = 64,    /* bytes of a build-id; ld makes 20 */
  LINK_MAX = 256, /* of a .gnu_debuglink's name */
  CHUNK = 65536,  /* is read at once */
  NAMES_MAX = 256,
};

struct file_id {
  uint8_t byte[ID_MAX];
  uint32_t len; /* 0: none */
};

/* One ELF file, while it is read. */
struct elf_file {
  int fd;
  uint64_t size;
  ElfW(Ehdr) ehdr;
  uint64_t sections; /* how many */
};

/* A name of interest in the string table. */
struct named {
  uint32_t offset, wanted;
};

/* Too much for the stack of a game's thread; mapped while it is needed. */
struct scratch {
  struct elf_file file;
  struct named named[NAMES_MAX];
  size_t named_count;
  bool twice[NAMES_MAX]; /* of wanted: stands for more than one function */
  uint8_t bytes[CHUNK];
  char link[LINK_MAX], dir[4096], path[8192];
};

/* NULL: no memory. */
struct scratch *scratch_map(void);
void scratch_unmap(struct scratch *s);
/* false: no ELF file of this machine with sections. */
bool elf_file_open(struct elf_file *f, int fd);
bool elf_file_section(const struct elf_file *f, uint64_t i, ElfW(Shdr) * out);
/* n bytes at off, all of them. */
bool elf_file_read(const struct elf_file *f, uint64_t off, void *to, size_t n);
/* The build-id among notes; .len 0: none. */
void notes_build_id(const uint8_t *notes, size_t len, struct file_id *out);
void image_build_id(const struct symtab_image *im, struct file_id *out);
void search(struct scratch *s, int fd, enum symtab_kind kind,
            const struct symtab_image *im, struct symtab_wanted *wanted,
            size_t n);

#endif
