/* SPDX-License-Identifier: MIT
 *
 * The set of modules: from the target's maps to modules and back by address.
 */
#include "symbols/symbols_internal.h"

#include <stdlib.h>
#include <string.h>

struct range {
  uint64_t start, end;
  struct module *mod; /* NULL: executable memory without an ELF file */
};

struct modules {
  struct target *target;
  struct module **mod; /* the dead ones too */
  size_t count, cap;
  struct range *range; /* by address */
  size_t range_count, range_cap;
  const struct range *last;
};

static bool grow(void **array, size_t *cap, size_t need, size_t size)
{
  if (need <= *cap)
    return true;
  size_t next = *cap == 0 ? 64 : *cap * 2;
  void *p = realloc(*array, next * size);
  if (p == NULL)
    return false;
  *array = p;
  *cap = next;
  return true;
}

/* ---- groups of maps: one file mapped once ---- */

static bool is_vdso(const struct target_map *m)
{
  return strcmp(m->path, "[vdso]") == 0;
}

static bool same_file(const struct target_map *a, const struct target_map *b)
{
  return a->inode == b->inode && a->dev_major == b->dev_major &&
         a->dev_minor == b->dev_minor && strcmp(a->path, b->path) == 0;
}

static bool is_file(const struct target_map *m)
{
  return m->inode != 0 && m->path[0] == '/';
}

/* One past the last map of the group that starts at i.  An earlier place in
 * the file begins another mapping of it (two segments may share a page); memory
 * without a file in between is .bss or a hole. */
static size_t group_end(const struct target_maps *maps, size_t i)
{
  size_t end = i + 1;

  if (!is_file(&maps->map[i]))
    return end;
  for (size_t k = i + 1; k < maps->count; k++) {
    const struct target_map *m = &maps->map[k];
    if (!is_file(m) && m->path[0] == '\0' && !m->x)
      continue;
    if (!same_file(&maps->map[i], m) || m->offset < maps->map[end - 1].offset)
      break;
    end = k + 1;
  }
  return end;
}

static const struct target_map *group_code(const struct target_maps *maps,
                                           size_t i, size_t end)
{
  for (; i < end; i++) {
    if (maps->map[i].x)
      return &maps->map[i];
  }
  return NULL;
}

/* ---- making modules ---- */

static bool add_segment(struct image *im, const struct target_map *m)
{
  struct image_segment *s = &im->seg[im->seg_count];
  uint64_t chunks = (m->end - m->start + IMAGE_CHUNK - 1) / IMAGE_CHUNK;

  if (im->seg_count == IMAGE_SEGMENTS || m->end <= m->start)
    return false;
  s->start = m->start;
  s->end = m->end;
  s->offset = m->offset;
  s->x = m->x;
  s->chunk = calloc(chunks, sizeof *s->chunk);
  im->seg_count++;
  return s->chunk != NULL;
}

static struct module *make_module(struct target *t,
                                  const struct target_maps *maps, size_t i,
                                  size_t end)
{
  const struct target_map *first = &maps->map[i];
  struct module *mod = calloc(1, sizeof *mod);

  if (mod == NULL)
    return NULL;
  mod->path = strdup(first->path);
  mod->im.target = t;
  mod->im.fd = -1;
  if (mod->path == NULL) {
    module_free(mod);
    return NULL;
  }
  mod->name = strrchr(mod->path, '/') ? strrchr(mod->path, '/') + 1 : mod->path;
  mod->end = maps->map[end - 1].end;
  mod->vdso = is_vdso(first);
  mod->inode = first->inode;
  mod->dev_major = first->dev_major;
  mod->dev_minor = first->dev_minor;
  for (; i < end; i++) {
    if (maps->map[i].path[0] != '\0' && !add_segment(&mod->im, &maps->map[i]))
      break;
  }
  if (!mod->vdso)
    mod->im.fd = target_map_open(t, group_code(maps, first - maps->map, end));
  module_load_headers(mod);
  return mod;
}

static bool matches(const struct module *mod, const struct target_maps *maps,
                    size_t i, size_t end)
{
  const struct target_map *first = &maps->map[i];
  const struct target_map *code = group_code(maps, i, end);
  const struct image_segment *s = image_code(&mod->im);

  return mod->live && mod->im.seg[0].start == first->start &&
         mod->end == maps->map[end - 1].end && s != NULL &&
         s->start == code->start && s->end == code->end &&
         s->offset == code->offset && mod->inode == first->inode &&
         mod->dev_major == first->dev_major &&
         mod->dev_minor == first->dev_minor &&
         strcmp(mod->path, first->path) == 0;
}

static struct module *find_or_make(struct modules *m,
                                   const struct target_maps *maps, size_t i,
                                   size_t end, bool *changed)
{
  struct module *mod;

  for (size_t k = 0; k < m->count; k++) {
    if (matches(m->mod[k], maps, i, end))
      return m->mod[k];
  }
  *changed = true;
  if (!grow((void **)&m->mod, &m->cap, m->count + 1, sizeof(void *)))
    return NULL;
  mod = make_module(m->target, maps, i, end);
  if (mod == NULL)
    return NULL;
  mod->live = true;
  m->mod[m->count++] = mod;
  return mod;
}

/* ---- ranges ---- */

static void add_range(struct modules *m, const struct target_map *map,
                      struct module *mod)
{
  if (!grow((void **)&m->range, &m->range_cap, m->range_count + 1,
            sizeof *m->range))
    return;
  m->range[m->range_count++] = (struct range){map->start, map->end, mod};
}

static void add_group(struct modules *m, const struct target_maps *maps,
                      size_t i, size_t end, bool *changed)
{
  const struct target_map *first = &maps->map[i];
  struct module *mod = NULL;

  if (group_code(maps, i, end) == NULL)
    return;
  if (is_file(first) || is_vdso(first))
    mod = find_or_make(m, maps, i, end, changed);
  if (mod != NULL)
    mod->seen = true;
  if (mod != NULL && !mod->elf)
    mod = NULL;
  for (; i < end; i++) {
    const struct target_map *map = &maps->map[i];
    if (mod != NULL ? map->path[0] != '\0' : map->x)
      add_range(m, map, mod);
  }
}

/* What is unmapped is kept as it is until the next look, for samples that were
 * taken before. */
static bool end_unseen(struct modules *m)
{
  bool any = false;

  for (size_t k = 0; k < m->count; k++) {
    struct module *mod = m->mod[k];
    if (mod->seen)
      continue;
    if (!mod->live)
      module_retire(mod);
    any |= mod->live;
    mod->live = false;
  }
  return any;
}

static enum result read_maps(struct modules *m, bool *changed, struct error *e)
{
  struct target_maps maps;
  enum result r = target_maps_read(m->target, &maps, e);

  if (r != RESULT_OK)
    return r;
  if (maps.count == 0) { /* it is ending: its last samples still need these */
    target_maps_free(&maps);
    return error_set(e, RESULT_GONE, "the process has no memory any more");
  }
  m->range_count = 0;
  m->last = NULL;
  for (size_t k = 0; k < m->count; k++)
    m->mod[k]->seen = false;
  for (size_t i = 0, end; i < maps.count; i = end) {
    end = group_end(&maps, i);
    add_group(m, &maps, i, end, changed);
  }
  *changed |= end_unseen(m);
  target_maps_free(&maps);
  return RESULT_OK;
}

/* ---- public ---- */

enum result modules_new(struct target *t, struct modules **out, struct error *e)
{
  struct modules *m = calloc(1, sizeof *m);
  bool changed = false;
  enum result r;

  *out = NULL;
  if (m == NULL)
    return error_set(e, RESULT_NOMEM, "no memory for the list of modules");
  if (elf_version(EV_CURRENT) == EV_NONE) {
    free(m);
    return error_set(e, RESULT_VERSION,
                     "libelf is older than the one this was built with");
  }
  m->target = t;
  r = read_maps(m, &changed, e);
  if (r != RESULT_OK) {
    modules_free(m);
    return r;
  }
  *out = m;
  return RESULT_OK;
}

void modules_free(struct modules *m)
{
  if (m == NULL)
    return;
  for (size_t k = 0; k < m->count; k++)
    module_free(m->mod[k]);
  free(m->mod);
  free(m->range);
  free(m);
}

bool modules_refresh(struct modules *m)
{
  bool changed = false;

  read_maps(m, &changed, NULL);
  return changed;
}

static const struct range *find_range(struct modules *m, uint64_t addr)
{
  size_t lo = 0, hi = m->range_count;

  if (m->last != NULL && addr >= m->last->start && addr < m->last->end)
    return m->last;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (addr < m->range[mid].start)
      hi = mid;
    else if (addr >= m->range[mid].end)
      lo = mid + 1;
    else
      return m->last = &m->range[mid];
  }
  return NULL;
}

const struct module *modules_find(struct modules *m, uint64_t addr)
{
  const struct range *r = find_range(m, addr);

  return r != NULL ? r->mod : NULL;
}

bool modules_is_anon_exec(struct modules *m, uint64_t addr)
{
  const struct range *r = find_range(m, addr);

  return r != NULL && r->mod == NULL;
}
