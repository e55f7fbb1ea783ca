/* SPDX-License-Identifier: MIT
 *
 * Names of functions, taken when LuaJIT reports that a prototype was made (its
 * "bc" event: children before parents, the parent names its children).  Later
 * is too late for most: the parents of functions, main chunks above all, are
 * collected after they ran.
 *
 * The table is written by the game's threads and read by the handler, perhaps
 * on the same thread in mid-write: an entry counts only with the right key,
 * which is stored last.
 */
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/agent_internal.h"
#include "base/atomics.h"
#include "vmcore/bcname.h"

enum {
  ENTRIES = 1 << 18, /* 4 MB of address space, touched where used */
  PROBES = 64,
  TEXTS = 1 << 17, /* places in the index of texts, by hash */
  YIELDS = 1000,
};
#define ARENA_BYTES (UINT32_C(16) << 20) /* a name is stored once */

struct entry {
  uint64_t pt;
  uint32_t key;
  uint32_t name; /* offset in the arena; 0: the source gives none */
};

static struct entry *table;
static uint8_t *arena; /* texts: length byte, bytes */
static uint32_t *text_index;
static volatile uint32_t arena_used = 1;

static void *reserve(size_t bytes)
{
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* Another thread is at it, which takes some microseconds; it may be one that a
 * fork has left behind, or this one, further out: not for ever. */
static bool made_by_another(const volatile uint32_t *state)
{
  for (unsigned i = 0; i < YIELDS && atomic_acquire(state) == 1; i++)
    sched_yield();
  return atomic_acquire(state) == 2;
}

static bool prepare(void)
{
  static volatile uint32_t state; /* 1: being made, 2: there, 3: failed */
  uint32_t none = 0;
  if (atomic_acquire(&state) == 2)
    return true;
  if (!__atomic_compare_exchange_n(&state, &none, 1u, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED))
    return made_by_another(&state);
  arena = reserve(ARENA_BYTES);
  text_index = reserve(TEXTS * sizeof *text_index);
  struct entry *t = reserve(ENTRIES * sizeof *t);
  bool ok = arena && text_index && t;
  if (ok)
    atomic_release(&table, t);
  atomic_release(&state, ok ? 2u : 3u);
  return ok;
}

/* ---- texts ---- */

static uint32_t text_hash(const char *name, size_t len)
{
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < len; i++)
    h = (h ^ (uint8_t)name[i]) * 16777619u;
  return h % TEXTS;
}

static bool text_is(uint32_t at, const char *name, size_t len)
{
  return at && arena[at] == len && !memcmp(arena + at + 1, name, len);
}

/* Offset of a text, 0 when there is no room.  Two threads may store the same
 * text twice; that only costs a few bytes. */
static uint32_t add_text(const char *name, size_t len)
{
  uint32_t *place = &text_index[text_hash(name, len)];
  uint32_t at = atomic_acquire(place);
  if (text_is(at, name, len))
    return at;
  if (len > 255 || arena_used + len + 1 > ARENA_BYTES)
    return 0;
  at = atomic_add(&arena_used, (uint32_t)len + 1);
  if (at + len + 1 > ARENA_BYTES)
    return 0;
  arena[at] = (uint8_t)len;
  memcpy(arena + at + 1, name, len);
  atomic_release(place, at);
  return at;
}

/* ---- entries ---- */

static struct entry *find(uint64_t pt, bool claim)
{
  struct entry *t = atomic_acquire(&table);
  uint32_t h = (uint32_t)((pt >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
  for (unsigned i = 0; t && i < PROBES; i++) {
    struct entry *e = &t[(h + i) % ENTRIES];
    uint64_t seen = atomic_acquire(&e->pt);
    if (seen == pt)
      return e;
    if (seen)
      continue;
    if (!claim)
      return NULL;
    if (__atomic_compare_exchange_n(&e->pt, &seen, pt, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED) ||
        seen == pt)
      return e;
  }
  return NULL;
}

struct event {
  struct vm_mem *mem;
  const struct vm_layout *lay;
};

static void store(void *ctx, uint64_t child, const char *name, size_t len)
{
  const struct event *ev = ctx;
  struct entry *e = find(child, true);
  if (!e)
    return;
  uint32_t text = len ? add_text(name, len) : 0;
  if (len && !text)
    return; /* no room: not known, rather than nameless */
  atomic_release(&e->key, 0u);
  atomic_set(&e->name, text);
  atomic_release(&e->key, capture_proto_key(ev->mem, ev->lay, child));
}

void names_proto_made(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t pt)
{
  struct event ev = {m, lay};
  if (prepare())
    vm_name_children(m, lay, pt, store, &ev);
}

bool names_find(struct vm_mem *m, const struct vm_layout *lay, uint64_t pt,
                const char **name, uint32_t *len)
{
  struct entry *e = find(pt, false);
  *name = "";
  *len = 0;
  if (!e || atomic_acquire(&e->key) != capture_proto_key(m, lay, pt))
    return false;
  uint32_t at = atomic_get(&e->name);
  if (at) {
    *len = arena[at];
    *name = (const char *)arena + at + 1;
  }
  return true;
}
