/* SPDX-License-Identifier: MIT
 *
 * Sorted symbols of one module.  A symbol names only the bytes that it claims:
 * the nearest lower one is often another function in a stripped file.
 */
#include "symbols/symbols_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYMBOLS_MAX (1u << 24)

/* Functions before anything else, then visible names before static ones, then
 * few leading underscores: `write` is better than `__write`. */
static uint8_t rank_of(const Elf64_Sym *s, const char *name)
{
  uint8_t rank = ELF64_ST_TYPE(s->st_info) == STT_FUNC        ? 0
                 : ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC ? 64
                                                              : 128;
  size_t underscores = strspn(name, "_");

  if (ELF64_ST_BIND(s->st_info) == STB_LOCAL)
    rank += 32;
  return rank + (underscores > 31 ? 31 : underscores);
}

static bool is_useful(const Elf64_Sym *s, const char *name)
{
  unsigned type = ELF64_ST_TYPE(s->st_info);

  return name != NULL && name[0] != '\0' && s->st_size > 0 &&
         s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS &&
         s->st_value <= UINT64_MAX - s->st_size &&
         (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

void symtab_add(struct symtab *t, const Elf64_Sym *s, const char *name)
{
  if (t->failed || !is_useful(s, name))
    return;
  if (t->count == t->cap) {
    size_t cap = t->cap == 0 ? 1024 : t->cap * 2;
    void *p = cap > SYMBOLS_MAX ? NULL : realloc(t->sym, cap * sizeof *t->sym);
    if (p == NULL) {
      t->failed = true;
      return;
    }
    t->sym = p;
    t->cap = cap;
  }
  t->sym[t->count++] = (struct sym){.start = s->st_value,
                                    .size = s->st_size,
                                    .raw = name,
                                    .rank = rank_of(s, name)};
}

static Elf_Scn *find_section(Elf *elf, Elf64_Word type, Elf64_Shdr **sh)
{
  Elf_Scn *scn = NULL;

  while ((scn = elf_nextscn(elf, scn)) != NULL) {
    *sh = elf64_getshdr(scn);
    if (*sh != NULL && (*sh)->sh_type == type)
      return scn;
  }
  return NULL;
}

bool symtab_add_section(struct symtab *t, Elf *elf, Elf64_Word type)
{
  Elf64_Shdr *sh;
  Elf_Scn *scn = find_section(elf, type, &sh);
  Elf_Data *data = scn != NULL ? elf_getdata(scn, NULL) : NULL;

  if (data == NULL || data->d_buf == NULL)
    return false;
  const Elf64_Sym *sym = data->d_buf;
  for (size_t i = 0; i < data->d_size / sizeof *sym; i++)
    symtab_add(t, &sym[i], elf_strptr(elf, sh->sh_link, sym[i].st_name));
  return true;
}

/* ---- loading ---- */

static void add_source(struct symtab *t, bool opened)
{
  struct sym_source *s = &t->source[t->source_count];

  if (!opened)
    return;
  t->source_count++;
  symtab_add_section(t, s->elf, SHT_SYMTAB);
}

/* A file whose .symtab was stripped off. */
static void add_rest(struct symtab *t, struct module *mod, Elf *elf)
{
  add_source(t,
             elf != NULL && debugdata_open(elf, &t->source[t->source_count]));
  add_source(t, debugfile_open(mod, &t->source[t->source_count]));
}

/* The better name later; equal ones by text, so that every run agrees. */
static int compare(const void *pa, const void *pb)
{
  const struct sym *a = pa, *b = pb;

  if (a->start != b->start)
    return a->start < b->start ? -1 : 1;
  if (a->rank != b->rank)
    return a->rank > b->rank ? -1 : 1;
  return strcmp(b->raw, a->raw);
}

static void sort(struct symtab *t)
{
  uint64_t max = 0;

  if (t->count == 0)
    return;
  qsort(t->sym, t->count, sizeof *t->sym, compare);
  t->max_end = malloc(t->count * sizeof *t->max_end);
  if (t->max_end == NULL) {
    t->count = 0;
    return;
  }
  for (size_t i = 0; i < t->count; i++) {
    if (t->sym[i].start + t->sym[i].size > max)
      max = t->sym[i].start + t->sym[i].size;
    t->max_end[i] = max;
  }
}

static void load(struct symtab *t, struct module *mod)
{
  Elf *elf = module_elf(mod);

  t->loaded = true;
  if (elf == NULL || !symtab_add_section(t, elf, SHT_SYMTAB)) {
    /* without section headers: by the dynamic segment */
    if (elf == NULL || !symtab_add_section(t, elf, SHT_DYNSYM))
      symtab_add_dynamic(t, mod);
    if (!mod->vdso)
      add_rest(t, mod, elf);
  }
  sort(t);
}

/* ---- looking up ---- */

/* Nested symbols: the innermost that claims the address. */
static struct sym *find(struct symtab *t, uint64_t elf_addr)
{
  size_t lo = 0, hi = t->count;

  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (t->sym[mid].start <= elf_addr)
      lo = mid + 1;
    else
      hi = mid;
  }
  for (size_t i = lo; i > 0 && t->max_end[i - 1] > elf_addr; i--) {
    struct sym *s = &t->sym[i - 1];
    if (elf_addr - s->start < s->size)
      return s;
  }
  return NULL;
}

/* Versions (`memcpy@@GLIBC_2.14` in .symtab) are no part of the name. */
static const char *text_of(struct sym *s)
{
  if (s->text == NULL) {
    char *plain = strndup(s->raw, strcspn(s->raw, "@"));
    if (plain == NULL)
      return s->raw;
    s->text = symbols_demangle(plain);
    if (s->text == NULL)
      s->text = plain;
    else
      free(plain);
  }
  return s->text;
}

bool module_symbol(const struct module *cmod, uint64_t addr, struct symbol *out)
{
  struct module *mod = (struct module *)cmod;
  struct sym *s;

  if (!mod->elf)
    return false;
  if (!mod->symtab.loaded)
    load(&mod->symtab, mod);
  s = find(&mod->symtab, addr - mod->bias);
  if (s == NULL)
    return false;
  out->name = text_of(s);
  out->start = s->start + mod->bias;
  out->size = s->size;
  return true;
}

void symtab_retire(struct symtab *t)
{
  t->loaded = true;
  for (size_t i = 0; i < t->source_count; i++) {
    if (t->source[i].fd < 0)
      continue;
    elf_cntl(t->source[i].elf, ELF_C_FDDONE);
    close(t->source[i].fd);
    t->source[i].fd = -1;
  }
}

void symtab_free(struct symtab *t)
{
  for (size_t i = 0; i < t->count; i++)
    free(t->sym[i].text);
  free(t->sym);
  free(t->max_end);
  free(t->strings);
  for (size_t i = 0; i < t->source_count; i++)
    source_close(&t->source[i]);
  memset(t, 0, sizeof *t);
}
