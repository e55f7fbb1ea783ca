/* SPDX-License-Identifier: MIT
 *
 * Records of the stream, made by hand.
 */
#ifndef TESTS_UNIT_RECORDS_H
#define TESTS_UNIT_RECORDS_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tecs/abi.h"

#define RECORD_MAX 65536

struct record {
  _Alignas(8) char bytes[RECORD_MAX];
  size_t len;
};

static inline struct tecs_record *record_of(struct record *r)
{
  return (struct tecs_record *)r->bytes;
}

static inline void record_put(struct record *r, const void *bytes, size_t len)
{
  ck_assert(r->len + len + 8 <= sizeof r->bytes);
  if (len)
    memcpy(r->bytes + r->len, bytes, len);
  r->len = (r->len + len + 7) & ~(size_t)7;
  record_of(r)->len = (uint32_t)r->len;
}

static inline void record_start(struct record *r, const void *head, size_t len,
                                unsigned type)
{
  memset(r, 0, sizeof *r);
  record_put(r, head, len);
  record_of(r)->type = (uint16_t)type;
}

struct proto_spec {
  uint32_t id, flags;
  uint64_t addr, g;
  uint32_t firstline, numline, sizebc, opcode_hash;
  const char *chunk, *name;
  size_t chunk_len; /* 0: strlen */
  const void *lines;
  size_t lines_len;
  unsigned line_width;
};

static inline void record_make_proto(struct record *r, struct proto_spec spec)
{
  const char *chunk = spec.chunk ? spec.chunk : "";
  const char *name = spec.name ? spec.name : "";
  struct tecs_proto p = {
      .id = spec.id,
      .flags = spec.flags,
      .addr = spec.addr,
      .g = spec.g,
      .firstline = spec.firstline,
      .numline = spec.numline,
      .sizebc = spec.sizebc,
      .opcode_hash = spec.opcode_hash,
      .chunk_len = (uint32_t)(spec.chunk_len ? spec.chunk_len : strlen(chunk)),
      .name_len = (uint32_t)strlen(name),
      .lines_len = (uint32_t)spec.lines_len,
      .line_width = spec.line_width ? spec.line_width : 1,
  };
  record_start(r, &p, sizeof p, TECS_RECORD_PROTO);
  record_put(r, chunk, p.chunk_len);
  record_put(r, name, p.name_len);
  record_put(r, spec.lines, p.lines_len);
}

static inline void record_make_string(struct record *r, uint32_t id,
                                      const char *bytes, size_t len,
                                      size_t full_len)
{
  struct tecs_string s = {
      .id = id, .full_len = (uint32_t)full_len, .len = (uint32_t)len};
  record_start(r, &s, sizeof s, TECS_RECORD_STRING);
  record_put(r, bytes, len);
}

#endif
