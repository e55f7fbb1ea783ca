/* SPDX-License-Identifier: MIT
 *
 * Traces with their truth, packed by `pack` from what an instrumented VM told
 * (README.md).  Read only by tests, and by `learn`.
 */
#ifndef TESTS_LINES_FIXTURE_H
#define TESTS_LINES_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "lines/lines.h"

/* An instruction's truth. */
struct fixture_truth {
  uint16_t ofs;
  uint16_t owner; /* IR reference; 0: the trace's entry, 1: its end */
  uint16_t rec;   /* in fixture_trace.rec: what it was recorded for */
  uint16_t hits;  /* how often it was seen to run */
};
/* A bytecode as the recorder saw it. */
struct fixture_rec {
  uint32_t first; /* line of its function */
  uint32_t line;
  uint32_t outer; /* the call that it is in; UINT32_MAX: none in the trace */
};

struct fixture_proto {
  uint64_t bcaddr;
  uint32_t first, nbc;
  uint32_t *bc, *line;
};
struct fixture_func {
  uint64_t addr;
  uint32_t proto, unused;
};
struct fixture_trace {
  struct lines_trace t;
  uint32_t link, linktype, startins, start_proto, start_pc;
  uint64_t mcode_addr;
  struct fixture_truth *truth;
  uint32_t ntruth;
  struct fixture_rec *rec;
  uint32_t nrec;
};
struct fixture {
  struct fixture_proto *proto;
  struct fixture_func *func;
  struct fixture_trace *trace;
  uint32_t nproto, nfunc, ntrace;
  struct lines_code code; /* prototypes are known by their number here */
};

/* false: the file cannot be read or is none. */
bool fixture_read(const char *path, struct fixture *out);
/* The same from a stream, which may hold anything. */
bool fixture_parse(FILE *in, struct fixture *out);
void fixture_free(struct fixture *f);

#endif
