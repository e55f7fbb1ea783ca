/* SPDX-License-Identifier: MIT
 *
 * A recording through the collector's rooms, as a session would take it: ring,
 * vm, unwind, merge, output.
 */
#ifndef GOLDEN_REPLAY_H
#define GOLDEN_REPLAY_H

#include "merge/merge.h"
#include "recording.h"
#include "shm/shm.h"
#include "symbols/symbols.h"
#include "target/target.h"
#include "unwind/unwind.h"
#include "util/strbuf.h"
#include "vm/vm.h"

struct replay {
  char dir[64]; /* unpacked; removed at the end */
  struct bytes stream, vms;
  struct target *target;
  struct modules *modules;
  struct unwinder *unwinder;
  struct unwind_stack *stack;
  struct shm agent, shm; /* the two ends of a segment */
  struct unwind_vm unwind_vm[UINT8_MAX];

  /* of the last run */
  struct vm_store *vm;
  struct profile *profile;
  uint64_t samples, kept, partial;
  uint64_t bad; /* records that were refused */
};

/* false: text says why. */
bool replay_open(struct replay *r, const char *recording, char *text,
                 size_t cap);
void replay_close(struct replay *r);
/* Sends a stream (framed as in recording.h) through everything; out: collapsed
 * stacks.  May be called again and again.  Whatever the bytes are, the answer
 * is OK or NOMEM. */
enum result replay_run(struct replay *r, const struct merge_options *o,
                       const uint8_t *stream, size_t len, struct strbuf *out);
/* What tecs-attach does without options. */
struct merge_options replay_defaults(void);

#endif
