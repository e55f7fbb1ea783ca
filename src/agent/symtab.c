/* SPDX-License-Identifier: MIT
 *
 * One ELF file: by pread and in pieces, since a mapping of a file that shrinks
 * meanwhile would be the game's SIGBUS.
 */
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/symtab_internal.h"

enum {
  WORD_MAX = 32,   /* of a wanted name, with its NUL */
  NOTES_MAX = 4096 /* of one section of notes */
};
#define TABLE_MAX (UINT64_C(1) << 30) /* bytes of a table that are read */

struct scratch *scratch_map(void)
{
  void *p = mmap(NULL, sizeof(struct scratch), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

void scratch_unmap(struct scratch *s)
{
  munmap(s, sizeof *s);
}

/* ---- the file ---- */

static bool within(uint64_t off, uint64_t n, uint64_t size)
{
  return off <= size && n <= size - off;
}

bool elf_file_read(const struct elf_file *f, uint64_t off, void *to, size_t n)
{
  return within(off, n, f->size) &&
         pread(f->fd, to, n, (off_t)off) == (ssize_t)n;
}

bool elf_file_section(const struct elf_file *f, uint64_t i, ElfW(Shdr) * out)
{
  return i < f->sections &&
         elf_file_read(f, f->ehdr.e_shoff + i * sizeof *out, out, sizeof *out);
}

/* Of many sections the number stands in the first (elf(5), e_shnum). */
static bool count_sections(struct elf_file *f)
{
  ElfW(Shdr) first;
  f->sections = 1;
  if (f->ehdr.e_shentsize != sizeof first ||
      !within(f->ehdr.e_shoff, sizeof first, f->size) ||
      !elf_file_section(f, 0, &first))
    return false;
  f->sections = f->ehdr.e_shnum ? f->ehdr.e_shnum : first.sh_size;
  return f->sections <= (f->size - f->ehdr.e_shoff) / sizeof first;
}

bool elf_file_open(struct elf_file *f, int fd)
{
  struct stat st;
  *f = (struct elf_file){.fd = fd};
  if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
    return false;
  f->size = (uint64_t)st.st_size;
  return elf_file_read(f, 0, &f->ehdr, sizeof f->ehdr) &&
         !memcmp(f->ehdr.e_ident, ELFMAG, SELFMAG) &&
         f->ehdr.e_ident[EI_CLASS] == ELFCLASS64 &&
         f->ehdr.e_ident[EI_DATA] == ELFDATA2LSB &&
         f->ehdr.e_machine == EM_X86_64 && count_sections(f);
}

/* ---- is it the one that runs? ---- */

void notes_build_id(const uint8_t *notes, size_t len, struct file_id *out)
{
  ElfW(Nhdr) h;
  out->len = 0;
  for (size_t at = 0; len - at >= sizeof h;) {
    memcpy(&h, notes + at, sizeof h);
    uint64_t name = at + sizeof h;
    uint64_t desc = name + (((uint64_t)h.n_namesz + 3) & ~UINT64_C(3));
    uint64_t next = desc + (((uint64_t)h.n_descsz + 3) & ~UINT64_C(3));
    if (desc + h.n_descsz > len)
      return;
    if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && h.n_descsz &&
        h.n_descsz <= ID_MAX && !memcmp(notes + name, "GNU", 4)) {
      memcpy(out->byte, notes + desc, h.n_descsz);
      out->len = h.n_descsz;
      return;
    }
    at = next < len ? (size_t)next : len;
  }
}

/* The piece of the image that [start, start + n) lies in; NULL: none such. */
static const ElfW(Phdr) * piece(const struct symtab_image *im, uint64_t start,
                                uint64_t n, uint32_t flags)
{
  for (unsigned i = 0; i < im->phnum; i++) {
    const ElfW(Phdr) *ph = &im->phdr[i];
    if (ph->p_type == PT_LOAD && (ph->p_flags & flags) == flags &&
        start >= ph->p_vaddr && within(start - ph->p_vaddr, n, ph->p_filesz))
      return ph;
  }
  return NULL;
}

void image_build_id(const struct symtab_image *im, struct file_id *out)
{
  out->len = 0;
  for (unsigned i = 0; i < im->phnum && !out->len; i++) {
    const ElfW(Phdr) *ph = &im->phdr[i];
    if (ph->p_type == PT_NOTE && piece(im, ph->p_vaddr, ph->p_filesz, PF_R))
      notes_build_id((const uint8_t *)(im->bias + ph->p_vaddr), ph->p_filesz,
                     out);
  }
}

static void file_build_id(struct scratch *s, struct file_id *out)
{
  ElfW(Shdr) sh;
  out->len = 0;
  for (uint64_t i = 0; !out->len && elf_file_section(&s->file, i, &sh); i++)
    if (sh.sh_type == SHT_NOTE && sh.sh_size <= NOTES_MAX &&
        elf_file_read(&s->file, sh.sh_offset, s->bytes, sh.sh_size))
      notes_build_id(s->bytes, sh.sh_size, out);
}

static bool belongs(struct scratch *s, enum symtab_kind kind,
                    const struct symtab_image *im)
{
  struct file_id running, there;
  image_build_id(im, &running);
  file_build_id(s, &there);
  return running.len == there.len &&
         !memcmp(running.byte, there.byte, there.len) &&
         (kind == SYMTAB_PROGRAM || there.len);
}

/* ---- the string table: where the names stand in it ---- */

static void note_name(struct scratch *s, const char *word, uint64_t offset,
                      const struct symtab_wanted *wanted, size_t n)
{
  size_t len = strnlen(word, WORD_MAX);
  for (size_t i = 0; i < n; i++)
    if (!wanted[i].address && !strncmp(wanted[i].name, word, WORD_MAX) &&
        len < WORD_MAX && s->named_count < NAMES_MAX)
      s->named[s->named_count++] =
          (struct named){(uint32_t)offset, (uint32_t)i};
}

/* Linkers let names share their ends, so that one may begin anywhere.  Pieces
 * overlap by the longest that is looked for. */
static bool find_names(struct scratch *s, const ElfW(Shdr) * str,
                       const struct symtab_wanted *wanted, size_t n)
{
  s->named_count = 0;
  for (uint64_t at = 0; at < str->sh_size;) {
    size_t len = CHUNK - WORD_MAX;
    bool last = str->sh_size - at <= len;
    len = last ? (size_t)(str->sh_size - at) : len;
    memset(s->bytes + len, 0xff, WORD_MAX); /* no name ends here */
    if (!elf_file_read(&s->file, str->sh_offset + at, s->bytes, len))
      return false;
    size_t step = last ? len : len - WORD_MAX;
    const uint8_t *p = s->bytes;
    while ((p = memmem(p, len - (size_t)(p - s->bytes), "lua", 3)) &&
           p < s->bytes + step) {
      note_name(s, (const char *)p, at + (size_t)(p - s->bytes), wanted, n);
      p++;
    }
    at += step;
  }
  return s->named_count > 0 && s->named_count < NAMES_MAX;
}

/* ---- the symbols ---- */

/* The bytes in memory are those of the file. */
static bool same_code(struct scratch *s, const struct symtab_image *im,
                      const ElfW(Phdr) * ph, const ElfW(Sym) * sym)
{
  uint8_t there[512];
  uint64_t off = ph->p_offset + (sym->st_value - ph->p_vaddr);
  for (uint64_t at = 0; at < sym->st_size;) {
    size_t n = sym->st_size - at < sizeof there ? (size_t)(sym->st_size - at)
                                                : sizeof there;
    if (off + at < off || !elf_file_read(&s->file, off + at, there, n) ||
        memcmp(there, (const void *)(im->bias + sym->st_value + at), n) != 0)
      return false;
    at += n;
  }
  return true;
}

static void take(struct scratch *s, enum symtab_kind kind,
                 const struct symtab_image *im, const ElfW(Sym) * sym,
                 uint32_t i, struct symtab_wanted *wanted)
{
  const ElfW(Phdr) *ph = piece(im, sym->st_value, sym->st_size, PF_R | PF_X);
  if (!ph || (kind == SYMTAB_PROGRAM && !same_code(s, im, ph, sym)))
    return;
  uint64_t address = im->bias + sym->st_value;
  s->twice[i] |= wanted[i].address && wanted[i].address != address;
  wanted[i].address = address;
}

static bool is_function(const ElfW(Sym) * sym)
{
  return ELF64_ST_TYPE(sym->st_info) == STT_FUNC && sym->st_size &&
         sym->st_shndx != SHN_UNDEF &&
         (sym->st_shndx < SHN_LORESERVE || sym->st_shndx == SHN_XINDEX);
}

/* Local symbols follow the name of their source file; those that the linker has
 * made local (--exclude-libs, a hidden visibility) stand behind all of them, at
 * a file without a name (ld). */
static void look_at(struct scratch *s, enum symtab_kind kind,
                    const struct symtab_image *im, const ElfW(Sym) * sym,
                    bool *of_file, struct symtab_wanted *wanted)
{
  bool local = ELF64_ST_BIND(sym->st_info) == STB_LOCAL;
  if (ELF64_ST_TYPE(sym->st_info) == STT_FILE)
    *of_file = sym->st_name != 0;
  else if (is_function(sym) && !(local && *of_file))
    for (size_t i = 0; i < s->named_count; i++)
      if (s->named[i].offset == sym->st_name)
        take(s, kind, im, sym, s->named[i].wanted, wanted);
}

static bool find_symbols(struct scratch *s, enum symtab_kind kind,
                         const struct symtab_image *im, const ElfW(Shdr) * tab,
                         struct symtab_wanted *wanted)
{
  ElfW(Sym) sym;
  bool of_file = false;
  uint64_t count = tab->sh_size / sizeof sym;
  for (uint64_t i = 0; i < count;) {
    uint64_t n =
        CHUNK / sizeof sym < count - i ? CHUNK / sizeof sym : count - i;
    if (!elf_file_read(&s->file, tab->sh_offset + i * sizeof sym, s->bytes,
                       n * sizeof sym))
      return false;
    for (uint64_t k = 0; k < n; k++) {
      memcpy(&sym, s->bytes + k * sizeof sym, sizeof sym);
      look_at(s, kind, im, &sym, &of_file, wanted);
    }
    i += n;
  }
  return true;
}

/* .symtab and its names, both within the file. */
static bool tables(const struct elf_file *f, ElfW(Shdr) * tab, ElfW(Shdr) * str)
{
  for (uint64_t i = 0; elf_file_section(f, i, tab); i++)
    if (tab->sh_type == SHT_SYMTAB)
      return tab->sh_entsize == sizeof(ElfW(Sym)) &&
             elf_file_section(f, tab->sh_link, str) &&
             str->sh_type == SHT_STRTAB &&
             within(tab->sh_offset, tab->sh_size, f->size) &&
             within(str->sh_offset, str->sh_size, f->size) &&
             tab->sh_size < TABLE_MAX && str->sh_size < TABLE_MAX;
  return false;
}

void search(struct scratch *s, int fd, enum symtab_kind kind,
            const struct symtab_image *im, struct symtab_wanted *wanted,
            size_t n)
{
  ElfW(Shdr) tab, str;
  bool had[NAMES_MAX], whole = false;
  if (n > NAMES_MAX)
    return;
  for (size_t i = 0; i < n; i++)
    had[i] = wanted[i].address != 0;
  memset(s->twice, 0, sizeof s->twice);
  if (elf_file_open(&s->file, fd) && tables(&s->file, &tab, &str) &&
      belongs(s, kind, im) && find_names(s, &str, wanted, n))
    whole = find_symbols(s, kind, im, &tab, wanted);
  for (size_t i = 0; i < n; i++)
    if (!had[i] && (!whole || s->twice[i]))
      wanted[i].address = 0;
}

void symtab_search(int fd, enum symtab_kind kind,
                   const struct symtab_image *image,
                   struct symtab_wanted *wanted, size_t n)
{
  struct scratch *s = scratch_map();
  if (!s)
    return;
  search(s, fd, kind, image, wanted, n);
  scratch_unmap(s);
}
