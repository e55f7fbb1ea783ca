/* SPDX-License-Identifier: MIT
 *
 * The VM core against a live LuaJIT in this process.  Frames are checked from
 * inside a C function that Lua code calls: by hand, each script says which
 * lines must be on the stack.
 */
#include <check.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vmcore/discover.h"
#include "vmcore/walk.h"
#include "vmcore/zone.h"

static uint64_t direct_load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  uint64_t v = 0;
  if (addr < 4096 || addr >> 47) {
    m->faults++;
    return 0;
  }
  memcpy(&v, (const void *)addr, width);
  return v;
}
static struct vm_mem mem = {.load = direct_load};

/* ---- the walk, written as text: `first line@line in use`, C functions as
 * `C`, builtins as `B<ffid>`, C frames as `|` ---- */

static char got[1024];
static uint64_t protos[256];
static unsigned proto_count;
static struct vm_walk walk;
static struct tecs_frame frames[512];

static uint32_t proto_id(void *ctx, uint64_t pt)
{
  (void)ctx;
  protos[proto_count] = pt;
  return ++proto_count;
}

/* lj_debug.c, lj_debug_line: pc 0 is the header. */
static uint32_t line_of(const struct vm_layout *lay, uint64_t pt, uint32_t pc)
{
  uint32_t first = vm_load4(&mem, pt + lay->pt_firstline);
  uint64_t lines = vm_load8(&mem, pt + lay->pt_lineinfo);
  return pc < 2 ? first : first + vm_load1(&mem, lines + pc - 2);
}

static void write_frames(const struct vm_layout *lay)
{
  size_t n = 0;
  got[0] = 0;
  for (unsigned i = 0; i < walk.count && n < sizeof got - 32; i++) {
    const struct tecs_frame *f = &frames[i];
    uint64_t pt = f->kind == TECS_FRAME_LUA ? protos[f->value - 1] : 0;
    if (f->kind == TECS_FRAME_LUA)
      n += (size_t)sprintf(got + n, "%u@%u ",
                           vm_load4(&mem, pt + lay->pt_firstline),
                           line_of(lay, pt, f->pc));
    else if (f->kind == TECS_FRAME_C)
      n += (size_t)sprintf(got + n, f->pc > 1 ? "B " : "C ");
    else
      n += (size_t)sprintf(got + n, f->kind == TECS_FRAME_CFRAME ? "| " : "? ");
  }
}

static void set_up_walk(lua_State *L)
{
  uint64_t g;
  static struct vm_stack_memo memo;
  static uint64_t reg[TECS_REGS];
  uint32_t id = vm_identify(&mem, (uint64_t)L, &g);
  ck_assert_uint_eq(id, 0);
  memset(&walk, 0, sizeof walk);
  walk.mem = &mem;
  walk.lay = vm_layout_get(id);
  walk.g = g;
  walk.reg = reg; /* in C: no register of the interpreter's is used */
  walk.sp = (uint64_t)__builtin_frame_address(0);
  walk.stack_hi = walk.sp + (1 << 20);
  ck_assert(vm_asm_range(&mem, walk.lay, g, 0, &walk.asm_lo, &walk.asm_hi));
  walk.memo = &memo;
  walk.proto_id = proto_id;
  walk.frame = frames;
  walk.frame_max = sizeof frames / sizeof frames[0];
  proto_count = 0;
}

/* probe(): takes the walk as it stands inside. */
static int probe(lua_State *L)
{
  set_up_walk(L);
  vm_walk_frames(&walk);
  write_frames(walk.lay);
  return 0;
}

static int call_back(lua_State *L) /* C between two runs of Lua */
{
  lua_pushvalue(L, 1);
  lua_call(L, 0, 0);
  return 0;
}

static int resume_from_c(lua_State *L)
{
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  ck_assert_int_eq(lua_resume(co, 0), 0);
  return 0;
}

static int call_on_thread(lua_State *L) /* calls on another lua_State */
{
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_call(co, 0, 0);
  return 0;
}

static int resume_then_probe(lua_State *L)
{
  resume_from_c(L);
  return probe(L);
}

static lua_State *new_vm(void)
{
  lua_State *L = luaL_newstate();
  ck_assert_ptr_nonnull(L);
  luaL_openlibs(L);
  lua_register(L, "probe", probe);
  lua_register(L, "call_back", call_back);
  lua_register(L, "resume_from_c", resume_from_c);
  lua_register(L, "call_on_thread", call_on_thread);
  lua_register(L, "resume_then_probe", resume_then_probe);
  return L;
}

static void expect(const char *script, const char *want)
{
  lua_State *L = new_vm();
  got[0] = 0;
  ck_assert_msg(!luaL_loadstring(L, script) && !lua_pcall(L, 0, 0, 0), "%s",
                lua_tostring(L, -1));
  ck_assert_int_eq(walk.vm.error, TECS_WALK_OK);
  ck_assert_str_eq(got, want);
  lua_close(L);
}

START_TEST(test_plain_calls)
{
  expect("local function a()\n" /* 1 */
         " probe()\n"           /* 2 */
         " return 1\n"          /* 3 */
         "end\n"                /* 4 */
         "local function b()\n" /* 5 */
         " local x = a()\n"     /* 6 */
         " return x\n"          /* 7 */
         "end\n"                /* 8 */
         "b() return 1\n",      /* 9 */
         "C 1@2 5@6 0@9 | ");
}
END_TEST

START_TEST(test_a_tail_call_has_no_frame)
{
  expect("local function a() probe() return 1 end\n"
         "local function b() return a() end\n"
         "local x = b() return x\n",
         "C 1@1 0@3 | ");
}
END_TEST

START_TEST(test_a_vararg_function_stands_once)
{
  expect("local function v(...)\n"
         " probe(...) return 1\n"
         "end\n"
         "local x = v(1, 2, 3) return x\n",
         "C 1@2 0@4 | ");
}
END_TEST

START_TEST(test_pcall_and_builtins_are_frames)
{
  expect("local function a() probe() return 1 end\n"
         "pcall(a)\n",
         "C 1@1 B 0@2 | ");
}
END_TEST

START_TEST(test_metamethods)
{
  expect("local t = setmetatable({}, { __index = function()\n" /* 1 */
         " probe() return 1\n"                                 /* 2 */
         "end })\n"                                            /* 3 */
         "local x = t.y\n",                                    /* 4 */
         "C 1@2 0@4 | ");
}
END_TEST

START_TEST(test_c_between_lua)
{
  expect("local function inner() probe() return 1 end\n"
         "local function outer() call_back(inner) return 1 end\n"
         "outer() return 1\n",
         "C 1@1 | C 2@2 0@3 | ");
}
END_TEST

START_TEST(test_a_callback_of_a_builtin_in_c)
{
  expect("local function cb()\n"
         " probe() return 'x'\n"
         "end\n"
         "local s = string.gsub('a', 'a', cb) return s\n",
         "C 1@2 | B 0@4 | ");
}
END_TEST

START_TEST(test_coroutines_stand_on_their_resumers)
{
  expect("local function body() probe() return 1 end\n"
         "local co = coroutine.wrap(function()\n"  /* 2 */
         " local inner = coroutine.create(body)\n" /* 3 */
         " coroutine.resume(inner) return 1\n"     /* 4 */
         "end)\n"                                  /* 5 */
         "co() return 1\n",                        /* 6 */
         "C 1@1 | B 2@4 | B 0@6 | ");
}
END_TEST

START_TEST(test_a_coroutine_resumed_from_c)
{
  expect("local function body() probe() return 1 end\n"
         "local function frame() resume_from_c(body) return 1 end\n"
         "frame() return 1\n",
         "C 1@1 | C 2@2 0@3 | ");
}
END_TEST

START_TEST(test_a_call_on_another_thread)
{
  expect("local function body() probe() return 1 end\n"
         "local function frame() call_on_thread(body) return 1 end\n"
         "frame() return 1\n",
         "C 1@1 | C 2@2 0@3 | ");
}
END_TEST

/* cur_L is the coroutine that has ended. */
START_TEST(test_c_after_a_resume)
{
  expect("local function body() return 1 end\n"
         "local function frame() resume_then_probe(body) return 1 end\n"
         "frame() return 1\n",
         "C 2@2 0@3 | ");
}
END_TEST

/* The innermost frames are kept, then every C frame that is further out. */
static int probe_cut(lua_State *L)
{
  set_up_walk(L);
  walk.frame_max = 64 + 10;
  vm_walk_frames(&walk);
  write_frames(walk.lay);
  return 0;
}

START_TEST(test_depth_is_cut_and_said)
{
  lua_State *L = new_vm();
  lua_register(L, "probe_cut", probe_cut);
  ck_assert(!luaL_dostring(L, "local function down(n)\n"
                              " if n == 0 then probe_cut() return 0 end\n"
                              " local r = down(n - 1) return r\n"
                              "end\n"
                              "call_back(function() down(300) return 1 end)"));
  ck_assert_int_eq(walk.vm.error, TECS_WALK_DEPTH);
  ck_assert_str_eq(got, "C 1@2 1@3 1@3 1@3 1@3 1@3 1@3 1@3 1@3 | | ");
  lua_close(L);
}
END_TEST

/* ---- discovery ---- */

START_TEST(test_identifies_the_vm)
{
  lua_State *L = new_vm();
  uint64_t g = 0;
  const struct vm_layout *lay = vm_layout_get(0);
  ck_assert_uint_eq(vm_identify(&mem, (uint64_t)L, &g), 0);
  ck_assert_uint_eq(g, (uint64_t)L + lay->gg_g);
  ck_assert(vm_is_global(&mem, lay, g));
  lua_State *co = lua_newthread(L);
  uint64_t g2 = 0;
  ck_assert_uint_eq(vm_identify(&mem, (uint64_t)co, &g2), 0);
  ck_assert_uint_eq(g2, g);
  lua_close(L);
}
END_TEST

/* A copy of the VM's head, at an address of its own, as another build would
 * lay it out. */
static uint64_t copy_of_vm(lua_State *L, size_t size)
{
  uint8_t *copy = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const struct vm_layout *lay = vm_layout_get(0);
  memcpy(copy, L, size);
  uint64_t g = (uint64_t)copy + lay->gg_g, self = (uint64_t)copy;
  memcpy(copy + lay->L_glref, &g, 8);
  memcpy(copy + lay->gg_g + lay->g_mainthref, &self, 8);
  memcpy(copy + lay->gg_g + lay->g_cur_L, &self, 8);
  return self;
}

START_TEST(test_another_layout_is_unknown_not_misread)
{
  lua_State *L = new_vm();
  const struct vm_layout *lay = vm_layout_get(0);
  uint64_t g, fake = copy_of_vm(L, lay->gg_sizeof);
  ck_assert_uint_eq(vm_identify(&mem, fake, &g), 0); /* the copy is sound */

  /* LJ_STACK_EXTRA 8 (since 4eb47df6): maxstack is one slot lower */
  uint64_t max = vm_load8(&mem, fake + lay->L_maxstack) - 8;
  memcpy((void *)(fake + lay->L_maxstack), &max, 8);
  ck_assert_uint_eq(vm_identify(&mem, fake, &g), VM_LAYOUT_UNKNOWN);
  ck_assert_uint_eq(vm_resembles(&mem, fake), fake + lay->gg_g);
  max += 8;
  memcpy((void *)(fake + lay->L_maxstack), &max, 8);

  /* a dispatch table that starts one word earlier (before a32aeadc) */
  uint8_t *disp = (uint8_t *)fake + lay->gg_dispatch;
  memmove(disp - 8, disp, 8 * 128);
  ck_assert_uint_eq(vm_identify(&mem, fake, &g), VM_LAYOUT_UNKNOWN);
  munmap((void *)fake, 65536);
  lua_close(L);
}
END_TEST

START_TEST(test_garbage_is_no_vm)
{
  static uint64_t zeros[1024], ones[1024];
  uint64_t g;
  memset(ones, 0xff, sizeof ones);
  ck_assert_uint_eq(vm_identify(&mem, (uint64_t)zeros, &g), VM_LAYOUT_UNKNOWN);
  ck_assert_uint_eq(vm_identify(&mem, (uint64_t)ones, &g), VM_LAYOUT_UNKNOWN);
  ck_assert_uint_eq(vm_identify(&mem, 8, &g), VM_LAYOUT_UNKNOWN);
  ck_assert_uint_eq(vm_resembles(&mem, (uint64_t)zeros), 0);
  ck_assert_uint_eq(vm_resembles(&mem, (uint64_t)ones), 0);
}
END_TEST

START_TEST(test_asm_range_holds_the_interpreter)
{
  lua_State *L = new_vm();
  uint64_t g, lo, hi;
  const struct vm_layout *lay = vm_layout_get(0);
  vm_identify(&mem, (uint64_t)L, &g);
  ck_assert(vm_asm_range(&mem, lay, g, 0, &lo, &hi));
  for (unsigned i = 0; i < lay->bc_max; i++) {
    uint64_t pc =
        vm_load8(&mem, g - lay->gg_g + lay->gg_dispatch + 8 * (uint64_t)i);
    ck_assert(pc >= lo && pc < hi);
  }
  ck_assert(hi - lo < 0x10000);
  ck_assert(!((uint64_t)lua_pcall >= lo && (uint64_t)lua_pcall < hi));
  lua_close(L);
}
END_TEST

/* ---- zones ---- */

/* The zones of L as `a/b/`, at most 4; `...n/` where n are left out. */
static const char *zone_text(lua_State *L, struct vm_zone_place *place)
{
  static char text[256];
  const struct vm_layout *lay = vm_layout_get(0);
  uint64_t g, value[4];
  uint32_t left_out = 0;
  vm_identify(&mem, (uint64_t)L, &g);
  uint64_t table = vm_zone_table(&mem, lay, g, place);
  unsigned n = table ? vm_zone_read(&mem, lay, table, value, 4, &left_out) : 0;
  *text = '\0';
  for (unsigned i = 0; i < n; i++) {
    if (left_out && i == 2)
      sprintf(text + strlen(text), "...%u/", left_out);
    sprintf(text + strlen(text), "%s/",
            vm_itype_inv(value[i]) == VM_GCT_STR
                ? (const char *)(value[i] & VM_GCV_MASK) + lay->str_sizeof
                : "?");
  }
  return text;
}

static void run(lua_State *L, const char *script)
{
  ck_assert_msg(!luaL_dostring(L, script), "%s", lua_tostring(L, -1));
}

static void expect_zones(const char *script, const char *want)
{
  lua_State *L = new_vm();
  struct vm_zone_place place = {0};
  run(L, script);
  ck_assert_str_eq(zone_text(L, &place), want);
  ck_assert_str_eq(zone_text(L, &place), want); /* from where it was found */
  lua_close(L);
}

START_TEST(test_zones_of_the_stock_module)
{
  expect_zones("local z = require 'jit.zone'", "");
  expect_zones("local z = require 'jit.zone' z('one')", "one/");
  expect_zones("local z = require 'jit.zone' z('a') z('b') z('c')", "a/b/c/");
  expect_zones("local z = require 'jit.zone' z('a') z('b') z() z('c') z()",
               "a/");
  expect_zones("local z = require 'jit.zone' for i = 1, 4 do z('x') end",
               "x/x/x/x/");
  expect_zones("local z = require 'jit.zone' for i = 1, 5 do z('x'..i) end",
               "x1/x2/...1/x4/x5/");
  expect_zones("local z = require 'jit.zone' for i = 1, 9 do z('x'..i) end",
               "x1/x2/...5/x8/x9/");
  expect_zones("local z = require 'jit.zone' z('a') z:flush() z('b')", "b/");
  expect_zones("local z = require 'jit.zone' z('a') z(42)", "a/?/");
}
END_TEST

/* While the table grows, its last entries are in the hash part: at no depth is
 * a name missing. */
START_TEST(test_deep_zones)
{
  lua_State *L = new_vm();
  struct vm_zone_place place = {0};
  char want[64];
  run(L, "zone = require 'jit.zone' n = 0");
  for (unsigned n = 1; n <= 10000; n++) {
    run(L, "n = n + 1 zone(tostring(n))");
    if (n < 5)
      continue;
    sprintf(want, "1/2/...%u/%u/%u/", n - 4, n - 1, n);
    ck_assert_str_eq(zone_text(L, &place), want);
  }
  run(L, "for i = 1, 9997 do zone() end");
  ck_assert_str_eq(zone_text(L, &place), "1/2/3/");
  run(L, "zone:flush()");
  ck_assert_str_eq(zone_text(L, &place), "");
  lua_close(L);
}
END_TEST

/* Names in the array, room for a few; fields of the game's own are put into the
 * table, which is laid out anew by what is in it. */
START_TEST(test_zones_of_a_table_made_ahead)
{
  lua_State *L = new_vm();
  struct vm_zone_place place = {0};
  lua_createtable(L, 7, 2);
  lua_setglobal(L, "t");
  run(L, "package.loaded['jit.zone'] = t");
  ck_assert_str_eq(zone_text(L, &place), "");
  run(L, "t[1] = 'a' t[2] = 'b'");
  ck_assert_str_eq(zone_text(L, &place), "a/b/");
  run(L, "t.x, t.y, t.z = 1, 2, 3 t[3] = 'c' t[4] = 'd'");
  ck_assert_str_eq(zone_text(L, &place), "a/b/c/d/");
  run(L, "for i = 4, 1, -1 do t[i] = nil end t.u, t.v = 4, 5 t[1] = 'e'");
  ck_assert_str_eq(zone_text(L, &place), "e/");
  lua_close(L);
}
END_TEST

/* The agent's own module is read when the game has put something in its place
 * that holds no zones. */
START_TEST(test_the_agents_module_is_kept)
{
  lua_State *L = new_vm();
  struct vm_zone_place place = {0};
  run(L, "own = {'a', 'b'} package.loaded['jit.zone'] = own");
  lua_getglobal(L, "own");
  lua_setfield(L, LUA_REGISTRYINDEX, VM_ZONE_OWN);
  ck_assert_str_eq(zone_text(L, &place), "a/b/");
  run(L, "package.loaded['jit.zone'] = setmetatable({}, {})");
  ck_assert_str_eq(zone_text(L, &place), "a/b/");
  run(L, "package.loaded['jit.zone'][1] = 'other'");
  ck_assert_str_eq(zone_text(L, &place), "other/");
  run(L, "package.loaded['jit.zone'] = nil");
  ck_assert_str_eq(zone_text(L, &place), "a/b/");
  run(L, "package.loaded['jit.zone'] = 'no table'");
  ck_assert_str_eq(zone_text(L, &place), "a/b/");
  lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, VM_ZONE_OWN);
  ck_assert_str_eq(zone_text(L, &place), "");
  lua_close(L);
}
END_TEST

START_TEST(test_no_zone_module_is_no_zone)
{
  lua_State *L = new_vm();
  struct vm_zone_place place = {0};
  uint64_t g;
  vm_identify(&mem, (uint64_t)L, &g);
  ck_assert_uint_eq(vm_zone_table(&mem, vm_layout_get(0), g, &place), 0);
  lua_close(L);
}
END_TEST

/* The module is forgotten when the game puts another in its place. */
START_TEST(test_a_replaced_module_is_noticed)
{
  lua_State *L = new_vm();
  struct vm_zone_place place = {0};
  const struct vm_layout *lay = vm_layout_get(0);
  uint64_t g;
  ck_assert(!luaL_dostring(L, "require 'jit.zone'"));
  vm_identify(&mem, (uint64_t)L, &g);
  uint64_t first = vm_zone_table(&mem, lay, g, &place);
  ck_assert(!luaL_dostring(L, "new = {} package.loaded['jit.zone'] = new"));
  uint64_t second = vm_zone_table(&mem, lay, g, &place);
  lua_getglobal(L, "new");
  ck_assert_uint_eq(second, (uint64_t)lua_topointer(L, -1));
  ck_assert_uint_ne(first, second);
  lua_close(L);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("vmcore");
  TCase *c = tcase_create("core");
  tcase_add_test(c, test_plain_calls);
  tcase_add_test(c, test_a_tail_call_has_no_frame);
  tcase_add_test(c, test_a_vararg_function_stands_once);
  tcase_add_test(c, test_pcall_and_builtins_are_frames);
  tcase_add_test(c, test_metamethods);
  tcase_add_test(c, test_c_between_lua);
  tcase_add_test(c, test_a_callback_of_a_builtin_in_c);
  tcase_add_test(c, test_coroutines_stand_on_their_resumers);
  tcase_add_test(c, test_a_coroutine_resumed_from_c);
  tcase_add_test(c, test_a_call_on_another_thread);
  tcase_add_test(c, test_c_after_a_resume);
  tcase_add_test(c, test_depth_is_cut_and_said);
  tcase_add_test(c, test_identifies_the_vm);
  tcase_add_test(c, test_another_layout_is_unknown_not_misread);
  tcase_add_test(c, test_garbage_is_no_vm);
  tcase_add_test(c, test_asm_range_holds_the_interpreter);
  tcase_add_test(c, test_zones_of_the_stock_module);
  tcase_add_test(c, test_deep_zones);
  tcase_add_test(c, test_zones_of_a_table_made_ahead);
  tcase_add_test(c, test_the_agents_module_is_kept);
  tcase_add_test(c, test_no_zone_module_is_no_zone);
  tcase_add_test(c, test_a_replaced_module_is_noticed);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_set_tap(r, "-");
  srunner_run_all(r, CK_SILENT);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
