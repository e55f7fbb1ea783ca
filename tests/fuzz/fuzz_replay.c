/* SPDX-License-Identifier: MIT
 *
 * libFuzzer's target: streams through the whole collector.  The first byte of
 * an input chooses the options, the rest is a stream as in golden/recording.h.
 *
 *   fuzz_replay RECORDING [libFuzzer's arguments]
 *
 * The recording gives maps, files and the table of VMs; its stream is the seed.
 */
#include <stdlib.h>
#include <string.h>

#include "golden/replay.h"
#include "mutate.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

static struct replay r;
static struct mutator m;

static void end(void)
{
  replay_close(&r);
  mutator_free(&m);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  char why[512];
  if (*argc < 2 || !replay_open(&r, (*argv)[1], why, sizeof why)) {
    fprintf(stderr, "usage: fuzz_replay RECORDING [ARGUMENT...]\n");
    exit(2);
  }
  atexit(end);
  (*argv)[1] = (*argv)[0];
  ++*argv;
  --*argc;
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct strbuf out = STRBUF_INIT;
  if (size == 0)
    return -1;
  mutator_seed(&m, data[0]);
  struct merge_options o = mutate_options(&m);
  if (replay_run(&r, &o, data + 1, size - 1, &out) != RESULT_OK)
    abort();
  const char *fault = output_fault(&out, r.kept);
  if (fault) {
    fprintf(stderr, "%s in\n%s", fault, strbuf_text(&out));
    abort();
  }
  strbuf_free(&out);
  return 0;
}

/* Records stay records more often than libFuzzer alone would leave them. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned seed)
{
  if (seed % 4 == 0 && size > 1)
    return LLVMFuzzerMutate(data, size, max);
  mutator_seed(&m, seed);
  struct bytes in = {data + 1, size > 1 ? size - 1 : 0};
  if (size <= 1 || mutator_below(&m, 16) == 0)
    in = r.stream;
  mutate_stream(&m, &in, &r.stream);
  size_t n = m.out.len < max - 1 ? m.out.len : max - 1;
  data[0] = (uint8_t)mutator_below(&m, 256);
  memcpy(data + 1, m.out.data, n);
  return n + 1;
}
