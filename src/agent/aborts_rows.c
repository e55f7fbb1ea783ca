/* SPDX-License-Identifier: MIT
 *
 * The table of rows.  One thread at a time has it: VMs on other threads wait
 * for the moment that a row takes.  The reader outside takes no part in that:
 * a row's texts are complete before its state says so, and never change.
 */
#include <sched.h>
#include <string.h>

#include "agent/aborts_internal.h"
#include "base/atomics.h"

enum {
  SPINS = 1000,
  YIELDS = 20000, /* then its holder is stuck: that event goes lost */
};

_Static_assert(ABORTS_INDEX > TECS_ABORT_ROWS, "an end to every search");
_Static_assert(TECS_ABORT_ROWS < 0xffff, "rows have 16 bits in the index");

static bool take(struct abort_table *t)
{
  for (unsigned i = 0; i < SPINS + YIELDS; i++) {
    uint32_t none = 0;
    if (__atomic_compare_exchange_n(&t->lock, &none, 1u, false,
                                    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return true;
    if (i >= SPINS)
      sched_yield();
  }
  return false;
}

static void empty(struct abort_table *t, uint32_t session)
{
  struct tecs_aborts *a = t->totals;
  atomic_release(&a->session, 0u);
  for (uint32_t i = 0; i < t->used; i++)
    atomic_set(&t->rows[i].state, 0u);
  memset(a, 0, sizeof *a);
  memset(t->index, 0, sizeof t->index);
  t->session = session;
  t->used = 0;
  atomic_release(&a->session, session);
}

bool abort_table_open(struct abort_table *t, uint32_t session)
{
  if (!take(t))
    return false;
  if (t->session != session)
    empty(t, session);
  return true;
}

void abort_table_close(struct abort_table *t)
{
  atomic_release(&t->lock, 0u);
}

/* ---- rows ---- */

static uint64_t mix(uint64_t h, const char *text, unsigned len)
{
  h = (h ^ len) * UINT64_C(0x9e3779b97f4a7c15);
  for (unsigned i = 0; i < len; i += 8) {
    uint64_t word = 0;
    memcpy(&word, text + i, len - i < 8 ? len - i : 8);
    h = (h ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 29;
  }
  return h;
}

/* Every bit of the last word reaches every bit: locations often differ in their
 * last digits alone. */
static uint32_t hash(const struct tecs_abort *row)
{
  uint64_t h = mix(1, row->reason, row->reason_len);
  h = mix(h, row->location, row->location_len);
  h = mix(h, row->zone, row->zone_len);
  h = (h ^ h >> 32) * UINT64_C(0xbf58476d1ce4e5b9);
  h = (h ^ h >> 29) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)(h >> 32);
}

static bool same(const struct tecs_abort *a, const struct tecs_abort *b)
{
  return a->reason_len == b->reason_len && a->location_len == b->location_len &&
         a->zone_len == b->zone_len &&
         !memcmp(a->reason, b->reason, a->reason_len) &&
         !memcmp(a->location, b->location, a->location_len) &&
         !memcmp(a->zone, b->zone, a->zone_len);
}

static void fill(struct tecs_abort *to, const struct tecs_abort *row)
{
  atomic_release(&to->state, 1u);
  to->severity = row->severity;
  to->count = 0;
  to->reason_len = row->reason_len;
  to->location_len = row->location_len;
  to->zone_len = row->zone_len;
  to->reserved16 = 0;
  memcpy(to->reason, row->reason, row->reason_len);
  memcpy(to->location, row->location, row->location_len);
  memcpy(to->zone, row->zone, row->zone_len);
}

/* The row with these texts, new when there was none; NULL: no room. */
static struct tecs_abort *find(struct abort_table *t,
                               const struct tecs_abort *row)
{
  uint32_t h = hash(row), tag = h & 0xffff0000u, at = h % ABORTS_INDEX;
  for (uint32_t e; (e = t->index[at]); at = (at + 1) % ABORTS_INDEX)
    if ((e & 0xffff0000u) == tag && same(&t->rows[(e & 0xffff) - 1], row))
      return &t->rows[(e & 0xffff) - 1];
  if (t->used >= t->backed && !(t->more && t->more(t)))
    return NULL;
  fill(&t->rows[t->used], row);
  t->index[at] = tag | (t->used + 1);
  return &t->rows[t->used++];
}

void abort_table_add(struct abort_table *t, const struct tecs_abort *row)
{
  struct tecs_aborts *a = t->totals;
  atomic_set(&a->aborts, a->aborts + 1);
  if (row->severity == TECS_SEVERITY_BLACKLIST)
    atomic_set(&a->blacklists, a->blacklists + 1);
  struct tecs_abort *r = find(t, row);
  if (!r) {
    atomic_set(&a->overflow, a->overflow + 1);
    return;
  }
  atomic_set(&r->pt, row->pt);
  atomic_set(&r->firstline, row->firstline);
  atomic_set(&r->numline, row->numline);
  if (row->severity > r->severity)
    atomic_set(&r->severity, row->severity);
  atomic_set(&r->count, r->count + 1);
  if (r->state == 2)
    return;
  atomic_release(&r->state, 2u);
  atomic_release(&a->rows, t->used);
}
