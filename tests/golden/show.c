/* SPDX-License-Identifier: MIT
 *
 * show RECORDING: its collapsed stacks, as tecs-attach would print them.
 */
#include <stdlib.h>

#include "replay.h"

int main(int argc, char **argv)
{
  static struct replay r;
  struct merge_options o = replay_defaults();
  struct strbuf out = STRBUF_INIT;
  char why[512];
  if (argc != 2) {
    fputs("usage: show RECORDING\n", stderr);
    return 2;
  }
  if (!replay_open(&r, argv[1], why, sizeof why)) {
    fprintf(stderr, "show: %s\n", why);
    return 1;
  }
  enum result e = replay_run(&r, &o, r.stream.data, r.stream.len, &out);
  if (e == RESULT_OK)
    fputs(strbuf_text(&out), stdout);
  strbuf_free(&out);
  replay_close(&r);
  return e == RESULT_OK ? 0 : 1;
}
