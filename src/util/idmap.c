/* SPDX-License-Identifier: MIT */
#include "util/idmap.h"

#include <stdlib.h>
#include <string.h>

#include "util/hash.h"

static struct idmap_entry *find(struct idmap_entry *entry, size_t cap,
                                uint64_t key)
{
  size_t i = hash_u64(key) & (cap - 1);
  while (entry[i].used && entry[i].key != key)
    i = (i + 1) & (cap - 1);
  return &entry[i];
}

static bool grow(struct idmap *m)
{
  size_t cap = m->cap ? m->cap * 2 : 64;
  struct idmap_entry *entry = calloc(cap, sizeof *entry);
  if (!entry)
    return false;
  for (size_t i = 0; i < m->cap; i++) {
    if (m->entry[i].used)
      *find(entry, cap, m->entry[i].key) = m->entry[i];
  }
  free(m->entry);
  m->entry = entry;
  m->cap = cap;
  return true;
}

bool idmap_get(const struct idmap *m, uint64_t key, uint32_t *value)
{
  if (!m->cap)
    return false;
  const struct idmap_entry *e = find(m->entry, m->cap, key);
  if (e->used)
    *value = e->value;
  return e->used;
}

bool idmap_put(struct idmap *m, uint64_t key, uint32_t value)
{
  if ((m->count + 1) * 2 > m->cap && !grow(m))
    return false;
  struct idmap_entry *e = find(m->entry, m->cap, key);
  m->count += !e->used;
  *e = (struct idmap_entry){key, value, 1};
  return true;
}

void idmap_clear(struct idmap *m)
{
  if (m->cap)
    memset(m->entry, 0, m->cap * sizeof *m->entry);
  m->count = 0;
}

void idmap_free(struct idmap *m)
{
  free(m->entry);
  *m = (struct idmap)IDMAP_INIT;
}
