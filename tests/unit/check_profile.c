/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"
#include "suite.h"
#include "tecs/abi.h"

static struct profile *p;

static void setup(void)
{
  p = profile_new();
  ck_assert_ptr_nonnull(p);
}

static void teardown(void)
{
  profile_free(p);
}

static uint32_t id(const char *text)
{
  return interner_add_str(profile_frames(p), text);
}

/* Adds a stack given as its joined text. */
static void add(const char *joined, uint64_t weight)
{
  uint32_t frame[16];
  size_t n = 0;
  while (*joined) {
    size_t len = strcspn(joined, ";");
    frame[n++] = interner_add(profile_frames(p), joined, len);
    joined += len + (joined[len] == ';');
  }
  ck_assert_int_eq(profile_add(p, frame, n, weight), RESULT_OK);
}

static void expect(size_t at, const char *joined, uint64_t weight)
{
  char text[256] = "";
  const struct profile_stack *s = &profile_sorted(p)[at];
  for (size_t i = 0; i < s->count; i++) {
    strcat(text, i ? ";" : "");
    strcat(text, profile_frame_text(p, s->frame[i]));
  }
  ck_assert_str_eq(text, joined);
  ck_assert_uint_eq(s->weight, weight);
}

START_TEST(test_empty)
{
  ck_assert_uint_eq(profile_stack_count(p), 0);
  ck_assert_uint_eq(profile_weight(p), 0);
  ck_assert_ptr_null(profile_sorted(p));
}
END_TEST

START_TEST(test_equal_stacks_add_up)
{
  add("main;update;think", 1);
  add("main;update", 2);
  add("main;update;think", 4);
  add("update;main", 1);
  ck_assert_uint_eq(profile_stack_count(p), 3);
  ck_assert_uint_eq(profile_weight(p), 8);
  expect(0, "main;update;think", 5);
  expect(1, "main;update", 2);
  expect(2, "update;main", 1);
}
END_TEST

/* Ties by the joined text: ' ' and '+' sort before ';', letters behind it. */
START_TEST(test_ties_by_joined_text)
{
  add("a;b", 1);
  add("a+", 1);
  add("a", 1);
  add("a b", 1);
  add("aa", 1);
  add("\xff", 1);
  add("b", 2);
  expect(0, "b", 2);
  expect(1, "a", 1);
  expect(2, "a b", 1);
  expect(3, "a+", 1);
  expect(4, "a;b", 1);
  expect(5, "aa", 1);
  expect(6, "\xff", 1);
}
END_TEST

START_TEST(test_many_stacks)
{
  uint32_t frame[3] = {id("root"), 0, 0};
  char text[16];
  for (int round = 0; round < 2; round++) {
    for (unsigned i = 0; i < 20000; i++) {
      snprintf(text, sizeof text, "f%05u", i);
      frame[1] = id(text);
      ck_assert_int_eq(profile_add(p, frame, 2, 1), RESULT_OK);
    }
  }
  ck_assert_uint_eq(profile_stack_count(p), 20000);
  ck_assert_uint_eq(profile_weight(p), 40000);
  expect(0, "root;f00000", 2);
  expect(19999, "root;f19999", 2);
}
END_TEST

START_TEST(test_stack_without_frames)
{
  ck_assert_int_eq(profile_add(p, NULL, 0, 2), RESULT_OK);
  ck_assert_int_eq(profile_add(p, NULL, 0, 3), RESULT_OK);
  ck_assert_uint_eq(profile_stack_count(p), 1);
  expect(0, "", 5);
}
END_TEST

START_TEST(test_rename)
{
  add("main;?", 1);
  add("main;b", 1);
  expect(0, "main;?", 1);
  ck_assert_int_eq(profile_rename(p, id("?"), "c"), RESULT_OK);
  expect(0, "main;b", 1);
  expect(1, "main;c", 1);
  ck_assert_int_eq(profile_rename(p, id("?"), "a"), RESULT_OK);
  expect(0, "main;a", 1);
  ck_assert_str_eq(profile_frame_text(p, id("main")), "main");
  ck_assert_str_eq(profile_frame_text(p, 12345), "");
}
END_TEST

static int ended;

static void end(void *companion)
{
  ended += *(int *)companion;
}

START_TEST(test_again)
{
  add("main;update", 2);
  size_t update = profile_newest(p);
  add("main;draw", 1);
  size_t draw = profile_newest(p);
  add("main;update", 1);
  ck_assert_uint_eq(profile_newest(p), update);
  profile_add_again(p, draw, 4);
  profile_add_again(p, update, 1);
  profile_add_again(p, 17, 1); /* there is none */
  ck_assert_uint_eq(profile_weight(p), 9);
  expect(0, "main;draw", 5);
  expect(1, "main;update", 4);
}
END_TEST

START_TEST(test_join_of_profiles)
{
  struct profile *whole = p;
  p = profile_new();
  add("main;update", 2);
  add("main;late", 3);
  ck_assert_int_eq(profile_rename(p, id("late"), "named"), RESULT_OK);
  ck_assert_int_eq(profile_add(p, NULL, 0, 1), RESULT_OK);
  struct profile *part = p;
  p = whole;
  add("update;main", 1); /* other ids for the same texts */
  add("a/1;main;update", 5);
  ck_assert_int_eq(profile_join(p, part, "a/1"), RESULT_OK);
  ck_assert_int_eq(profile_join(p, part, NULL), RESULT_OK);
  profile_free(part); /* nothing of it is needed any more */
  ck_assert_uint_eq(profile_weight(p), 6 + 6 + 6);
  ck_assert_uint_eq(profile_stack_count(p), 7);
  expect(0, "a/1;main;update", 7);
  expect(1, "a/1;main;named", 3);
  expect(2, "main;named", 3);
  expect(3, "main;update", 2);
  expect(4, "", 1);
  expect(5, "a/1", 1);
  expect(6, "update;main", 1);
}
END_TEST

START_TEST(test_companion)
{
  int one = 1, ten = 10;
  ck_assert_ptr_null(profile_companion(p));
  profile_set_companion(p, &one, end);
  ck_assert_ptr_eq(profile_companion(p), &one);
  profile_set_companion(p, &ten, end);
  ck_assert_int_eq(ended, 1);
  profile_free(p);
  ck_assert_int_eq(ended, 11);
  p = NULL;
}
END_TEST

/* ---- trace aborts ---- */

static struct aborts *table;

static void table_setup(void)
{
  table = aborts_new();
  ck_assert_ptr_nonnull(table);
}

static void table_teardown(void)
{
  aborts_free(table);
}

static void abort_at(uint32_t severity, uint64_t count, const char *reason,
                     const char *location, const char *zone)
{
  struct aborts_row row = {.severity = severity,
                           .count = count,
                           .reason = reason,
                           .location = location,
                           .zone = zone};
  ck_assert_int_eq(aborts_add(table, &row), RESULT_OK);
}

/* One row as "severity count reason location zone". */
static void row_is(bool by_cost, size_t at, const char *want)
{
  static const char *const severity[] = {"?", "info", "warn", "blacklist"};
  const struct aborts_row *row;
  size_t count;
  char text[256];
  ck_assert_int_eq(aborts_sorted(table, by_cost, &row, &count), RESULT_OK);
  ck_assert_uint_lt(at, count);
  row += at;
  snprintf(text, sizeof text, "%s %d %s %s %s", severity[row->severity],
           (int)row->count, row->reason, row->location, row->zone);
  ck_assert_str_eq(text, want);
}

START_TEST(test_no_aborts)
{
  const struct aborts_row *row;
  size_t count = 9;
  ck_assert_int_eq(aborts_sorted(table, false, &row, &count), RESULT_OK);
  ck_assert_uint_eq(count, 0);
  aborts_join(table);
}
END_TEST

/* Severity, count (most first), reason, location, zone. */
START_TEST(test_order_of_aborts)
{
  abort_at(TECS_SEVERITY_INFO, 900, "leaving loop", "a.lua:1", "");
  abort_at(TECS_SEVERITY_WARN, 5, "b", "a.lua:1", "");
  abort_at(TECS_SEVERITY_WARN, 5, "a", "b.lua:1", "z");
  abort_at(TECS_SEVERITY_WARN, 5, "a", "b.lua:1", "");
  abort_at(TECS_SEVERITY_WARN, 5, "a", "a.lua:2", "");
  abort_at(TECS_SEVERITY_WARN, 70, "z", "z.lua:9", "");
  abort_at(TECS_SEVERITY_BLACKLIST, 1, "z", "z.lua:9", "");
  /* equal keys are one row, whose severity is the worst */
  row_is(false, 0, "blacklist 71 z z.lua:9 ");
  row_is(false, 1, "warn 5 a a.lua:2 ");
  row_is(false, 2, "warn 5 a b.lua:1 ");
  row_is(false, 3, "warn 5 a b.lua:1 z");
  row_is(false, 4, "warn 5 b a.lua:1 ");
  row_is(false, 5, "info 900 leaving loop a.lua:1 ");
}
END_TEST

static void in_function(uint64_t pt, uint32_t firstline, uint32_t numline,
                        const char *location)
{
  struct aborts_row row = {.severity = TECS_SEVERITY_WARN,
                           .count = 1,
                           .reason = "r",
                           .location = location,
                           .zone = "",
                           .pt = pt,
                           .firstline = firstline,
                           .numline = numline};
  ck_assert_int_eq(aborts_add(table, &row), RESULT_OK);
}

static void samples(unsigned n, const char *chunk, uint64_t pt,
                    uint32_t firstline, uint32_t numline, char state)
{
  while (n--)
    ck_assert_int_eq(aborts_sample(table, chunk, pt, firstline, numline, state),
                     RESULT_OK);
}

static void cost_is(size_t at, const char *location, double percent, char state)
{
  const struct aborts_row *row;
  size_t count;
  ck_assert_int_eq(aborts_sorted(table, true, &row, &count), RESULT_OK);
  ck_assert_uint_lt(at, count);
  ck_assert_str_eq(row[at].location, location);
  ck_assert_double_eq_tol(row[at].cpu_percent, percent, 0.001);
  ck_assert_int_eq(row[at].state, state);
}

START_TEST(test_join)
{
  in_function(0x10, 5, 3, "game/a.lua:6");   /* hot */
  in_function(0x20, 20, 9, "game/a.lua:22"); /* loaded anew, both are hot */
  in_function(0x30, 5, 3, "game/b.lua:6");   /* the same lines elsewhere */
  in_function(0, 0, 0, "?:0");
  samples(40, "game/a.lua", 0x10, 5, 3, 'I');
  samples(10, "game/a.lua", 0x10, 5, 3, 'C');
  samples(3, "game/a.lua", 0x21, 20, 9, 'G');
  samples(2, "game/a.lua", 0x20, 20, 9, 'N');
  samples(25, "game/c.lua", 0x40, 1, 1, 'N');
  samples(5, "cut differently", 0x10, 5, 3,
          'I');                              /* the prototype is the same */
  samples(5, "game/a.lua", 0x10, 6, 3, 'I'); /* its address is another's now */
  samples(10, NULL, 0, 0, 0, 'C');
  aborts_join(table);
  cost_is(0, "game/a.lua:6", 55.0, 'I');
  cost_is(1, "game/a.lua:22", 5.0, 'G');
  cost_is(2, "?:0", 0.0, 0);
  cost_is(3, "game/b.lua:6", 0.0, 0);
}
END_TEST

/* A cheap blacklisted row still comes before a dear warning. */
START_TEST(test_cost_within_a_severity)
{
  in_function(0x10, 5, 3, "dear.lua:6");
  abort_at(TECS_SEVERITY_WARN, 99, "r", "cheap.lua:1", "");
  abort_at(TECS_SEVERITY_BLACKLIST, 1, "r", "cheap.lua:2", "");
  samples(1, "dear.lua", 0x10, 5, 3, 'I');
  aborts_join(table);
  cost_is(0, "cheap.lua:2", 0.0, 0);
  cost_is(1, "dear.lua:6", 100.0, 'I');
  cost_is(2, "cheap.lua:1", 0.0, 0);
  row_is(false, 1, "warn 99 r cheap.lua:1 ");
}
END_TEST

START_TEST(test_many_aborts)
{
  char location[32];
  for (unsigned i = 0; i < 20000; i++) {
    snprintf(location, sizeof location, "f%05u.lua:1", i % 10000);
    abort_at(TECS_SEVERITY_WARN, 1 + i % 2, "r", location, "");
  }
  row_is(false, 0, "warn 4 r f00001.lua:1 ");
  row_is(false, 9999, "warn 2 r f09998.lua:1 ");
}
END_TEST

int main(void)
{
  Suite *s = suite_create("profile");
  TCase *tc = tcase_create("profile");
  suite_add_tcase(s, tc);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, test_empty);
  tcase_add_test(tc, test_equal_stacks_add_up);
  tcase_add_test(tc, test_ties_by_joined_text);
  tcase_add_test(tc, test_many_stacks);
  tcase_add_test(tc, test_stack_without_frames);
  tcase_add_test(tc, test_rename);
  tcase_add_test(tc, test_again);
  tcase_add_test(tc, test_join_of_profiles);
  tcase_add_test(tc, test_companion);
  tc = tcase_create("aborts");
  suite_add_tcase(s, tc);
  tcase_add_checked_fixture(tc, table_setup, table_teardown);
  tcase_add_test(tc, test_no_aborts);
  tcase_add_test(tc, test_order_of_aborts);
  tcase_add_test(tc, test_join);
  tcase_add_test(tc, test_cost_within_a_severity);
  tcase_add_test(tc, test_many_aborts);
  return suite_run(s);
}
