/* SPDX-License-Identifier: MIT
 *
 * What the handlers cost: counts in buckets, since a session may last for
 * days.  Below 16 ns a bucket is one value; from there on each power of two is
 * cut into eight, so that a bucket's end is off by an eighth at most.
 */
#include "session/session_internal.h"

#define EXACT 16u /* buckets of one value */
#define CUT_BITS 3
#define CUT (1u << CUT_BITS)

static unsigned bucket_of(uint32_t ns)
{
  if (ns < EXACT)
    return ns;
  unsigned exponent = 31u - (unsigned)__builtin_clz(ns);
  unsigned part = ns >> (exponent - CUT_BITS) & (CUT - 1);
  return EXACT + (exponent - 4) * CUT + part;
}

/* The largest value that it counts. */
static uint64_t end_of(unsigned bucket)
{
  if (bucket < EXACT)
    return bucket;
  unsigned exponent = 4 + (bucket - EXACT) / CUT;
  uint64_t part = (bucket - EXACT) % CUT;
  return ((CUT + part + 1) << (exponent - CUT_BITS)) - 1;
}

void costs_add(struct session_account *acc, uint32_t ns)
{
  acc->cost[bucket_of(ns)]++;
}

uint64_t session_cost_ns(const struct session_account *acc, double part)
{
  uint64_t total = 0, seen = 0;
  for (unsigned i = 0; i < SESSION_COSTS; i++)
    total += acc->cost[i];
  double want = part * (double)total;
  for (unsigned i = 0; i < SESSION_COSTS; i++) {
    seen += acc->cost[i];
    if (seen && (double)seen >= want)
      return end_of(i);
  }
  return 0;
}
