/* SPDX-License-Identifier: MIT
 *
 * Dynamic symbols of a module, read from the target's memory: for names of
 * code when the file can't be reached (deleted, in another namespace, the
 * vdso), and for addresses of names, where what is mapped is what counts.
 */
#include "symbols/symbols_internal.h"

#include <stdlib.h>
#include <string.h>

#define STRINGS_MAX (64u << 20)
#define SYMBOLS_MAX (1u << 22)

struct dynamic {
  uint64_t symtab, strtab, strsz, hash, gnu_hash;
};

/* Memory of data segments differs from the file: never through the image. */
static bool read_live(struct module *mod, uint64_t addr, void *buf, size_t n)
{
  return target_read(mod->im.target, addr, buf, n) == RESULT_OK;
}

/* ld.so relocates these in place (_dl_relocate's ADJUST_DYN_INFO in glibc's
 * elf/get-dynamic-info.h), but not in the vdso and not in every libc. */
static uint64_t at_run_time(const struct module *mod, uint64_t v)
{
  return v < mod->bias ? v + mod->bias : v;
}

static void keep_entry(struct dynamic *d, const struct module *mod,
                       const Elf64_Dyn *e)
{
  switch (e->d_tag) {
  case DT_SYMTAB:
    d->symtab = at_run_time(mod, e->d_un.d_ptr);
    break;
  case DT_STRTAB:
    d->strtab = at_run_time(mod, e->d_un.d_ptr);
    break;
  case DT_STRSZ:
    d->strsz = e->d_un.d_val;
    break;
  case DT_HASH:
    d->hash = at_run_time(mod, e->d_un.d_ptr);
    break;
  case DT_GNU_HASH:
    d->gnu_hash = at_run_time(mod, e->d_un.d_ptr);
    break;
  }
}

static bool read_dynamic(struct module *mod, struct dynamic *d)
{
  *d = (struct dynamic){0};
  for (uint64_t at = 0; at + 16 <= mod->dynamic_size; at += 16) {
    Elf64_Dyn e;
    if (!read_live(mod, mod->dynamic + at, &e, sizeof e) || e.d_tag == DT_NULL)
      break;
    keep_entry(d, mod, &e);
  }
  return d->symtab != 0 && d->strtab != 0 && d->strsz > 0 &&
         d->strsz <= STRINGS_MAX;
}

/* The GNU hash table has no count: it is one past the end of the chain that
 * starts last. */
static uint64_t gnu_count(struct module *mod, uint64_t table)
{
  uint32_t head[4]; /* buckets, first symbol, bloom words, shift */
  uint32_t last = 0, link = 0;

  if (!read_live(mod, table, head, sizeof head) || head[0] > SYMBOLS_MAX ||
      head[2] > SYMBOLS_MAX)
    return 0;
  uint64_t bucket = table + sizeof head + (uint64_t)head[2] * 8;
  for (uint32_t i = 0; i < head[0]; i++) {
    uint32_t v;
    if (!read_live(mod, bucket + 4ull * i, &v, sizeof v))
      return 0;
    if (v > last)
      last = v;
  }
  if (last < head[1])
    return head[1];
  uint64_t chain = bucket + 4ull * head[0];
  while ((link & 1) == 0) {
    if (last >= SYMBOLS_MAX ||
        !read_live(mod, chain + 4ull * (last - head[1]), &link, sizeof link))
      return 0;
    last++;
  }
  return last;
}

static uint64_t symbol_count(struct module *mod, const struct dynamic *d)
{
  uint32_t head[2]; /* buckets, chains */

  if (d->gnu_hash != 0)
    return gnu_count(mod, d->gnu_hash);
  if (d->hash != 0 && read_live(mod, d->hash, head, sizeof head) &&
      head[1] <= SYMBOLS_MAX)
    return head[1];
  return 0;
}

struct table {
  Elf64_Sym *sym;
  uint64_t count;
  char *strings; /* NUL-terminated as a whole */
  uint64_t strsz;
};

static void table_free(struct table *t)
{
  free(t->sym);
  free(t->strings);
}

/* false: nothing is held. */
static bool read_table(struct module *mod, struct table *t)
{
  struct dynamic d;

  *t = (struct table){0};
  if (!read_dynamic(mod, &d))
    return false;
  t->count = symbol_count(mod, &d);
  if (t->count == 0)
    return false;
  t->strsz = d.strsz;
  t->sym = calloc(t->count, sizeof *t->sym);
  t->strings = calloc(1, d.strsz + 1);
  if (t->sym != NULL && t->strings != NULL &&
      read_live(mod, d.symtab, t->sym, t->count * sizeof *t->sym) &&
      read_live(mod, d.strtab, t->strings, d.strsz))
    return true;
  table_free(t);
  return false;
}

void symtab_add_dynamic(struct symtab *t, struct module *mod)
{
  struct table table;

  if (!read_table(mod, &table))
    return;
  for (uint64_t i = 0; i < table.count; i++) {
    const Elf64_Sym *s = &table.sym[i];
    if (s->st_name < table.strsz)
      symtab_add(t, s, table.strings + s->st_name);
  }
  t->strings = table.strings;
  free(table.sym);
}

static bool is_export(const Elf64_Sym *s)
{
  unsigned type = ELF64_ST_TYPE(s->st_info);

  return s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS &&
         ELF64_ST_BIND(s->st_info) != STB_LOCAL &&
         (type == STT_FUNC || type == STT_OBJECT);
}

unsigned module_exports(const struct module *mod, struct export *want,
                        unsigned n)
{
  struct table t;
  unsigned found = 0;

  for (unsigned k = 0; k < n; k++)
    want[k].start = want[k].size = 0;
  if (!mod->elf || !read_table((struct module *)mod, &t))
    return 0;
  for (uint64_t i = 0; i < t.count && found < n; i++) {
    const Elf64_Sym *s = &t.sym[i];
    if (s->st_name >= t.strsz || !is_export(s))
      continue;
    for (unsigned k = 0; k < n; k++) {
      if (want[k].start != 0 || strcmp(want[k].name, t.strings + s->st_name))
        continue;
      want[k].start = mod->bias + s->st_value;
      want[k].size = s->st_size;
      found++;
    }
  }
  table_free(&t);
  return found;
}
