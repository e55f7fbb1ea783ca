/* SPDX-License-Identifier: MIT
 *
 * Which bytecode, line and inlined functions a machine instruction of a trace
 * belongs to.  Pure functions over an image of the trace: nothing here reads a
 * process.
 *
 * LuaJIT keeps a trace's IR but not which machine instructions came from which
 * IR instruction.  The backend emits them in order, so each IR instruction
 * owns a contiguous, possibly empty, run of machine instructions between the
 * offsets that the snapshots have (lj_asm.c, asm_snap_prev).  The most likely
 * runs are found from what each kind of IR instruction was seen to become
 * (tables learned from an instrumented VM, tests/lines/README.md), and how
 * likely they are is the confidence.  Which bytecode an IR instruction was
 * recorded for stands in the record log: for each recorded bytecode the first
 * IR reference that it could use.  Copies that loop unrolling makes
 * (lj_opt_loop.c) are traced back to the instruction they copy.
 *
 * Typical use, once per trace:
 *
 *   lines_model_new(&model, e)            once per thread that aligns
 *   lines_map_new(model, &trace, &map, e) or lines_map_infer() without a log
 *   lines_map_at(map, pc - mcode_addr)    per sample, O(log n); for C code that
 *                                         was called from the trace, pc is the
 *                                         return address less one
 *   lines_map_chain(map, place->event, ...)
 */
#ifndef LINES_LINES_H
#define LINES_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/result.h"
#include "util/error.h"

/* IR opcode numbers, by the versions that share them (lj_ir.h, IRDEF).  Where a
 * layout leaves two possible (opcodes came without moving a field), take the
 * one whose maps have the greater sum of fit over some traces: a wrong set is
 * often refused, and fits worse in nine traces of ten. */
enum lines_irset {
  LINES_IR_20,           /* 2.0.x: 94 */
  LINES_IR_21_BETA,      /* 2.1.0-beta1 to beta3: 100 */
  LINES_IR_21_NO_ALEN,   /* 2020, Tarantool's fork: 99 */
  LINES_IR_21_NO_TMPREF, /* mid 2020 to mid 2021: 100 */
  LINES_IR_21            /* since July 2021, OpenResty's fork: 101 */
};

#define LINES_REF_BIAS 0x8000u /* lj_ir.h, REF_BIAS */
#define LINES_NO_PROTO UINT32_MAX
#define LINES_NO_EVENT UINT32_MAX

/* A snapshot (lj_jit.h, SnapShot). */
struct lines_snap {
  uint32_t mapofs; /* of its entries in the snapshot map */
  uint16_t ref;    /* first IR reference behind it */
  uint16_t mcofs;  /* offset of its machine code; not read without has_mcofs */
  uint8_t nent;    /* entries; two more words hold pc and base (SNAP_PC) */
};

/* A recorded bytecode: what a listener of the event "record" sees before it
 * (lj_trace.c, trace_state), in the order of recording.  Events of recording
 * attempts that failed are not given. */
struct lines_event {
  uint32_t ref;   /* J->cur.nins: the first IR reference it may use */
  uint32_t depth; /* J->framedepth */
  uint32_t proto; /* id, the caller's own; LINES_NO_PROTO: a builtin's header
                     (FUNCC), outside all prototypes */
  uint32_t pc;    /* index of the bytecode in it; not read for a builtin */
  uint32_t line;  /* of that bytecode; 0: not known */
};

/* An image of a GCtrace.  Everything belongs to the caller and is only read;
 * none of it is believed. */
struct lines_trace {
  enum lines_irset irset;
  bool has_mcofs; /* snapshots know their machine code (since March 2021) */
  bool gc64;      /* 64-bit constants take two slots, frames too (LJ_GC64) */
  uint32_t traceno;
  const uint8_t *mcode; /* szmcode bytes */
  uint32_t szmcode;
  const uint8_t *ir; /* 8 bytes each for [nk, nins) (lj_ir.h, IRIns) */
  uint32_t nk, nins; /* biased */
  const struct lines_snap *snap;
  uint32_t nsnap;
  const uint32_t *snapmap; /* read by lines_map_infer alone */
  uint32_t nsnapmap;
  const struct lines_event *event; /* read by lines_map_new alone */
  uint32_t nevent;
};

/* Bytecode numbers, by the versions that share them (lj_bc.h, BCDEF). */
enum lines_bcset {
  LINES_BC_20,     /* 2.0.x: 93 */
  LINES_BC_21,     /* 2.1 and its forks: 97 */
  LINES_BC_21_2026 /* since July 2026: 104 */
};

/* A prototype that the trace may have run through. */
struct lines_proto {
  uint32_t id;          /* for events; the caller's own */
  uint64_t addr;        /* of the GCproto */
  uint64_t bcaddr;      /* of its bytecode, header first */
  const uint32_t *bc;   /* nbc instructions, as they are or were */
  const uint32_t *line; /* of each; NULL: not known */
  uint32_t nbc;
  /* Constants: numbers as their bits, objects by address, in the order of the
   * operands that name them (lj_obj.h, proto_knumtv and proto_kgc of ~i).
   * None: not known, and not asked about. */
  const uint64_t *kn, *kgc;
  uint32_t nkn, nkgc;
};
/* A function object. */
struct lines_func {
  uint64_t addr;  /* of the GCfunc */
  uint32_t proto; /* index in lines_code.proto; LINES_NO_PROTO: a builtin or
                     another C function */
};
/* The bytecode that a root trace's patch hides (GCtrace.startins). */
struct lines_start {
  uint32_t traceno, startins;
};
/* What a trace without a log is inferred from, besides itself. */
struct lines_code {
  enum lines_bcset bcset;
  const struct lines_proto *proto;
  const struct lines_func *func;
  const struct lines_start *start;
  uint32_t nproto, nfunc, nstart;
};

/* What may be said of an instruction. */
enum lines_level {
  LINES_LEVEL_LINE,     /* event, its line and chain */
  LINES_LEVEL_FUNCTION, /* fn_event's function and the chain outside of it */
  LINES_LEVEL_TRACE     /* no more than that it is in this trace */
};
#define LINES_SHOWN 0.9f /* confidence from which something is said */

enum lines_flag {
  LINES_ENTRY = 1,  /* belongs to the trace's entry: registers taken over from
                       the parent; counted to the first bytecode */
  LINES_EXIT = 2,   /* belongs to its end: the jump into the linked trace;
                       counted to the last bytecode */
  LINES_LOOP = 4,   /* in the loop part, a copy of what was recorded */
  LINES_BUILTIN = 8 /* event is a builtin's; line and function are those of
                       the function that calls it */
};

struct lines_place {
  uint32_t ofs;      /* of the instruction in the machine code */
  uint32_t event;    /* with the most likely line; LINES_NO_EVENT: none */
  uint32_t fn_event; /* with the most likely function */
  float line_conf;   /* probability of the line, 0 to 1 */
  float fn_conf;     /* of the function */
  uint32_t flags;    /* enum lines_flag */
};

struct lines_map {
  const struct lines_place *place;
  uint32_t nplace;
  uint32_t szmcode;
  const struct lines_event *event; /* a copy, or what was inferred */
  uint32_t nevent;
  bool inferred; /* by lines_map_infer */
  /* Snapshots whose position lies on the inferred path, of all that could be
   * checked; both 0 with a log. */
  uint32_t anchors_held, anchors;
  uint32_t regions;    /* between snapshots, with instructions */
  uint32_t infeasible; /* of them: not aligned, their places have no event */
  /* Log of how much likelier its instructions are as what this IR becomes than
   * as just any, per instruction.  Traces have 1.8 to 4, those of operations
   * that no program had that was learned from, 1.1; the IR of one with the code
   * of another, below 1 (tests/lines).  Below LINES_MIN_FIT no map is made. */
  float fit;
};
#define LINES_MIN_FIT 1.0f

struct lines_model;

/* The learned tables, smoothed as they are asked for: about a megabyte, and 13
 * at most (IR that makes no sense asks for all).  Not to be used by two threads
 * at once. */
enum result lines_model_new(struct lines_model **out, struct error *e);
void lines_model_free(struct lines_model *m);

/* Aligns a trace that has a record log.
 * RESULT_OK: *out is the caller's, to be freed with lines_map_free().
 * RESULT_CORRUPT: the parts do not fit each other (machine code that does not
 * decode, belongs to another trace or is not what such IR becomes, snapshots
 * out of order, IR that is none); RESULT_UNSUPPORTED: no such opcode set;
 * RESULT_NOTFOUND: no log; RESULT_NOMEM. */
enum result lines_map_new(struct lines_model *m, const struct lines_trace *t,
                          struct lines_map **out, struct error *e);
/* A map has 28 bytes a machine instruction and 32 an event.  Making one takes
 * 0.04 ms in the median and 12 ms in the 99th percentile of the test's traces,
 * and at most 32 MB for the while; inferring the path, 0.2 and 170 ms. */
/* The same for a trace without a log, compiled before anyone listened: infers
 * the path through the bytecode that the recorder took, from the IR, from
 * constants in it, and from the snapshots, which name positions on it.
 * Lines are shown only when all snapshots lie on the path.  GC64 only.
 * Returns as lines_map_new(); RESULT_NOTFOUND: no path was found (a prototype
 * is missing, or bytecodes that were not met in learning). */
enum result lines_map_infer(struct lines_model *m, const struct lines_trace *t,
                            const struct lines_code *code,
                            struct lines_map **out, struct error *e);
void lines_map_free(struct lines_map *map);

/* The place of an offset in the machine code: the instruction that starts at
 * or before it.  NULL: outside. */
const struct lines_place *lines_map_at(const struct lines_map *map,
                                       uint64_t ofs);
/* NULL is LINES_LEVEL_TRACE. */
enum lines_level lines_place_level(const struct lines_map *map,
                                   const struct lines_place *p);

/* The frames that the trace itself has at an event, outermost first: the
 * events of the calls and, last, the event itself.  Writes at most max, the
 * innermost ones; returns how many there are, 0 for an event that is none.
 * Frames below the first one's depth stand in snapshot 0 and on the stack. */
size_t lines_map_chain(const struct lines_map *map, uint32_t event,
                       uint32_t *out, size_t max);

#endif
