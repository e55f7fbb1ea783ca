/* SPDX-License-Identifier: MIT
 *
 * hash_bytes is FNV-1a: small, and the same in every run, so that it may appear
 * in output.  The others are for tables only.
 */
#ifndef UTIL_HASH_H
#define UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t hash_bytes(const void *bytes, size_t len)
{
  const unsigned char *p = bytes;
  uint32_t h = UINT32_C(2166136261);
  for (size_t i = 0; i < len; i++)
    h = (h ^ p[i]) * UINT32_C(16777619);
  return h;
}

/* Spreads a key's bits (the finaliser of MurmurHash3). */
static inline uint64_t hash_u64(uint64_t k)
{
  k ^= k >> 33;
  k *= UINT64_C(0xff51afd7ed558ccd);
  k ^= k >> 33;
  return k;
}

/* Of bytes, eight at a time; the last eight of them may be read twice. */
static inline uint64_t hash_words(const void *bytes, size_t len)
{
  const unsigned char *p = bytes;
  uint64_t h = len, w = 0;
  if (len < 8) {
    for (size_t i = 0; i < len; i++)
      w = w << 8 | p[i];
    return hash_u64(h << 56 ^ w);
  }
  for (size_t i = 0; i + 8 < len; i += 8) {
    memcpy(&w, p + i, 8);
    h = hash_u64(h ^ w);
  }
  memcpy(&w, p + len - 8, 8);
  return hash_u64(h ^ w);
}

#endif
