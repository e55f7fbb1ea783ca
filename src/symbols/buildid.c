/* SPDX-License-Identifier: MIT
 *
 * Build-ids: of a mapped file, by its program headers, so that a file without
 * section headers and one that can't be reached have theirs too; of a debug
 * file, by its sections (its segments are empty).
 */
#include "symbols/symbols_internal.h"

#include <string.h>

#define NOTES_MAX 4096u

static size_t padded(size_t n, size_t align)
{
  return (n + align - 1) & ~(align - 1);
}

bool build_id_find(const uint8_t *notes, size_t size, size_t align,
                   struct build_id *id)
{
  Elf64_Nhdr nh;
  size_t at = 0;

  if (align != 8)
    align = 4;
  while (at <= size && size - at >= sizeof nh) {
    memcpy(&nh, notes + at, sizeof nh);
    at += sizeof nh;
    if (nh.n_namesz > size - at || nh.n_descsz > size - at)
      return false;
    size_t desc = at + padded(nh.n_namesz, align);
    if (desc > size || nh.n_descsz > size - desc)
      return false;
    if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 &&
        memcmp(notes + at, "GNU", 4) == 0 && nh.n_descsz > 1 &&
        nh.n_descsz <= BUILD_ID_MAX) {
      memcpy(id->byte, notes + desc, nh.n_descsz);
      id->len = nh.n_descsz;
      return true;
    }
    at = desc + padded(nh.n_descsz, align);
  }
  return false;
}

void build_id_of_segment(struct module *mod, const Elf64_Phdr *ph)
{
  uint8_t notes[NOTES_MAX];
  size_t n = ph->p_filesz < NOTES_MAX ? ph->p_filesz : NOTES_MAX;

  if (mod->id.len == 0 &&
      image_read(&mod->im, mod->bias + ph->p_vaddr, notes, n))
    build_id_find(notes, n, ph->p_align, &mod->id);
}

bool build_id_of_file(Elf *elf, struct build_id *id)
{
  Elf_Scn *scn = NULL;

  id->len = 0;
  while ((scn = elf_nextscn(elf, scn)) != NULL) {
    Elf64_Shdr *sh = elf64_getshdr(scn);
    if (sh == NULL || sh->sh_type != SHT_NOTE)
      continue;
    Elf_Data *data = elf_rawdata(scn, NULL);
    if (data != NULL && data->d_buf != NULL &&
        build_id_find(data->d_buf, data->d_size, sh->sh_addralign, id))
      return true;
  }
  return false;
}

bool build_id_same(const struct build_id *a, const struct build_id *b)
{
  return a->len > 0 && a->len == b->len &&
         memcmp(a->byte, b->byte, a->len) == 0;
}
