/* SPDX-License-Identifier: MIT
 *
 * Single-producer single-consumer rings of records.  head and tail are byte
 * counts that only grow; a record never crosses the ring's end.
 */
#include "shm/shm.h"

#include <string.h>

#include "base/atomics.h"

#define RING_MASK (TECS_RING_BYTES - 1u)

_Static_assert((TECS_RING_BYTES & RING_MASK) == 0, "a power of two");

/* ---- producer: the agent ---- */

void *shm_ring_reserve(struct tecs_slot *slot, uint8_t *ring, uint32_t len)
{
  uint64_t head = slot->head;
  uint64_t used = head - atomic_acquire(&slot->tail);
  /* also catches a tail beyond the head, or not aligned: not ours to trust */
  if (used > TECS_RING_BYTES || (used & 7) || len > TECS_RING_BYTES)
    return NULL;
  uint32_t at = (uint32_t)head & RING_MASK;
  uint32_t to_end = TECS_RING_BYTES - at;
  uint32_t pad = to_end < len ? to_end : 0;
  if (used + pad + len > TECS_RING_BYTES)
    return NULL;
  if (pad) {
    struct tecs_record *rec = (struct tecs_record *)(ring + at);
    rec->len = pad;
    rec->type = TECS_RECORD_PAD;
    rec->flags = 0;
    atomic_release(&slot->head, head + pad);
    at = 0;
  }
  return ring + at;
}

void shm_ring_commit(struct tecs_slot *slot, uint32_t used)
{
  atomic_release(&slot->head, slot->head + used);
}

/* ---- consumer: the collector ---- */

static bool framing_ok(uint32_t len, uint64_t available, uint32_t at)
{
  return len >= sizeof(struct tecs_record) && (len & 7) == 0 &&
         len <= available && len <= TECS_RING_BYTES - at;
}

/* The record is copied out: the game could change its bytes between a check
 * and a use. */
const struct tecs_record *shm_ring_peek(struct shm *s, unsigned slot,
                                        uint64_t *bad)
{
  struct tecs_slot *sl = &s->slots[slot];
  const uint8_t *ring = s->rings + (size_t)slot * TECS_RING_BYTES;
  for (;;) {
    uint64_t tail = sl->tail;
    uint64_t head = atomic_acquire(&sl->head);
    uint64_t available = head - tail;
    if (available == 0)
      return NULL;
    uint32_t at = (uint32_t)tail & RING_MASK;
    struct tecs_record rec = {0};
    bool ok = available <= TECS_RING_BYTES && (head & 7) == 0 && (at & 7) == 0;
    if (ok) {
      memcpy(&rec, ring + at, sizeof rec);
      ok = framing_ok(rec.len, available, at);
    }
    if (!ok) {
      ++*bad;
      atomic_release(&sl->tail, head & ~UINT64_C(7));
      return NULL;
    }
    if (rec.type != TECS_RECORD_PAD) {
      memcpy(s->scratch, ring + at, rec.len);
      memcpy(s->scratch, &rec, sizeof rec);
      return (const struct tecs_record *)s->scratch;
    }
    atomic_release(&sl->tail, tail + rec.len);
  }
}

void shm_ring_consume(struct shm *s, unsigned slot,
                      const struct tecs_record *rec)
{
  struct tecs_slot *sl = &s->slots[slot];
  atomic_release(&sl->tail, sl->tail + rec->len);
}
