/* SPDX-License-Identifier: MIT
 *
 * Images of traces on their way from the stream to a stack: which one a sample
 * means, and that bytes of any kind do no harm.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "merge/merge.h"
#include "records.h"
#include "suite.h"
#include "vm/vm.h"
#include "vmcore/layout.h"

#define G UINT64_C(0x7f0000001000)
#define MCODE UINT64_C(0x7f0000100000)
#define PROTO UINT64_C(0x7f0000200000)

enum { NK = 0x7ffd, NINS = 0x8006, CODE = 24 };

static struct vm_store *s;
static struct record rec;

static void setup(void)
{
  ck_assert_int_eq(vm_store_new(NULL, &s), RESULT_OK);
}

static void teardown(void)
{
  vm_store_free(s);
}

static uint32_t gc64_layout(void)
{
  uint32_t i = 0;
  while (!vm_layout_get(i)->gc64 || !vm_layout_get(i)->hasjit)
    i++;
  return i;
}

static void proto_in(unsigned slot, uint32_t id)
{
  record_make_proto(&rec, (struct proto_spec){.id = id,
                                              .flags = TECS_PROTO_LINES |
                                                       TECS_PROTO_NAME_KNOWN,
                                              .addr = PROTO,
                                              .g = G,
                                              .firstline = 7,
                                              .numline = 3,
                                              .sizebc = 4,
                                              .chunk = "@a.lua",
                                              .name = "run",
                                              .lines = "\0\1\2",
                                              .lines_len = 3});
  ck_assert_int_eq(vm_store_record(s, slot, record_of(&rec)), RESULT_OK);
}

/* A trace that starts in prototype `id`; salt tells its IR from others'. */
static void make_trace(uint32_t id, uint64_t mcode, uint8_t salt)
{
  uint8_t ir[8 * (NINS - NK)] = {0}, code[CODE];
  uint32_t map[3] = {0};
  struct tecs_snap snap = {.ref = 0x8001, .nent = 1};
  struct tecs_trace_object object = {
      .addr = PROTO, .proto = id, .kind = TECS_TRACE_PROTO};
  struct tecs_trace t = {.g = G,
                         .mcode = mcode,
                         .szmcode = CODE,
                         .layout = gc64_layout(),
                         .nk = NK,
                         .nins = NINS,
                         .nsnap = 1,
                         .nsnapmap = 3,
                         .nobject = 1,
                         .startproto = id,
                         .startindex = 2,
                         .traceno = 3};
  memset(code, 0x90, sizeof code);
  ir[0] = salt;
  record_start(&rec, &t, sizeof t, TECS_RECORD_TRACE);
  record_put(&rec, code, sizeof code);
  record_put(&rec, ir, sizeof ir);
  record_put(&rec, &snap, sizeof snap);
  record_put(&rec, map, sizeof map);
  record_put(&rec, &object, sizeof object);
}

static void trace_in(unsigned slot, uint64_t mcode, uint8_t salt)
{
  make_trace(1, mcode, salt);
  ck_assert_int_eq(vm_store_record(s, slot, record_of(&rec)), RESULT_OK);
}

static struct tecs_sample_vm at(uint64_t pc)
{
  return (struct tecs_sample_vm){.g = G,
                                 .mcode_pc = pc,
                                 .layout = gc64_layout(),
                                 .vmstate = 3,
                                 .trace = 3,
                                 .flags = TECS_SAMPLE_VM_TRACE};
}

static struct vm_trace *meant(unsigned slot, uint64_t pc)
{
  struct tecs_sample_vm vm = at(pc);
  return vm_trace_of(s, slot, &vm);
}

START_TEST(test_image)
{
  proto_in(0, 1);
  ck_assert_ptr_null(meant(0, MCODE));
  trace_in(0, MCODE, 1);
  const struct vm_trace *t = meant(0, MCODE + CODE - 1);
  ck_assert_ptr_nonnull(t);
  ck_assert_uint_eq(t->traceno, 3);
  ck_assert_uint_eq(t->startindex, 2);
  ck_assert_uint_eq(t->code[CODE - 1], 0x90);
  ck_assert_uint_eq(t->ir[0], 1);
  ck_assert_uint_eq(t->snap[0].ref, 0x8001);
  ck_assert_str_eq(vm_function_text(s, t->start, 0, false), "run (a.lua:7)");
}
END_TEST

/* The sample says whether there is an image; the address must be in it. */
START_TEST(test_not_meant)
{
  proto_in(0, 1);
  trace_in(0, MCODE, 1);
  struct tecs_sample_vm vm = at(MCODE);
  vm.flags = 0;
  ck_assert_ptr_null(vm_trace_of(s, 0, &vm));
  ck_assert_ptr_null(meant(0, MCODE + CODE));
  ck_assert_ptr_null(meant(0, MCODE - 1));
  ck_assert_ptr_null(meant(1, MCODE));
  vm = at(MCODE);
  vm.g++;
  ck_assert_ptr_null(vm_trace_of(s, 0, &vm));
  vm = at(MCODE);
  vm.trace = 4;
  ck_assert_ptr_null(vm_trace_of(s, 0, &vm));
}
END_TEST

/* Freed, and the number used again at once: samples of either slot mean what
 * their own stream showed last. */
START_TEST(test_number_used_again)
{
  proto_in(0, 1);
  proto_in(1, 1);
  trace_in(0, MCODE, 1);
  trace_in(1, MCODE, 1);
  ck_assert_ptr_eq(meant(0, MCODE), meant(1, MCODE)); /* the same trace */
  trace_in(0, MCODE, 2); /* same place and size, other IR */
  ck_assert_uint_eq(meant(0, MCODE)->ir[0], 2);
  ck_assert_uint_eq(meant(1, MCODE)->ir[0], 1);
  trace_in(1, MCODE + 64, 3);
  ck_assert_ptr_null(meant(1, MCODE));
  ck_assert_uint_eq(meant(1, MCODE + 64)->ir[0], 3);
}
END_TEST

START_TEST(test_generations)
{
  proto_in(0, 1);
  trace_in(0, MCODE, 1);
  vm_store_reset_slot(s, 0);
  ck_assert_ptr_null(meant(0, MCODE));
  make_trace(1, MCODE, 1); /* its prototype is not known any more */
  ck_assert_int_eq(vm_store_record(s, 0, record_of(&rec)), RESULT_OK);
  ck_assert_ptr_null(meant(0, MCODE));
}
END_TEST

/* A later image that is of no use takes the earlier one's place: its samples
 * are not those of the earlier one. */
START_TEST(test_useless_image)
{
  proto_in(0, 1);
  trace_in(0, MCODE, 1);
  make_trace(9, MCODE, 2);
  ck_assert_int_eq(vm_store_record(s, 0, record_of(&rec)), RESULT_OK);
  ck_assert_ptr_null(meant(0, MCODE));
}
END_TEST

START_TEST(test_cut_records)
{
  proto_in(0, 1);
  make_trace(1, MCODE, 1);
  for (uint32_t len = (uint32_t)rec.len - 8; len >= 8; len -= 8) {
    record_of(&rec)->len = len;
    ck_assert_int_eq(vm_store_record(s, 0, record_of(&rec)), RESULT_CORRUPT);
  }
  ck_assert_ptr_null(meant(0, MCODE));
}
END_TEST

START_TEST(test_bytecode)
{
  uint32_t bc[4] = {1, 2, 3, 4};
  uint64_t k[3] = {5, 6, 7};
  struct vm_code c;
  struct tecs_bytecode head = {
      .proto = 1, .nbc = 4, .bcaddr = PROTO + 104, .nkn = 1, .nkgc = 2};
  record_start(&rec, &head, sizeof head, TECS_RECORD_BYTECODE);
  record_put(&rec, bc, sizeof bc);
  record_put(&rec, k, sizeof k);
  struct record bytecode = rec;
  ck_assert_int_eq(vm_store_record(s, 0, record_of(&bytecode)),
                   RESULT_CORRUPT); /* of no prototype that is known */
  proto_in(0, 1);
  ck_assert_int_eq(vm_store_record(s, 0, record_of(&bytecode)), RESULT_OK);
  uint32_t function;
  ck_assert(vm_function_of(s, 0, 1, &function));
  ck_assert(vm_function_code(s, function, &c));
  ck_assert_uint_eq(c.bc[3], 4);
  ck_assert_uint_eq(c.kn[0], 5);
  ck_assert_uint_eq(c.kgc[1], 7);
  ck_assert_uint_eq(vm_function_line(s, function, 2), 8);
  record_of(&bytecode)->len -= 8;
  ck_assert_int_eq(vm_store_record(s, 0, record_of(&bytecode)), RESULT_CORRUPT);
}
END_TEST

/* ---- into a stack ---- */

static enum merge_compiled merged(struct profile *p, bool lines)
{
  struct tecs_sample sample = {.vm_count = 1, .lua_count = 1};
  struct tecs_sample_vm vm = at(MCODE + 4);
  struct tecs_frame frame = {.value = 1, .pc = 3, .kind = TECS_FRAME_LUA};
  struct sample_view v = {.sample = &sample, .vm = &vm, .lua = &frame};
  struct merge_options o = {.lua = true, .depth = 64, .lines = lines};
  struct merge_result res;
  ck_assert_int_eq(merge_sample(&o, 0, &v, NULL, NULL, s, p, &res), RESULT_OK);
  return res.compiled;
}

static bool has_frame(struct profile *p, const char *text)
{
  struct interner *in = profile_frames(p);
  for (size_t i = 0; i < interner_count(in); i++)
    if (!strcmp(interner_text(in, (uint32_t)i), text))
      return true;
  return false;
}

/* Code that is not what the IR becomes: no line is said. */
START_TEST(test_only_the_start)
{
  struct profile *p = profile_new();
  proto_in(0, 1);
  ck_assert_int_eq(merged(p, true), MERGE_COMPILED_SNAPSHOT); /* no image */
  trace_in(0, MCODE, 1);
  ck_assert_int_eq(merged(p, true), MERGE_COMPILED_TRACE);
  ck_assert(has_frame(p, "run (a.lua:8) [trace]"));
  ck_assert_int_eq(merged(p, false), MERGE_COMPILED_TRACE);
  ck_assert(has_frame(p, "run (a.lua:7)"));
  profile_free(p);
}
END_TEST

/* Any bytes. */
START_TEST(test_mutations)
{
  struct profile *p = profile_new();
  unsigned seed = 1;
  proto_in(0, 1);
  make_trace(1, MCODE, 1);
  struct record whole = rec;
  for (unsigned i = 0; i < 2000; i++) {
    struct record r = whole;
    for (unsigned n = 1 + i % 4; n > 0; n--) {
      size_t byte = 8 + (size_t)rand_r(&seed) % (r.len - 8);
      r.bytes[byte] = (char)rand_r(&seed);
    }
    enum result res = vm_store_record(s, 0, record_of(&r));
    ck_assert(res == RESULT_OK || res == RESULT_CORRUPT);
    enum merge_compiled c = merged(p, true);
    ck_assert(c == MERGE_COMPILED_TRACE || c == MERGE_COMPILED_SNAPSHOT);
  }
  profile_free(p);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("traces");
  TCase *tc = tcase_create("traces");
  suite_add_tcase(suite, tc);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, test_image);
  tcase_add_test(tc, test_not_meant);
  tcase_add_test(tc, test_number_used_again);
  tcase_add_test(tc, test_generations);
  tcase_add_test(tc, test_useless_image);
  tcase_add_test(tc, test_cut_records);
  tcase_add_test(tc, test_bytecode);
  tcase_add_test(tc, test_only_the_start);
  tcase_add_test(tc, test_mutations);
  return suite_run(suite);
}
