/* SPDX-License-Identifier: MIT
 *
 * Damaged traces through the room lines: whatever came in, a map is sound or
 * there is none.  The same mutations in every run; FUZZ_RUNS and FUZZ_SEED ask
 * for others.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines/exercise.h"
#include "unit/suite.h"

static const char *const files[] = {"learned/B", "learned/D", "learned/vec2",
                                    "unseen/vec3"};
#define FILES ((int)(sizeof files / sizeof *files))

static uint64_t state;

/* splitmix64 (Steele, Lea, Flood) */
static uint64_t below(uint64_t n)
{
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (z ^ z >> 31) % n;
}

static uint64_t number(const char *variable, uint64_t otherwise)
{
  const char *text = getenv(variable);
  return text ? strtoull(text, NULL, 0) : otherwise;
}

static uint8_t *read_file(const char *name, size_t *size)
{
  static uint8_t data[1 << 20];
  char path[4096];
  const char *top = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/tests/lines/%s.lnf", top ? top : ".", name);
  FILE *f = fopen(path, "rb");
  ck_assert_msg(f != NULL, "cannot read %s", path);
  *size = fread(data, 1, sizeof data, f);
  fclose(f);
  return data;
}

/* Bits, bytes, 16-bit numbers that mean much, pieces moved elsewhere. */
static void damage(uint8_t *data, size_t size)
{
  static const uint16_t numbers[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  for (uint64_t n = 1 + below(12); n > 0; n--) {
    size_t at = 16 + below(size - 32), from = 16 + below(size - 32);
    switch (below(4)) {
    case 0:
      data[at] ^= (uint8_t)(1 << below(8));
      break;
    case 1:
      data[at] = (uint8_t)below(256);
      break;
    case 2:
      memcpy(data + (at & ~(size_t)1), &numbers[below(6)], 2);
      break;
    default:
      memmove(data + at, data + from, 1 + below(16));
    }
  }
}

START_TEST(test_mutations)
{
  uint64_t seed = number("FUZZ_SEED", 1), runs = number("FUZZ_RUNS", 60);
  struct exercise count = {0};
  struct lines_model *model;
  size_t size;
  uint8_t *whole = read_file(files[_i], &size), *data = malloc(size);
  ck_assert_int_eq(lines_model_new(&model, NULL), RESULT_OK);
  for (uint64_t i = 0; i < runs; i++) {
    memcpy(data, whole, size);
    state = seed + i;
    damage(data, size);
    const char *fault = exercise(model, data, size, &count);
    ck_assert_msg(!fault, "FUZZ_SEED=%llu FUZZ_RUNS=1: %s",
                  (unsigned long long)(seed + i), fault);
  }
  /* both ways out are taken */
  ck_assert(runs < 50 || (count.mapped > runs && count.refused > runs / 10));
  lines_model_free(model);
  free(data);
}
END_TEST

/* Cut short anywhere. */
START_TEST(test_cut)
{
  struct exercise count = {0};
  struct lines_model *model;
  size_t size;
  uint8_t *whole = read_file(files[_i], &size);
  ck_assert_int_eq(lines_model_new(&model, NULL), RESULT_OK);
  for (size_t n = 0; n < size; n += 1 + size / 500) {
    uint8_t *data = malloc(n + 1);
    memcpy(data, whole, n);
    ck_assert_ptr_null(exercise(model, data, n, &count));
    free(data);
  }
  ck_assert_uint_eq(count.mapped, 0);
  lines_model_free(model);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("lines, damaged");
  TCase *tc = tcase_create("lines, damaged");
  tcase_set_timeout(tc, (double)number("FUZZ_TIMEOUT", 600));
  tcase_add_loop_test(tc, test_mutations, 0, FILES);
  tcase_add_loop_test(tc, test_cut, 0, FILES);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
