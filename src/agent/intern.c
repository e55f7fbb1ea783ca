/* SPDX-License-Identifier: MIT
 *
 * Images of prototypes and strings: written to the ring the first time that a
 * slot's sample meets one, so that a sample needs nothing of the live process.
 * Objects die and addresses are used again: an entry counts only while the
 * object's key is the same.
 */
#include <string.h>

#include "agent/agent_internal.h"
#include "vmcore/bcname.h"
#include "vmcore/discover.h"

enum {
  PROBES = 16,
  CHUNK_MAX = 1024,  /* bytes of a chunk name that are carried */
  STRING_MAX = 512,  /* of a zone name */
  LINES_MAX = 65536, /* of a line table */
  MCODE_MAX = 32,
};

#define FNV_PRIME 16777619u

static uint32_t pad8(uint32_t n)
{
  return (n + 7) & ~7u;
}

void intern_reset(struct slot_state *s)
{
  memset(s->intern, 0, sizeof s->intern);
  memset(s->mcode_key, 0, sizeof s->mcode_key);
  s->entries = 0;
  s->next_id = 1;
}

/* The entry for addr: its own, or a free one.  When the table gets full it
 * starts again; ids go on, so images are sent a second time. */
static struct intern_entry *lookup(struct slot_state *s, uint64_t addr)
{
  if (s->entries > INTERN_ENTRIES * 3 / 4) {
    memset(s->intern, 0, sizeof s->intern);
    s->entries = 0;
  }
  uint32_t h = (uint32_t)((addr >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
  struct intern_entry *e = NULL;
  for (unsigned i = 0; i < PROBES; i++) {
    e = &s->intern[(h + i) % INTERN_ENTRIES];
    if (e->addr == addr || !e->addr)
      return e;
  }
  return e; /* crowded: the last one gives way */
}

static uint32_t remember(struct slot_state *s, struct intern_entry *e,
                         uint64_t addr, uint32_t key)
{
  if (!e->addr)
    s->entries++;
  e->addr = addr;
  e->key = key;
  e->id = s->next_id++;
  return e->id;
}

/* ---- prototypes ---- */

/* Bytes of the line table (lj_parse.c, fs_fixup_line). */
static uint32_t lines_size(struct slot_state *s, uint64_t pt,
                           struct tecs_proto *p)
{
  if (!vm_load8(&s->mem, pt + s->lay->pt_lineinfo))
    return 0;
  p->line_width = p->numline < 256 ? 1 : p->numline < 65536 ? 2 : 4;
  uint64_t size = (uint64_t)(p->sizebc - 1) * p->line_width;
  if (size > LINES_MAX) {
    p->flags |= TECS_PROTO_LINES_CUT;
    return 0;
  }
  p->flags |= TECS_PROTO_LINES;
  return (uint32_t)size;
}

static void describe(struct slot_state *s, uint64_t pt, struct tecs_proto *p)
{
  const struct vm_layout *lay = s->lay;
  memset(p, 0, sizeof *p);
  p->rec.type = TECS_RECORD_PROTO;
  p->addr = pt;
  p->g = s->g;
  p->firstline = vm_load4(&s->mem, pt + lay->pt_firstline);
  p->numline = vm_load4(&s->mem, pt + lay->pt_numline);
  p->sizebc = vm_load4(&s->mem, pt + lay->pt_sizebc);
  p->opcode_hash = vm_opcode_hash(&s->mem, lay, pt, p->sizebc);
  p->line_width = 1;
  p->lines_len = lines_size(s, pt, p);
}

/* A path that is too long keeps its first byte (it tells a file) and its
 * tail; any other name keeps its head. */
static void put_chunk(uint8_t *to, uint64_t bytes, uint32_t full,
                      struct tecs_proto *p, bool tail)
{
  if (!tail) {
    guard_copy(to, bytes, p->chunk_len);
    return;
  }
  guard_copy(to, bytes, 1);
  guard_copy(to + 1, bytes + full - (p->chunk_len - 1), p->chunk_len - 1);
  p->flags |= TECS_PROTO_CHUNK_TAIL;
}

static bool send_proto(struct slot_state *s, uint64_t pt, uint32_t id)
{
  const struct vm_layout *lay = s->lay;
  struct tecs_proto head;
  const char *name = NULL;
  describe(s, pt, &head);
  head.id = id;
  if (names_find(&s->mem, lay, pt, &name, &head.name_len))
    head.flags |= TECS_PROTO_NAME_KNOWN;
  uint64_t str = vm_load8(&s->mem, pt + lay->pt_chunkname);
  uint32_t full = vm_load4(&s->mem, str + lay->str_len);
  head.chunk_len = full < CHUNK_MAX ? full : CHUNK_MAX;
  uint32_t len = (uint32_t)sizeof head + pad8(head.chunk_len) +
                 pad8(head.name_len) + pad8(head.lines_len);
  uint8_t *to = shm_ring_reserve(s->slot, s->ring, len);
  if (!to)
    return false;
  uint64_t bytes = str + lay->str_sizeof;
  uint8_t *at = to + sizeof head;
  unsigned first = vm_load1(&s->mem, bytes);
  put_chunk(at, bytes, full, &head, full > CHUNK_MAX && first == '@');
  at += pad8(head.chunk_len);
  if (head.name_len)
    memcpy(at, name, head.name_len);
  at += pad8(head.name_len);
  guard_copy(at, vm_load8(&s->mem, pt + lay->pt_lineinfo), head.lines_len);
  head.rec.len = len;
  memcpy(to, &head, sizeof head);
  shm_ring_commit(s->slot, len);
  return true;
}

uint32_t intern_proto(void *slot_state, uint64_t pt)
{
  struct slot_state *s = slot_state;
  uint32_t key = names_proto_key(&s->mem, s->lay, pt);
  struct intern_entry *e = lookup(s, pt);
  if (e->addr == pt && e->key == key)
    return e->id;
  if (!send_proto(s, pt, s->next_id))
    return 0;
  return remember(s, e, pt, key);
}

/* ---- strings ---- */

static uint32_t send_string(struct slot_state *s, uint64_t bytes, uint32_t len,
                            uint32_t full)
{
  struct tecs_string head = {.id = s->next_id, .full_len = full, .len = len};
  head.rec.type = TECS_RECORD_STRING;
  head.rec.len = (uint32_t)sizeof head + pad8(len);
  uint8_t *to = shm_ring_reserve(s->slot, s->ring, head.rec.len);
  if (!to)
    return 0;
  memcpy(to, &head, sizeof head);
  guard_copy(to + sizeof head, bytes, len);
  shm_ring_commit(s->slot, head.rec.len);
  return head.id;
}

uint32_t intern_string(struct slot_state *s, uint64_t str)
{
  const struct vm_layout *lay = s->lay;
  uint32_t full = vm_load4(&s->mem, str + lay->str_len);
  uint32_t key = vm_load4(&s->mem, str + lay->str_hash) * FNV_PRIME + full;
  struct intern_entry *e = lookup(s, str);
  if (e->addr == str && e->key == key)
    return e->id;
  uint32_t len = full < STRING_MAX ? full : STRING_MAX;
  if (!send_string(s, str + lay->str_sizeof, len, full))
    return 0;
  return remember(s, e, str, key);
}

/* Text of the game's own, which it may change: the key is what it says now.
 * What is longer than STRING_MAX has a full length that says so. */
uint32_t intern_text(struct slot_state *s, const char *text)
{
  uint64_t at = (uint64_t)text;
  uint32_t len = 0, key = 2166136261u, c, faults = s->mem.faults;
  while (len < STRING_MAX && (c = vm_load1(&s->mem, at + len))) {
    key = (key ^ c) * FNV_PRIME;
    len++;
  }
  if (s->mem.faults != faults)
    return 0;
  struct intern_entry *e = lookup(s, at);
  if (e->addr == at && e->key == key)
    return e->id;
  if (!send_string(s, at, len, len + (len == STRING_MAX)))
    return 0;
  return remember(s, e, at, key);
}

/* ---- machine code areas ---- */

void intern_mcode(struct slot_state *s, const struct vm_entry *vm,
                  unsigned index)
{
  struct tecs_range area[MCODE_MAX];
  uint64_t key = vm_mcode_key(&s->mem, s->lay, vm->g) ^ vm->g;
  if (s->mcode_key[index] == key)
    return;
  struct tecs_mcode head = {.g = vm->g};
  head.count = vm_mcode_areas(&s->mem, s->lay, vm->g, area, MCODE_MAX);
  head.rec.type = TECS_RECORD_MCODE;
  head.rec.len =
      (uint32_t)(sizeof head + head.count * sizeof(struct tecs_range));
  uint8_t *to = shm_ring_reserve(s->slot, s->ring, head.rec.len);
  if (!to)
    return;
  memcpy(to, &head, sizeof head);
  memcpy(to + sizeof head, area, head.count * sizeof area[0]);
  shm_ring_commit(s->slot, head.rec.len);
  s->mcode_key[index] = key;
}
