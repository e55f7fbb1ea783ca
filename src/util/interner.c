/* SPDX-License-Identifier: MIT
 *
 * The bytes live in blocks that never move; a table of ids, at most half full,
 * finds them by hash.
 */
#include "util/interner.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"

#define BLOCK_BYTES 65536u
#define FIRST_SLOTS 256u

struct block {
  struct block *next;
  size_t used, size;
  char bytes[];
};

struct entry {
  const char *text;
  size_t len;
  uint32_t hash;
};

struct interner {
  struct block *blocks; /* newest first */
  struct entry *entry;
  size_t count, cap;
  uint32_t *slot; /* id + 1; 0: free */
  size_t slots;   /* a power of two */
};

struct interner *interner_new(void)
{
  struct interner *in = calloc(1, sizeof *in);
  if (!in)
    return NULL;
  in->slots = FIRST_SLOTS;
  in->slot = calloc(in->slots, sizeof *in->slot);
  if (!in->slot) {
    free(in);
    return NULL;
  }
  return in;
}

void interner_free(struct interner *in)
{
  if (!in)
    return;
  for (struct block *b = in->blocks; b;) {
    struct block *next = b->next;
    free(b);
    b = next;
  }
  free(in->entry);
  free(in->slot);
  free(in);
}

/* Where the string stands, or the free slot where it would. */
static size_t find_slot(const struct interner *in, const char *text, size_t len,
                        uint32_t hash)
{
  size_t mask = in->slots - 1;
  size_t i = hash & mask;
  for (; in->slot[i]; i = (i + 1) & mask) {
    const struct entry *e = &in->entry[in->slot[i] - 1];
    if (e->hash == hash && e->len == len &&
        (!len || !memcmp(e->text, text, len)))
      break;
  }
  return i;
}

static bool grow_slots(struct interner *in)
{
  size_t slots = in->slots * 2;
  uint32_t *slot = calloc(slots, sizeof *slot);
  if (!slot)
    return false;
  for (size_t id = 0; id < in->count; id++) {
    size_t i = in->entry[id].hash & (slots - 1);
    while (slot[i])
      i = (i + 1) & (slots - 1);
    slot[i] = (uint32_t)id + 1;
  }
  free(in->slot);
  in->slot = slot;
  in->slots = slots;
  return true;
}

static bool grow_entries(struct interner *in)
{
  size_t cap = in->cap ? in->cap * 2 : FIRST_SLOTS / 2;
  struct entry *e = realloc(in->entry, cap * sizeof *e);
  if (!e)
    return false;
  in->entry = e;
  in->cap = cap;
  return true;
}

/* A copy that ends in a NUL; NULL: no memory. */
static const char *keep(struct interner *in, const char *text, size_t len)
{
  struct block *b = in->blocks;
  if (!b || b->size - b->used <= len) {
    size_t size = len + 1 > BLOCK_BYTES ? len + 1 : BLOCK_BYTES;
    b = malloc(sizeof *b + size);
    if (!b)
      return NULL;
    b->used = 0;
    b->size = size;
    b->next = in->blocks;
    in->blocks = b;
  }
  char *p = b->bytes + b->used;
  if (len)
    memcpy(p, text, len);
  p[len] = '\0';
  b->used += len + 1;
  return p;
}

uint32_t interner_add(struct interner *in, const char *text, size_t len)
{
  uint32_t hash = (uint32_t)hash_words(text, len);
  size_t i = find_slot(in, text, len, hash);
  if (in->slot[i])
    return in->slot[i] - 1;
  if (in->count >= INTERNER_NONE - 1)
    return INTERNER_NONE;
  if (in->count == in->cap && !grow_entries(in))
    return INTERNER_NONE;
  if (in->count * 2 >= in->slots) {
    if (!grow_slots(in))
      return INTERNER_NONE;
    i = find_slot(in, text, len, hash);
  }
  const char *copy = keep(in, text, len);
  if (!copy)
    return INTERNER_NONE;
  in->entry[in->count] = (struct entry){copy, len, hash};
  in->slot[i] = (uint32_t)++in->count;
  return (uint32_t)in->count - 1;
}

uint32_t interner_add_str(struct interner *in, const char *text)
{
  return interner_add(in, text, strlen(text));
}

const char *interner_text(const struct interner *in, uint32_t id)
{
  return id < in->count ? in->entry[id].text : "";
}

size_t interner_count(const struct interner *in)
{
  return in->count;
}
