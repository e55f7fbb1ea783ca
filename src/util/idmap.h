/* SPDX-License-Identifier: MIT
 *
 * Numbers to numbers: an open hash table without removal of single keys.
 */
#ifndef UTIL_IDMAP_H
#define UTIL_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct idmap_entry {
  uint64_t key;
  uint32_t value;
  uint32_t used;
};

struct idmap {
  struct idmap_entry *entry;
  size_t cap; /* 0 or a power of two */
  size_t count;
};

#define IDMAP_INIT                                                             \
  {                                                                            \
    0                                                                          \
  }

bool idmap_get(const struct idmap *m, uint64_t key, uint32_t *value);
/* Replaces an older value.  false: no memory, and nothing changed. */
bool idmap_put(struct idmap *m, uint64_t key, uint32_t value);
void idmap_clear(struct idmap *m); /* keeps the memory */
void idmap_free(struct idmap *m);

#endif
