/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "fake_sample.h"
#include "merge/merge.h"
#include "merge/merge_internal.h"
#include "suite.h"

/* ---- whole stacks ---- */

START_TEST(test_simple)
{
  build_simple(7);
  expect("_start;host_main;host_run;main chunk (a.lua);burn (a.lua:2)_[N]");
  build_simple(~2);
  expect("_start;host_main;host_run;main chunk (a.lua);burn (a.lua:2)_[G]");
}
END_TEST

START_TEST(test_asleep)
{
  o.asleep = true;
  build_simple(~1);
  expect("_start;host_main;host_run;main chunk (a.lua);burn (a.lua:2);"
         "[idle]_[C]");
  o.state = false;
  o.depth = 2; /* a mark is no frame */
  expect("[truncated];main chunk (a.lua);burn (a.lua:2);[idle]");
}
END_TEST

START_TEST(test_no_vm)
{
  add_host(host_run, 0x200);
  add_host(host_main, 0x300);
  add_start(0x400);
  expect("_start;host_main;host_run_[C]");
  native.end = UNWIND_END_THREAD;
  native.count = 2;
  expect("[thread start];host_run_[C]");
}
END_TEST

START_TEST(test_builtin_with_native_code)
{
  build_gsub(FF_GSUB);
  expect("_start;host_main;main chunk (a.lua);string.gsub;host_helper;"
         "update (a.lua:3);burn (a.lua:2)_[I]");
}
END_TEST

START_TEST(test_host_function_once)
{
  build_gsub(FF_C);
  expect("_start;host_main;main chunk (a.lua);lib_gsub;host_helper;"
         "update (a.lua:3);burn (a.lua:2)_[I]");
}
END_TEST

/* A wrapper between the VM and the function (lua_CFunction wrappers of hosts)
 * is a frame of its own. */
START_TEST(test_host_function_behind_a_wrapper)
{
  add_vm(~1);
  add_frame(TECS_FRAME_C, address(host_callback), FF_C);
  add_lua(1);
  add_cframe(0x200);
  add_host(host_callback, 0x140);
  add_host(host_run, 0x180);
  add_special(UNWIND_VM, 0x200);
  add_host(host_main, 0x300);
  add_start(0x400);
  expect("_start;host_main;main chunk (a.lua);host_run;host_callback_[C]");
}
END_TEST

/* It left by a tail call: the VM still knows it. */
START_TEST(test_host_function_without_native_frame)
{
  add_vm(~1);
  add_frame(TECS_FRAME_C, address(host_callback), FF_C);
  add_lua(1);
  add_cframe(0x200);
  add_host(host_helper, 0x140);
  add_special(UNWIND_VM, 0x200);
  add_host(host_main, 0x300);
  add_start(0x400);
  expect("_start;host_main;main chunk (a.lua);host_callback;host_helper_[C]");
}
END_TEST

START_TEST(test_assembly_builtins)
{
  add_vm(~0);
  add_lua(2);
  add_frame(TECS_FRAME_C, 0x10, FF_PCALL);
  add_lua(1);
  add_cframe(0x200);
  add_special(UNWIND_VM, 0x200);
  add_host(host_main, 0x300);
  add_start(0x400);
  expect("_start;host_main;main chunk (a.lua);pcall;burn (a.lua:2)_[I]");
}
END_TEST

START_TEST(test_coroutine)
{
  add_vm(3);
  add_lua(2);
  add_lua(4);
  add_cframe(0x100);
  add_frame(TECS_FRAME_C, 0x10, FF_RESUME);
  add_lua(1);
  add_cframe(0x150);
  add_special(UNWIND_VM, 0x100);
  add_special(UNWIND_VM, 0x150);
  add_host(host_main, 0x300);
  add_start(0x400);
  expect("_start;host_main;main chunk (a.lua);coroutine.resume;"
         "think (a.lua:4);burn (a.lua:2)_[N]");
}
END_TEST

/* main > Lua of A > C function > Lua of B */
START_TEST(test_two_vms)
{
  add_vm(5);
  add_lua(2);
  add_cframe(0x100);
  add_vm(~1);
  add_frame(TECS_FRAME_C, address(host_callback), FF_C);
  add_lua(3);
  add_cframe(0x200);
  add_zone(0, 1, "of B");
  add_zone(1, 2, "of A");
  add_zone(1, 3, "of A too");
  add_special(UNWIND_VM, 0x100);
  add_host(host_run, 0x120);
  add_host(host_callback, 0x180);
  add_special(UNWIND_VM, 0x200);
  add_host(host_main, 0x300);
  add_start(0x400);
  expect("of A;of A too;of B;_start;host_main;update (a.lua:3);host_callback;"
         "host_run;burn (a.lua:2)_[N]");
}
END_TEST

/* Zones of native code stand before those of every VM, wherever they are. */
START_TEST(test_native_zones)
{
  build_simple(~0);
  add_zone(0, 1, "lua");
  add_zone(TECS_ZONE_NATIVE, 2, "frame");
  add_zone(TECS_ZONE_NATIVE, 3, "update");
  zones[zone_count++] = (struct tecs_zone){
      .kind = TECS_ZONE_GAP, .value = 7, .vm = TECS_ZONE_NATIVE};
  expect("frame;update;[zones left out];lua;_start;host_main;host_run;"
         "main chunk (a.lua);burn (a.lua:2)_[I]");
  o.zone_prefix = "frame/update";
  merge();
  ck_assert_int_eq(res.verdict, MERGE_KEPT);
  o.zone_prefix = "lua";
  merge();
  ck_assert_int_eq(res.verdict, MERGE_FILTERED);
  clear_sample(); /* a thread without a VM */
  o.zone_prefix = NULL;
  add_zone(TECS_ZONE_NATIVE, 2, "frame");
  add_host(host_main, 0x300);
  add_start(0x400);
  expect("frame;_start;host_main_[C]");
}
END_TEST

/* A VM that calls another that calls the first: its frames come as one list. */
START_TEST(test_vms_in_turns)
{
  add_vm(~0);
  add_lua(2);
  add_cframe(0x100);
  add_frame(TECS_FRAME_C, address(host_run), FF_C);
  add_lua(1);
  add_cframe(0x300);
  add_vm(~1);
  add_frame(TECS_FRAME_C, address(host_callback), FF_C);
  add_lua(3);
  add_cframe(0x200);
  add_special(UNWIND_VM, 0x100);
  add_host(host_callback, 0x180);
  add_special(UNWIND_VM, 0x200);
  add_host(host_run, 0x280);
  add_special(UNWIND_VM, 0x300);
  add_start(0x400);
  expect("_start;main chunk (a.lua);host_run;update (a.lua:3);host_callback;"
         "burn (a.lua:2)_[I]");
}
END_TEST

/* Parser and trace recorder run on C frames without Lua frames. */
START_TEST(test_bare_cframe)
{
  add_vm(~4);
  add_cframe(0x100);
  add_lua(1);
  add_cframe(0x200);
  add_host(host_helper, 0x80);
  add_special(UNWIND_VM, 0x100);
  add_host(host_run, 0x180);
  add_special(UNWIND_VM, 0x200);
  add_start(0x400);
  expect("_start;main chunk (a.lua);host_run;host_helper_[J]");
}
END_TEST

START_TEST(test_vm_assembly_is_not_shown)
{
  add_vm(~0);
  add_lua(1);
  add_cframe(0x200);
  add_host(host_helper, 0x80);
  add_host(lj_vm_ffi_call, 0x100);
  add_special(UNWIND_VM, 0x200);
  add_start(0x400);
  expect("_start;main chunk (a.lua);host_helper_[I]");
}
END_TEST

START_TEST(test_signal)
{
  add_vm(9);
  add_lua(2);
  add_cframe(0x900);
  add_host(host_helper, 0x80);
  add_host(host_callback, 0xa0);
  add_special(UNWIND_SIGNAL, 0xc0);
  add_special(UNWIND_VM, 0x900);
  add_host(host_main, 0x980);
  add_start(0xa00);
  expect("_start;host_main;burn (a.lua:2);[signal];host_callback;"
         "host_helper_[N]");
}
END_TEST

/* ---- incomplete walks ---- */

START_TEST(test_root_not_reached)
{
  build_simple(~0);
  native.count = 2;
  for (int end = UNWIND_END_PARTIAL; end <= UNWIND_END_FULL; end++) {
    native.end = (enum unwind_end)end;
    expect("[partial];host_run;main chunk (a.lua);burn (a.lua:2)_[I]");
  }
}
END_TEST

START_TEST(test_gap)
{
  build_simple(~1);
  memmove(native.frame + 2, native.frame, native.count * sizeof *native.frame);
  native.count += 2;
  native.frame[0] = native.frame[3];
  native.frame[0].sp = 0x10;
  native.frame[1] = (struct unwind_frame){.kind = UNWIND_GAP, .sp = 0x20};
  expect("_start;host_main;host_run;main chunk (a.lua);burn (a.lua:2);"
         "[partial];host_run_[C]");
}
END_TEST

/* The walk resumed further out than a C frame: its Lua frames stand between
 * their neighbours by address. */
START_TEST(test_run_not_reached)
{
  build_gsub(FF_GSUB);
  native.frame[0] = (struct unwind_frame){.kind = UNWIND_GAP, .sp = 0x90};
  expect("_start;host_main;main chunk (a.lua);string.gsub;host_helper;"
         "update (a.lua:3);burn (a.lua:2);[partial]_[I]");
  build_gsub(FF_GSUB);
  memmove(native.frame + 1, native.frame + 3, 3 * sizeof *native.frame);
  native.count -= 2; /* the inner VM frame, then the outer one */
  native.frame[0] = native.frame[2];
  native.frame[0].sp = 0x90;
  expect("_start;host_main;main chunk (a.lua);string.gsub;update (a.lua:3);"
         "burn (a.lua:2);[partial];host_main_[I]");
}
END_TEST

START_TEST(test_native_walk_ended_early)
{
  build_gsub(FF_GSUB);
  native.count = 1;
  native.end = UNWIND_END_PARTIAL;
  expect("[partial];main chunk (a.lua);string.gsub;[partial];"
         "update (a.lua:3);burn (a.lua:2)_[I]");
  native.count = 0;
  expect("[partial];main chunk (a.lua);string.gsub;[partial];"
         "update (a.lua:3);burn (a.lua:2)_[I]");
}
END_TEST

/* Unknown C frame and no Lua frames for it. */
START_TEST(test_vm_frame_without_lua_frames)
{
  add_vm(~0);
  add_host(host_helper, 0x80);
  add_special(UNWIND_VM, 0x100);
  add_host(host_main, 0x300);
  add_start(0x400);
  expect("_start;host_main;[partial];host_helper_[I]");
}
END_TEST

START_TEST(test_lua_walk_failed)
{
  build_gsub(FF_GSUB);
  lua_count = 1; /* burn, and no more; the C frames further out are known */
  add_cframe(0x100);
  add_cframe(0x200);
  vms[0].error = TECS_WALK_BAD_LINK;
  expect("_start;host_main;lib_gsub;host_helper;[partial];"
         "burn (a.lua:2)_[I]");
  vms[0].error = TECS_WALK_DEPTH;
  expect("_start;host_main;lib_gsub;host_helper;[truncated];"
         "burn (a.lua:2)_[I]");
  lua_count = 1; /* and where they are not known */
  expect("_start;host_main;[partial];lib_gsub;host_helper;[truncated];"
         "burn (a.lua:2)_[I]");
  lua_count = 0; /* nothing at all was read */
  vms[0].error = TECS_WALK_NO_THREAD;
  expect("_start;host_main;[partial];lib_gsub;host_helper;[partial]_[I]");
}
END_TEST

START_TEST(test_lost_frames)
{
  add_vm(~0);
  add_frame(TECS_FRAME_LOST, 0, 0);
  add_lua(2);
  add_lua(77); /* an image that never came */
  add_lua(1);
  add_cframe(0x200);
  add_special(UNWIND_VM, 0x200);
  add_start(0x400);
  expect("_start;main chunk (a.lua);[partial];burn (a.lua:2);[partial]_[I]");
}
END_TEST

/* ---- depth ---- */

START_TEST(test_depth)
{
  build_gsub(FF_GSUB);
  add_zone(0, 1, "z");
  o.depth = 7;
  expect("z;_start;host_main;main chunk (a.lua);string.gsub;host_helper;"
         "update (a.lua:3);burn (a.lua:2)_[I]");
  o.depth = 6;
  expect("z;[truncated];host_main;main chunk (a.lua);string.gsub;host_helper;"
         "update (a.lua:3);burn (a.lua:2)_[I]");
  o.depth = 1;
  expect("z;[truncated];burn (a.lua:2)_[I]");
  native.end = UNWIND_END_PARTIAL; /* marks are not counted */
  o.depth = 7;
  expect("z;[partial];_start;host_main;main chunk (a.lua);string.gsub;"
         "host_helper;update (a.lua:3);burn (a.lua:2)_[I]");
}
END_TEST

START_TEST(test_depth_and_a_cut_walk)
{
  add_vm(~0);
  for (int i = 0; i < 4; i++)
    add_lua(2);
  add_cframe(0x200);
  vms[0].error = TECS_WALK_DEPTH;
  add_special(UNWIND_VM, 0x200);
  add_start(0x400);
  o.depth = 4;
  expect("[truncated];burn (a.lua:2);burn (a.lua:2);burn (a.lua:2);"
         "burn (a.lua:2)_[I]");
  o.depth = 5;
  expect("_start;[truncated];burn (a.lua:2);burn (a.lua:2);burn (a.lua:2);"
         "burn (a.lua:2)_[I]");
}
END_TEST

/* What stands outside of a walk's cut is not what called the frames within. */
START_TEST(test_depth_outside_of_a_cut_walk)
{
  add_vm(~0);
  add_lua(2);
  add_lua(1);
  add_cframe(0x200);
  vms[0].error = TECS_WALK_DEPTH;
  add_special(UNWIND_VM, 0x200);
  add_host(host_run, 0x280);
  add_host(host_main, 0x300);
  add_start(0x400);
  o.depth = 3;
  expect("[truncated];main chunk (a.lua);burn (a.lua:2)_[I]");
  o.depth = 1;
  expect("[truncated];burn (a.lua:2)_[I]");
  o.depth = 5;
  expect("_start;host_main;host_run;[truncated];main chunk (a.lua);"
         "burn (a.lua:2)_[I]");
}
END_TEST

/* ---- options ---- */

START_TEST(test_leaving_things_out)
{
  build_gsub(FF_GSUB);
  add_zone(0, 1, "z");
  o.native = false;
  expect("z;main chunk (a.lua);string.gsub;update (a.lua:3);"
         "burn (a.lua:2)_[I]");
  o.state = o.zones = false;
  expect("main chunk (a.lua);string.gsub;update (a.lua:3);burn (a.lua:2)");
  o.native = true;
  o.lua = false;
  expect("_start;host_main;lib_gsub;host_helper");
  o.native = false;
  expect("");
  o.zones = true;
  o.state = true;
  expect("z_[I]");
  o.zones = false;
  expect("_[I]");
  build_gsub(FF_C);
  o.lua = true; /* functions of the host are no builtins */
  expect("main chunk (a.lua);update (a.lua:3);burn (a.lua:2)_[I]");
}
END_TEST

START_TEST(test_root)
{
  build_simple(~0);
  add_zone(0, 1, "z");
  o.root = "game/12";
  expect("game/12;z;_start;host_main;host_run;main chunk (a.lua);"
         "burn (a.lua:2)_[I]");
  o.root = "\001"
           "1.1.1\001"; /* a thread with a strange name */
  expect("1.1.1\001;z;_start;host_main;host_run;main chunk (a.lua);"
         "burn (a.lua:2)_[I]");
}
END_TEST

START_TEST(test_lines)
{
  static const uint8_t table[] = {1, 5, 22};
  record_make_proto(&rec, (struct proto_spec){.id = 1,
                                              .flags = LUA,
                                              .sizebc = 4,
                                              .numline = 22,
                                              .chunk = "@a.lua",
                                              .lines = table,
                                              .lines_len = 3});
  ck_assert_int_eq(vm_store_record(vm, 0, record_of(&rec)), RESULT_OK);
  build_simple(~0);
  lua[1].pc = 4;
  o.lines = true;
  expect("_start;host_main;host_run;main chunk (a.lua:22);"
         "burn (a.lua:2)_[I]");
}
END_TEST

START_TEST(test_zone_prefix)
{
  static const struct {
    const char *prefix;
    enum merge_verdict verdict;
  } cases[] = {
      {"", MERGE_KEPT},
      {"afterFixed", MERGE_KEPT},
      {"after", MERGE_KEPT},
      {"afterFixed/Render:game.Draw", MERGE_KEPT},
      {"afterFixed/Render:game.DrawScene", MERGE_KEPT},
      {"afterFixed/Render:game.DrawScene/x", MERGE_FILTERED},
      {"Render", MERGE_FILTERED},
      {"afterFixed/R;", MERGE_FILTERED},
  };
  build_simple(~0);
  add_zone(0, 1, "afterFixed");
  add_zone(0, 2, "Render:game.DrawScene");
  o.zones = false; /* they still choose */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    o.zone_prefix = cases[i].prefix;
    merge();
    ck_assert_int_eq(res.verdict, cases[i].verdict);
  }
  ck_assert_uint_eq(profile_weight(p), 5);
  zone_count = 0;
  o.zone_prefix = "a";
  merge();
  ck_assert_int_eq(res.verdict, MERGE_FILTERED);
}
END_TEST

/* ---- texts of native frames ---- */

START_TEST(test_code_without_a_symbol)
{
  struct link_map *self = _r_debug.r_map;
  uint64_t at = (uint64_t)(uintptr_t)nameless_code;
  char want[128];
  add_native(at + 3, 0x100);
  add_native(at + 4, 0x200);
  add_start(0x400);
  const char *name = module_name(modules_find(modules, at));
  snprintf(want, sizeof want, "_start;%s+0x%lx;%s+0x%lx_[C]", name,
           (unsigned long)(at - self->l_addr), name,
           (unsigned long)(at - self->l_addr));
  expect(want);
}
END_TEST

START_TEST(test_vdso_and_unknown)
{
  uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
  ck_assert_uint_ne(vdso, 0);
  add_native(vdso + 0x700, 0x100);
  add_native(0x10, 0x200);
  add_start(0x400);
  expect("_start;[unknown];[vdso]_[C]");
}
END_TEST

/* Compiled code of a VM that the sample does not have is no [unknown]. */
START_TEST(test_trace_without_its_vm)
{
  struct tecs_mcode head = {.g = 1, .count = 1};
  struct tecs_range area = {0x7000, 0x8000};
  record_start(&rec, &head, sizeof head, TECS_RECORD_MCODE);
  record_put(&rec, &area, sizeof area);
  ck_assert_int_eq(vm_store_record(vm, 0, record_of(&rec)), RESULT_OK);
  add_host(host_callback, 0x100);
  add_special(UNWIND_SIGNAL, 0x180);
  add_native(0x7010, 0x900);
  expect("[partial];[signal];host_callback_[C]");
}
END_TEST

/* Machine code that was made a moment ago is the VM's all the same. */
START_TEST(test_new_trace)
{
  void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(code, MAP_FAILED);
  modules_refresh(modules);
  build_simple(5);
  native.frame[0] = (struct unwind_frame){
      .kind = UNWIND_NATIVE, .ip = (uint64_t)(uintptr_t)code + 8, .sp = 0xf0};
  vms[0].vm_class = TECS_CLASS_TRACE;
  vms[0].cframe = 0x100;
  expect("_start;host_main;host_run;main chunk (a.lua);burn (a.lua:2)_[N]");
  vms[0].vm_class = TECS_CLASS_C; /* then it is someone else's */
  expect("_start;host_main;host_run;main chunk (a.lua);burn (a.lua:2);"
         "[partial];[anonymous code]_[N]");
  munmap(code, 4096);
}
END_TEST

/* ---- many samples ---- */

START_TEST(test_same_stacks_add_up)
{
  for (int i = 0; i < 4; i++) {
    build_simple(i < 3 ? ~0 : 1);
    merge();
  }
  ck_assert_uint_eq(profile_stack_count(p), 2);
  ck_assert_uint_eq(profile_weight(p), 4);
  ck_assert_uint_eq(profile_sorted(p)[0].weight, 3);
}
END_TEST

/* Code that moves on without an end does not fill the memory. */
START_TEST(test_addresses_without_an_end)
{
  for (unsigned i = 0; i < 3 * CODE_MAX; i++) {
    clear_sample();
    add_native(0x10 + i, 0x100);
    add_host(host_run, 0x200);
    add_host(host_main, 0x300);
    add_start(0x400);
    merge();
    ck_assert_uint_le(merge_memory_of(p)->code_count, CODE_MAX + 8);
  }
  ck_assert_uint_eq(profile_stack_count(p), 1);
  ck_assert_uint_eq(profile_weight(p), 3 * CODE_MAX);
  expect("_start;host_main;host_run;[unknown]_[C]");
}
END_TEST

/* A name that is found when samples were counted already. */
START_TEST(test_late_names)
{
  struct proto_spec spec = {.id = 9,
                            .flags = TECS_PROTO_LINES,
                            .addr = 0x9000,
                            .g = 1,
                            .firstline = 9,
                            .chunk = "@a.lua"};
  record_make_proto(&rec, spec);
  ck_assert_int_eq(vm_store_record(vm, 0, record_of(&rec)), RESULT_OK);
  build_simple(~0);
  lua[0].value = 9;
  expect("_start;host_main;host_run;main chunk (a.lua);"
         "anonymous (a.lua:9)_[I]");
  merge();
  spec.flags = LUA;
  spec.id = 10;
  spec.name = "M.late";
  record_make_proto(&rec, spec);
  ck_assert_int_eq(vm_store_record(vm, 0, record_of(&rec)), RESULT_OK);
  ck_assert_int_eq(merge_finish(p, vm), RESULT_OK);
  const struct profile_stack *s = profile_sorted(p);
  ck_assert_uint_eq(s->weight, 2);
  ck_assert_str_eq(profile_frame_text(p, s->frame[s->count - 1]),
                   "M.late (a.lua:9)_[I]");
}
END_TEST

static void add_tests(TCase *tc)
{
  tcase_add_test(tc, test_simple);
  tcase_add_test(tc, test_asleep);
  tcase_add_test(tc, test_no_vm);
  tcase_add_test(tc, test_builtin_with_native_code);
  tcase_add_test(tc, test_host_function_once);
  tcase_add_test(tc, test_host_function_behind_a_wrapper);
  tcase_add_test(tc, test_host_function_without_native_frame);
  tcase_add_test(tc, test_assembly_builtins);
  tcase_add_test(tc, test_coroutine);
  tcase_add_test(tc, test_two_vms);
  tcase_add_test(tc, test_native_zones);
  tcase_add_test(tc, test_vms_in_turns);
  tcase_add_test(tc, test_bare_cframe);
  tcase_add_test(tc, test_vm_assembly_is_not_shown);
  tcase_add_test(tc, test_signal);
  tcase_add_test(tc, test_root_not_reached);
  tcase_add_test(tc, test_gap);
  tcase_add_test(tc, test_run_not_reached);
  tcase_add_test(tc, test_native_walk_ended_early);
  tcase_add_test(tc, test_vm_frame_without_lua_frames);
  tcase_add_test(tc, test_lua_walk_failed);
  tcase_add_test(tc, test_lost_frames);
  tcase_add_test(tc, test_depth);
  tcase_add_test(tc, test_depth_and_a_cut_walk);
  tcase_add_test(tc, test_depth_outside_of_a_cut_walk);
  tcase_add_test(tc, test_leaving_things_out);
  tcase_add_test(tc, test_root);
  tcase_add_test(tc, test_lines);
  tcase_add_test(tc, test_zone_prefix);
  tcase_add_test(tc, test_code_without_a_symbol);
  tcase_add_test(tc, test_vdso_and_unknown);
  tcase_add_test(tc, test_trace_without_its_vm);
  tcase_add_test(tc, test_new_trace);
  tcase_add_test(tc, test_same_stacks_add_up);
  tcase_add_test(tc, test_addresses_without_an_end);
  tcase_add_test(tc, test_late_names);
}

int main(void)
{
  Suite *s = suite_create("merge");
  TCase *tc = tcase_create("merge");
  suite_add_tcase(s, tc);
  tcase_add_checked_fixture(tc, setup, teardown);
  add_tests(tc);
  return suite_run(s);
}
