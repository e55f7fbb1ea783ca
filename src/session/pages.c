/* SPDX-License-Identifier: MIT
 *
 * Memory of a process that stands still for a moment: pages are read once, as
 * many as can be in one system call, and forgotten when it goes on.
 */
#include <stdlib.h>
#include <string.h>

#include "session/session_internal.h"

#define PAGE UINT64_C(4096)
#define HASH 2048u /* places; PAGES_MAX of them are used at most */
#define BATCH 64u

struct place {
  uint64_t number; /* address / PAGE */
  uint32_t round;  /* of the cache, 0: never used */
  bool there;      /* it could be read */
  bool used;       /* it was asked for */
  uint8_t *bytes;
};

struct pages {
  struct vm_mem mem;
  struct target *target;
  uint32_t round;
  unsigned count; /* of bytes, in this round */
  struct place *wanted[BATCH];
  unsigned wants;
  uint64_t used[PAGES_KEPT]; /* numbers, in this round */
  unsigned use_count;
  struct place hash[HASH];
  uint8_t bytes[PAGES_MAX][PAGE];
};

static struct place *find(struct pages *p, uint64_t number)
{
  uint64_t h = number * UINT64_C(0x9e3779b97f4a7c15) >> 53;
  for (;; h++) {
    struct place *place = &p->hash[h % HASH];
    if (place->round != p->round || place->number == number)
      return place;
  }
}

/* A place for a page that is not there yet; NULL: no room. */
static struct place *add(struct pages *p, struct place *place, uint64_t number)
{
  if (p->count == PAGES_MAX)
    return NULL;
  *place = (struct place){
      .number = number, .round = p->round, .bytes = p->bytes[p->count++]};
  return place;
}

/* Pages that follow each other, here and there, are one piece. */
static unsigned pieces(struct pages *p, struct target_span *span,
                       unsigned *first)
{
  unsigned n = 0;
  for (unsigned i = 0; i < p->wants; i++) {
    uint64_t addr = p->wanted[i]->number * PAGE;
    struct target_span *last = n ? &span[n - 1] : NULL;
    if (last && last->addr + last->len == addr &&
        (uint8_t *)last->to + last->len == p->wanted[i]->bytes) {
      last->len += PAGE;
      continue;
    }
    first[n] = i;
    span[n++] = (struct target_span){addr, p->wanted[i]->bytes, PAGE, 0};
  }
  return n;
}

/* A piece ends where a page can't be read; those behind it still may be. */
void pages_read(struct pages *p)
{
  struct target_span span[BATCH];
  unsigned first[BATCH];
  while (p->wants) {
    unsigned n = pieces(p, span, first), left = 0;
    target_read_spans(p->target, span, n);
    for (unsigned k = 0; k < n; k++) {
      uint64_t pages = span[k].len / PAGE, got = span[k].got / PAGE;
      for (uint64_t i = 0; i < pages; i++)
        if (i < got)
          p->wanted[first[k] + i]->there = true;
        else if (i > got)
          p->wanted[left++] = p->wanted[first[k] + i];
    }
    p->wants = left;
  }
}

void pages_want(struct pages *p, uint64_t addr, uint64_t len)
{
  uint64_t end = addr + len;
  if (!len || end < addr || end >> 47)
    return;
  for (uint64_t n = addr / PAGE; n <= (end - 1) / PAGE; n++) {
    struct place *place = find(p, n);
    if (place->round == p->round)
      continue;
    if (!(place = add(p, place, n)))
      return;
    p->wanted[p->wants++] = place;
    if (p->wants == BATCH)
      pages_read(p);
  }
}

/* Bytes at addr, up to the end of their page; NULL: not readable, or no room.
 */
static const uint8_t *at(struct pages *p, uint64_t addr)
{
  struct place *place = find(p, addr / PAGE);
  if (place->round != p->round) {
    if (!(place = add(p, place, addr / PAGE)))
      return NULL;
    p->wanted[p->wants++] = place;
    pages_read(p);
  }
  if (!place->used && p->use_count < PAGES_KEPT)
    p->used[p->use_count++] = place->number;
  place->used = true;
  return place->there ? place->bytes + addr % PAGE : NULL;
}

size_t pages_copy(struct pages *p, void *to, uint64_t from, size_t n)
{
  size_t done = 0;
  pages_want(p, from, n);
  pages_read(p);
  while (done < n) {
    uint64_t addr = from + done, left = PAGE - addr % PAGE;
    size_t part = left < n - done ? (size_t)left : n - done;
    const uint8_t *bytes = addr >> 47 ? NULL : at(p, addr);
    if (!bytes)
      break;
    memcpy((uint8_t *)to + done, bytes, part);
    done += part;
  }
  return done;
}

static uint64_t load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  struct pages *p = m->ctx;
  uint64_t value = 0; /* little endian: the low bytes come first */
  bool ok = false;
  if (!(addr >> 47) && addr % PAGE + width <= PAGE) {
    const uint8_t *bytes = at(p, addr);
    ok = bytes != NULL;
    if (ok)
      memcpy(&value, bytes, width);
  } else if (!(addr >> 47)) {
    ok = pages_copy(p, &value, addr, width) == width;
  }
  m->faults += !ok;
  return ok ? value : 0;
}

struct pages *pages_new(struct target *t)
{
  struct pages *p = calloc(1, sizeof *p);
  if (p)
    p->target = t;
  return p;
}

void pages_free(struct pages *p)
{
  free(p);
}

void pages_begin(struct pages *p)
{
  p->round++;
  p->count = p->wants = p->use_count = 0;
}

void pages_mem(struct pages *p, struct vm_mem *m)
{
  m->load = load;
  m->ctx = p;
}

unsigned pages_used(const struct pages *p, uint64_t number[PAGES_KEPT])
{
  memcpy(number, p->used, p->use_count * sizeof *number);
  return p->use_count;
}

void pages_want_again(struct pages *p, const uint64_t *number, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    pages_want(p, number[i] * PAGE, 1);
}
