/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "mutate.h"

void mutator_seed(struct mutator *m, uint64_t seed)
{
  m->state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  m->out.len = 0;
}

void mutator_free(struct mutator *m)
{
  bytes_free(&m->out);
  m->cap = 0;
}

/* splitmix64 (Steele, Lea, Flood) */
static uint64_t next(struct mutator *m)
{
  uint64_t z = m->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

uint64_t mutator_below(struct mutator *m, uint64_t n)
{
  return n ? next(m) % n : 0;
}

static bool one_in(struct mutator *m, unsigned n)
{
  return mutator_below(m, n) == 0;
}

static uint8_t *append(struct mutator *m, const void *data, size_t len)
{
  if (m->out.len + len > m->cap) {
    m->cap = (m->out.len + len) * 2 + 4096;
    m->out.data = realloc(m->out.data, m->cap);
    if (!m->out.data)
      abort();
  }
  uint8_t *at = m->out.data + m->out.len;
  if (len)
    memcpy(at, data, len);
  m->out.len += len;
  return at;
}

/* ---- values ---- */

static uint64_t interesting(struct mutator *m, uint64_t old)
{
  static const uint64_t fixed[] = {
      0,          1,          7,         8,          15,        16,
      255,        256,        65535,     65536,      INT32_MAX, 0x80000000,
      UINT32_MAX, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX};
  switch (mutator_below(m, 6)) {
  case 0:
    return fixed[mutator_below(m, sizeof fixed / sizeof *fixed)];
  case 1:
    return old + mutator_below(m, 17) - 8;
  case 2:
    return old ^ UINT64_C(1) << mutator_below(m, 64);
  case 3:
    return 0 - mutator_below(m, 4096);
  case 4:
    return mutator_below(m, old);
  default:
    return next(m) >> mutator_below(m, 64);
  }
}

/* A value of 1, 2, 4 or 8 bytes in its natural place. */
static void change_value(struct mutator *m, uint8_t *data, size_t len)
{
  size_t width = (size_t)1 << mutator_below(m, 4);
  uint64_t v = 0;
  if (len < width)
    return;
  uint8_t *at = data + mutator_below(m, len / width) * width;
  memcpy(&v, at, width);
  v = interesting(m, v);
  memcpy(at, &v, width);
}

/* A word takes the place of another: addresses that exist. */
static void copy_word(struct mutator *m, uint8_t *data, size_t len)
{
  if (len < 8)
    return;
  size_t from = mutator_below(m, len / 8) * 8,
         to = mutator_below(m, len / 8) * 8;
  memmove(data + to, data + from, 8);
}

/* What a reader of texts must not take as it is. */
static void put_text(struct mutator *m, uint8_t *data, size_t len)
{
  static const struct {
    uint8_t len;
    char text[7];
  } texts[] = {
      {1, ""},
      {1, "\n"},
      {1, ";"},
      {1, "\x7f"},
      {1, "\xff"},
      {1, "\001"},
      {1, "@"},
      {1, "="},
      {2, "\xc2\x85"},
      {2, "\xc0\x80"},
      {2, "\xe2\x80"},
      {3, "\xe2\x80\xa8"},
      {3, " 12"},
      {3, "\xed\xa0\x80"},
      {3, "\xef\xbf\xbf"},
      {4, "_[N]"},
      {6, "\0011.0.3"},
      {4, "\xf4\x90\x80\x80"},
  };
  size_t i = mutator_below(m, sizeof texts / sizeof *texts);
  if (len < texts[i].len)
    return;
  memcpy(data + mutator_below(m, len - texts[i].len + 1), texts[i].text,
         texts[i].len);
}

static void change(struct mutator *m, uint8_t *data, size_t len)
{
  unsigned n = 1 + (unsigned)mutator_below(m, one_in(m, 4) ? 32 : 3);
  while (n--) {
    if (one_in(m, 5))
      copy_word(m, data, len);
    else if (one_in(m, 5))
      put_text(m, data, len);
    else
      change_value(m, data, len);
  }
}

/* ---- records ---- */

/* The parts in front hold the lengths and counts. */
static size_t head_of(const uint8_t *record, size_t len)
{
  struct tecs_record rec = {0};
  memcpy(&rec, record, len < sizeof rec ? len : sizeof rec);
  size_t head = rec.type == TECS_RECORD_SAMPLE  ? sizeof(struct tecs_sample)
                : rec.type == TECS_RECORD_PROTO ? sizeof(struct tecs_proto)
                                                : sizeof(struct tecs_string);
  return head < len ? head : len;
}

static void change_record(struct mutator *m, uint8_t *record, size_t len)
{
  size_t head = head_of(record, len), vms = head + 512;
  switch (mutator_below(m, 5)) {
  case 0:
    change(m, record, len);
    break;
  case 1: /* Lua frames and zones come right behind */
    change(m, record, vms < len ? vms : len);
    break;
  case 2:
    put_text(m, record + head, len - head);
    break;
  default:
    change(m, record, head);
    break;
  }
}

static void put_record(struct mutator *m, struct frame_head h,
                       const uint8_t *record, unsigned rate)
{
  size_t start = m->out.len;
  if (one_in(m, rate * 8))
    h.slot = (uint32_t)interesting(m, h.slot);
  if (one_in(m, rate * 8)) /* cut */
    h.len = (uint32_t)mutator_below(m, h.len + 1);
  append(m, &h, sizeof h);
  append(m, record, h.len);
  if (one_in(m, rate))
    change_record(m, m->out.data + start + sizeof h, h.len);
}

static bool next_record(const struct bytes *b, size_t *at, struct frame_head *h,
                        const uint8_t **record)
{
  if (b->len - *at < sizeof *h)
    return false;
  memcpy(h, b->data + *at, sizeof *h);
  *at += sizeof *h;
  if (h->len > b->len - *at)
    return false;
  *record = b->data + *at;
  *at += h->len;
  return true;
}

/* One of another process: ids and addresses that mean nothing here. */
static void put_stranger(struct mutator *m, const struct bytes *other)
{
  uint64_t skip = mutator_below(m, 64);
  const uint8_t *record;
  struct frame_head h;
  size_t at = 0;
  while (next_record(other, &at, &h, &record)) {
    if (skip-- == 0) {
      put_record(m, h, record, 4);
      return;
    }
  }
}

void mutate_stream(struct mutator *m, const struct bytes *stream,
                   const struct bytes *other)
{
  unsigned rate = 1u << mutator_below(m, 6);
  const uint8_t *record;
  struct frame_head h;
  size_t at = 0;
  while (next_record(stream, &at, &h, &record)) {
    if (one_in(m, rate * 8))
      continue;
    put_record(m, h, record, rate);
    if (one_in(m, rate * 8))
      put_record(m, h, record, rate);
    if (one_in(m, rate * 16))
      put_stranger(m, other);
  }
  if (one_in(m, 16))
    m->out.len -= mutator_below(m, m->out.len);
}

void mutate_bytes(struct mutator *m, const struct bytes *b)
{
  append(m, b->data, b->len);
  change(m, m->out.data, m->out.len);
}

struct merge_options mutate_options(struct mutator *m)
{
  static const char *const prefixes[] = {NULL, NULL, NULL, NULL, "frame", ""};
  static const char *const roots[] = {NULL, NULL, "a;b\n\001c/1", ""};
  return (struct merge_options){
      .native = !one_in(m, 8),
      .lua = !one_in(m, 8),
      .zones = !one_in(m, 8),
      .state = !one_in(m, 4),
      .lines = one_in(m, 2),
      .depth = one_in(m, 4) ? (unsigned)mutator_below(m, 8) : 256,
      .zone_prefix = prefixes[mutator_below(m, 6)],
      .root = roots[mutator_below(m, 4)],
  };
}

/* ---- outputs ---- */

/* Bytes of the character at p, 0: none (RFC 3629's table, shortest forms). */
static size_t character(const uint8_t *p, size_t left)
{
  static const struct {
    uint8_t lo, hi, second_lo, second_hi, len;
  } form[] = {
      {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2},
      {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
      {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
      {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
      {0xf4, 0xf4, 0x80, 0x8f, 4},
  };
  for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
    if (*p < form[i].lo || *p > form[i].hi || form[i].len > left)
      continue;
    if (form[i].len > 1 &&
        (p[1] < form[i].second_lo || p[1] > form[i].second_hi))
      return 0;
    for (size_t k = 2; k < form[i].len; k++)
      if ((p[k] & 0xc0) != 0x80)
        return 0;
    return form[i].len;
  }
  return 0;
}

static const char *text_fault(const char *text, size_t len)
{
  const uint8_t *p = (const uint8_t *)text;
  for (size_t i = 0, n; i < len; i += n) {
    n = character(p + i, len - i);
    if (n == 0)
      return "a byte that is no UTF-8";
    bool c1 = n == 2 && p[i] == 0xc2 && p[i + 1] < 0xa0;
    if (p[i] < 0x20 || p[i] == 0x7f || c1)
      return "a control character";
    bool end = i + 1 == len || p[i + 1] == ';';
    if (p[i] == ';' && (i == 0 || end))
      return "a frame without a text";
  }
  return NULL;
}

/* Where a number at the end of the text begins, with the blank before it; len:
 * there is none. */
static size_t number_at_end(const char *text, size_t len)
{
  size_t i = len;
  while (i > 0 && strchr("0123456789.", text[i - 1]))
    i--;
  return i > 0 && i < len && text[i - 1] == ' ' ? i - 1 : len;
}

static const char *line_fault(const char *text, size_t len, uint64_t *sum)
{
  size_t stack = number_at_end(text, len);
  if (stack == 0 || stack == len)
    return "a line without a frame or a count";
  if (number_at_end(text, stack) != stack)
    return "a stack that ends in a number";
  *sum += strtoull(text + stack, NULL, 10);
  return text_fault(text, stack);
}

const char *output_fault(const struct strbuf *out, uint64_t sum)
{
  const char *text = strbuf_text(out), *fault = NULL;
  uint64_t counted = 0;
  for (size_t i = 0; i < out->len && !fault;) {
    const char *end = memchr(text + i, '\n', out->len - i);
    if (!end)
      return "no line end";
    fault = line_fault(text + i, (size_t)(end - text) - i, &counted);
    i = (size_t)(end - text) + 1;
  }
  if (!fault && counted != sum)
    fault = "counts that are not the number of samples";
  return fault;
}
