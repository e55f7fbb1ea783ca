/* SPDX-License-Identifier: MIT
 *
 * Time in nanoseconds.  Safe in a signal handler: the vDSO answers.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t id)
{
  struct timespec ts;
  if (clock_gettime(id, &ts))
    return 0;
  return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_mono_ns(void)
{
  return clock_read_ns(CLOCK_MONOTONIC);
}

#endif
