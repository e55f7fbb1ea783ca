/* SPDX-License-Identifier: MIT
 *
 * FNV-1a: small, and the same in every run, so that it may appear in output.
 */
#ifndef UTIL_HASH_H
#define UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t hash_bytes(const void *bytes, size_t len)
{
  const unsigned char *p = bytes;
  uint32_t h = UINT32_C(2166136261);
  for (size_t i = 0; i < len; i++)
    h = (h ^ p[i]) * UINT32_C(16777619);
  return h;
}

/* Spreads a key's bits (the finaliser of MurmurHash3), for tables only. */
static inline uint64_t hash_u64(uint64_t k)
{
  k ^= k >> 33;
  k *= UINT64_C(0xff51afd7ed558ccd);
  k ^= k >> 33;
  return k;
}

#endif
