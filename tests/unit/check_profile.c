/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"

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
  tcase_add_test(tc, test_companion);
  SRunner *sr = srunner_create(s);
  srunner_set_tap(sr, "-");
  srunner_run_all(sr, CK_SILENT);
  int failed = srunner_ntests_failed(sr);
  srunner_free(sr);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
