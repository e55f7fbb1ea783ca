/* SPDX-License-Identifier: MIT
 *
 * usage: learn align|path|check FILE.lnf...
 *
 * Counts what the programs' IR instructions became (align: src/lines/tables.c)
 * and what their bytecodes were recorded as (path: src/lines/path_tables.c),
 * and prints the table.  check: the tables that are built in have seen all of
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines/fixture.h"
#include "lines/lines_internal.h"

enum { KINDS = LINES_KIND(LINES_OP_ALL, 0, 0, 0), PATHS = LINES_BC_ALL * 3 };
enum { IR_KINDS = LINES_PATH_KIND(LINES_OP_COUNT, 0, 0) };

static unsigned length[KINDS][LINES_LENGTHS], class[KINDS][LINES_CLASS_COUNT],
    last[KINDS][LINES_CLASS_COUNT],
    regs[KINDS][LINES_CLASS_COUNT][LINES_REGS_COUNT];
static unsigned path_length[PATHS][LINES_PATH_LENGTHS],
    path_ir[PATHS][IR_KINDS];

/* ---- machine code ---- */

static void count_run(const struct lines_parts *p, unsigned kind, uint8_t r,
                      const struct fixture_trace *x, uint32_t owner)
{
  uint32_t operands = lines_operands(p, owner), n = 0, end = 0;
  for (uint32_t i = 0; i < x->ntruth; i++) {
    if (x->truth[i].owner != owner)
      continue;
    const struct lines_insn *in = &p->insn[i];
    class[kind][in->cls]++;
    regs[kind][in->cls][lines_registers(owner, r, operands, in)]++;
    end = in->cls;
    n++;
  }
  length[kind][n < LINES_LENGTHS ? n : LINES_LENGTHS - 1]++;
  if (n && owner > LINES_OWNER_TAIL)
    last[kind][end]++;
}

static void count_code(const struct lines_parts *p,
                       const struct fixture_trace *x)
{
  count_run(p, LINES_KIND(LINES_OP_HEAD, 0, 0, 0), 255, x, LINES_OWNER_HEAD);
  count_run(p, LINES_KIND(LINES_OP_TAIL, 0, 0, 0), 255, x, LINES_OWNER_TAIL);
  for (uint32_t i = 1; i < p->nir; i++) {
    const struct lines_ir *ir = &p->ir[i];
    if (ir->op != LINES_OP_NOP && ir->op != LINES_OP_PHI &&
        ir->op != LINES_OP_RENAME)
      count_run(p, LINES_KIND(ir->op, ir->type, ir->guard, ir->r < 32), ir->r,
                x, LINES_REF_BIAS + i);
  }
}

/* ---- bytecode ---- */

static void count_path(const struct lines_parts *p, unsigned path,
                       uint32_t from, uint32_t to)
{
  unsigned n = 0;
  for (uint32_t ref = from; ref < to; ref++) {
    const struct lines_ir *x = lines_parts_ir(p, ref);
    if (!x || x->op == LINES_OP_RENAME || x->op == LINES_OP_PHI)
      continue;
    path_ir[path][LINES_PATH_KIND(x->op, x->type, x->guard)]++;
    n++;
  }
  path_length[path][n < LINES_PATH_LENGTHS ? n : LINES_PATH_LENGTHS - 1]++;
}

static unsigned way_of(unsigned bc, const struct lines_event *e,
                       const struct lines_event *next)
{
  bool compares = bc < LINES_BC_ISTYPE;
  if (!next || !(compares || bc == LINES_BC_FORL || bc == LINES_BC_FORI ||
                 bc == LINES_BC_ITERL))
    return LINES_WAY_ONLY;
  return next->proto == e->proto && next->pc == e->pc + 1 + compares
             ? LINES_WAY_NEXT
             : LINES_WAY_JUMP;
}

static void count_bytecode(const struct lines_parts *p, const struct fixture *f,
                           const struct fixture_trace *x)
{
  uint32_t end = p->loop ? LINES_REF_BIAS + p->loop : x->t.nins;
  uint8_t bcs[LINES_BC_COUNT];
  lines_bcs(f->code.bcset, bcs);
  count_path(p, LINES_PATH(LINES_BC_START, 0), LINES_REF_BIAS + 1,
             x->t.event[0].ref);
  for (uint32_t i = 0; i < x->t.nevent; i++) {
    const struct lines_event *e = &x->t.event[i], *next = NULL;
    if (e->proto == LINES_NO_PROTO)
      continue;
    for (uint32_t k = i + 1; k < x->t.nevent && !next; k++)
      next = x->t.event[k].proto == LINES_NO_PROTO ? NULL : &x->t.event[k];
    unsigned bc = lines_bc_plain(bcs[f->proto[e->proto].bc[e->pc] & 255]);
    count_path(p, LINES_PATH(bc, way_of(bc, e, next)), e->ref,
               next ? next->ref : end);
  }
}

/* ---- out ---- */

static void put_counts(const char *name, const unsigned *n, unsigned whats,
                       unsigned each)
{
  int column = 0;
  char row[64];
  printf("static const struct lines_count %s[] = {\n", name);
  for (unsigned i = 0; i < KINDS * whats * each; i++) {
    if (!n[i])
      continue;
    int len = snprintf(row, sizeof row, "{%u,%u,%u,%u},", i / each / whats,
                       i / each % whats, i % each, n[i]);
    if (column + len > 80)
      column = printf("\n") - 1;
    column += len;
    fputs(row, stdout);
  }
  printf("\n};\nconst struct lines_counts lines_count_%s = {\n%s, sizeof %s / "
         "sizeof *%s};\n",
         name, name, name, name);
}

static void put_path_counts(const char *name, const unsigned *n, unsigned whats)
{
  int column = 0;
  char row[64];
  printf("static const struct lines_path_count %s[] = {\n", name);
  for (unsigned i = 0; i < PATHS * whats; i++) {
    if (!n[i])
      continue;
    int len =
        snprintf(row, sizeof row, "{%u,%u,%u},", i / whats, i % whats, n[i]);
    if (column + len > 80)
      column = printf("\n") - 1;
    column += len;
    fputs(row, stdout);
  }
  printf("\n};\nconst struct lines_path_counts lines_count_path_%s = {\n%s, "
         "sizeof %s / sizeof *%s};\n",
         name, name, name, name);
}

static void put(bool align)
{
  printf(
      "/* SPDX-License-Identifier: MIT\n *\n * Made by tests/lines/learn: do "
      "not edit.\n */\n#include \"lines/tables.h\"\n\n/* clang-format off "
      "*/\n");
  if (align) {
    put_counts("length", *length, LINES_LENGTHS, 1);
    put_counts("class", *class, LINES_CLASS_COUNT, 1);
    put_counts("last", *last, LINES_CLASS_COUNT, 1);
    put_counts("regs", **regs, LINES_CLASS_COUNT, LINES_REGS_COUNT);
  } else {
    put_path_counts("length", *path_length, LINES_PATH_LENGTHS);
    put_path_counts("ir", *path_ir, IR_KINDS);
  }
  printf("/* clang-format on */\n");
}

/* What was counted beyond what a table that is built in has. */
static unsigned unseen(const char *name, const struct lines_counts *in,
                       const unsigned *n, unsigned whats, unsigned each)
{
  unsigned bad = 0;
  unsigned *left = malloc((size_t)KINDS * whats * each * sizeof *left);
  memcpy(left, n, (size_t)KINDS * whats * each * sizeof *left);
  for (size_t i = 0; i < in->n; i++) {
    const struct lines_count *c = &in->row[i];
    unsigned *to = &left[(c->kind * whats + c->what) * each + c->regs];
    *to = *to > c->n ? *to - c->n : 0;
  }
  for (unsigned i = 0; i < KINDS * whats * each; i++)
    bad += left[i];
  if (bad)
    printf("%s: %u more than were learned\n", name, bad);
  free(left);
  return bad;
}

static int check(void)
{
  unsigned bad =
      unseen("length", &lines_count_length, *length, LINES_LENGTHS, 1) +
      unseen("class", &lines_count_class, *class, LINES_CLASS_COUNT, 1) +
      unseen("last", &lines_count_last, *last, LINES_CLASS_COUNT, 1) +
      unseen("regs", &lines_count_regs, **regs, LINES_CLASS_COUNT,
             LINES_REGS_COUNT);
  return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

static bool learn(const char *path)
{
  struct fixture f;
  struct error e;
  bool ok = fixture_read(path, &f);
  for (uint32_t i = 0; ok && i < f.ntrace; i++) {
    struct lines_parts p;
    ok = lines_parts_read(&f.trace[i].t, &p, &e) == RESULT_OK &&
         p.ninsn == f.trace[i].ntruth;
    if (ok) {
      count_code(&p, &f.trace[i]);
      if (f.trace[i].t.nevent)
        count_bytecode(&p, &f, &f.trace[i]);
    }
    lines_parts_free(&p);
  }
  fixture_free(&f);
  return ok;
}

int main(int argc, char **argv)
{
  for (int i = 2; i < argc; i++)
    if (!learn(argv[i])) {
      fprintf(stderr, "learn: %s is no packed program\n", argv[i]);
      return 2;
    }
  if (argc > 2 && !strcmp(argv[1], "check"))
    return check();
  if (argc < 3 || (strcmp(argv[1], "align") && strcmp(argv[1], "path"))) {
    fprintf(stderr, "usage: learn align|path|check FILE.lnf...\n");
    return 2;
  }
  put(!strcmp(argv[1], "align"));
  return 0;
}
