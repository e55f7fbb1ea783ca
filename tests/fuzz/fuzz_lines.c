/* SPDX-License-Identifier: MIT
 *
 * libFuzzer's target: packed traces (tests/lines/fixture.h) through the room
 * lines.  make fuzz-lines, see tests/README.md.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lines/exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct lines_model *model;

static void end(void)
{
  lines_model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct exercise count = {0};
  if (!model) {
    if (lines_model_new(&model, NULL) != RESULT_OK)
      abort();
    atexit(end);
  }
  const char *fault = exercise(model, data, size, &count);
  if (fault) {
    fprintf(stderr, "%s\n", fault);
    abort();
  }
  return 0;
}
