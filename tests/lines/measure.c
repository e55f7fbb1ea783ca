/* SPDX-License-Identifier: MIT
 *
 * usage: measure [-i] FILE.lnf...
 * -i: without the record logs.
 * How often lines, functions and owners are right, how sure we were, and how
 * long it took; not part of check.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lines/fixture.h"
#include "lines/score.h"

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
  static double took[100000];
  size_t n = 0;
  struct lines_model *model;
  struct error e;
  if (lines_model_new(&model, &e) != RESULT_OK)
    return 1;
  bool infer = argc > 1 && !strcmp(argv[1], "-i");
  for (int i = 1 + infer; i < argc; i++) {
    struct fixture f;
    struct score s = {0};
    float fit = 99;
    if (!fixture_read(argv[i], &f)) {
      fprintf(stderr, "measure: cannot read %s\n", argv[i]);
      return 1;
    }
    for (uint32_t k = 0; k < f.ntrace; k++) {
      struct lines_map *map;
      double t0 = now();
      enum result r =
          infer ? lines_map_infer(model, &f.trace[k].t, &f.code, &map, &e)
                : lines_map_new(model, &f.trace[k].t, &map, &e);
      if (r != RESULT_OK) {
        printf("%s: %s\n", argv[i], e.text);
        took[n++] = now() - t0;
        score_missing(&s, &f.trace[k]);
        continue;
      }
      took[n++] = now() - t0;
      score_add(&s, &f, &f.trace[k], map);
      fit = map->fit < fit ? map->fit : fit;
      lines_map_free(map);
    }
    const char *base = strrchr(argv[i], '/');
    printf("%-14s ", base ? base + 1 : argv[i]);
    score_print(&s, stdout);
    printf(" fit %.2f\n", fit);
    fixture_free(&f);
  }
  qsort(took, n, sizeof *took, by_value);
  if (n)
    printf("%zu traces: median %.3f ms, p99 %.3f ms, longest %.3f ms\n", n,
           took[n / 2] * 1e3, took[n * 99 / 100] * 1e3, took[n - 1] * 1e3);
  lines_model_free(model);
}
