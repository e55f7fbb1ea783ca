/* SPDX-License-Identifier: MIT */
#include "vmcore/ffnames.h"

#include <string.h>

#include "vmcore/table.h"
#include "vmcore/value.h"

enum {
  FIRST_BUILTIN = 2,
  KEY_MAX = 31,
  LIBRARY_NODES = 8192, /* entries of one that are looked at */
  ENOUGH = 16,          /* functions that must be found */
};

/* lib_init.c; the names of the base library stand for themselves. */
static const char *const libraries[] = {
    "_G",    "math",      "bit", "string",  "table", "io",       "os",
    "debug", "coroutine", "jit", "package", "ffi",   "jit.util", "jit.opt",
};

void vm_ffnames_listed(struct vm_ffnames *f, uint32_t layout)
{
  const struct vm_layout *lay = vm_layout_get(layout);
  memset(f, 0, sizeof *f);
  f->texts = vm_texts_get(layout);
  if (!lay || strncmp(lay->name, "luajit-", 7))
    return;
  for (unsigned i = FIRST_BUILTIN; i < f->texts->ffnames; i++)
    f->at[i] = (uint8_t)i;
}

/* Place of `library.key` in the list, 0: it is not there. */
static unsigned listed(const struct vm_texts *texts, const char *library,
                       const char *key)
{
  size_t n = strcmp(library, "_G") ? strlen(library) : 0;
  for (unsigned i = FIRST_BUILTIN; i < texts->ffnames; i++) {
    const char *name = texts->ffname[i];
    if (n && (strncmp(name, library, n) || name[n] != '.'))
      continue;
    if (!strcmp(name + n + (n != 0), key))
      return i;
  }
  return 0;
}

static bool key_text(struct vm_mem *m, const struct vm_layout *lay, uint64_t tv,
                     char key[KEY_MAX + 1])
{
  uint64_t s = vm_value_as(lay, tv, VM_GCT_STR);
  uint32_t len = s ? vm_load4(m, s + lay->str_len) : 0;
  if (!len || len > KEY_MAX)
    return false;
  for (uint32_t i = 0; i < len; i++)
    key[i] = (char)vm_load1(m, s + lay->str_sizeof + i);
  key[len] = 0;
  return true;
}

/* Notes what the library's functions are called.  One that has two listed names
 * is told by neither. */
static void read_library(struct vm_ffnames *f, struct vm_mem *m,
                         const struct vm_layout *lay, uint64_t table,
                         const char *library)
{
  uint64_t node = vm_ref(m, lay, table + lay->tab_node);
  uint64_t n = (uint64_t)vm_load4(m, table + lay->tab_hmask) + 1;
  uint32_t faults = m->faults;
  char key[KEY_MAX + 1];
  for (uint64_t i = 0; i < n && i < LIBRARY_NODES && m->faults == faults; i++) {
    uint64_t at = node + i * lay->node_sizeof;
    uint64_t fn =
        vm_value_as(lay, vm_load8(m, at + lay->node_val), VM_GCT_FUNC);
    uint32_t ffid = fn ? vm_load1(m, fn + lay->fn_ffid) : 0;
    if (ffid < FIRST_BUILTIN ||
        !key_text(m, lay, vm_load8(m, at + lay->node_key), key))
      continue;
    unsigned place = listed(f->texts, library, key);
    if (place && f->at[ffid] && f->at[ffid] != place)
      f->at[ffid] = UINT8_MAX;
    else if (place)
      f->at[ffid] = (uint8_t)place;
  }
}

/* Numbers rise in the order of the list; what a game put under another
 * builtin's name does not.  Returns how many are left. */
static unsigned drop_strays(struct vm_ffnames *f)
{
  unsigned count = 0, last = 0;
  for (unsigned i = FIRST_BUILTIN; i < VM_FFIDS; i++) {
    unsigned next = UINT8_MAX;
    for (unsigned k = i + 1; k < VM_FFIDS && next == UINT8_MAX; k++)
      next = f->at[k] ? f->at[k] : UINT8_MAX;
    if (!f->at[i] || f->at[i] == UINT8_MAX || f->at[i] <= last ||
        f->at[i] > next) {
      f->at[i] = 0;
      continue;
    }
    last = f->at[i];
    count++;
  }
  return count;
}

/* Functions that no library shows, such as the iterator of ipairs: those
 * between two that are as far apart in the list. */
static void fill(struct vm_ffnames *f)
{
  unsigned a = 1; /* FF_C: the first one in each list */
  for (unsigned b = FIRST_BUILTIN; b < VM_FFIDS; b++) {
    if (!f->at[b])
      continue;
    unsigned place = a == 1 ? 1 : f->at[a];
    if (f->at[b] - place == b - a)
      for (unsigned i = a + 1; i < b; i++)
        f->at[i] = (uint8_t)(place + i - a);
    a = b;
  }
}

bool vm_ffnames_read(struct vm_ffnames *f, struct vm_mem *m, uint32_t layout,
                     uint64_t g)
{
  const struct vm_layout *lay = vm_layout_get(layout);
  struct vm_ffnames read = {.texts = vm_texts_get(layout)};
  uint64_t loaded = lay && read.texts ? vm_loaded_table(m, lay, g) : 0;
  for (unsigned i = 0; loaded && i < sizeof libraries / sizeof *libraries;
       i++) {
    const char *name = libraries[i];
    uint64_t table = vm_node_table(
        m, lay, vm_table_node(m, lay, loaded, name, (uint32_t)strlen(name)));
    if (table)
      read_library(&read, m, lay, table, name);
  }
  if (drop_strays(&read) < ENOUGH)
    return false;
  fill(&read);
  *f = read;
  return true;
}

const char *vm_ffname(const struct vm_ffnames *f, uint32_t ffid)
{
  unsigned at = ffid < VM_FFIDS ? f->at[ffid] : 0;
  return at ? f->texts->ffname[at] : NULL;
}
