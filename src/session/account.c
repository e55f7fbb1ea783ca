/* SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "session/session.h"

/* Counters that simply add up. */
static const size_t sum[] = {
#define FIELD(name) offsetof(struct session_account, name)
    FIELD(ticks),           FIELD(skipped),       FIELD(sent),
    FIELD(samples),         FIELD(filtered),      FIELD(of_zone),
    FIELD(of_vm),           FIELD(of_pause),      FIELD(partial),
    FIELD(lua_partial),     FIELD(lost),          FIELD(lost_full),
    FIELD(undelivered),     FIELD(lost_bad),      FIELD(no_slot),
    FIELD(blocked_threads), FIELD(asleep),        FIELD(waiting),
    FIELD(asleep_filtered), FIELD(asleep_unread), FIELD(of_line),
    FIELD(of_function),     FIELD(of_trace),      FIELD(of_snapshot),
    FIELD(elapsed_ns),      FIELD(paused_ns),     FIELD(held_ns),
    FIELD(cpu_ns),          FIELD(bytes),
#undef FIELD
};
enum { SUMS = sizeof sum / sizeof sum[0] };
_Static_assert(offsetof(struct session_account, vms) -
                       offsetof(struct session_account, ticks) ==
                   sizeof(uint64_t) * SUMS,
               "a sum is missing here");

static unsigned beside(unsigned a, unsigned b, bool same)
{
  return same ? (a > b ? a : b) : a + b;
}

void session_account_add(struct session_account *to,
                         const struct session_account *from, bool same)
{
  for (size_t i = 0; i < SUMS; i++)
    *(uint64_t *)(void *)((char *)to + sum[i]) +=
        *(const uint64_t *)(const void *)((const char *)from + sum[i]);
  for (size_t i = 0; i < SESSION_COSTS; i++)
    to->cost[i] += from->cost[i];
  to->vms = beside(to->vms, from->vms, same);
  to->unknown_vms = beside(to->unknown_vms, from->unknown_vms, same);
  to->threads = beside(to->threads, from->threads, same);
  to->asleep_denied |= from->asleep_denied;
  to->execs += from->execs;
}
