/* SPDX-License-Identifier: MIT
 *
 * One module: what its program headers say.
 */
#include "symbols/symbols_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PHDRS_MAX 256
#define PAGE 4096u

static bool read_ehdr(struct module *mod, Elf64_Ehdr *eh)
{
  return image_read_file(&mod->im, 0, eh, sizeof *eh) &&
         memcmp(eh->e_ident, ELFMAG, SELFMAG) == 0 &&
         eh->e_ident[EI_CLASS] == ELFCLASS64 &&
         eh->e_ident[EI_DATA] == ELFDATA2LSB && eh->e_machine == EM_X86_64 &&
         eh->e_phentsize == sizeof(Elf64_Phdr) && eh->e_phnum > 0 &&
         eh->e_phnum <= PHDRS_MAX;
}

/* The kernel and ld.so map whole pages: a mapping starts at or behind the page
 * that p_offset lies in (behind it after mprotect split the segment). */
static bool find_bias(struct module *mod, const Elf64_Phdr *ph, size_t count)
{
  const struct image_segment *s = image_code(&mod->im);

  for (size_t i = 0; s != NULL && i < count; i++) {
    uint64_t first = ph[i].p_offset & ~(uint64_t)(PAGE - 1);
    if (ph[i].p_type != PT_LOAD || !(ph[i].p_flags & PF_X))
      continue;
    if (s->offset < first || s->offset - first >= ph[i].p_filesz + PAGE)
      continue;
    mod->bias = s->start - s->offset + ph[i].p_offset - ph[i].p_vaddr;
    return true;
  }
  return false;
}

static bool is_pie(struct module *mod)
{
  for (uint64_t at = 0; at + 16 <= mod->dynamic_size; at += 16) {
    Elf64_Dyn d;
    if (!image_read(&mod->im, mod->dynamic + at, &d, sizeof d) ||
        d.d_tag == DT_NULL)
      return false;
    if (d.d_tag == DT_FLAGS_1)
      return (d.d_un.d_val & DF_1_PIE) != 0;
  }
  return false;
}

static bool is_linker_name(const char *name)
{
  return strncmp(name, "ld-", 3) == 0 || strncmp(name, "ld.so", 5) == 0 ||
         strncmp(name, "ld64.so", 7) == 0;
}

static void read_phdrs(struct module *mod, const Elf64_Ehdr *eh,
                       const Elf64_Phdr *ph)
{
  bool starts = eh->e_type == ET_EXEC || is_linker_name(mod->name);

  for (size_t i = 0; i < eh->e_phnum; i++) {
    uint64_t addr = mod->bias + ph[i].p_vaddr;
    if (ph[i].p_type == PT_GNU_EH_FRAME) {
      mod->hdr = addr;
      mod->hdr_size = ph[i].p_memsz;
    } else if (ph[i].p_type == PT_DYNAMIC) {
      mod->dynamic = addr;
      mod->dynamic_size = ph[i].p_memsz;
    } else if (ph[i].p_type == PT_INTERP) {
      starts = true;
    } else if (ph[i].p_type == PT_NOTE) {
      build_id_of_segment(mod, &ph[i]);
    }
  }
  if (eh->e_entry != 0 && !mod->vdso && (starts || is_pie(mod)))
    mod->entry = mod->bias + eh->e_entry;
}

void module_load_headers(struct module *mod)
{
  Elf64_Ehdr eh;
  Elf64_Phdr *ph;

  if (!read_ehdr(mod, &eh)) {
    image_close(&mod->im);
    return;
  }
  ph = calloc(eh.e_phnum, sizeof *ph);
  if (ph == NULL)
    return;
  if (image_read_file(&mod->im, eh.e_phoff, ph, eh.e_phnum * sizeof *ph) &&
      find_bias(mod, ph, eh.e_phnum)) {
    mod->elf = true;
    read_phdrs(mod, &eh, ph);
  }
  free(ph);
}

Elf *module_elf(struct module *mod)
{
  if (!mod->handle_tried && mod->im.fd >= 0) {
    mod->handle = elf_begin(mod->im.fd, ELF_C_READ, NULL);
    if (mod->handle != NULL && elf_kind(mod->handle) != ELF_K_ELF) {
      elf_end(mod->handle);
      mod->handle = NULL;
    }
  }
  mod->handle_tried = true;
  return mod->handle;
}

void module_retire(struct module *mod)
{
  if (mod->handle != NULL)
    elf_cntl(mod->handle, ELF_C_FDDONE);
  mod->handle_tried = true;
  symtab_retire(&mod->symtab);
  inlines_retire(mod->inlines);
  image_free(&mod->im);
}

void module_free(struct module *mod)
{
  symtab_free(&mod->symtab);
  inlines_free(mod->inlines);
  fde_index_free(&mod->fde);
  if (mod->handle != NULL)
    elf_end(mod->handle);
  image_free(&mod->im);
  free(mod->path);
  free(mod);
}

const char *module_name(const struct module *mod)
{
  return mod->name;
}

const char *module_path(const struct module *mod)
{
  return mod->path;
}

bool module_is_vdso(const struct module *mod)
{
  return mod->vdso;
}

uint64_t module_bias(const struct module *mod)
{
  return mod->bias;
}

uint64_t module_entry(const struct module *mod)
{
  return mod->entry;
}

bool module_eh_frame_hdr(const struct module *mod, uint64_t *addr,
                         uint64_t *size)
{
  if (mod->hdr == 0)
    return false;
  *addr = mod->hdr;
  *size = mod->hdr_size;
  return true;
}

/* Reading fills caches: the module is constant to its users only. */
bool module_read(const struct module *mod, uint64_t addr, void *buf, size_t n)
{
  return image_read(&((struct module *)mod)->im, addr, buf, n);
}
