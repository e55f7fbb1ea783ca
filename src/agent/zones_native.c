/* SPDX-License-Identifier: MIT
 *
 * Zones of native code.  One writer, the thread itself; the reader is the
 * handler that interrupts it, so the order of stores is the compiler's alone.
 */
#include <stdatomic.h>
#include <stddef.h>

#include "agent/zones.h"

#define TECS_ZONE_API __attribute__((visibility("default")))
#define TECS_ZONE_NO_INLINE
#include "tecs/zone.h"

_Static_assert(TECS_ZONE_DEPTH == NATIVE_ZONES_MAX, "tecs/zone.h");

AGENT_TLS volatile uint32_t open_count;
AGENT_TLS const char *volatile open_name[NATIVE_ZONES_MAX];

void tecs_zone_push(const char *name)
{
  uint32_t n = open_count;
  if (n < NATIVE_ZONES_MAX)
    open_name[n] = name;
  atomic_signal_fence(memory_order_release);
  open_count = n + 1;
}

void tecs_zone_pop(void)
{
  uint32_t n = open_count;
  if (n)
    open_count = n - 1;
}

void tecs_zone_clear(void)
{
  open_count = 0;
}

uint32_t zones_native(const char *name[NATIVE_ZONES_MAX])
{
  uint32_t n = open_count;
  for (uint32_t i = 0; i < n && i < NATIVE_ZONES_MAX; i++)
    name[i] = open_name[i];
  return n;
}
