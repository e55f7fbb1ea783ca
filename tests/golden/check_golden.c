/* SPDX-License-Identifier: MIT
 *
 * Recordings of processes, replayed, against what their programs' sources say
 * (expected*.folded; each recording's expected.md works it out).
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "unit/suite.h"

static const struct golden {
  const char *name, *expected;
  struct merge_options o; /* beside the defaults */
} goldens[] = {
    {"calls", "expected.folded", {0}},
    {"calls", "expected.lines.folded", {.lines = true}},
    {"calls", "expected.zone.folded", {.zone_prefix = "frame/phys"}},
    {"compiled", "expected.folded", {0}},
    {"engine", "expected.folded", {0}},
    {"head", "expected.folded", {0}},
    {"native", "expected.folded", {0}},
    {"native", "expected.depth.folded", {.depth = 6}},
    {"nogc64", "expected.folded", {0}},
    {"outside", "expected.folded", {0}},
    {"signals", "expected.folded", {0}},
};

static const char *folder(const char *name)
{
  static char path[4096];
  const char *top = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/tests/golden/%s", top ? top : ".", name);
  return path;
}

static struct merge_options options(const struct golden *g)
{
  struct merge_options o = replay_defaults();
  o.lines = g->o.lines;
  o.zone_prefix = g->o.zone_prefix;
  o.depth = g->o.depth ? g->o.depth : o.depth;
  return o;
}

static char *read_text(const char *recording, const char *name)
{
  char path[8192];
  struct bytes b;
  snprintf(path, sizeof path, "%s/%s", folder(recording), name);
  ck_assert_msg(bytes_read(path, &b), "%s", path);
  b.data[b.len] = '\0'; /* bytes_read leaves room */
  return (char *)b.data;
}

START_TEST(test_replay)
{
  static struct replay r;
  const struct golden *g = &goldens[_i];
  struct merge_options o = options(g);
  struct strbuf out = STRBUF_INIT, again = STRBUF_INIT;
  char why[512];
  ck_assert_msg(replay_open(&r, folder(g->name), why, sizeof why), "%s", why);
  ck_assert_int_eq(replay_run(&r, &o, r.stream.data, r.stream.len, &out),
                   RESULT_OK);
  ck_assert_uint_eq(r.bad, 0);
  if (getenv("GOLDEN_SHOW"))
    fputs(strbuf_text(&out), stderr);
  char *want = read_text(g->name, g->expected);
  ck_assert_str_eq(strbuf_text(&out), want);
  /* caches are warm now */
  ck_assert_int_eq(replay_run(&r, &o, r.stream.data, r.stream.len, &again),
                   RESULT_OK);
  ck_assert_str_eq(strbuf_text(&again), want);
  free(want);
  strbuf_free(&out);
  strbuf_free(&again);
  replay_close(&r);
}
END_TEST

/* ---- what was expected, against what the VM itself said ---- */

/* Appends " FILE:LINE" for each Lua frame of a stack, as truth has them;
 * returns its weight. */
static unsigned lua_frames(char *stack, char *out, size_t cap)
{
  char *count = strrchr(stack, ' '), *save = NULL;
  size_t len = 0;
  ck_assert_ptr_nonnull(count);
  *count = '\0';
  out[0] = '\0';
  for (char *f = strtok_r(stack, ";", &save); f;
       f = strtok_r(NULL, ";", &save)) {
    char *open = strstr(f, " ("), *close = strrchr(f, ')');
    if (!open || !close)
      continue;
    bool main_chunk = strncmp(f, "main chunk (", 12) == 0;
    len += (size_t)snprintf(out + len, cap - len, " %.*s%s",
                            (int)(close - open - 2), open + 2,
                            main_chunk ? ":0" : "");
    ck_assert_uint_lt(len, cap);
  }
  return (unsigned)atoi(count + 1);
}

/* A truth's frames without its C functions. */
static void without_c(char *frames)
{
  for (char *c; (c = strstr(frames, " [C]"));)
    memmove(c, c + 4, strlen(c + 4) + 1);
}

/* Samples of the stages whose Lua frames are these. */
static unsigned announced(const char *recording, const char *frames)
{
  char *text = read_text(recording, "truth"), *save = NULL;
  char last[8192] = "", label[64];
  unsigned sum = 0, count;
  for (char *l = strtok_r(text, "\n", &save); l;
       l = strtok_r(NULL, "\n", &save)) {
    if (sscanf(l, "truth %63s", label) == 1) {
      snprintf(last, sizeof last, "%s", l + 6 + strlen(label));
      without_c(last);
    } else if (sscanf(l, "stage %63s %u", label, &count) == 2) {
      sum += strcmp(last, frames) == 0 ? count : 0;
      last[0] = '\0';
    }
  }
  free(text);
  return sum;
}

/* Samples of the expected stacks that have these Lua frames in a row: a second
 * VM's stand behind those of the first, and functions that were entered after
 * the announcement behind all. */
static unsigned expected(const struct golden *g, const char *frames)
{
  char *text = read_text(g->name, g->expected), *save = NULL;
  char own[8192];
  unsigned sum = 0;
  for (char *l = strtok_r(text, "\n", &save); l;
       l = strtok_r(NULL, "\n", &save)) {
    unsigned count = lua_frames(l, own, sizeof own);
    char *at = strstr(own, frames);
    sum += at && strchr(" ", at[strlen(frames)]) ? count : 0;
  }
  free(text);
  return sum;
}

START_TEST(test_truth)
{
  const struct golden *g = &goldens[_i];
  char *text, *save = NULL, label[64], frames[8192];
  if (strcmp(g->expected, "expected.folded") != 0)
    return;
  text = read_text(g->name, "truth");
  for (char *l = strtok_r(text, "\n", &save); l;
       l = strtok_r(NULL, "\n", &save)) {
    if (sscanf(l, "truth %63s", label) != 1)
      continue;
    snprintf(frames, sizeof frames, "%s", l + 6 + strlen(label));
    without_c(frames);
    ck_assert_msg(expected(g, frames) == announced(g->name, frames),
                  "%s: %u samples expected, %u announced", label,
                  expected(g, frames), announced(g->name, frames));
  }
  free(text);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("golden");
  TCase *tc = tcase_create("golden");
  tcase_add_loop_test(tc, test_replay, 0,
                      (int)(sizeof goldens / sizeof *goldens));
  tcase_add_loop_test(tc, test_truth, 0,
                      (int)(sizeof goldens / sizeof *goldens));
  suite_add_tcase(s, tc);
  return suite_run(s);
}
