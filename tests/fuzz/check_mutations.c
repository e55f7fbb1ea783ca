/* SPDX-License-Identifier: MIT
 *
 * Damaged recordings through the whole collector: it must neither crash nor
 * hang nor print anything but clean lines.  The same mutations in every run;
 * FUZZ_RUNS and FUZZ_SEED ask for others, FUZZ_SHOW says which one is on.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "golden/replay.h"
#include "mutate.h"
#include "unit/suite.h"

static const char *const recordings[] = {"calls", "compiled", "engine",
                                         "native", "signals"};
#define RECORDINGS ((int)(sizeof recordings / sizeof *recordings))

static const char *folder(const char *name)
{
  static char path[4096];
  const char *top = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/tests/golden/%s", top ? top : ".", name);
  return path;
}

static uint64_t number(const char *variable, uint64_t otherwise)
{
  const char *text = getenv(variable);
  return text ? strtoull(text, NULL, 0) : otherwise;
}

static struct replay r;
static struct mutator m;
static struct bytes other;

static void open_recording(int i)
{
  char path[8192], why[512];
  snprintf(path, sizeof path, "%s/stream",
           folder(recordings[(i + 1) % RECORDINGS]));
  ck_assert(bytes_read(path, &other));
  ck_assert_msg(replay_open(&r, folder(recordings[i]), why, sizeof why), "%s",
                why);
}

static void close_recording(void)
{
  replay_close(&r);
  mutator_free(&m);
  bytes_free(&other);
}

static void run(uint64_t seed, const struct bytes *stream)
{
  struct merge_options o = mutate_options(&m);
  struct strbuf out = STRBUF_INIT;
  if (getenv("FUZZ_SHOW"))
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
  ck_assert_int_eq(replay_run(&r, &o, stream->data, stream->len, &out),
                   RESULT_OK);
  const char *fault = output_fault(&out, r.kept);
  ck_assert_msg(!fault, "FUZZ_SEED=%llu FUZZ_RUNS=1: %s in\n%s",
                (unsigned long long)seed, fault, strbuf_text(&out));
  strbuf_free(&out);
}

START_TEST(test_streams)
{
  uint64_t seed = number("FUZZ_SEED", 1), runs = number("FUZZ_RUNS", 2000);
  uint64_t kept = 0, bad = 0;
  open_recording(_i);
  for (uint64_t i = 0; i < runs; i++) {
    mutator_seed(&m, seed + i);
    mutate_stream(&m, &r.stream, &other);
    run(seed + i, &m.out);
    kept += r.kept;
    bad += r.bad;
  }
  /* both ways through are taken */
  ck_assert(runs < 100 || (kept > runs && bad > runs / 10));
  close_recording();
}
END_TEST

/* The table of VMs: bounds of the interpreter's code that lie. */
START_TEST(test_vms)
{
  uint64_t seed = number("FUZZ_SEED", 1), runs = number("FUZZ_RUNS", 100);
  struct bytes whole;
  open_recording(_i);
  whole = r.vms;
  for (uint64_t i = 0; i < runs; i++) {
    mutator_seed(&m, seed + i);
    mutate_bytes(&m, &whole);
    r.vms = m.out;
    run(seed + i, &r.stream);
  }
  r.vms = whole;
  close_recording();
}
END_TEST

/* ---- mapped files ---- */

static bool reopen(void)
{
  unwinder_free(r.unwinder);
  modules_free(r.modules);
  r.unwinder = NULL;
  r.modules = NULL;
  return modules_new(r.target, &r.modules, NULL) == RESULT_OK &&
         unwinder_new(r.modules, &r.unwinder, NULL) == RESULT_OK;
}

/* Damages the pieces of a reduced file: headers, unwind tables, symbols, code.
 */
static void damage_pieces(const struct bytes *reduced, const char *to)
{
  const size_t head = sizeof REDUCED_MAGIC - 1 + sizeof(uint64_t);
  struct bytes piece;
  struct piece_head h;
  FILE *f = fopen(to, "r+b");
  ck_assert_ptr_nonnull(f);
  for (size_t at = head; at + sizeof h <= reduced->len; at += h.len) {
    memcpy(&h, reduced->data + at, sizeof h);
    at += sizeof h;
    piece = (struct bytes){reduced->data + at, h.len};
    m.out.len = 0;
    if (mutator_below(&m, 4) == 0)
      mutate_bytes(&m, &piece);
    else
      m.out.len = 0;
    const struct bytes *now = m.out.len ? &m.out : &piece;
    fseek(f, (long)h.offset, SEEK_SET);
    fwrite(now->data, 1, now->len, f);
  }
  fclose(f);
}

static const char *const files[] = {
    "golden/host", "usr/lib/x86_64-linux-gnu/libc.so.6",
    "usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2.1.0"};

START_TEST(test_files)
{
  uint64_t seed = number("FUZZ_SEED", 1), runs = number("FUZZ_RUNS", 150);
  char from[8192], to[256];
  struct bytes file;
  open_recording(_i);
  for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
    snprintf(from, sizeof from, "%s/root/%s", folder(recordings[_i]), files[k]);
    snprintf(to, sizeof to, "%s/root/%s", r.dir, files[k]);
    if (!bytes_read(from, &file))
      continue; /* not in every recording */
    for (uint64_t i = 0; i < runs; i++) {
      mutator_seed(&m, seed + i);
      damage_pieces(&file, to);
      ck_assert(reopen());
      run(seed + i, &r.stream);
    }
    bytes_free(&file);
  }
  close_recording();
}
END_TEST

int main(void)
{
  Suite *s = suite_create("mutations");
  TCase *tc = tcase_create("mutations");
  tcase_set_timeout(tc, (double)number("FUZZ_TIMEOUT", 120));
  tcase_add_loop_test(tc, test_streams, 0, RECORDINGS);
  tcase_add_loop_test(tc, test_vms, 0, RECORDINGS);
  tcase_add_loop_test(tc, test_files, 0, RECORDINGS);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
