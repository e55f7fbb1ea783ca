/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/utf8.h"
#include "suite.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/idmap.h"
#include "util/interner.h"
#include "util/strbuf.h"

/* ---- interner ---- */

START_TEST(test_interner_ids)
{
  struct interner *in = interner_new();
  ck_assert_ptr_nonnull(in);
  ck_assert_uint_eq(interner_add_str(in, "main"), 0);
  ck_assert_uint_eq(interner_add_str(in, "update"), 1);
  ck_assert_uint_eq(interner_add_str(in, "main"), 0);
  ck_assert_uint_eq(interner_add(in, "update!", 6), 1);
  ck_assert_uint_eq(interner_add(in, "", 0), 2);
  ck_assert_uint_eq(interner_add(in, NULL, 0), 2);
  ck_assert_uint_eq(interner_count(in), 3);
  ck_assert_str_eq(interner_text(in, 1), "update");
  ck_assert_str_eq(interner_text(in, 2), "");
  ck_assert_str_eq(interner_text(in, 3), "");
  ck_assert_str_eq(interner_text(in, INTERNER_NONE), "");
  interner_free(in);
  interner_free(NULL);
}
END_TEST

START_TEST(test_interner_many_and_long)
{
  struct interner *in = interner_new();
  char text[32];
  static char big[200000];
  memset(big, 'z', sizeof big - 1);
  uint32_t big_id = interner_add_str(in, big);
  const char *first = interner_text(in, big_id);
  for (unsigned i = 0; i < 50000; i++) {
    snprintf(text, sizeof text, "frame %u", i);
    ck_assert_uint_eq(interner_add_str(in, text), i + 1);
  }
  for (unsigned i = 0; i < 50000; i += 777) {
    snprintf(text, sizeof text, "frame %u", i);
    ck_assert_uint_eq(interner_add_str(in, text), i + 1);
    ck_assert_str_eq(interner_text(in, i + 1), text);
  }
  ck_assert_ptr_eq(interner_text(in, big_id), first); /* texts never move */
  ck_assert_uint_eq(strlen(first), sizeof big - 1);
  interner_free(in);
}
END_TEST

/* Bytes, not C strings: a NUL inside tells two texts apart. */
START_TEST(test_interner_nul_inside)
{
  struct interner *in = interner_new();
  uint32_t a = interner_add(in, "a\0b", 3);
  ck_assert_uint_ne(a, interner_add(in, "a\0c", 3));
  ck_assert_uint_ne(a, interner_add(in, "a", 1));
  ck_assert_uint_eq(a, interner_add(in, "a\0b", 3));
  interner_free(in);
}
END_TEST

/* ---- strbuf ---- */

START_TEST(test_strbuf_appends)
{
  struct strbuf b = STRBUF_INIT;
  ck_assert_str_eq(strbuf_text(&b), "");
  strbuf_add(&b, "abc", 2);
  strbuf_add_str(&b, "cd");
  strbuf_printf(&b, " %d%s", 42, "!");
  strbuf_add(&b, NULL, 0);
  ck_assert_str_eq(strbuf_text(&b), "abcd 42!");
  ck_assert_uint_eq(b.len, 8);
  ck_assert(!b.failed);
  char *memory = b.data;
  strbuf_clear(&b);
  ck_assert_str_eq(b.data, "");
  ck_assert_ptr_eq(b.data, memory);
  strbuf_free(&b);
  ck_assert_ptr_null(b.data);
}
END_TEST

START_TEST(test_strbuf_grows)
{
  struct strbuf b = STRBUF_INIT;
  for (int i = 0; i < 10000; i++)
    strbuf_printf(&b, "%04d,", i);
  ck_assert_uint_eq(b.len, 50000);
  ck_assert_int_eq(strncmp(b.data + 5 * 1234, "1234,1235,", 10), 0);
  ck_assert_uint_eq(strlen(b.data), b.len);
  strbuf_free(&b);
}
END_TEST

START_TEST(test_strbuf_failure_stays)
{
  struct strbuf b = STRBUF_INIT;
  strbuf_add_str(&b, "text");
  strbuf_add(&b, "x", SIZE_MAX / 2); /* refused before a byte is read */
  ck_assert(b.failed);
  ck_assert_str_eq(strbuf_text(&b), "");
  ck_assert_uint_eq(b.len, 0);
  strbuf_add_str(&b, "more");
  ck_assert(b.failed);
  ck_assert_str_eq(strbuf_text(&b), "");
  strbuf_free(&b);
}
END_TEST

/* ---- idmap ---- */

START_TEST(test_idmap)
{
  struct idmap m = IDMAP_INIT;
  uint32_t v = 7;
  ck_assert(!idmap_get(&m, 0, &v));
  for (uint64_t k = 0; k < 5000; k++)
    ck_assert(idmap_put(&m, k << 32, (uint32_t)k + 1));
  ck_assert(idmap_put(&m, UINT64_MAX, 99));
  ck_assert(idmap_put(&m, 0, 3));
  ck_assert_uint_eq(m.count, 5001);
  ck_assert(idmap_get(&m, 0, &v));
  ck_assert_uint_eq(v, 3);
  ck_assert(idmap_get(&m, UINT64_C(4999) << 32, &v));
  ck_assert_uint_eq(v, 5000);
  ck_assert(idmap_get(&m, UINT64_MAX, &v));
  ck_assert_uint_eq(v, 99);
  ck_assert(!idmap_get(&m, 5, &v));
  idmap_clear(&m);
  ck_assert(!idmap_get(&m, 0, &v));
  ck_assert_uint_eq(m.count, 0);
  idmap_free(&m);
  idmap_free(&m);
}
END_TEST

/* ---- utf8 ---- */

static const struct {
  const char *bytes;
  size_t n;
  uint32_t cp;
} chars[] = {
    {"A", 1, 'A'},
    {"\xc2\x80", 2, 0x80},
    {"\xdf\xbf", 2, 0x7ff},
    {"\xe4\xb8\xad", 3, 0x4e2d},
    {"\xf0\x9f\x8e\xae", 4, 0x1f3ae},
    {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
    {"\x80", 0, 0},             /* continuation alone */
    {"\xc0\xaf", 0, 0},         /* overlong */
    {"\xe0\x80\xaf", 0, 0},     /* overlong */
    {"\xf0\x80\x80\xaf", 0, 0}, /* overlong */
    {"\xed\xa0\x80", 0, 0},     /* surrogate */
    {"\xf4\x90\x80\x80", 0, 0}, /* above U+10FFFF */
    {"\xff", 0, 0},
    {"\xe4\xb8", 0, 0}, /* cut */
    {"\xe4\xb8z", 0, 0},
};

START_TEST(test_utf8_decode)
{
  uint32_t cp = 0;
  size_t len = strlen(chars[_i].bytes);
  ck_assert_uint_eq(utf8_decode(chars[_i].bytes, len, &cp), chars[_i].n);
  if (chars[_i].n)
    ck_assert_uint_eq(cp, chars[_i].cp);
}
END_TEST

START_TEST(test_utf8_cuts)
{
  const char *s = "a\xe4\xb8\xad\xf0\x9f\x8e\xae"
                  "b"; /* 1 + 3 + 4 + 1 */
  static const size_t head[] = {0, 1, 1, 1, 4, 4, 4, 4, 8, 9, 9};
  static const size_t tail[] = {9, 8, 8, 8, 8, 4, 4, 4, 1, 0, 0};
  for (size_t max = 0; max <= 10; max++) {
    ck_assert_uint_eq(utf8_head(s, 9, max), head[max]);
    ck_assert_uint_eq(utf8_tail(s, 9, max), tail[max]);
  }
  /* no characters there: cut as asked, and never outside */
  const char *c = "\x80\x80\x80\x80\x80\x80\x80\x80";
  for (size_t max = 0; max <= 8; max++) {
    ck_assert_uint_le(utf8_head(c, 8, max), max);
    ck_assert_uint_ge(utf8_tail(c, 8, max), 8 - max);
    ck_assert_uint_le(utf8_tail(c, 8, max), 8);
  }
}
END_TEST

/* ---- error, hash ---- */

START_TEST(test_error_set)
{
  struct error e;
  char big[1000];
  memset(big, 'x', sizeof big - 1);
  big[sizeof big - 1] = '\0';
  ck_assert_int_eq(error_set(&e, RESULT_PERM, "pid %d", 12), RESULT_PERM);
  ck_assert_int_eq(e.code, RESULT_PERM);
  ck_assert_str_eq(e.text, "pid 12");
  ck_assert_int_eq(error_set(&e, RESULT_IO, "%s", big), RESULT_IO);
  ck_assert_uint_eq(strlen(e.text), sizeof e.text - 1);
  ck_assert_int_eq(error_set(NULL, RESULT_END, "x"), RESULT_END);
}
END_TEST

/* The published values of FNV-1a, 32 bit. */
START_TEST(test_hash_is_fnv1a)
{
  ck_assert_uint_eq(hash_bytes("", 0), 0x811c9dc5u);
  ck_assert_uint_eq(hash_bytes("a", 1), 0xe40c292cu);
  ck_assert_uint_eq(hash_bytes("foobar", 6), 0xbf9cf968u);
}
END_TEST

/* Every bit of every byte counts, wherever the bytes stand. */
START_TEST(test_hash_words)
{
  char text[41], other[48];
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = (char)(i * 37 + 1);
  for (size_t len = 0; len <= sizeof text; len++) {
    uint64_t h = hash_words(text, len);
    ck_assert(len == sizeof text || h != hash_words(text, len + 1));
    for (size_t bit = 0; bit < 8 * len; bit++) {
      size_t off = bit % 7;
      memcpy(other + off, text, len);
      ck_assert_uint_eq(hash_words(other + off, len), h);
      other[off + bit / 8] ^= (char)(1 << bit % 8);
      ck_assert_uint_ne(hash_words(other + off, len), h);
    }
  }
}
END_TEST

/* RFC 4180; and no formulas. */
START_TEST(test_csv_cell)
{
  static const struct {
    const char *text, *cell;
  } row[] = {{"", ""},
             {"plain", "plain"},
             {" spaces ", " spaces "},
             {"a,b", "\"a,b\""},
             {"say \"hi\"", "\"say \"\"hi\"\"\""},
             {"two\nlines", "\"two\nlines\""},
             {"cr\rhere", "\"cr\rhere\""},
             {"=SUM(A1)", "'=SUM(A1)"},
             {"+1", "'+1"},
             {"-1", "'-1"},
             {"@x", "'@x"},
             {"\tx", "'\tx"},
             {"\rx", "\"'\rx\""},
             {"=\"\"", "\"'=\"\"\"\"\""},
             {"a=b", "a=b"}};
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
    char cell[CSV_CELL_MAX(16)];
    size_t len = strlen(row[i].text);
    size_t n = csv_cell(cell, row[i].text, len);
    ck_assert_uint_le(n, CSV_CELL_MAX(len));
    ck_assert_uint_eq(n, strlen(row[i].cell));
    ck_assert(!memcmp(cell, row[i].cell, n));
  }
}
END_TEST

int main(void)
{
  Suite *s = suite_create("util");
  TCase *tc = tcase_create("util");
  suite_add_tcase(s, tc);
  tcase_add_test(tc, test_interner_ids);
  tcase_add_test(tc, test_interner_many_and_long);
  tcase_add_test(tc, test_interner_nul_inside);
  tcase_add_test(tc, test_strbuf_appends);
  tcase_add_test(tc, test_strbuf_grows);
  tcase_add_test(tc, test_strbuf_failure_stays);
  tcase_add_test(tc, test_idmap);
  tcase_add_loop_test(tc, test_utf8_decode, 0,
                      (int)(sizeof chars / sizeof *chars));
  tcase_add_test(tc, test_utf8_cuts);
  tcase_add_test(tc, test_error_set);
  tcase_add_test(tc, test_hash_is_fnv1a);
  tcase_add_test(tc, test_hash_words);
  tcase_add_test(tc, test_csv_cell);
  return suite_run(s);
}
