/* SPDX-License-Identifier: MIT
 *
 * Collapsed stacks read again, and what is made of them.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"

static struct profile *p;
static struct categories *c;
static struct summary s;

static void setup(void)
{
  p = profile_new();
  c = categories_new();
  ck_assert(p && c);
}

static void teardown(void)
{
  summary_free(&s);
  profile_free(p);
  categories_free(c);
}

static struct profile_reading read_text(const char *text, size_t len)
{
  struct profile_reading r;
  FILE *f = fmemopen((void *)text, len, "r");
  ck_assert_ptr_nonnull(f);
  ck_assert_int_eq(profile_read(p, f, &r), RESULT_OK);
  fclose(f);
  return r;
}

static struct profile_reading folded(const char *text)
{
  return read_text(text, strlen(text));
}

static void rules(const char *text)
{
  struct error e;
  ck_assert_msg(categories_add(c, text, strlen(text), &e) == RESULT_OK, "%s",
                e.text);
}

static void summarise(const char *zone)
{
  ck_assert_int_eq(summary_make(&s, p, c, zone), RESULT_OK);
}

static const struct summary_row *row(const struct summary_table *t,
                                     const char *text)
{
  for (size_t i = 0; i < t->count; i++)
    if (!strcmp(t->row[i].text, text))
      return &t->row[i];
  return NULL;
}

static void expect(const struct summary_table *t, const char *text,
                   uint64_t self, uint64_t total)
{
  const struct summary_row *r = row(t, text);
  ck_assert_msg(r != NULL, "no row %s", text);
  ck_assert_msg(r->self == self && r->total == total, "%s: %ju %ju", text,
                (uintmax_t)r->self, (uintmax_t)r->total);
}

/* ---- reading ---- */

START_TEST(test_lines)
{
  struct profile_reading r = folded("a;b 3\n\na;b 4\r\na 2\n  \nc d;e f 1");
  ck_assert_uint_eq(r.lines, 4);
  ck_assert_uint_eq(r.bad, 0);
  ck_assert_uint_eq(profile_stack_count(p), 3);
  ck_assert_uint_eq(profile_weight(p), 10);
  const struct profile_stack *last = profile_stack_at(p, 2);
  ck_assert_uint_eq(last->count, 2);
  ck_assert_str_eq(profile_frame_text(p, last->frame[1]), "e f");
  ck_assert_ptr_null(profile_stack_at(p, 3));
}
END_TEST

START_TEST(test_bad_lines_are_counted)
{
  static const char text[] = "a 1\nno count\na;b 1.5\n 7\n3\n"
                             "a 99999999999999999999\na\0b 1\nb 2\n";
  struct profile_reading r = read_text(text, sizeof text - 1);
  ck_assert_uint_eq(r.lines, 8);
  ck_assert_uint_eq(r.bad, 6);
  ck_assert_uint_eq(r.first_bad, 2);
  ck_assert_uint_eq(profile_weight(p), 3);
}
END_TEST

START_TEST(test_sum_does_not_overflow)
{
  struct profile_reading r = folded("a 18446744073709551615\nb 1\n");
  ck_assert_uint_eq(r.bad, 1);
  ck_assert_uint_eq(profile_weight(p), UINT64_MAX);
}
END_TEST

START_TEST(test_long_lines_take_no_memory)
{
  size_t len = PROFILE_LINE_MAX + 100000;
  char *text = malloc(len);
  ck_assert_ptr_nonnull(text);
  memset(text, 'x', len);
  memcpy(text + len - 6, " 5\na 1", 6);
  struct profile_reading r = read_text(text, len);
  ck_assert_uint_eq(r.bad, 1);
  ck_assert_uint_eq(profile_weight(p), 1);
  free(text);
}
END_TEST

/* ---- the parts of a stack ---- */

START_TEST(test_lua_frames)
{
  static const char *const yes[] = {
      "update (game.lua:12)", "main chunk (x.lua)", "main chunk (x.lua:3)",
      "a ([string \"x\"]:1)", "anonymous#0a (f.lua:?)"};
  static const char *const no[] = {
      "f(int)", "a::b (const)", "string.gsub",   "operator ()", "x (y:)",
      "",       "v(1:2)",       "luajit+0x1:12)"};
  for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
    ck_assert_msg(profile_frame_is_lua(yes[i], strlen(yes[i])), "%s", yes[i]);
  for (size_t i = 0; i < sizeof no / sizeof *no; i++)
    ck_assert_msg(!profile_frame_is_lua(no[i], strlen(no[i])), "%s", no[i]);
}
END_TEST

static size_t zones_of(const char *line)
{
  profile_free(p);
  p = profile_new();
  folded(line);
  struct profile_shape shape = profile_shape_of(p);
  return profile_zones_end(p, shape, profile_stack_at(p, 0)) - shape.roots;
}

START_TEST(test_where_zones_end)
{
  ck_assert_uint_eq(zones_of("a;b;_start;main_[C] 1\n"), 2);
  ck_assert_uint_eq(zones_of("a;[thread start]_[C] 1\n"), 1);
  ck_assert_uint_eq(zones_of("a;[truncated];f (x.lua:1)_[I] 1\n"), 1);
  ck_assert_uint_eq(zones_of("_start;a;f (x.lua:1)_[I] 1\n"), 0);
  ck_assert_uint_eq(zones_of("a;f (x.lua:1);g (x.lua:2)_[N] 1\n"), 1);
  ck_assert_uint_eq(zones_of("a;pcall;g (x.lua:2)_[N] 1\n"), 1);
  ck_assert_uint_eq(zones_of("foreign;stack 1\n"), 0);
}
END_TEST

START_TEST(test_roots_are_no_zones)
{
  ck_assert_uint_eq(zones_of("main/12;a;_start 1\nworker/13;_start 2\n"), 1);
  ck_assert_uint_eq(zones_of("main/12 VM 1;a;_start 1\nw/13 no VM;_start 2\n"),
                    1);
  ck_assert_uint_eq(zones_of("VM 1;a;_start 1\nno VM;_start 2\n"), 1);
  ck_assert_uint_eq(zones_of("sh/1;main/1;a;_start 1\n"), 1);
  /* one stack without: they are zones */
  ck_assert_uint_eq(zones_of("level/12;a;_start 1\n_start 2\n"), 2);
}
END_TEST

/* ---- categories ---- */

static void wrong(const char *text, const char *what)
{
  struct error e = {RESULT_OK, ""};
  ck_assert_int_eq(categories_add(c, text, strlen(text), &e), RESULT_USAGE);
  ck_assert_msg(strstr(e.text, what) != NULL, "%s", e.text);
}

START_TEST(test_wrong_tables)
{
  wrong("  self a\n", "line 1: a rule before");
  wrong("a:\n  self\n", "line 2: a rule without");
  wrong("# x\n\na:\n  selfish b\n", "line 4: a rule begins");
  wrong("a:\nself b\n", "line 2: neither");
  wrong(":\n", "line 1: neither");
}
END_TEST

/* The category of one stack. */
static const char *category(const char *stack)
{
  profile_free(p);
  summary_free(&s);
  p = profile_new();
  folded(stack);
  summarise(NULL);
  ck_assert_uint_eq(s.categories.count, 1);
  return s.categories.row[0].text;
}

START_TEST(test_rules)
{
  rules("first: # comment\n  self malloc f?ee\n  any gc_*\n"
        "ai:\n\tlua think*(ai.lua:*)\n"
        "names:\n  named str.*\n"
        "compiled:\r\n  state N\r\n"
        "first:\n  self realloc\n");
  ck_assert_str_eq(category("_start;malloc_[N] 1\n"), "first");
  ck_assert_str_eq(category("_start;free 1\n"), "first");
  ck_assert_str_eq(category("_start;realloc 1\n"), "first");
  ck_assert_str_eq(category("_start;malloc;x_[N] 1\n"), "compiled");
  ck_assert_str_eq(category("_start;gc_step;x_[N] 1\n"), "first");
  ck_assert_str_eq(category("_start;gc;x_[C] 1\n"), "");
  /* Lua frames are met by lua rules alone, the innermost one only */
  ck_assert_str_eq(category("_start;gc_x (a.lua:1)_[I] 1\n"), "");
  ck_assert_str_eq(category("_start;think (ai.lua:1);memset_[C] 1\n"), "ai");
  ck_assert_str_eq(category("_start;think (ai.lua:1);b (c.lua:1)_[I] 1\n"), "");
  /* functions of stripped files belong to who called them */
  ck_assert_str_eq(category("_start;str.f;l+0x12;m.so+0xab_[C] 1\n"), "names");
  ck_assert_str_eq(category("_start;str.f;memcpy;m.so+0xab_[C] 1\n"), "");
  /* zones are no frames */
  ck_assert_str_eq(category("gc_zone;_start;x 1\n"), "");
}
END_TEST

START_TEST(test_built_in_table)
{
  size_t len;
  const char *text = categories_default(&len);
  struct error e;
  ck_assert_msg(categories_add(c, text, len, &e) == RESULT_OK, "%s", e.text);
  static const char *const row[][2] = {
      {"_start;f (a.lua:1)_[N] 1", "compiled code"},
      {"_start;f (a.lua:1)_[I] 1", "interpreter"},
      {"_start;f (a.lua:1);lj_gc_step_[G] 1", "garbage collection"},
      {"_start;f (a.lua:1);recff_x_[J] 1", "JIT compiler"},
      {"_start;luaL_loadfilex;lua_loadx;lex_next_[C] 1", "parsing and loading"},
      {"_start;f (a.lua:1);lj_cconv_ct_ct_[C] 1", "FFI"},
      {"_start;f (a.lua:1);lj_str_new_[C] 1", "strings and hashing"},
      {"_start;f (a.lua:1);string.gsub;luajit+0x12_[C] 1",
       "strings and hashing"},
      {"_start;f (a.lua:1);lj_tab_resize_[C] 1", "tables"},
      {"_start;f (a.lua:1);_int_malloc_[C] 1", "allocation"},
      {"_start;f (a.lua:1);lua_pushvalue_[C] 1", "C API"},
      {"_start;main;swrast_dri.so+0x12;memcpy_[C] 1", "rendering and drivers"},
      {"_start;main;__memcpy_avx_unaligned_erms_[C] 1", "C library"},
      {"_start;main;write_[C] 1", "system calls"},
      {"_start;main;clock_gettime;[vdso]_[C] 1", "system calls"},
      {"_start;main;write;[idle]_[C] 1", "waiting"},
      {"_start;main;step_world_[C] 1", "native code"},
      {"_start;luaV_execute 1", "interpreter"},
      {"_start;luaC_step;singlestep 1", "garbage collection"},
      {"_start;luaH_resize 1", "tables"},
      {"_start;mlua::util::callback_error_ext 1", "C API"},
      {"_start;who_knows 1", ""},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    ck_assert_msg(!strcmp(category(row[i][0]), row[i][1]), "%s: %s, want %s",
                  row[i][0], s.categories.row[0].text, row[i][1]);
}
END_TEST

/* ---- summaries ---- */

START_TEST(test_self_and_total)
{
  folded("_start;a (x.lua:1);b (x.lua:2);a (x.lua:1)_[I] 5\n"
         "_start;a (x.lua:1)_[N] 3\n"
         "_start;a (x.lua:1);b (x.lua:2)_[N] 2\n"
         "_start;read;[idle]_[C] 4\n");
  summarise(NULL);
  ck_assert_uint_eq(s.weight, 14);
  ck_assert_uint_eq(s.stacks, 4);
  expect(&s.functions, "_start", 0, 14);
  expect(&s.functions, "a (x.lua:1)", 8, 10); /* recursion counts once */
  expect(&s.functions, "b (x.lua:2)", 2, 7);
  expect(&s.functions, "read", 4, 4);
  ck_assert_uint_eq(s.functions.count, 4);
  ck_assert_str_eq(s.functions.row[0].text, "a (x.lua:1)");
  summary_sort_by_total(&s.functions);
  ck_assert_str_eq(s.functions.row[0].text, "_start");
  expect(&s.states, "I", 5, 5);
  expect(&s.states, "N", 5, 5);
  expect(&s.states, "C", 4, 4);
}
END_TEST

START_TEST(test_zones)
{
  folded("up;phys;_start 3\nup;_start 2\nup;up;_start 1\ndraw;_start 7\n"
         "_start 4\n");
  summarise(NULL);
  expect(&s.zones, "up", 2, 6);
  expect(&s.zones, "up/phys", 3, 3);
  expect(&s.zones, "up/up", 1, 1);
  expect(&s.zones, "draw", 7, 7);
  expect(&s.zones, "", 4, 4);
  summary_free(&s);
  summarise("up/p");
  ck_assert_uint_eq(s.weight, 3);
  summary_free(&s);
  summarise("u");
  ck_assert_uint_eq(s.weight, 6);
}
END_TEST

START_TEST(test_empty)
{
  summarise(NULL);
  ck_assert_uint_eq(s.weight, 0);
  ck_assert_uint_eq(s.functions.count, 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("summary");
  TCase *tc = tcase_create("all");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, test_lines);
  tcase_add_test(tc, test_bad_lines_are_counted);
  tcase_add_test(tc, test_sum_does_not_overflow);
  tcase_add_test(tc, test_long_lines_take_no_memory);
  tcase_add_test(tc, test_lua_frames);
  tcase_add_test(tc, test_where_zones_end);
  tcase_add_test(tc, test_roots_are_no_zones);
  tcase_add_test(tc, test_wrong_tables);
  tcase_add_test(tc, test_rules);
  tcase_add_test(tc, test_built_in_table);
  tcase_add_test(tc, test_self_and_total);
  tcase_add_test(tc, test_zones);
  tcase_add_test(tc, test_empty);
  suite_add_tcase(suite, tc);
  SRunner *sr = srunner_create(suite);
  srunner_set_tap(sr, "-");
  srunner_run_all(sr, CK_SILENT);
  int failed = srunner_ntests_failed(sr);
  srunner_free(sr);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
