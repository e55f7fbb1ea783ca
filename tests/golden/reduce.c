/* SPDX-License-Identifier: MIT
 *
 * Which parts of which files a replay needs: whatever the samples might lead
 * to.  Every word of a sample's registers and stacks that points into mapped
 * code counts, whether or not it is a return address; so this shares no
 * judgement with the unwinder that is tested.  For each such place are kept:
 * some bytes of code, the unwind table's entry and the symbols over it.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "recording.h"
#include "shm/shm.h"

#define BEFORE 16 /* bytes of code kept before and behind a place */
#define BEHIND 32

/* ---- places ---- */

struct places {
  uint64_t *at;
  size_t count, cap;
};

static void add_place(struct places *p, uint64_t addr)
{
  if (p->count == p->cap) {
    p->cap = p->cap * 2 + 1024;
    p->at = realloc(p->at, p->cap * sizeof *p->at);
    if (!p->at)
      abort();
  }
  p->at[p->count++] = addr;
}

static void add_words(struct places *p, const void *bytes, size_t len)
{
  for (size_t i = 0; i + 8 <= len; i += 8) {
    uint64_t word;
    memcpy(&word, (const char *)bytes + i, sizeof word);
    add_place(p, word);
  }
}

static int by_value(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void sort_places(struct places *p)
{
  size_t n = 0;
  qsort(p->at, p->count, sizeof *p->at, by_value);
  for (size_t i = 0; i < p->count; i++)
    if (!i || p->at[i] != p->at[n - 1])
      p->at[n++] = p->at[i];
  p->count = n;
}

static void add_sample(struct places *p, const struct tecs_record *rec)
{
  struct sample_view v;
  if (record_sample(rec, &v) != RESULT_OK)
    return;
  add_words(p, v.sample->reg, sizeof v.sample->reg);
  add_words(p, v.stack, v.sample->stack_len);
  add_words(p, v.outer, v.sample->outer_len);
  for (unsigned i = 0; i < v.sample->lua_count; i++)
    if (v.lua[i].kind == TECS_FRAME_C)
      add_place(p, v.lua[i].value);
}

static bool read_places(const char *dir, struct places *p)
{
  char path[PATH_MAX];
  struct bytes b;
  struct frame_head h;
  snprintf(path, sizeof path, "%s/stream", dir);
  if (!bytes_read(path, &b))
    return false;
  for (size_t i = 0; i + sizeof h <= b.len; i += sizeof h + h.len) {
    memcpy(&h, b.data + i, sizeof h);
    add_sample(p, (const struct tecs_record *)(b.data + i + sizeof h));
  }
  bytes_free(&b);
  snprintf(path, sizeof path, "%s/vms", dir);
  if (!bytes_read(path, &b))
    return false;
  for (size_t i = 0; i + sizeof(struct tecs_vm) <= b.len;
       i += sizeof(struct tecs_vm))
    add_place(p, ((struct tecs_vm *)(b.data + i))->asm_pc);
  bytes_free(&b);
  sort_places(p);
  return true;
}

/* ---- one file ---- */

struct elf {
  struct bytes file;
  uint8_t *out; /* what becomes of it, room for new tables behind it */
  uint8_t *keep;
  size_t size, cap;
  const Elf64_Ehdr *eh;
  const Elf64_Phdr *ph;
};

static void keep(struct elf *f, uint64_t offset, uint64_t len)
{
  if (offset >= f->file.len)
    return;
  if (len > f->file.len - offset)
    len = f->file.len - offset;
  memcpy(f->out + offset, f->file.data + offset, len);
  memset(f->keep + offset, 1, len);
}

static void put(struct elf *f, uint64_t offset, const void *data, size_t len)
{
  if (offset + len > f->cap)
    abort();
  memcpy(f->out + offset, data, len);
  memset(f->keep + offset, 1, len);
  if (offset + len > f->size)
    f->size = offset + len;
}

static bool open_elf(struct elf *f, const char *path)
{
  if (!bytes_read(path, &f->file) || f->file.len < sizeof *f->eh)
    return false;
  f->eh = (const Elf64_Ehdr *)f->file.data;
  f->ph = (const Elf64_Phdr *)(f->file.data + f->eh->e_phoff);
  if (memcmp(f->eh->e_ident, ELFMAG, SELFMAG) != 0)
    return false;
  f->size = f->file.len;
  f->cap = f->file.len * 2 + 65536;
  f->out = calloc(1, f->cap);
  f->keep = calloc(1, f->cap);
  return f->out && f->keep;
}

static void close_elf(struct elf *f)
{
  bytes_free(&f->file);
  free(f->out);
  free(f->keep);
}

/* The loaded segment with this address (else offset) in the file; NULL. */
static const Elf64_Phdr *segment(const struct elf *f, uint64_t v, bool offset)
{
  for (unsigned i = 0; i < f->eh->e_phnum; i++) {
    uint64_t start = offset ? f->ph[i].p_offset : f->ph[i].p_vaddr;
    if (f->ph[i].p_type == PT_LOAD && v >= start &&
        v - start < f->ph[i].p_filesz)
      return &f->ph[i];
  }
  return NULL;
}

static const Elf64_Phdr *header(const struct elf *f, uint32_t type)
{
  for (unsigned i = 0; i < f->eh->e_phnum; i++)
    if (f->ph[i].p_type == type)
      return &f->ph[i];
  return NULL;
}

static uint64_t offset_of(const struct elf *f, uint64_t vaddr)
{
  const Elf64_Phdr *ph = segment(f, vaddr, false);
  return ph ? vaddr - ph->p_vaddr + ph->p_offset : UINT64_MAX;
}

/* ---- the unwind table ---- */

struct table_head {
  uint8_t version, pointer, count_form, table_form;
  int32_t eh_frame;
  uint32_t count;
};

struct table_entry {
  int32_t start, fde; /* relative to the header */
};

/* An entry and the CIE it names: length, then the distance back to it. */
static void keep_fde(struct elf *f, uint64_t offset)
{
  uint32_t len, back;
  memcpy(&len, f->file.data + offset, sizeof len);
  memcpy(&back, f->file.data + offset + 4, sizeof back);
  keep(f, offset, 4 + (uint64_t)len);
  uint64_t cie = offset + 4 - back;
  memcpy(&len, f->file.data + cie, sizeof len);
  keep(f, cie, 4 + (uint64_t)len);
}

static const struct table_entry *entry_of(const struct table_entry *e,
                                          size_t count, uint64_t hdr,
                                          uint64_t vaddr)
{
  size_t lo = 0, hi = count;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (hdr + (uint64_t)(int64_t)e[mid].start <= vaddr)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo ? &e[lo - 1] : NULL;
}

/* A shorter search table, of the entries over the places alone. */
static bool keep_tables(struct elf *f, const struct places *p)
{
  const Elf64_Phdr *ph = header(f, PT_GNU_EH_FRAME);
  struct table_head h;
  const struct table_entry *last = NULL;
  if (!ph)
    return true;
  memcpy(&h, f->file.data + ph->p_offset, sizeof h);
  const struct table_entry *all =
      (const struct table_entry *)(f->file.data + ph->p_offset + sizeof h);
  if (h.version != 1 || h.count_form != 3 || h.table_form != 0x3b)
    return false;
  uint32_t count = 0, n = h.count;
  for (size_t i = 0; i < p->count; i++) {
    const struct table_entry *e = entry_of(all, n, ph->p_vaddr, p->at[i]);
    if (!e || e == last)
      continue;
    keep_fde(f, offset_of(f, ph->p_vaddr + (uint64_t)(int64_t)e->fde));
    put(f, ph->p_offset + sizeof h + count++ * sizeof *e, e, sizeof *e);
    last = e;
  }
  h.count = count;
  put(f, ph->p_offset, &h, sizeof h);
  return true;
}

/* ---- symbols ---- */

static const Elf64_Shdr *find_section(const struct elf *f, uint32_t type)
{
  const Elf64_Shdr *sh = (const Elf64_Shdr *)(f->file.data + f->eh->e_shoff);
  for (unsigned i = 0; f->eh->e_shoff && i < f->eh->e_shnum; i++)
    if (sh[i].sh_type == type)
      return &sh[i];
  return NULL;
}

static bool covers(const struct places *p, const Elf64_Sym *s)
{
  size_t lo = 0, hi = p->count;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (p->at[mid] < s->st_value)
      lo = mid + 1;
    else
      hi = mid;
  }
  return s->st_shndx != SHN_UNDEF && lo < p->count &&
         p->at[lo] - s->st_value < s->st_size;
}

struct tables {
  struct bytes symbols, strings;
};

static void append(struct bytes *b, const void *data, size_t len)
{
  b->data = realloc(b->data, b->len + len);
  if (!b->data)
    abort();
  memcpy(b->data + b->len, data, len);
  b->len += len;
}

static void pick_symbols(const struct elf *f, const Elf64_Shdr *sh,
                         const struct places *p, struct tables *t)
{
  const Elf64_Shdr *all = (const Elf64_Shdr *)(f->file.data + f->eh->e_shoff);
  const char *names = (const char *)f->file.data + all[sh->sh_link].sh_offset;
  const Elf64_Sym *sym = (const Elf64_Sym *)(f->file.data + sh->sh_offset);
  Elf64_Sym none = {0};
  append(&t->symbols, &none, sizeof none);
  append(&t->strings, "", 1);
  for (size_t i = 0; i < sh->sh_size / sizeof *sym; i++) {
    if (!covers(p, &sym[i]))
      continue;
    Elf64_Sym s = sym[i];
    s.st_name = (uint32_t)t->strings.len;
    append(&t->symbols, &s, sizeof s);
    append(&t->strings, names + sym[i].st_name,
           strlen(names + sym[i].st_name) + 1);
  }
}

/* The new tables stand behind the file; no build-id remains, so that nobody
 * looks for a debug file. */
static void put_sections(struct elf *f, uint32_t type, const struct tables *t)
{
  static const char names[] = "\0.symbols\0.strings\0.names";
  uint64_t at = (f->size + 63) & ~UINT64_C(63);
  Elf64_Ehdr eh = *f->eh;
  Elf64_Shdr sh[4] = {
      {0},
      {.sh_name = 1,
       .sh_type = type,
       .sh_offset = at,
       .sh_size = t->symbols.len,
       .sh_link = 2,
       .sh_info = 1,
       .sh_addralign = 8,
       .sh_entsize = sizeof(Elf64_Sym)},
      {.sh_name = 10,
       .sh_type = SHT_STRTAB,
       .sh_offset = at + t->symbols.len,
       .sh_size = t->strings.len,
       .sh_addralign = 1},
      {.sh_name = 19,
       .sh_type = SHT_STRTAB,
       .sh_offset = at + t->symbols.len + t->strings.len,
       .sh_size = sizeof names,
       .sh_addralign = 1},
  };
  put(f, sh[1].sh_offset, t->symbols.data, t->symbols.len);
  put(f, sh[2].sh_offset, t->strings.data, t->strings.len);
  put(f, sh[3].sh_offset, names, sizeof names);
  eh.e_shoff = (f->size + 7) & ~UINT64_C(7);
  eh.e_shnum = 4;
  eh.e_shstrndx = 3;
  put(f, eh.e_shoff, sh, sizeof sh);
  put(f, 0, &eh, sizeof eh);
}

static void keep_symbols(struct elf *f, const struct places *p)
{
  struct tables t = {{0}, {0}};
  Elf64_Ehdr eh = *f->eh;
  uint32_t type = SHT_SYMTAB;
  const Elf64_Shdr *sh = find_section(f, type);
  if (!sh)
    sh = find_section(f, type = SHT_DYNSYM);
  if (sh) {
    pick_symbols(f, sh, p, &t);
    put_sections(f, type, &t);
  } else {
    eh.e_shoff = eh.e_shnum = eh.e_shstrndx = 0;
    put(f, 0, &eh, sizeof eh);
  }
  free(t.symbols.data);
  free(t.strings.data);
}

/* ---- writing ---- */

static bool write_reduced(const struct elf *f, const char *path)
{
  FILE *out = make_folders(path) ? fopen(path, "wb") : NULL;
  uint64_t size = f->size, end;
  if (!out)
    return false;
  fwrite(REDUCED_MAGIC, 1, sizeof REDUCED_MAGIC - 1, out);
  fwrite(&size, sizeof size, 1, out);
  for (uint64_t at = 0; at < size; at = end) {
    const uint8_t *next = memchr(f->keep + at, 1, size - at);
    if (!next)
      break;
    at = (uint64_t)(next - f->keep);
    const uint8_t *stop = memchr(next, 0, size - at);
    end = stop ? (uint64_t)(stop - f->keep) : size;
    struct piece_head h = {at, end - at};
    fwrite(&h, sizeof h, 1, out);
    fwrite(f->out + at, 1, end - at, out);
  }
  return fclose(out) == 0;
}

/* places: addresses of this file, not of the process. */
static bool reduce_file(const char *path, const struct places *places,
                        const char *to)
{
  struct elf f = {{0}, NULL, NULL, 0, 0, NULL, NULL};
  bool ok = open_elf(&f, path);
  if (ok) {
    const Elf64_Phdr *dynamic = header(&f, PT_DYNAMIC);
    keep(&f, 0, sizeof *f.eh);
    keep(&f, f.eh->e_phoff, f.eh->e_phnum * sizeof *f.ph);
    if (dynamic)
      keep(&f, dynamic->p_offset, dynamic->p_filesz);
    for (size_t i = 0; i < places->count; i++) {
      uint64_t at = offset_of(&f, places->at[i]);
      if (at != UINT64_MAX)
        keep(&f, at < BEFORE ? 0 : at - BEFORE, BEFORE + BEHIND);
    }
    ok = keep_tables(&f, places);
    keep_symbols(&f, places);
  }
  ok = ok && write_reduced(&f, to);
  close_elf(&f);
  return ok;
}

/* ---- the maps ---- */

struct map {
  uint64_t start, end, offset;
  char perm[5];
  unsigned long inode;
  const char *path; /* NULL: none */
  char line[PATH_MAX + 128];
};

static bool parse(const char *line, struct map *m)
{
  int at = 0;
  snprintf(m->line, sizeof m->line, "%.*s", (int)strcspn(line, "\n"), line);
  if (sscanf(m->line, "%lx-%lx %4s %lx %*x:%*x %lu %n", &m->start, &m->end,
             m->perm, &m->offset, &m->inode, &at) < 5)
    return false;
  m->path = at && m->line[at] ? m->line + at : NULL;
  return true;
}

static bool any_place(const struct places *p, const struct map *m)
{
  for (size_t i = 0; i < p->count; i++)
    if (p->at[i] >= m->start && p->at[i] < m->end)
      return true;
  return false;
}

/* Addresses in the file of those places that m maps; by its segment, as ld.so
 * placed it. */
static void add_file_places(const struct places *all, const struct map *m,
                            struct places *out)
{
  struct elf f = {{0}, NULL, NULL, 0, 0, NULL, NULL};
  if (open_elf(&f, m->path)) {
    for (size_t i = 0; i < all->count; i++) {
      if (all->at[i] < m->start || all->at[i] >= m->end)
        continue;
      uint64_t offset = all->at[i] - m->start + m->offset;
      const Elf64_Phdr *ph = segment(&f, offset, true);
      if (ph)
        add_place(out, offset - ph->p_offset + ph->p_vaddr);
    }
    if (f.eh->e_entry)
      add_place(out, f.eh->e_entry);
  }
  close_elf(&f);
}

struct reduction {
  const char *dir, *home;
  struct places places;
  FILE *maps;
  char kept[16][PATH_MAX]; /* paths of files that are in it */
  unsigned kept_count;
};

static bool is_kept(const struct reduction *r, const char *path)
{
  for (unsigned i = 0; i < r->kept_count; i++)
    if (strcmp(r->kept[i], path) == 0)
      return true;
  return false;
}

/* Path in the recording. */
static const char *placed(const struct reduction *r, const char *path,
                          char out[PATH_MAX])
{
  size_t n = strlen(r->home);
  bool home = strncmp(path, r->home, n) == 0 && path[n] == '/';
  snprintf(out, PATH_MAX, "%s%s", home ? RECORDED_HOME : "",
           home ? path + n : path);
  return out;
}

static bool keep_file(struct reduction *r, const struct map *m)
{
  char to[2 * PATH_MAX], path[PATH_MAX];
  struct places places = {0};
  if (r->kept_count == sizeof r->kept / sizeof *r->kept)
    return false;
  add_file_places(&r->places, m, &places);
  sort_places(&places);
  snprintf(to, sizeof to, "%s/root%s", r->dir, placed(r, m->path, path));
  bool ok = reduce_file(m->path, &places, to);
  snprintf(r->kept[r->kept_count++], PATH_MAX, "%s", m->path);
  free(places.at);
  return ok;
}

static void print_map(struct reduction *r, const struct map *m)
{
  char path[PATH_MAX];
  if (m->path && m->path[0] == '/')
    fprintf(r->maps, "%.*s%s\n", (int)(m->path - m->line), m->line,
            placed(r, m->path, path));
  else
    fprintf(r->maps, "%s\n", m->line);
}

/* twice: which files have code that counts, then their lines. */
static bool pass(struct reduction *r, const char *maps, bool print)
{
  struct map m;
  for (const char *p = maps; *p; p += strcspn(p, "\n"), p += *p == '\n') {
    if (!parse(p, &m))
      return false;
    bool code = m.perm[2] == 'x' && any_place(&r->places, &m);
    bool file = m.inode && m.path && m.path[0] == '/';
    if (!print && file && code && !is_kept(r, m.path) && !keep_file(r, &m))
      return false;
    if (print && (file ? is_kept(r, m.path) : code && !m.path))
      print_map(r, &m);
  }
  return true;
}

bool recording_reduce(const char *dir, const char *maps, const char *home,
                      char *text, size_t cap)
{
  struct reduction r = {.dir = dir, .home = home};
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/maps", dir);
  r.maps = fopen(path, "wb");
  bool ok = r.maps && read_places(dir, &r.places) && pass(&r, maps, false) &&
            pass(&r, maps, true);
  ok = r.maps && fclose(r.maps) == 0 && ok;
  if (!ok)
    snprintf(text, cap, "cannot reduce the files that %s needs", dir);
  free(r.places.at);
  return ok;
}
