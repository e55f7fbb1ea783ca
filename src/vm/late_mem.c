/* SPDX-License-Identifier: MIT
 *
 * The VM's memory through target_read, in pieces that are kept for one call.
 */
#include <stdlib.h>
#include <string.h>

#include "vm/late_internal.h"

#define PIECE_BITS 14
#define PIECE (UINT64_C(1) << PIECE_BITS)
#define PAGE UINT64_C(4096)
#define SETS 512u /* 8 MB */

struct piece {
  uint64_t number; /* address / PIECE */
  uint32_t round;  /* of the cache, 0: empty */
  uint32_t pages;  /* bit set: readable */
  uint8_t *bytes;
};

struct late_cache {
  struct target *target;
  struct vm_mem mem;
  uint32_t round;
  struct piece set[SETS];
};

static void fill(struct late_cache *c, struct piece *p, uint64_t number)
{
  uint64_t addr = number << PIECE_BITS;
  if (!p->bytes)
    p->bytes = malloc(PIECE);
  p->number = number;
  p->round = c->round;
  p->pages = 0;
  if (!p->bytes)
    return;
  if (target_read(c->target, addr, p->bytes, PIECE) == RESULT_OK) {
    p->pages = UINT32_MAX;
    return;
  }
  /* the end of a mapping */
  for (unsigned i = 0; i < PIECE / PAGE; i++)
    if (target_read(c->target, addr + i * PAGE, p->bytes + i * PAGE, PAGE) ==
        RESULT_OK)
      p->pages |= 1u << i;
}

/* Where addr's bytes are, up to the end of its page; NULL: not readable. */
static const uint8_t *find(struct late_cache *c, uint64_t addr)
{
  uint64_t number = addr >> PIECE_BITS;
  struct piece *p = &c->set[number % SETS];
  if (p->number != number || p->round != c->round)
    fill(c, p, number);
  uint64_t off = addr & (PIECE - 1);
  return p->pages >> (off / PAGE) & 1 ? p->bytes + off : NULL;
}

static uint64_t load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  struct late_cache *c = m->ctx;
  uint64_t v = 0;
  if (addr >> 47) { /* no user space address */
    m->faults++;
    return 0;
  }
  const uint8_t *at = find(c, addr);
  if (at && (addr & (PAGE - 1)) + width <= PAGE) {
    memcpy(&v, at, width);
    return v;
  }
  for (unsigned i = 0; i < width; i++) { /* across two pages */
    at = find(c, addr + i);
    if (!at) {
      m->faults++;
      return 0;
    }
    v |= (uint64_t)*at << (8 * i);
  }
  return v;
}

struct late_cache *late_cache_new(struct target *t)
{
  struct late_cache *c = calloc(1, sizeof *c);
  if (!c)
    return NULL;
  c->target = t;
  c->mem.load = load;
  c->mem.ctx = c;
  return c;
}

void late_cache_empty(struct late_cache *c)
{
  for (unsigned i = 0; i < SETS; i++) {
    free(c->set[i].bytes);
    c->set[i] = (struct piece){0};
  }
}

void late_cache_free(struct late_cache *c)
{
  if (!c)
    return;
  late_cache_empty(c);
  free(c);
}

struct vm_mem *late_cache_begin(struct late_cache *c)
{
  c->round++;
  c->mem.faults = 0;
  return &c->mem;
}
