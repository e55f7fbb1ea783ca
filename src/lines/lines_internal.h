/* SPDX-License-Identifier: MIT
 *
 * What the files of this room share.
 */
#ifndef LINES_INTERNAL_H
#define LINES_INTERNAL_H

#include "lines/bytecode.h"
#include "lines/decode.h"
#include "lines/lines.h"
#include "lines/ops.h"
#include "lines/tables.h"

/* An IR instruction (lj_ir.h, IRIns), with its opcode by name. */
struct lines_ir {
  uint16_t op1, op2;
  uint8_t op;   /* enum lines_op */
  uint8_t type; /* LINES_TYPE_* */
  uint8_t irt;  /* IRT_*: type without flags (lj_ir.h, IRType) */
  uint8_t r;    /* register at the definition, 128 or more: none */
  bool guard;
};

/* A checked image.  Arrays belong to it. */
struct lines_parts {
  const struct lines_trace *t;
  struct lines_ir *ir; /* [0] is LINES_REF_BIAS */
  uint32_t nir;
  uint32_t loop; /* index of LOOP, 0: none */
  struct lines_insn *insn;
  uint32_t ninsn;
};

/* parts.c: reads and checks; *out needs lines_parts_free() in any case. */
enum result lines_parts_read(const struct lines_trace *t,
                             struct lines_parts *out, struct error *e);
void lines_parts_free(struct lines_parts *p);
/* The IR instruction at a reference, NULL: not one. */
const struct lines_ir *lines_parts_ir(const struct lines_parts *p,
                                      uint32_t ref);

struct lines_path_scores;
/* NULL slots are filled when first asked for. */
struct lines_model {
  double class_total, regs_total; /* what is met anywhere: model.c */
  double class_n[LINES_CLASS_COUNT];
  double regs_n[LINES_REGS_COUNT];
  struct lines_scores *scores[LINES_KIND(LINES_OP_ALL, 0, 0, 0)];
  struct lines_path_scores *path[LINES_PATH(LINES_BC_ALL, 0)];
};

/* model.c: how likely a kind of IR instruction becomes a run of so many
 * instructions (len), with such an instruction in it (emit, relative to its
 * being there at all), and last in it (last, relative to anywhere). */
struct lines_scores {
  float len[LINES_LENGTHS];
  float emit[LINES_CLASS_COUNT][LINES_REGS_COUNT];
  float last[LINES_CLASS_COUNT];
};
/* The longest run that is looked at, for an opcode. */
enum { LINES_RUN = 14, LINES_RUN_LONG = 40, LINES_RUN_ANY = 1 << 20 };
uint32_t lines_longest_run(unsigned op);
/* NULL: no memory. */
const struct lines_scores *lines_model_scores(struct lines_model *m,
                                              unsigned op, unsigned type,
                                              bool guard, bool reg);

/* align.c: owner of an instruction, with its probability. */
struct lines_owner {
  uint32_t ref;  /* or LINES_OWNER_HEAD, LINES_OWNER_TAIL */
  uint32_t next; /* index + 1 of another owner of the same instruction */
  float p;
};
enum { LINES_OWNER_HEAD = 0, LINES_OWNER_TAIL = 1 };

/* The set of registers that an IR instruction's operands have. */
uint32_t lines_operands(const struct lines_parts *p, uint32_t ref);
/* LINES_REGS of an instruction under an owner with register r. */
unsigned lines_registers(uint32_t owner, uint8_t r, uint32_t operands,
                         const struct lines_insn *x);

struct lines_alignment {
  uint32_t *first; /* for each instruction, index + 1 in owner; 0: none */
  struct lines_owner *owner;
  size_t nowner, cap;
  uint32_t regions, infeasible;
  float fit;
};
enum result lines_align(struct lines_model *m, const struct lines_parts *p,
                        struct lines_alignment *out);
void lines_alignment_free(struct lines_alignment *a);

/* loopmap.c: for each IR instruction behind LOOP the reference of the one that
 * it is a copy of, 0: not known.  Indexed as parts' ir; NULL without a loop or
 * memory. */
enum result lines_loop_map(const struct lines_parts *p, uint16_t **out);

/* path_model.c: log of how likely a bytecode is recorded as so many IR
 * instructions (len), and as such a one (ir, by LINES_PATH_KIND). */
struct lines_path_scores {
  float len[LINES_PATH_LENGTHS];
  float ir[LINES_PATH_KIND(LINES_OP_COUNT, 0, 0)];
};
/* NULL: no memory. */
const struct lines_path_scores *lines_path_scores(struct lines_model *m,
                                                  unsigned path);
double lines_path_length(const struct lines_path_scores *s, uint32_t n);

/* path.c: the log that the recorder would have left.  *events is the
 * caller's. */
struct lines_path {
  struct lines_event *event;
  uint32_t nevent, anchors, held;
};
enum result lines_path_find(struct lines_model *m, const struct lines_parts *p,
                            const struct lines_code *code,
                            struct lines_path *out, struct error *e);

/* map.c */
enum result lines_map_make(struct lines_model *m, const struct lines_parts *p,
                           const struct lines_event *event, uint32_t nevent,
                           struct lines_map **out, struct error *e);

#endif
