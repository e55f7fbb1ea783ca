/* SPDX-License-Identifier: MIT
 *
 * Which entry of the unwind table covers an address.  Formats: LSB core
 * specification, "Exception Frames".
 */
#include "symbols/symbols_internal.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#define FDES_MAX (1u << 24)

/* ---- reading an entry ---- */

struct reader {
  const struct module *mod;
  uint64_t at;
  bool ok;
};

static uint64_t take(struct reader *r, size_t n)
{
  uint64_t v = 0;

  if (!r->ok || !module_read(r->mod, r->at, &v, n)) {
    r->ok = false;
    return 0;
  }
  r->at += n;
  return v;
}

static uint64_t take_uleb(struct reader *r)
{
  uint64_t v = 0;

  for (unsigned shift = 0; shift < 64; shift += 7) {
    uint64_t b = take(r, 1);
    v |= (b & 127) << shift;
    if ((b & 128) == 0)
      break;
  }
  return v;
}

/* A pointer without its base; unknown forms end the reading. */
static uint64_t take_value(struct reader *r, uint8_t enc)
{
  switch (enc & 15) {
  case DW_EH_PE_absptr:
  case DW_EH_PE_udata8:
  case DW_EH_PE_sdata8:
    return take(r, 8);
  case DW_EH_PE_udata4:
    return take(r, 4);
  case DW_EH_PE_sdata4:
    return (uint64_t)(int64_t)(int32_t)take(r, 4);
  case DW_EH_PE_udata2:
    return take(r, 2);
  case DW_EH_PE_sdata2:
    return (uint64_t)(int64_t)(int16_t)take(r, 2);
  default:
    r->ok = false;
    return 0;
  }
}

/* Addresses in a file that is not position independent stand as they are: its
 * bias is 0; others use pcrel. */
static uint64_t take_pointer(struct reader *r, uint8_t enc)
{
  uint64_t base = r->at;
  uint64_t v = take_value(r, enc);

  if ((enc & 0x70) == DW_EH_PE_pcrel)
    return base + v;
  if ((enc & 0x70) == DW_EH_PE_absptr)
    return r->mod->bias + v;
  r->ok = false;
  return 0;
}

struct entry {
  uint64_t addr;
  uint64_t body; /* behind the length */
  uint64_t end;
  uint64_t id; /* 0: a CIE; else the distance back to it from body */
  unsigned id_size;
};

static bool read_entry(const struct module *mod, uint64_t addr,
                       struct entry *out)
{
  struct reader r = {mod, addr, true};
  uint64_t len = take(&r, 4);

  out->addr = addr;
  out->id_size = 4;
  if (len == UINT32_MAX) {
    len = take(&r, 8);
    out->id_size = 8;
  }
  out->body = r.at;
  out->end = r.at + len;
  out->id = take(&r, out->id_size);
  return r.ok && len >= out->id_size && out->end > r.at - out->id_size;
}

/* The encoding of the addresses in the FDEs of this CIE ('R'). */
static bool read_cie_encoding(const struct module *mod, uint64_t addr,
                              uint8_t *enc)
{
  struct entry e;
  char aug[8] = {0};

  if (!read_entry(mod, addr, &e) || e.id != 0)
    return false;
  struct reader r = {mod, e.body + e.id_size, true};
  uint64_t version = take(&r, 1);
  for (size_t i = 0; r.ok && i < sizeof aug; i++) {
    aug[i] = (char)take(&r, 1);
    if (aug[i] == '\0')
      break;
  }
  take_uleb(&r);    /* code alignment */
  take_uleb(&r);    /* data alignment: only its length matters */
  if (version == 1) /* return address column */
    take(&r, 1);
  else
    take_uleb(&r);
  *enc = DW_EH_PE_absptr;
  if (aug[0] == 'z')
    take_uleb(&r);
  for (size_t i = 1; aug[0] == 'z' && i < sizeof aug && aug[i] != 0; i++) {
    uint8_t byte = aug[i] == 'L' || aug[i] == 'P' || aug[i] == 'R'
                       ? (uint8_t)take(&r, 1)
                       : 0;
    if (aug[i] == 'R')
      *enc = byte;
    else if (aug[i] == 'P')
      take_value(&r, byte);
  }
  return r.ok && aug[sizeof aug - 1] == '\0';
}

static bool read_fde(const struct module *mod, const struct entry *e,
                     struct fde *out)
{
  struct reader r = {mod, e->body + e->id_size, true};
  uint64_t cie = e->body - (e->id_size == 4 ? (uint64_t)(int32_t)e->id : e->id);
  uint8_t enc;

  if (e->id == 0 || !read_cie_encoding(mod, cie, &enc))
    return false;
  out->addr = e->addr;
  out->start = take_pointer(&r, enc);
  out->end = out->start + take_value(&r, enc & 15);
  return r.ok && out->end > out->start;
}

/* ---- the index ---- */

static int compare(const void *pa, const void *pb)
{
  const struct fde_ref *a = pa, *b = pb;

  return a->start < b->start ? -1 : a->start > b->start;
}

static bool fits(uint64_t diff)
{
  return (uint64_t)(int64_t)(int32_t)diff == diff;
}

static bool add_ref(struct fde_index *ix, size_t *cap, const struct fde *f)
{
  if (ix->count == *cap) {
    size_t next = *cap == 0 ? 1024 : *cap * 2;
    void *p = next > FDES_MAX ? NULL : realloc(ix->ref, next * sizeof *ix->ref);
    if (p == NULL)
      return false;
    ix->ref = p;
    *cap = next;
  }
  if (fits(f->start - ix->base) && fits(f->addr - ix->base))
    ix->ref[ix->count++] = (struct fde_ref){(int32_t)(f->start - ix->base),
                                            (int32_t)(f->addr - ix->base)};
  return true;
}

static void build_from_section(struct module *mod, uint64_t addr, uint64_t size)
{
  struct fde_index *ix = &mod->fde;
  uint64_t end = addr + size;
  struct entry e;
  struct fde f;
  size_t cap = 0;

  ix->base = addr;
  for (; addr < end && read_entry(mod, addr, &e); addr = e.end) {
    if (read_fde(mod, &e, &f) && !add_ref(ix, &cap, &f))
      break;
  }
  if (ix->count > 0)
    qsort(ix->ref, ix->count, sizeof *ix->ref, compare);
}

/* The search table as GNU ld and lld write it. */
static bool build_from_header(struct module *mod)
{
  struct fde_index *ix = &mod->fde;
  struct {
    uint8_t version, ptr_enc, count_enc, table_enc;
    int32_t eh_frame;
    uint32_t count;
  } h;

  if (mod->hdr == 0 || !module_read(mod, mod->hdr, &h, sizeof h) ||
      h.version != 1 || h.count_enc != DW_EH_PE_udata4 ||
      h.table_enc != (DW_EH_PE_datarel | DW_EH_PE_sdata4) ||
      (h.ptr_enc & 7) != DW_EH_PE_udata4 || h.count == 0)
    return false;
  if (h.count > FDES_MAX ||
      sizeof h + (uint64_t)h.count * sizeof *ix->ref > mod->hdr_size)
    return false;
  ix->ref = malloc(h.count * sizeof *ix->ref);
  if (ix->ref == NULL)
    return false;
  if (!module_read(mod, mod->hdr + sizeof h, ix->ref,
                   h.count * sizeof *ix->ref)) {
    free(ix->ref);
    ix->ref = NULL;
    return false;
  }
  ix->base = mod->hdr;
  ix->count = h.count;
  for (size_t i = 1; i < ix->count; i++) {
    if (ix->ref[i].start < ix->ref[i - 1].start) {
      qsort(ix->ref, ix->count, sizeof *ix->ref, compare);
      break;
    }
  }
  return true;
}

/* Without section headers: from the pointer in the header up to the end of the
 * readable image (the terminator ends the walk). */
static bool eh_frame_by_header(const struct module *mod, uint64_t *addr,
                               uint64_t *size)
{
  uint8_t h[4];
  struct reader r = {mod, mod->hdr + sizeof h, true};

  if (mod->hdr == 0 || !module_read(mod, mod->hdr, h, sizeof h) || h[0] != 1)
    return false;
  *addr = take_pointer(&r, h[1]);
  for (size_t i = 0; i < mod->im.seg_count; i++) {
    const struct image_segment *s = &mod->im.seg[i];
    if (r.ok && *addr >= s->start && *addr < s->end) {
      *size = s->end - *addr;
      return true;
    }
  }
  return false;
}

static bool eh_frame_by_section(struct module *mod, uint64_t *addr,
                                uint64_t *size)
{
  Elf *elf = module_elf(mod);
  Elf_Scn *scn = NULL;
  size_t names;

  if (elf == NULL || elf_getshdrstrndx(elf, &names) != 0)
    return false;
  while ((scn = elf_nextscn(elf, scn)) != NULL) {
    Elf64_Shdr *sh = elf64_getshdr(scn);
    const char *name = sh ? elf_strptr(elf, names, sh->sh_name) : NULL;
    if (name != NULL && strcmp(name, ".eh_frame") == 0 &&
        sh->sh_type != SHT_NOBITS && sh->sh_size > 0) {
      *addr = mod->bias + sh->sh_addr;
      *size = sh->sh_size;
      return true;
    }
  }
  return false;
}

bool module_eh_frame(const struct module *cmod, uint64_t *addr, uint64_t *size)
{
  struct module *mod = (struct module *)cmod;

  return mod->elf && (eh_frame_by_section(mod, addr, size) ||
                      eh_frame_by_header(mod, addr, size));
}

static void build(struct module *mod)
{
  uint64_t addr, size;

  mod->fde.loaded = true;
  if (!build_from_header(mod) && module_eh_frame(mod, &addr, &size))
    build_from_section(mod, addr, size);
}

bool module_fde(const struct module *cmod, uint64_t addr, struct fde *out)
{
  struct module *mod = (struct module *)cmod;
  struct fde_index *ix = &mod->fde;
  size_t lo = 0, hi;
  struct entry e;

  if (!mod->elf)
    return false;
  if (!ix->loaded)
    build(mod);
  for (hi = ix->count; lo < hi;) {
    size_t mid = lo + (hi - lo) / 2;
    if (ix->base + (uint64_t)(int64_t)ix->ref[mid].start <= addr)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo > 0 &&
         read_entry(mod, ix->base + (uint64_t)(int64_t)ix->ref[lo - 1].fde,
                    &e) &&
         read_fde(mod, &e, out) && addr >= out->start && addr < out->end;
}

bool module_function_range(const struct module *mod, uint64_t addr,
                           uint64_t *start, uint64_t *end)
{
  struct fde f;

  if (!module_fde(mod, addr, &f))
    return false;
  *start = f.start;
  *end = f.end;
  return true;
}

void fde_index_free(struct fde_index *ix)
{
  free(ix->ref);
  *ix = (struct fde_index){0};
}
