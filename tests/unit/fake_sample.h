/* SPDX-License-Identifier: MIT
 *
 * Stacks of this very program, made by hand: its own functions are the native
 * frames, so that their names are known.
 */
#ifndef TESTS_UNIT_FAKE_SAMPLE_H
#define TESTS_UNIT_FAKE_SAMPLE_H

#include <check.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "merge/merge.h"
#include "records.h"

#define LUA (TECS_PROTO_LINES | TECS_PROTO_NAME_KNOWN)

/* ffids of Debian 12's LuaJIT (jit.vmdef.ffnames) */
enum { FF_C = 1, FF_PCALL = 20, FF_RESUME = 35, FF_GSUB = 88 };

#define HOST_FUNCTION(name)                                                    \
  static __attribute__((noinline, used)) int name(int x)                       \
  {                                                                            \
    return x * 3 + (int)sizeof #name;                                          \
  }
HOST_FUNCTION(host_main)
HOST_FUNCTION(host_run)
HOST_FUNCTION(host_callback)
HOST_FUNCTION(host_helper)
HOST_FUNCTION(host_thread)
HOST_FUNCTION(lib_gsub)
HOST_FUNCTION(lj_vm_ffi_call)

/* A function that the unwind table covers and no symbol does. */
__asm__(".text\n"
        ".p2align 4\n"
        "nameless_code:\n"
        ".cfi_startproc\n"
        "nop\nnop\nnop\nnop\nret\n"
        ".cfi_endproc\n");
extern const char nameless_code[] __asm__("nameless_code");

static struct target *target;
static struct modules *modules;
static struct vm_store *vm;
static struct profile *p;
static struct merge_options o;
static struct merge_result res;
static struct unwind_stack native;
static struct record rec;

/* The parts of a sample on its way. */
static struct tecs_sample_vm vms[4];
static struct tecs_frame lua[512];
static struct tecs_zone zones[8];
static unsigned vm_count, lua_count, zone_count;

static void clear_sample(void)
{
  vm_count = lua_count = zone_count = 0;
  native.count = 0;
  native.end = UNWIND_END_PARTIAL;
}

static void proto(uint32_t id, uint32_t line, const char *name)
{
  struct proto_spec spec = {.id = id,
                            .flags = LUA,
                            .addr = 0x1000 * id,
                            .g = 1,
                            .firstline = line,
                            .chunk = "@a.lua",
                            .name = name};
  record_make_proto(&rec, spec);
  ck_assert_int_eq(vm_store_record(vm, 0, record_of(&rec)), RESULT_OK);
}

static void setup(void)
{
  struct error e;
  ck_assert_int_eq(target_open(getpid(), &target, &e), RESULT_OK);
  ck_assert_int_eq(modules_new(target, &modules, &e), RESULT_OK);
  ck_assert_int_eq(vm_store_new(NULL, &vm), RESULT_OK);
  p = profile_new();
  ck_assert_ptr_nonnull(p);
  o = (struct merge_options){
      .native = true, .lua = true, .zones = true, .state = true, .depth = 256};
  proto(1, 0, "");
  proto(2, 2, "burn");
  proto(3, 3, "update");
  proto(4, 4, "think");
  clear_sample();
}

static void teardown(void)
{
  profile_free(p);
  vm_store_free(vm);
  modules_free(modules);
  target_close(target);
}

/* ---- building a sample: everything innermost first ---- */

static void add_vm(int32_t vmstate)
{
  vms[vm_count++] = (struct tecs_sample_vm){.vmstate = vmstate};
}

static void add_frame(unsigned kind, uint64_t value, uint32_t pc)
{
  lua[lua_count++] = (struct tecs_frame){.value = value,
                                         .pc = pc,
                                         .kind = (uint8_t)kind,
                                         .vm = (uint8_t)(vm_count - 1)};
}

static void add_lua(uint32_t id)
{
  add_frame(TECS_FRAME_LUA, id, 1);
}

static void add_cframe(uint64_t at)
{
  add_frame(TECS_FRAME_CFRAME, at, 0);
}

static void add_zone(unsigned index, uint32_t id, const char *name)
{
  size_t len = strlen(name);
  record_make_string(&rec, id, name, len, len);
  ck_assert_int_eq(vm_store_record(vm, 0, record_of(&rec)), RESULT_OK);
  zones[zone_count++] =
      (struct tecs_zone){.kind = TECS_ZONE_STRING, .value = id, .vm = index};
}

static void add_native(uint64_t ip, uint64_t sp)
{
  native.frame[native.count++] =
      (struct unwind_frame){.kind = UNWIND_NATIVE,
                            .ip = ip,
                            .sp = sp,
                            .mod = modules_find(modules, ip)};
}

static uint64_t address(int (*f)(int))
{
  return (uint64_t)(uintptr_t)f;
}

static void add_host(int (*f)(int), uint64_t sp)
{
  add_native(address(f) + 1, sp);
}

static void add_special(enum unwind_kind kind, uint64_t cframe)
{
  native.frame[native.count++] =
      (struct unwind_frame){.kind = kind, .sp = cframe, .cframe = cframe};
}

static void add_start(uint64_t sp)
{
  add_native(getauxval(AT_ENTRY) + 2, sp);
  native.end = UNWIND_END_ENTRY;
}

static void merge(void)
{
  struct tecs_sample head = {.vm_count = (uint8_t)vm_count,
                             .lua_count = (uint16_t)lua_count,
                             .zone_count = (uint16_t)zone_count};
  struct sample_view v;
  record_start(&rec, &head, sizeof head, TECS_RECORD_SAMPLE);
  record_put(&rec, vms, vm_count * sizeof *vms);
  record_put(&rec, lua, lua_count * sizeof *lua);
  record_put(&rec, zones, zone_count * sizeof *zones);
  ck_assert_int_eq(record_sample(record_of(&rec), &v), RESULT_OK);
  ck_assert_int_eq(merge_sample(&o, 0, &v, &native, modules, vm, p, &res),
                   RESULT_OK);
}

/* Merges what was built into an empty profile and looks at its stack. */
static void expect(const char *want)
{
  char text[8192] = "";
  profile_free(p);
  p = profile_new();
  merge();
  ck_assert_int_eq(res.verdict, MERGE_KEPT);
  ck_assert_int_eq(res.has_vm, vm_count > 0);
  ck_assert_int_eq(merge_finish(p, vm), RESULT_OK);
  ck_assert_uint_eq(profile_stack_count(p), 1);
  const struct profile_stack *s = profile_sorted(p);
  for (size_t i = 0; i < s->count; i++) {
    strcat(text, i ? ";" : "");
    strcat(text, profile_frame_text(p, s->frame[i]));
  }
  ck_assert_str_eq(text, want);
  ck_assert_int_eq(res.partial, strstr(want, "[partial]") != NULL);
}

/* ---- two samples ---- */

/* host_main called Lua, which is in the interpreter. */
static void build_simple(int32_t vmstate)
{
  clear_sample();
  add_vm(vmstate);
  add_lua(2);
  add_lua(1);
  add_cframe(0x100);
  add_special(UNWIND_VM, 0x100);
  add_host(host_run, 0x200);
  add_host(host_main, 0x300);
  add_start(0x400);
}

/* string.gsub called back into Lua: its own C code is shown by its name. */
static void build_gsub(uint32_t ffid)
{
  clear_sample();
  add_vm(~0);
  add_lua(2);
  add_lua(3);
  add_cframe(0x100);
  add_frame(TECS_FRAME_C, address(lib_gsub), ffid);
  add_lua(1);
  add_cframe(0x200);
  add_special(UNWIND_VM, 0x100);
  add_host(host_helper, 0x140);
  add_host(lib_gsub, 0x180);
  add_special(UNWIND_VM, 0x200);
  add_host(host_main, 0x300);
  add_start(0x400);
}

#endif
