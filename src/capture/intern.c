/* SPDX-License-Identifier: MIT
 *
 * Images of prototypes and strings: written to the ring the first time that a
 * slot's sample meets one, so that a sample needs nothing of the live process.
 * Objects die and addresses are used again: an entry counts only while the
 * object's key is the same.
 */
#include <string.h>

#include "capture/capture_internal.h"
#include "vmcore/bcname.h"
#include "vmcore/discover.h"
#include "vmcore/value.h"

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

void capture_reset(struct capture *c, uint32_t generation)
{
  c->generation = generation;
  c->seq = 0;
  c->scan_wait = c->scan_backoff = 0;
  c->suspect_g = 0;
  memset(c->image, 0, sizeof c->image);
  memset(c->mcode_key, 0, sizeof c->mcode_key);
  c->images = 0;
  c->next_id = 1;
}

/* The entry for addr: its own, or a free one.  When the table gets full it
 * starts again; ids go on, so images are sent a second time. */
static struct capture_image *lookup(struct capture *c, uint64_t addr)
{
  if (c->images > CAPTURE_INTERNED * 3 / 4) {
    memset(c->image, 0, sizeof c->image);
    c->images = 0;
  }
  uint32_t h = (uint32_t)((addr >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
  struct capture_image *e = NULL;
  for (unsigned i = 0; i < PROBES; i++) {
    e = &c->image[(h + i) % CAPTURE_INTERNED];
    if (e->addr == addr || !e->addr)
      return e;
  }
  return e; /* crowded: the last one gives way */
}

static uint32_t remember(struct capture *c, struct capture_image *e,
                         uint64_t addr, uint32_t key)
{
  if (!e->addr)
    c->images++;
  e->addr = addr;
  e->key = key;
  e->id = c->next_id++;
  return e->id;
}

bool intern_met(struct capture *c, uint64_t addr, uint32_t key)
{
  const struct capture_image *e = lookup(c, addr);
  return e->addr == addr && e->key == key;
}

void intern_meet(struct capture *c, uint64_t addr, uint32_t key)
{
  struct capture_image *e = lookup(c, addr);
  if (e->addr != addr || e->key != key)
    remember(c, e, addr, key);
}

/* ---- prototypes ---- */

uint32_t capture_proto_key(struct vm_mem *m, const struct vm_layout *lay,
                           uint64_t pt)
{
  uint64_t chunk = vm_ref(m, lay, pt + lay->pt_chunkname);
  uint64_t h = chunk * 31;
  /* memory is used again, also that of the chunk's name */
  if (vm_plausible(chunk))
    h += vm_load4(m, chunk + lay->str_hash);
  h = h * 31 + vm_ref(m, lay, pt + lay->pt_lineinfo);
  h = h * 31 + vm_load4(m, pt + lay->pt_firstline);
  h = h * 31 + vm_load4(m, pt + lay->pt_numline);
  h = h * 31 + vm_load4(m, pt + lay->pt_sizebc);
  h *= UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)(h >> 32) | 1; /* never 0 */
}

/* Bytes of the line table (lj_parse.c, fs_fixup_line). */
static uint32_t lines_size(struct capture *c, uint64_t pt, struct tecs_proto *p)
{
  if (!vm_ref(&c->mem, c->lay, pt + c->lay->pt_lineinfo))
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

static void describe(struct capture *c, uint64_t pt, struct tecs_proto *p)
{
  const struct vm_layout *lay = c->lay;
  memset(p, 0, sizeof *p);
  p->rec.type = TECS_RECORD_PROTO;
  p->addr = pt;
  p->g = c->g;
  p->firstline = vm_load4(&c->mem, pt + lay->pt_firstline);
  p->numline = vm_load4(&c->mem, pt + lay->pt_numline);
  p->sizebc = vm_load4(&c->mem, pt + lay->pt_sizebc);
  p->opcode_hash = vm_opcode_hash(&c->mem, lay, pt, p->sizebc);
  p->line_width = 1;
  p->lines_len = lines_size(c, pt, p);
}

/* A path that is too long keeps its first byte (it tells a file) and its
 * tail; any other name keeps its head. */
static void put_chunk(struct capture *c, uint8_t *to, uint64_t bytes,
                      uint32_t full, struct tecs_proto *p, bool tail)
{
  if (!tail) {
    c->host->copy(c, to, bytes, p->chunk_len);
    return;
  }
  c->host->copy(c, to, bytes, 1);
  c->host->copy(c, to + 1, bytes + full - (p->chunk_len - 1), p->chunk_len - 1);
  p->flags |= TECS_PROTO_CHUNK_TAIL;
}

static bool send_proto(struct capture *c, uint64_t pt, uint32_t id)
{
  const struct vm_layout *lay = c->lay;
  struct tecs_proto head;
  const char *name = NULL;
  describe(c, pt, &head);
  head.id = id;
  if (c->host->name && c->host->name(c, pt, &name, &head.name_len))
    head.flags |= TECS_PROTO_NAME_KNOWN;
  uint64_t str = vm_ref(&c->mem, lay, pt + lay->pt_chunkname);
  uint32_t full = vm_load4(&c->mem, str + lay->str_len);
  head.chunk_len = full < CHUNK_MAX ? full : CHUNK_MAX;
  uint32_t len = (uint32_t)sizeof head + pad8(head.chunk_len) +
                 pad8(head.name_len) + pad8(head.lines_len);
  uint8_t *to = shm_ring_reserve(c->slot, c->ring, len);
  if (!to)
    return false;
  uint64_t bytes = str + lay->str_sizeof;
  uint8_t *at = to + sizeof head;
  unsigned first = vm_load1(&c->mem, bytes);
  put_chunk(c, at, bytes, full, &head, full > CHUNK_MAX && first == '@');
  at += pad8(head.chunk_len);
  if (head.name_len)
    memcpy(at, name, head.name_len);
  at += pad8(head.name_len);
  c->host->copy(c, at, vm_ref(&c->mem, lay, pt + lay->pt_lineinfo),
                head.lines_len);
  head.rec.len = len;
  memcpy(to, &head, sizeof head);
  shm_ring_commit(c->slot, len);
  return true;
}

uint32_t intern_proto(void *capture, uint64_t pt)
{
  struct capture *c = capture;
  uint32_t key = capture_proto_key(&c->mem, c->lay, pt);
  struct capture_image *e = lookup(c, pt);
  if (e->addr == pt && e->key == key)
    return e->id;
  if (!send_proto(c, pt, c->next_id))
    return 0;
  return remember(c, e, pt, key);
}

uint32_t capture_function(struct capture *c, uint64_t pt)
{
  return intern_proto(c, pt);
}

/* ---- strings ---- */

static uint32_t send_string(struct capture *c, uint64_t bytes, uint32_t len,
                            uint32_t full)
{
  struct tecs_string head = {.id = c->next_id, .full_len = full, .len = len};
  head.rec.type = TECS_RECORD_STRING;
  head.rec.len = (uint32_t)sizeof head + pad8(len);
  uint8_t *to = shm_ring_reserve(c->slot, c->ring, head.rec.len);
  if (!to)
    return 0;
  memcpy(to, &head, sizeof head);
  c->host->copy(c, to + sizeof head, bytes, len);
  shm_ring_commit(c->slot, head.rec.len);
  return head.id;
}

uint32_t intern_string(struct capture *c, uint64_t str)
{
  const struct vm_layout *lay = c->lay;
  uint32_t full = vm_load4(&c->mem, str + lay->str_len);
  uint32_t key = vm_load4(&c->mem, str + lay->str_hash) * FNV_PRIME + full;
  struct capture_image *e = lookup(c, str);
  if (e->addr == str && e->key == key)
    return e->id;
  uint32_t len = full < STRING_MAX ? full : STRING_MAX;
  if (!send_string(c, str + lay->str_sizeof, len, full))
    return 0;
  return remember(c, e, str, key);
}

/* Text of the game's own, which it may change: the key is what it says now.
 * What is longer than STRING_MAX has a full length that says so. */
uint32_t intern_text(struct capture *c, uint64_t text)
{
  uint32_t len = 0, key = 2166136261u, byte, faults = c->mem.faults;
  while (len < STRING_MAX && (byte = vm_load1(&c->mem, text + len))) {
    key = (key ^ byte) * FNV_PRIME;
    len++;
  }
  if (c->mem.faults != faults)
    return 0;
  struct capture_image *e = lookup(c, text);
  if (e->addr == text && e->key == key)
    return e->id;
  if (!send_string(c, text, len, len + (len == STRING_MAX)))
    return 0;
  return remember(c, e, text, key);
}

/* ---- machine code areas ---- */

void intern_mcode(struct capture *c, const struct capture_vm *vm,
                  unsigned index)
{
  struct tecs_range area[MCODE_MAX];
  uint64_t key = vm_mcode_key(&c->mem, c->lay, vm->g) ^ vm->g;
  if (c->mcode_key[index] == key)
    return;
  struct tecs_mcode head = {.g = vm->g};
  head.count = vm_mcode_areas(&c->mem, c->lay, vm->g, area, MCODE_MAX);
  head.rec.type = TECS_RECORD_MCODE;
  head.rec.len =
      (uint32_t)(sizeof head + head.count * sizeof(struct tecs_range));
  uint8_t *to = shm_ring_reserve(c->slot, c->ring, head.rec.len);
  if (!to)
    return;
  memcpy(to, &head, sizeof head);
  memcpy(to + sizeof head, area, head.count * sizeof area[0]);
  shm_ring_commit(c->slot, head.rec.len);
  c->mcode_key[index] = key;
}
