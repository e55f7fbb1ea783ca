/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "output/output.h"
#include "suite.h"
#include "tecs/abi.h"

/* ---- collapsed stacks ---- */

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

static void add(uint64_t weight, size_t n, const char *const *text)
{
  uint32_t frame[16];
  for (size_t i = 0; i < n; i++)
    frame[i] = interner_add_str(profile_frames(p), text[i]);
  ck_assert_int_eq(profile_add(p, frame, n, weight), RESULT_OK);
}

#define ADD(weight, ...)                                                       \
  add(weight,                                                                  \
      sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *),       \
      (const char *const[]){__VA_ARGS__})

static void expect(const char *want)
{
  struct strbuf b = STRBUF_INIT;
  ck_assert_int_eq(output_collapsed(p, &b), RESULT_OK);
  ck_assert_str_eq(strbuf_text(&b), want);
  strbuf_free(&b);
}

START_TEST(test_no_stacks)
{
  expect("");
}
END_TEST

START_TEST(test_lines_and_order)
{
  ADD(1, "_start", "main", "update (game.lua:12)_[I]");
  ADD(5, "_start", "main", "update (game.lua:12)_[N]");
  ADD(1, "_start", "main");
  expect("_start;main;update (game.lua:12)_[N] 5\n"
         "_start;main 1\n"
         "_start;main;update (game.lua:12)_[I] 1\n");
}
END_TEST

static const struct {
  const char *text, *shown;
} texts[] = {
    {"a;b", "a_b"},
    {"a\r\nb\tc\vd\fe", "a__b_c_d_e"},
    {"next\xc2\x85line\xe2\x80\xa8sep\xe2\x80\xa9para", "next_line_sep_para"},
    {"esc\x1b[1m\x01\x7f", "esc?[1m??"},
    {"c1\xc2\x9b", "c1?"},
    {"bad\xff\xfe\xc0utf8", "bad\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdutf8"},
    {"\xff", "\xef\xbf\xbd"},
    {"cut\xe4\xb8", "cut\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xef\xbf\xbe", "\xef\xbf\xbd"}, /* U+FFFE: no XML */
    {"\xe4\xb8\xad\xf0\x9f\x8e\xae", "\xe4\xb8\xad\xf0\x9f\x8e\xae"},
    {"", "?"},
    {"   ", "?"},
    {"\xc2\xa0\xe3\x80\x80", "?"}, /* no-break and ideographic space */
    {" lead", " lead"},
    {"<tag> & \"quote\" 'q'", "<tag> & \"quote\" 'q'"},
    {"[T; 3]::f", "[T_ 3]::f"},
    {"\n", "_"},
};

START_TEST(test_sanitised)
{
  char want[128];
  ADD(3, texts[_i].text, "leaf");
  snprintf(want, sizeof want, "%s;leaf 3\n", texts[_i].shown);
  expect(want);
}
END_TEST

START_TEST(test_state_stays_at_the_end)
{
  ADD(1, "a;b_[N]");
  ADD(2, "_[C]");
  ADD(3, "", "_[I]"); /* a frame without text, then a state alone */
  ADD(4, "_[G]_[J]");
  expect("_[G]_[J] 4\n"
         "?;_[I] 3\n"
         "_[C] 2\n"
         "a_b_[N] 1\n");
}
END_TEST

/* The suffixes: FNV-1a (32 bit) of a;b and of a, newline, b, computed apart
 * from this program. */
START_TEST(test_different_texts_stay_apart)
{
  ADD(4, "a_b", "x");
  ADD(3, "a;b", "x");
  ADD(2, "a\nb", "x");
  ADD(1, "a;b", "a;b_[N]");
  ADD(1, "c;d");
  expect("a_b;x 4\n"
         "a_b#32c005f5;x 3\n"
         "a_b#28e4c710;x 2\n"
         "a_b#32c005f5;a_b#32c005f5_[N] 1\n"
         "c_d 1\n");
}
END_TEST

START_TEST(test_last_frame_never_ends_in_a_number)
{
  ADD(5, "z 3", "phase 3");
  ADD(4, "version 2.0");
  ADD(3, "7");
  ADD(2, "x 12_[N]");
  expect("z 3;phase_3 5\n"
         "version_2.0 4\n"
         "7 3\n"
         "x 12_[N] 2\n");
}
END_TEST

START_TEST(test_late_names_and_equal_lines_add_up)
{
  ADD(2, "main", "pending");
  ADD(1, "main", "f (a.lua:1)");
  ADD(2, "main");
  uint32_t id = interner_add_str(profile_frames(p), "pending");
  ck_assert_int_eq(profile_rename(p, id, "f (a.lua:1)"), RESULT_OK);
  expect("main;f (a.lua:1) 3\n"
         "main 2\n");
}
END_TEST

START_TEST(test_stack_without_frames)
{
  ck_assert_int_eq(profile_add(p, NULL, 0, 6), RESULT_OK);
  expect("? 6\n");
}
END_TEST

START_TEST(test_appends)
{
  struct strbuf b = STRBUF_INIT;
  strbuf_add_str(&b, "before\n");
  ADD(1, "x");
  ck_assert_int_eq(output_collapsed(p, &b), RESULT_OK);
  ck_assert_str_eq(strbuf_text(&b), "before\nx 1\n");
  strbuf_free(&b);
}
END_TEST

/* ---- files ---- */

static char folder[64], path[128];

static void file_setup(void)
{
  strcpy(folder, "/tmp/check_output.XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/out.folded", folder);
}

static void file_teardown(void)
{
  unlink(path);
  ck_assert_int_eq(rmdir(folder), 0); /* nothing else was left there */
}

static void write_file(const char *name, const char *text)
{
  FILE *f = fopen(name, "w");
  ck_assert_ptr_nonnull(f);
  fputs(text, f);
  fclose(f);
}

static void expect_file(const char *name, const char *want)
{
  char got[256];
  FILE *f = fopen(name, "r");
  ck_assert_ptr_nonnull(f);
  got[fread(got, 1, sizeof got - 1, f)] = '\0';
  fclose(f);
  ck_assert_str_eq(got, want);
}

static enum result finish(struct output_file *f, const char *text,
                          struct error *e)
{
  struct strbuf b = STRBUF_INIT;
  strbuf_add_str(&b, text);
  enum result r = output_file_finish(f, &b, e);
  strbuf_free(&b);
  return r;
}

START_TEST(test_file_appears_whole)
{
  struct output_file *f;
  struct error e;
  mode_t mask = umask(027);
  ck_assert_int_eq(output_file_open(path, &f, &e), RESULT_OK);
  ck_assert_int_ne(access(path, F_OK), 0); /* not before it is complete */
  ck_assert_int_eq(finish(f, "a;b 1\n", &e), RESULT_OK);
  umask(mask);
  struct stat st;
  ck_assert_int_eq(stat(path, &st), 0);
  ck_assert_uint_eq(st.st_mode & 0777, 0640);
  expect_file(path, "a;b 1\n");
}
END_TEST

START_TEST(test_file_that_exists)
{
  struct output_file *f;
  struct error e;
  write_file(path, "old\n");
  ck_assert_int_eq(chmod(path, 0600), 0);
  ck_assert_int_eq(output_file_open(path, &f, &e), RESULT_OK);
  output_file_abandon(f);
  expect_file(path, "old\n");
  ck_assert_int_eq(output_file_open(path, &f, &e), RESULT_OK);
  expect_file(path, "old\n");
  ck_assert_int_eq(finish(f, "new\n", &e), RESULT_OK);
  expect_file(path, "new\n");
  struct stat st;
  ck_assert_int_eq(stat(path, &st), 0);
  ck_assert_uint_eq(st.st_mode & 0777, 0600);
}
END_TEST

static void write_keeping(const char *name, const char *text, uint64_t since)
{
  struct output_file *f;
  struct error e;
  ck_assert_int_eq(output_file_open(name, &f, &e), RESULT_OK);
  output_file_keep_since(f, since);
  ck_assert_int_eq(finish(f, text, &e), RESULT_OK);
}

START_TEST(test_newer_files_are_kept)
{
  const uint64_t past = 1000000000, future = UINT64_C(1) << 62;
  char second[160], third[160];
  snprintf(second, sizeof second, "%s/out.2.folded", folder);
  snprintf(third, sizeof third, "%s/out.3.folded", folder);
  write_keeping(path, "a 1\n", past); /* there is none */
  write_keeping(path, "b 1\n", past);
  write_keeping(path, "c 1\n", past);
  expect_file(path, "a 1\n");
  expect_file(second, "b 1\n");
  expect_file(third, "c 1\n");
  write_keeping(path, "d 1\n", future); /* all are older */
  expect_file(path, "d 1\n");
  unlink(second);
  unlink(third);
  snprintf(second, sizeof second, "%s/plain", folder);
  snprintf(third, sizeof third, "%s/plain.2", folder);
  write_keeping(second, "e 1\n", past);
  write_keeping(second, "f 1\n", past);
  expect_file(second, "e 1\n");
  expect_file(third, "f 1\n");
  unlink(second);
  unlink(third);
}
END_TEST

START_TEST(test_symbolic_link_stays)
{
  struct output_file *f;
  struct error e;
  char link[128];
  struct stat st;
  snprintf(link, sizeof link, "%s/link", folder);
  write_file(path, "old\n");
  ck_assert_int_eq(symlink("out.folded", link), 0);
  ck_assert_int_eq(output_file_open(link, &f, &e), RESULT_OK);
  ck_assert_int_eq(finish(f, "new\n", &e), RESULT_OK);
  ck_assert_int_eq(lstat(link, &st), 0);
  ck_assert(S_ISLNK(st.st_mode));
  expect_file(path, "new\n");
  unlink(link);
}
END_TEST

START_TEST(test_relative_path)
{
  struct output_file *f;
  struct error e;
  ck_assert_int_eq(chdir(folder), 0);
  ck_assert_int_eq(output_file_open("out.folded", &f, &e), RESULT_OK);
  ck_assert_int_eq(chdir("/"), 0);
  ck_assert_int_eq(finish(f, "x 1\n", &e), RESULT_OK);
  expect_file(path, "x 1\n");
}
END_TEST

START_TEST(test_folder_refused)
{
  struct output_file *f;
  struct error e;
  char name[192], want[400];
  snprintf(name, sizeof name, "%s/none/out", folder);
  ck_assert_int_eq(output_file_open(name, &f, &e), RESULT_IO);
  ck_assert_ptr_null(f);
  snprintf(want, sizeof want, "cannot write %s: No such file or directory",
           name);
  ck_assert_str_eq(e.text, want);
  ck_assert_int_eq(output_file_open(folder, &f, &e), RESULT_IO);
  snprintf(want, sizeof want, "cannot write %s: Is a directory", folder);
  ck_assert_str_eq(e.text, want);
  ck_assert_int_eq(output_file_open("/proc/none", &f, &e), RESULT_IO);
  ck_assert_int_eq(strncmp(e.text, "cannot write /proc/none: ", 25), 0);
}
END_TEST

START_TEST(test_full_device)
{
  struct output_file *f;
  struct error e;
  ck_assert_int_eq(output_file_open("/dev/full", &f, &e), RESULT_OK);
  ck_assert_int_eq(finish(f, "x 1\n", &e), RESULT_IO);
  ck_assert_str_eq(e.text, "cannot write /dev/full: No space left on device");
  struct stat st;
  ck_assert_int_eq(stat("/dev/full", &st), 0);
  ck_assert(S_ISCHR(st.st_mode));
}
END_TEST

static int over_the_limit(void)
{
  struct output_file *f;
  struct error e;
  struct rlimit limit;
  signal(SIGXFSZ, SIG_DFL);
  if (getrlimit(RLIMIT_FSIZE, &limit))
    return 1;
  limit.rlim_cur = 3;
  if (setrlimit(RLIMIT_FSIZE, &limit) ||
      output_file_open(path, &f, &e) != RESULT_OK ||
      finish(f, "x 1\n", &e) != RESULT_IO)
    return 2;
  return !strstr(e.text, "File too large");
}

/* Neither SIGXFSZ nor a part of the file: the teardown sees an empty folder. */
START_TEST(test_file_size_limit)
{
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0)
    _exit(over_the_limit());
  int status;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_int_eq(status, 0);
  ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(test_fifo_whose_reader_goes)
{
  struct output_file *f;
  struct error e;
  ck_assert_int_eq(mkfifo(path, 0600), 0);
  int reader = open(path, O_RDONLY | O_NONBLOCK);
  ck_assert_int_eq(output_file_open(path, &f, &e), RESULT_OK);
  ck_assert(!output_file_reader_gone(f));
  close(reader);
  ck_assert(output_file_reader_gone(f));
  ck_assert_int_eq(finish(f, "x 1\n", &e), RESULT_END); /* and no SIGPIPE */
}
END_TEST

/* Runs body with descriptor 1 replaced (-1: closed); its status. */
static int with_stdout(int fd, int (*body)(void))
{
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    if (fd < 0)
      close(1);
    else
      dup2(fd, 1);
    _exit(body());
  }
  int status;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int to_stdout(void)
{
  struct output_file *f;
  struct error e;
  struct strbuf b = STRBUF_INIT;
  output_guard_standard_fds();
  enum result r = output_file_open(NULL, &f, &e);
  if (r != RESULT_OK)
    return r;
  strbuf_add_str(&b, "x 1\n");
  r = output_file_finish(f, &b, &e);
  strbuf_free(&b);
  return r;
}

START_TEST(test_stdout)
{
  char got[16] = "";
  int pipes[2];
  ck_assert_int_eq(pipe(pipes), 0);
  ck_assert_int_eq(with_stdout(pipes[1], to_stdout), RESULT_OK);
  ck_assert_int_eq(read(pipes[0], got, sizeof got), 4);
  ck_assert_str_eq(got, "x 1\n");
  close(pipes[0]);
  signal(SIGPIPE, SIG_DFL);
  ck_assert_int_eq(with_stdout(pipes[1], to_stdout), RESULT_END);
  close(pipes[1]);
}
END_TEST

/* The file that gets descriptor 1 next must not get the profile. */
static int with_closed_stdout(void)
{
  struct output_file *f;
  struct error e;
  output_guard_standard_fds();
  int other = open(path, O_RDWR | O_CREAT, 0600);
  if (other <= 2 || output_file_open("-", &f, &e) != RESULT_IO)
    return 1;
  return strncmp(e.text, "cannot write to stdout: it is closed", 36) != 0;
}

START_TEST(test_closed_stdout)
{
  ck_assert_int_eq(with_stdout(-1, with_closed_stdout), 0);
  ck_assert_int_eq(with_stdout(-1, to_stdout), RESULT_IO);
  expect_file(path, "");
}
END_TEST

/* `-o /dev/stdout >> file` goes on where the file ends. */
static int to_dev_stdout(void)
{
  struct output_file *f;
  struct error e;
  struct strbuf b = STRBUF_INIT;
  if (output_file_open("/dev/stdout", &f, &e) != RESULT_OK)
    return 1;
  strbuf_add_str(&b, "x 1\n");
  int r = output_file_finish(f, &b, &e);
  strbuf_free(&b);
  return r;
}

START_TEST(test_dev_stdout)
{
  write_file(path, "before\n");
  int fd = open(path, O_WRONLY | O_APPEND);
  ck_assert_int_eq(with_stdout(fd, to_dev_stdout), RESULT_OK);
  close(fd);
  expect_file(path, "before\nx 1\n");
}
END_TEST

START_TEST(test_no_memory_keeps_the_file)
{
  struct output_file *f;
  struct error e;
  struct strbuf b = {.failed = true};
  write_file(path, "old\n");
  ck_assert_int_eq(output_file_open(path, &f, &e), RESULT_OK);
  ck_assert_int_eq(output_file_finish(f, &b, &e), RESULT_NOMEM);
  expect_file(path, "old\n");
}
END_TEST

/* ---- CSV ---- */

static struct aborts *table;

static void csv_setup(void)
{
  table = aborts_new();
  ck_assert_ptr_nonnull(table);
}

static void csv_teardown(void)
{
  aborts_free(table);
}

static void add_abort(struct aborts_row row)
{
  ck_assert_int_eq(aborts_add(table, &row), RESULT_OK);
}

static void csv_is(struct output_aborts o, const char *want)
{
  struct strbuf b = STRBUF_INIT;
  ck_assert_int_eq(output_aborts(table, &o, &b), RESULT_OK);
  ck_assert_str_eq(strbuf_text(&b), want);
  strbuf_free(&b);
}

#define HEADER "severity,count,reason,location,zone"

START_TEST(test_csv_empty)
{
  csv_is((struct output_aborts){0}, HEADER "\r\n");
  csv_is((struct output_aborts){.samples = true, .source = true},
         HEADER ",cpu_percent,state,source\r\n");
}
END_TEST

static void add_text(uint32_t severity, uint64_t count, const char *reason,
                     const char *location, const char *zone)
{
  add_abort((struct aborts_row){.severity = severity,
                                .count = count,
                                .reason = reason,
                                .location = location,
                                .zone = zone});
}

START_TEST(test_csv_rows)
{
  add_text(TECS_SEVERITY_INFO, 7, "leaving loop in root trace", "a.lua:1", "");
  add_text(TECS_SEVERITY_WARN, 3, "NYI: bytecode FNEW", "a.lua:2", "frame/ai");
  add_text(TECS_SEVERITY_BLACKLIST, 1, "blacklisted", "a.lua:3", "");
  csv_is((struct output_aborts){0},
         HEADER "\r\n"
                "blacklist,1,blacklisted,a.lua:3,\r\n"
                "warn,3,NYI: bytecode FNEW,a.lua:2,frame/ai\r\n");
  csv_is((struct output_aborts){.benign = true},
         HEADER "\r\n"
                "blacklist,1,blacklisted,a.lua:3,\r\n"
                "warn,3,NYI: bytecode FNEW,a.lua:2,frame/ai\r\n"
                "info,7,leaving loop in root trace,a.lua:1,\r\n");
}
END_TEST

/* RFC 4180, and no cell that a spreadsheet would run. */
START_TEST(test_csv_quoting)
{
  add_text(TECS_SEVERITY_WARN, 1, "a,b", "say \"hi\":1", "two\nlines");
  add_text(TECS_SEVERITY_WARN, 1, "cr\rhere", "=SUM(A1):1", "plain");
  csv_is((struct output_aborts){0},
         HEADER "\r\n"
                "warn,1,\"a,b\",\"say \"\"hi\"\":1\",\"two\nlines\"\r\n"
                "warn,1,\"cr\rhere\",'=SUM(A1):1,plain\r\n");
}
END_TEST

START_TEST(test_csv_more_columns)
{
  add_abort((struct aborts_row){.severity = TECS_SEVERITY_WARN,
                                .count = 9,
                                .reason = "r",
                                .location = "a.lua:2",
                                .zone = "",
                                .pt = 16,
                                .firstline = 1,
                                .numline = 4});
  add_abort((struct aborts_row){.severity = TECS_SEVERITY_WARN,
                                .source = ABORTS_PENALTY,
                                .count = 4,
                                .reason = "p",
                                .location = "b.lua:2",
                                .zone = ""});
  add_abort((struct aborts_row){.severity = TECS_SEVERITY_BLACKLIST,
                                .source = ABORTS_BYTECODE,
                                .reason = "blacklisted (ILOOP)",
                                .location = "b.lua:8",
                                .zone = ""});
  for (int i = 0; i < 3; i++)
    aborts_sample(table, i ? "a.lua" : NULL, 16, 1, 4, 'I');
  aborts_join(table);
  csv_is((struct output_aborts){.samples = true, .source = true},
         HEADER ",cpu_percent,state,source\r\n"
                "blacklist,,blacklisted (ILOOP),b.lua:8,,0.00,,bytecode\r\n"
                "warn,9,r,a.lua:2,,66.67,I,events\r\n"
                "warn,4,p,b.lua:2,,0.00,,penalty-cache\r\n");
}
END_TEST

static void add_csv_tests(TCase *tc)
{
  tcase_add_checked_fixture(tc, csv_setup, csv_teardown);
  tcase_add_test(tc, test_csv_empty);
  tcase_add_test(tc, test_csv_rows);
  tcase_add_test(tc, test_csv_quoting);
  tcase_add_test(tc, test_csv_more_columns);
}

static void add_file_tests(TCase *tc)
{
  tcase_add_checked_fixture(tc, file_setup, file_teardown);
  tcase_add_test(tc, test_file_appears_whole);
  tcase_add_test(tc, test_file_that_exists);
  tcase_add_test(tc, test_newer_files_are_kept);
  tcase_add_test(tc, test_symbolic_link_stays);
  tcase_add_test(tc, test_relative_path);
  tcase_add_test(tc, test_folder_refused);
  tcase_add_test(tc, test_full_device);
  tcase_add_test(tc, test_file_size_limit);
  tcase_add_test(tc, test_fifo_whose_reader_goes);
  tcase_add_test(tc, test_stdout);
  tcase_add_test(tc, test_closed_stdout);
  tcase_add_test(tc, test_dev_stdout);
  tcase_add_test(tc, test_no_memory_keeps_the_file);
}

int main(void)
{
  Suite *s = suite_create("output");
  TCase *tc = tcase_create("collapsed");
  suite_add_tcase(s, tc);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, test_no_stacks);
  tcase_add_test(tc, test_lines_and_order);
  tcase_add_loop_test(tc, test_sanitised, 0,
                      (int)(sizeof texts / sizeof *texts));
  tcase_add_test(tc, test_state_stays_at_the_end);
  tcase_add_test(tc, test_different_texts_stay_apart);
  tcase_add_test(tc, test_last_frame_never_ends_in_a_number);
  tcase_add_test(tc, test_late_names_and_equal_lines_add_up);
  tcase_add_test(tc, test_stack_without_frames);
  tcase_add_test(tc, test_appends);
  tc = tcase_create("file");
  suite_add_tcase(s, tc);
  add_file_tests(tc);
  tc = tcase_create("csv");
  suite_add_tcase(s, tc);
  add_csv_tests(tc);
  return suite_run(s);
}
