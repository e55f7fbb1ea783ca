/* SPDX-License-Identifier: MIT
 *
 * The VM core against a live LuaJIT in this process: Debian's, or the one that
 * it was linked with or that the dynamic linker was told, whose layout
 * TECS_LAYOUT names.  Frames are checked from inside a C function that Lua code
 * calls: by hand, each script says which lines must be on the stack.
 */
#include <check.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "suite.h"
#include "this_layout.h"
#include "vmcore/discover.h"
#include "vmcore/value.h"
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

/* For what may lead anywhere. */
static uint64_t careful_load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  uint64_t v = 0;
  struct iovec to = {&v, width}, from = {(void *)addr, width};
  if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)width)
    return v;
  m->faults++;
  return 0;
}
static struct vm_mem careful = {.load = careful_load};

static const struct vm_layout *lay; /* that of the LuaJIT in this process */
static uint32_t lay_id;

/* ---- the walk, written as text: `first line@line in use`, C functions as
 * `C`, builtins as `B<ffid>`, C frames as `|` ---- */

static char got[1024];
static uint64_t protos[512]; /* one for each frame */
static unsigned proto_count;
static struct vm_walk walk;
static struct tecs_frame frames[512];
static uint64_t stack_bytes = 1
                              << 20; /* of native stack, as the walk is told */

static uint32_t proto_id(void *ctx, uint64_t pt)
{
  (void)ctx;
  protos[proto_count] = pt;
  return ++proto_count;
}

/* lj_debug.c, lj_debug_line: pc 0 is the header. */
static uint32_t line_of(uint64_t pt, uint32_t pc)
{
  uint32_t first = vm_load4(&mem, pt + lay->pt_firstline);
  uint64_t lines = vm_ref(&mem, lay, pt + lay->pt_lineinfo);
  return pc < 2 ? first : first + vm_load1(&mem, lines + pc - 2);
}

static void write_frames(void)
{
  size_t n = 0;
  got[0] = 0;
  for (unsigned i = 0; i < walk.count && n < sizeof got - 32; i++) {
    const struct tecs_frame *f = &frames[i];
    uint64_t pt = f->kind == TECS_FRAME_LUA ? protos[f->value - 1] : 0;
    if (f->kind == TECS_FRAME_LUA)
      n += (size_t)sprintf(got + n, "%u@%u ",
                           vm_load4(&mem, pt + lay->pt_firstline),
                           line_of(pt, f->pc));
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
  static struct vm_mcode_memo mcode;
  static uint64_t reg[TECS_REGS];
  uint32_t id = vm_identify(&mem, (uint64_t)L, &g);
  ck_assert_uint_eq(id, lay_id);
  memset(&walk, 0, sizeof walk);
  walk.mem = &careful;
  walk.lay = vm_layout_get(id);
  walk.g = g;
  walk.reg = reg; /* in C: no register of the interpreter's is used */
  walk.sp = (uint64_t)__builtin_frame_address(0);
  walk.stack_hi = walk.sp + stack_bytes;
  ck_assert(vm_asm_range(&mem, walk.lay, g, 0, &walk.asm_lo, &walk.asm_hi));
  walk.memo = &memo;
  walk.mcode = &mcode;
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
  write_frames();
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

static int probe_freed(lua_State *L);
static int probe_continued(lua_State *L);
static int probe_called(lua_State *L);
static int probe_call(lua_State *L);
static int probe_exit(lua_State *L);
static int probe_vararg(lua_State *L);
static int probe_helper(lua_State *L);
static int probe_pending(lua_State *L);
static int probe_entered(lua_State *L);
static int probe_left(lua_State *L);

static lua_State *new_vm(void)
{
  lua_State *L = luaL_newstate();
  ck_assert_ptr_nonnull(L);
  luaL_openlibs(L);
  /* layouts that differ in traces alone are told apart by them */
  ck_assert(!luaL_dostring(L, "function hot() local n = 0\n"
                              " for i = 1, 200 do n = n + i end end hot()"));
  lua_register(L, "probe", probe);
  lua_register(L, "call_back", call_back);
  lua_register(L, "resume_from_c", resume_from_c);
  lua_register(L, "call_on_thread", call_on_thread);
  lua_register(L, "resume_then_probe", resume_then_probe);
  lua_register(L, "probe_freed", probe_freed);
  lua_register(L, "probe_continued", probe_continued);
  lua_register(L, "probe_called", probe_called);
  lua_register(L, "probe_call", probe_call);
  lua_register(L, "probe_exit", probe_exit);
  lua_register(L, "probe_vararg", probe_vararg);
  lua_register(L, "probe_helper", probe_helper);
  lua_register(L, "probe_pending", probe_pending);
  lua_register(L, "probe_entered", probe_entered);
  lua_register(L, "probe_left", probe_left);
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

/* What a program does that keeps its states' main threads for itself: no Lua
 * code is further out.  Only who has seen all of the stack knows that. */
START_TEST(test_a_coroutine_resumed_by_the_program)
{
  static const char script[] = "local function body() probe() return 1 end\n"
                               "body() return 1\n";
  static const struct {
    uint64_t stack;
    int error;
  } runs[] = {{8192, TECS_WALK_OK}, {1 << 20, TECS_WALK_NO_PARENT}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    lua_State *L = new_vm(), *co = lua_newthread(L);
    stack_bytes = runs[i].stack;
    ck_assert_int_eq(luaL_loadstring(co, script), 0);
    ck_assert_int_eq(lua_resume(co, 0), 0);
    ck_assert_int_eq(walk.vm.error, runs[i].error);
    ck_assert_str_eq(got, "C 1@1 0@2 | ");
    lua_close(L);
  }
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

/* lj_err.c, lj_err_run: the handler is called on a C frame of its own, on top
 * of what raised. */
START_TEST(test_an_error_handler_stands_on_what_raised)
{
  expect("local function handler() probe() return 1 end\n"
         "local function raises()\n"
         " error('x')\n"
         "end\n"
         "xpcall(raises, handler)\n",
         "C 1@1 | B 2@3 B 0@5 | ");
}
END_TEST

START_TEST(test_after_an_error)
{
  expect("local function raises() local x = nil + 1 end\n"
         "local function b() pcall(raises) probe() return 1 end\n"
         "b() return 1\n",
         "C 2@2 0@3 | ");
}
END_TEST

START_TEST(test_a_hook_stands_on_what_it_interrupted)
{
  expect("local function hook() debug.sethook() probe() return 1 end\n"
         "local function a()\n"
         " local x = 1\n"
         " return x\n"
         "end\n"
         "debug.sethook(hook, 'l')\n"
         "local y = a() return y\n",
         "C 1@1 | 0@7 | ");
}
END_TEST

/* lj_gc.c, gc_call_finalizer */
START_TEST(test_a_finalizer_stands_on_the_collector)
{
  expect("local p = newproxy(true)\n"
         "getmetatable(p).__gc = function() probe() return 1 end\n"
         "p = nil\n"
         "collectgarbage() return 1\n",
         "C 2@2 | B 0@4 | ");
}
END_TEST

START_TEST(test_metamethods_of_all_kinds)
{
  expect("local mt = {}\n"
         "mt.__add = function() probe() return 1 end\n"
         "local t = setmetatable({}, mt)\n"
         "local x = t + 1 return x\n",
         "C 2@2 0@4 | ");
  expect("local mt = {}\n"
         "mt.__call = function(...) probe() return 1 end\n"
         "local t = setmetatable({}, mt)\n"
         "local x = t(1) return x\n",
         "C 2@2 0@4 | ");
  expect("local mt = {}\n"
         "mt.__lt = function() probe() return true end\n"
         "local t = setmetatable({}, mt)\n"
         "if t < t then t = 1 end\n",
         "C 2@2 0@4 | ");
  expect("local mt = {}\n"
         "mt.__concat = function() probe() return 'x' end\n"
         "local t = setmetatable({}, mt)\n"
         "local x = t .. 'y' return x\n",
         "C 2@2 0@4 | ");
}
END_TEST

START_TEST(test_iterators)
{
  expect("local function iter(s, i)\n"
         " if i then return nil end\n"
         " probe() return 1\n"
         "end\n"
         "for k in iter do local x = k end\n",
         "C 1@3 0@5 | ");
}
END_TEST

START_TEST(test_a_yield_across_pcall)
{
  expect("local co = coroutine.wrap(function()\n"
         " pcall(function()\n"
         "  coroutine.yield()\n"
         "  probe()\n"
         " end)\n"
         "end)\n"
         "co()\n"
         "co() return 1\n",
         "C 2@4 B 1@2 | B 0@8 | ");
}
END_TEST

/* The loop is compiled, or stitched around the call (lj_record.c). */
START_TEST(test_in_a_hot_loop)
{
  expect("local function hot(i)\n"
         " if i > 0 then\n"
         "  probe()\n"
         " end\n"
         " return i\n"
         "end\n"
         "local n = 0\n"
         "for i = 1, 300 do\n"
         " n = n + hot(i)\n"
         "end\n",
         "C 1@3 0@9 | ");
}
END_TEST

START_TEST(test_a_callback_of_foreign_code)
{
  if (!lay->hasffi)
    return;
  expect("local ffi = require('ffi')\n"
         "ffi.cdef('void qsort(void *, size_t, size_t,'\n"
         " .. 'int (*)(const void *, const void *));')\n"
         "local a, done = ffi.new('int[2]', 2, 1)\n"
         "ffi.C.qsort(a, 2, 4, function()\n"
         " probe()\n"
         " return 1\n"
         "end) return 1\n",
         "C 5@6 | B 0@5 | ");
}
END_TEST

/* The innermost frames are kept, then every C frame that is further out. */
static int probe_cut(lua_State *L)
{
  set_up_walk(L);
  walk.frame_max = 64 + 10;
  vm_walk_frames(&walk);
  write_frames();
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

/* ---- instants at which the VM is not in order ---- */

/* What lj_alloc.c leaves in a freed block: lists, a tree, its index. */
static const uint64_t freed_words[6] = {
    0x7f0000001000, 0x7f0000002000, 0, 0, 0x7f0000003000, 1};
static bool copy_differs;

/* probe_freed(): as if realloc had copied this thread's stack, freed it, and
 * was about to return (lj_state.c, resizestack).  The copy is where a callee
 * saved rbx, or in it. */
static int probe_freed(lua_State *L)
{
  static uint64_t copy[1024];
  uint64_t reg[TECS_REGS] = {0};
  uint64_t *stack = (uint64_t *)vm_ref(&mem, lay, (uint64_t)L + lay->L_stack);
  uint64_t top = vm_load8(&mem, (uint64_t)L + lay->L_top);
  size_t size = top - (uint64_t)stack;
  ck_assert_uint_ge(size, sizeof freed_words + 8);
  ck_assert_uint_le(size, sizeof copy);
  memcpy(copy, stack, size);
  set_up_walk(L);
  walk.reg = reg;
  reg[3] = (uint64_t)copy;
  copy[size / 8 - 1] ^= copy_differs;
  memcpy(stack, freed_words, sizeof freed_words);
  vm_walk_frames(&walk);
  write_frames();
  copy[size / 8 - 1] ^= copy_differs;
  memcpy(stack, copy, size);
  return 0;
}

static const char in_small_stack[] = "local function body(a, b, c)\n"
                                     " local d, e, f = a, b, c\n"
                                     " probe_freed(d, e, f) return 1\n" /* 3 */
                                     "end\n"
                                     "local co = coroutine.wrap(body)\n"
                                     "co(1, 2, 3) return 1\n"; /* 6 */

START_TEST(test_a_stack_that_was_copied_and_freed)
{
  copy_differs = false;
  expect(in_small_stack, "C 1@3 | B 0@6 | ");
}
END_TEST

/* What is no copy is not taken for one. */
START_TEST(test_a_freed_stack_without_a_copy)
{
  lua_State *L = new_vm();
  copy_differs = true;
  ck_assert_msg(!luaL_dostring(L, in_small_stack), "%s", lua_tostring(L, -1));
  ck_assert_int_ne(walk.vm.error, TECS_WALK_OK);
  lua_close(L);
}
END_TEST

static uint64_t link_at(uint64_t base)
{
  uint64_t slot = vm_load8(&mem, base - 8);
  return lay->gc64 ? slot : slot >> 32;
}

/* In the interpreter, with BASE and PC in their registers. */
static void walk_in_asm(lua_State *L, uint64_t base, uint64_t PC)
{
  static uint64_t reg[TECS_REGS];
  set_up_walk(L);
  reg[1] = base;
  reg[3] = PC;
  reg[TECS_REG_RIP] = walk.asm_lo + 16;
  walk.reg = reg;
  int32_t *vmstate = (int32_t *)(walk.g + lay->g_vmstate), was = *vmstate;
  if (was < 0)
    *vmstate = ~0; /* LJ_VMST_INTERP: this is a C function */
  vm_walk_frames(&walk);
  *vmstate = was;
  write_frames();
}

/* probe_continued(): a builtin that was called with a continuation has put
 * true upon its link (vm_x64.dasc, coroutine_resume_wrap), which PC still has:
 * whole, then as vm_return and cont_dispatch change it. */
static unsigned continued_step;

static int probe_continued(lua_State *L)
{
  uint64_t base = vm_load8(&mem, (uint64_t)L + lay->L_base);
  uint64_t link = link_at(base), *slot = (uint64_t *)(base - 8), was = *slot;
  const uint64_t PC[] = {link, link ^ 1, link & ~UINT64_C(7)};
  ck_assert_uint_eq(link & 7, 2); /* FRAME_CONT */
  *slot = lay->gc64 ? ~(UINT64_C(2) << 47)
                    : (uint32_t)was | UINT64_C(0xfffffffd) << 32;
  walk_in_asm(L, base, PC[continued_step]);
  *slot = was;
  return 0;
}

START_TEST(test_a_builtin_that_has_overwritten_its_link)
{
  for (continued_step = 0; continued_step < 3; continued_step++)
    expect("local t = setmetatable({}, {__index = probe_continued})\n"
           "local function indexes()\n"
           " local x = t.x\n" /* 3 */
           " return x\n"
           "end\n"
           "indexes() return 1\n",
           "2@3 0@6 | ");
}
END_TEST

/* probe_called(): pcall calls this function, whose link is in PC alone yet
 * (vm_x64.dasc, vm_call_dispatch): there stands what was pushed before. */
static int probe_called(lua_State *L)
{
  uint64_t base = vm_load8(&mem, (uint64_t)L + lay->L_base);
  uint64_t link = link_at(base), *slot = (uint64_t *)(base - 8), was = *slot;
  ck_assert_uint_eq(link & 6, 6); /* FRAME_PCALL */
  *slot = lay->gc64 ? ~UINT64_C(0) : (uint32_t)was | UINT64_C(0xfffffff7) << 32;
  walk_in_asm(L, base, link);
  *slot = was;
  return 0;
}

START_TEST(test_a_function_that_pcall_is_about_to_call)
{
  expect("local function calls()\n"
         " pcall(probe_called) return 1\n" /* 2 */
         "end\n"
         "calls() return 1\n",
         "B 1@2 0@4 | ");
  expect("local function calls()\n"
         " pcall(pcall, probe_called) return 1\n" /* 2 */
         "end\n"
         "calls() return 1\n",
         "B B 1@2 0@4 | ");
}
END_TEST

/* probe_call(): the interpreter stands before the call of this function, and
 * vmstate says C already (vm_x64.dasc, BC_FUNCC). */
static int probe_call(lua_State *L)
{
  static uint64_t reg[TECS_REGS];
  uint64_t cf = vm_load8(&mem, (uint64_t)L + lay->L_cframe) & ~UINT64_C(3);
  uint64_t back = vm_load8(&mem, cf - 8);
  set_up_walk(L);
  ck_assert(back > walk.asm_lo && back < walk.asm_hi);
  bool rex = (vm_load1(&mem, back - 3) & 0xf0) == 0x40;
  reg[1] = vm_load8(&mem, (uint64_t)L + lay->L_base);
  reg[3] = link_at(reg[1]);
  reg[TECS_REG_RIP] = back - 2 - rex;
  walk.reg = reg;
  walk.sp = cf;
  vm_walk_frames(&walk);
  write_frames();
  return 0;
}

START_TEST(test_before_a_c_function_is_called)
{
  expect("local function calls()\n"
         " probe_call() return 1\n" /* 2 */
         "end\n"
         "calls() return 1\n",
         "C 1@2 0@4 | ");
}
END_TEST

/* probe_exit(): compiled code leaves for the call of this function
 * (vm_x64.dasc, vm_exit_interp). */
static int probe_exit(lua_State *L)
{
  uint64_t base = vm_load8(&mem, (uint64_t)L + lay->L_base), g;
  vm_identify(&mem, (uint64_t)L, &g);
  int32_t *vmstate = (int32_t *)(g + lay->g_vmstate), was = *vmstate;
  *vmstate = 1;
  walk_in_asm(L, base, g); /* in GG_State, as the bytecode of C functions */
  *vmstate = was;
  return 0;
}

START_TEST(test_compiled_code_that_is_about_to_call)
{
  expect("local function calls()\n"
         " probe_exit() return 1\n" /* 2 */
         "end\n"
         "calls() return 1\n",
         "1@2 0@4 | ");
  expect("local t = setmetatable({}, {__index = probe_exit})\n"
         "local function indexes()\n"
         " local x = t.x\n" /* 3 */
         " return x\n"
         "end\n"
         "indexes() return 1\n",
         "2@3 0@6 | ");
}
END_TEST

/* probe_pending(): C code calls an object; its C frame is there, the function
 * is still being looked for (vm_x64.dasc, vmeta_call), by lj_meta_call. */
static int probe_pending(lua_State *L)
{
  uint64_t cf[32] = {0}, *at = (uint64_t *)((char *)L + lay->L_cframe);
  uint64_t was = *at, link = 5 << 3 | 1; /* 5 slots further on, FRAME_C */
  int32_t nres = 1;
  char *p = (char *)cf;
  memcpy(p + lay->cframe_prev, &was, 8);
  memcpy(p + lay->cframe_L, &L, vm_ref_size(lay));
  memcpy(p + lay->cframe_PC, &link, vm_ref_size(lay));
  memcpy(p + lay->cframe_nres, &nres, sizeof nres);
  set_up_walk(L);
  *at = (uint64_t)cf;
  vm_walk_frames(&walk);
  *at = was;
  write_frames();
  return 0;
}

/* probe_entered(): the metamethod, a Lua function, has called this one. */
static int probe_entered(lua_State *L)
{
  uint64_t base = vm_load8(&mem, (uint64_t)L + lay->L_base);
  uint32_t call = vm_load4(&mem, link_at(base) - 4);
  base -= (lay->gc64 ? 16 : 8) + 8 * (uint64_t)(call >> 8 & 255);
  uint64_t link = link_at(base);
  uint64_t cf = vm_load8(&mem, (uint64_t)L + lay->L_cframe) & ~UINT64_C(3);
  char saved[8], *at = (char *)cf + lay->cframe_PC;
  ck_assert_uint_eq(link & 3, 1); /* FRAME_C */
  memcpy(saved, at, vm_ref_size(lay));
  set_up_walk(L);
  memcpy(at, &link, vm_ref_size(lay));
  vm_walk_frames(&walk);
  memcpy(at, saved, vm_ref_size(lay));
  write_frames();
  return 0;
}

START_TEST(test_an_object_that_c_calls)
{
  expect("local function calls()\n"
         " probe_pending() return 1\n" /* 2 */
         "end\n"
         "calls() return 1\n",
         "| C 1@2 0@4 | ");
  expect("call_back(function() probe_pending() return 1 end) return 1\n",
         "| C 1@1 | C 0@1 | ");
  expect("call_back(function() probe_entered() return 1 end) return 1\n",
         "C 1@1 | C 0@1 | ");
}
END_TEST

/* probe_left(): a builtin that this function has called from C has returned;
 * the interpreter is about to take its C frame down (vm_x64.dasc,
 * vm_leave_unw), with the builtin's base in BASE. */
static int probe_left(lua_State *L)
{
  static uint64_t reg[TECS_REGS];
  uint64_t base = vm_load8(&mem, (uint64_t)L + lay->L_base);
  uint64_t inner = base + 8 * 6, link = (inner - base) | 5; /* FRAME_CP */
  uint64_t fn = vm_load8(&mem, base - (lay->gc64 ? 16 : 8));
  if (lay->gc64)
    memcpy((char *)inner - 16, &fn, 8);
  uint64_t slot = lay->gc64 ? link : (uint32_t)fn | link << 32;
  memcpy((char *)inner - 8, &slot, 8);
  set_up_walk(L);
  reg[1] = inner;
  reg[3] = base;
  reg[TECS_REG_RIP] = walk.asm_lo + 16;
  walk.reg = reg;
  vm_walk_frames(&walk);
  write_frames();
  return 0;
}

START_TEST(test_the_way_out_to_c)
{
  expect("local function calls()\n"
         " probe_left() return 1\n" /* 2 */
         "end\n"
         "calls() return 1\n",
         "C 1@2 0@4 | ");
}
END_TEST

/* probe_vararg(): the calling function leaves its vararg frame; BASE is moved
 * already (vm_x64.dasc, BC_RET). */
static int probe_vararg(lua_State *L)
{
  uint64_t base = vm_load8(&mem, (uint64_t)L + lay->L_base);
  uint32_t call = vm_load4(&mem, link_at(base) - 4);
  base -= (lay->gc64 ? 16 : 8) + 8 * (uint64_t)(call >> 8 & 255);
  uint64_t link = link_at(base);
  ck_assert_uint_eq(link & 7, 3); /* FRAME_VARG */
  walk_in_asm(L, base - (link & ~UINT64_C(7)), link);
  return 0;
}

START_TEST(test_a_vararg_frame_that_is_left)
{
  expect("call_back(function(...)\n"
         " probe_vararg() return 1\n"
         "end) return 1\n",
         "1@1 | C 0@1 | ");
}
END_TEST

/* The word at helper_place, below the C frame, where C code has its own. */
static uint64_t helper_place, helper_return;
static unsigned helper_words; /* that the helper has pushed */

static uint64_t helper_load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  return addr == helper_place ? helper_return : careful_load(m, addr, width);
}
static struct vm_mem helper_mem = {.load = helper_load};

/* The trace calls at its very start, where its first snapshot holds. */
static void call_from_trace(uint64_t g, uint32_t number)
{
  uint64_t J = g - lay->gg_g + lay->gg_J;
  ck_assert_uint_gt(vm_load4(&mem, J + lay->J_sizetrace), number);
  uint64_t T = vm_ref(&mem, lay,
                      vm_load8(&mem, J + lay->J_trace) +
                          vm_ref_size(lay) * (uint64_t)number);
  uint64_t cf = vm_load8(&mem, walk.vm.L + lay->L_cframe) & ~UINT64_C(3);
  helper_place =
      cf - lay->trace_saved - 8 - vm_load2(&mem, T + lay->tr_spadjust);
  helper_return = vm_load8(&mem, T + lay->tr_mcode) + 1;
}

/* probe_helper(): as if the second trace, entered by the calling function, had
 * called a piece of the assembly (lj_vm_next, lj_vm_modi).  BASE and PC are
 * those of a way out of the trace. */
static int probe_helper(lua_State *L)
{
  static uint64_t reg[TECS_REGS];
  uint64_t base = vm_load8(&mem, (uint64_t)L + lay->L_base);
  uint32_t call = vm_load4(&mem, link_at(base) - 4);
  uint64_t caller =
      base - (lay->gc64 ? 16 : 8) - 8 * (uint64_t)(call >> 8 & 255);
  set_up_walk(L);
  char *g = (char *)walk.g;
  char *jit_L = lay->g_jit_L != VM_ABSENT16 ? g + lay->g_jit_L : NULL;
  int32_t *vmstate = (int32_t *)(g + lay->g_vmstate), was = *vmstate;
  walk.vm.L = (uint64_t)L;
  call_from_trace(walk.g, 2);
  reg[1] = base;
  reg[3] = walk.g;
  reg[TECS_REG_RIP] = walk.asm_lo + 16;
  walk.reg = reg;
  walk.sp = helper_place - 8 * (uint64_t)helper_words;
  walk.mem = &helper_mem;
  memcpy(g + lay->g_jit_base, &caller, vm_ref_size(lay));
  if (jit_L)
    memcpy(jit_L, &L, vm_ref_size(lay));
  *vmstate = 2;
  vm_walk_frames(&walk);
  *vmstate = was;
  if (jit_L)
    memset(jit_L, 0, vm_ref_size(lay));
  memset(g + lay->g_jit_base, 0, vm_ref_size(lay));
  write_frames();
  return 0;
}

/* However little of its stack the helper uses the trace is what runs; further
 * down the trace is on its way out, and the registers tell. */
START_TEST(test_a_helper_that_a_trace_calls)
{
  static const char script[] = "local function hot(f)\n"             /* 1 */
                               " local n = 0\n"                      /* 2 */
                               " for i = 1, 200 do n = n + i end\n"  /* 3 */
                               " if f then f() end\n"                /* 4 */
                               " return n\n"                         /* 5 */
                               "end\n"                               /* 6 */
                               "hot() hot(probe_helper) return 1\n"; /* 7 */
  if (!lay->hasjit)
    return;
  for (helper_words = 0; helper_words < 5; helper_words++) {
    expect(script, "1@3 0@7 | ");
    ck_assert_int_eq(walk.vm.vm_class, TECS_CLASS_TRACE_C);
    ck_assert_uint_eq(walk.vm.trace, 2);
  }
  expect(script, "1@4 0@7 | ");
  ck_assert_int_eq(walk.vm.vm_class, TECS_CLASS_VMASM);
}
END_TEST

/* ---- many areas of machine code ---- */

enum { AREAS = 300 };
static unsigned loads;

static uint64_t counted_load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  loads++;
  return careful_load(m, addr, width);
}

static unsigned loads_of_a_walk(lua_State *L)
{
  static struct vm_mem counted = {.load = counted_load};
  set_up_walk(L);
  walk.mem = &counted;
  loads = 0;
  vm_walk_frames(&walk);
  ck_assert_int_eq(walk.vm.error, TECS_WALK_OK);
  ck_assert_int_eq(walk.vm.vm_class, TECS_CLASS_TRACE_EXIT);
  return loads;
}

/* Each is a page, with one that is none of them in between. */
static uint64_t make_areas(void)
{
  uint8_t *p = mmap(NULL, AREAS * 8192, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(p, MAP_FAILED);
  for (uint64_t i = 0; i < AREAS; i++) {
    uint64_t *link = (uint64_t *)(p + 8192 * i);
    link[0] = i + 1 < AREAS ? (uint64_t)link + 8192 : 0;
    link[1] = 4096;
  }
  return (uint64_t)p;
}

/* probe_areas(): called from compiled code, as far as the VM says. */
static int probe_areas(lua_State *L)
{
  uint64_t g;
  vm_identify(&mem, (uint64_t)L, &g);
  uint64_t J = g - lay->gg_g + lay->gg_J;
  uint16_t at = lay->g_jit_L != VM_ABSENT16 ? lay->g_jit_L : lay->g_jit_base;
  uint64_t *area = (uint64_t *)(J + lay->J_mcarea), was = *area;
  uint64_t *size = (uint64_t *)(J + lay->J_szallmcarea), size_was = *size;
  uint32_t *jit = (uint32_t *)(g + at), jit_was = *jit;
  *jit = (uint32_t)(uint64_t)L;
  *area = make_areas();
  ck_assert_uint_gt(loads_of_a_walk(L), 32);
  unsigned again = loads_of_a_walk(L);
  *size += 4096; /* another one */
  unsigned grown = loads_of_a_walk(L);
  ck_assert_uint_ge(grown, again + 32);
  ck_assert_uint_eq(loads_of_a_walk(L), again);
  *(uint64_t *)*area = 0; /* all freed, and one anew at the same place */
  ck_assert_uint_lt(loads_of_a_walk(L), grown);
  ck_assert_uint_eq(walk.mcode->count, 1);
  munmap((void *)*area, AREAS * 8192);
  *area = was;
  *size = size_was;
  *jit = jit_was;
  return 0;
}

START_TEST(test_areas_are_not_read_again)
{
  if (!lay->hasjit)
    return;
  lua_State *L = new_vm();
  lua_register(L, "probe_areas", probe_areas);
  ck_assert_msg(!luaL_dostring(L, "jit.off() probe_areas() return 1"), "%s",
                lua_tostring(L, -1));
  lua_close(L);
}
END_TEST

/* ---- damage ---- */

static uint32_t seed;
static unsigned damage; /* of so many loads one */

static uint32_t dice(void)
{
  seed = seed * 1664525 + 1013904223;
  return seed >> 8;
}

/* As when the game writes meanwhile, or wrote nonsense. */
static uint64_t damaged_load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  uint64_t v = careful_load(m, addr, width), bits = dice();
  if (dice() % damage)
    return v;
  switch (dice() % 4) {
  case 0:
    return 0;
  case 1:
    v ^= UINT64_C(1) << bits % (8 * width);
    break;
  case 2:
    v += (bits % 64) * 8 - 256;
    break;
  default:
    v = bits * 0x9e3779b97f4a7c15;
  }
  return width == 8 ? v : v & ((UINT64_C(1) << 8 * width) - 1);
}
static struct vm_mem damaged = {.load = damaged_load};

/* probe_damaged(): whatever is read, each walk ends, within its bounds. */
static int probe_damaged(lua_State *L)
{
  static struct vm_zone_place place;
  static const uint64_t registers[] = {0, 8, UINT64_MAX, 0x7ffff0000000};
  uint64_t reg[TECS_REGS], g;
  (void)L;
  for (seed = 1; seed <= 150; seed++) {
    uint32_t was = seed;
    set_up_walk(L);
    damage = 2 + seed * seed % 500;
    walk.mem = &damaged;
    for (unsigned i = 0; i < TECS_REGS; i++)
      reg[i] = dice() % 2 ? walk.sp + 8 * (dice() % 64) : registers[dice() % 4];
    reg[TECS_REG_RIP] = dice() % 2 ? walk.asm_lo + dice() % 8192 : 0;
    walk.reg = reg;
    vm_walk_frames(&walk);
    ck_assert_uint_le(walk.count, walk.frame_max);
    for (unsigned i = 0; i < walk.count; i++)
      ck_assert(frames[i].kind >= TECS_FRAME_LUA &&
                frames[i].kind <= TECS_FRAME_LOST);
    vm_identify(&damaged, (uint64_t)L, &g);
    vm_resembles(&damaged, (uint64_t)L);
    vm_zone_table(&damaged, lay, walk.g, &place);
    seed = was;
  }
  return 0;
}

START_TEST(test_damaged_memory)
{
  lua_State *L = new_vm();
  lua_register(L, "probe_damaged", probe_damaged);
  ck_assert(!luaL_dostring(L, "local co = coroutine.wrap(function()\n"
                              " pcall(call_back, function(...)\n"
                              "  probe_damaged() return 1\n"
                              " end)\n"
                              "end)\n"
                              "co() return 1"));
  lua_close(L);
}
END_TEST

/* ---- discovery ---- */

START_TEST(test_identifies_the_vm)
{
  lua_State *L = new_vm();
  uint64_t g = 0;
  ck_assert_uint_eq(vm_identify(&mem, (uint64_t)L, &g), lay_id);
  ck_assert_uint_eq(g, (uint64_t)L + lay->gg_g);
  ck_assert(vm_is_global(&mem, lay, g));
  lua_State *co = lua_newthread(L);
  uint64_t g2 = 0;
  ck_assert_uint_eq(vm_identify(&mem, (uint64_t)co, &g2), lay_id);
  ck_assert_uint_eq(g2, g);
  lua_close(L);
}
END_TEST

/* A copy of the VM's head, at an address of its own, as another build would
 * lay it out. */
static uint64_t copy_of_vm(lua_State *L, size_t size)
{
  int low = lay->gc64 ? 0 : MAP_32BIT;
  uint8_t *copy = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | low, -1, 0);
  memcpy(copy, L, size);
  uint64_t g = (uint64_t)copy + lay->gg_g, self = (uint64_t)copy;
  memcpy(copy + lay->L_glref, &g, vm_ref_size(lay));
  memcpy(copy + lay->gg_g + lay->g_mainthref, &self, vm_ref_size(lay));
  if (lay->g_cur_L != VM_ABSENT16)
    memcpy(copy + lay->gg_g + lay->g_cur_L, &self, vm_ref_size(lay));
  return self;
}

static const char *identified(uint64_t L)
{
  uint64_t g;
  careful.faults = 0;
  uint32_t id = vm_identify(&careful, L, &g);
  ck_assert_uint_eq(g != 0, id != VM_LAYOUT_UNKNOWN);
  return id == VM_LAYOUT_UNKNOWN ? "unknown" : vm_layout_get(id)->name;
}

/* As with that many slots more in reserve (LJ_STACK_EXTRA). */
static void set_maxstack(uint64_t L, int slots)
{
  uint64_t max =
      vm_ref(&mem, lay, L + lay->L_maxstack) - 8 * (uint64_t)(int64_t)slots;
  memcpy((void *)(L + lay->L_maxstack), &max, vm_ref_size(lay));
}

START_TEST(test_another_layout_is_unknown_not_misread)
{
  lua_State *L = new_vm();
  uint64_t fake = copy_of_vm(L, lay->gg_sizeof);
  ck_assert_str_eq(identified(fake), lay->name); /* the copy is sound */

  if (lay_id == 0) { /* LJ_STACK_EXTRA 8, since 4eb47df6 */
    set_maxstack(fake, 1);
    ck_assert_str_eq(identified(fake), "luajit-2.1-20230921-gc64");
    set_maxstack(fake, -1);
  }
  set_maxstack(fake, 3); /* nobody's */
  ck_assert_str_eq(identified(fake), "unknown");
  ck_assert_uint_eq(vm_resembles(&mem, fake), fake + lay->gg_g);
  set_maxstack(fake, -3);

  /* another number of bytecodes */
  uint32_t *cfunc = (uint32_t *)(fake + lay->gg_g + lay->g_bc_cfunc_int);
  *cfunc += 1;
  ck_assert_str_eq(identified(fake), "unknown");
  *cfunc -= 1;
  uint32_t *bcff = (uint32_t *)(fake + lay->gg_bcff);
  *bcff += 1;
  ck_assert_str_eq(identified(fake), "unknown");
  *bcff -= 1;
  ck_assert_str_eq(identified(fake), lay->name);

  /* a dispatch table that starts one word earlier (before a32aeadc) */
  uint8_t *disp = (uint8_t *)fake + lay->gg_dispatch;
  memmove(disp - 8, disp, lay->gg_bcff - lay->gg_dispatch);
  ck_assert_str_eq(identified(fake), "unknown");
  munmap((void *)fake, 65536);
  lua_close(L);
}
END_TEST

/* Rows that differ in traces alone: a VM that has none may be either, one that
 * has some is told apart by them. */
START_TEST(test_traces_tell_layouts_apart)
{
  lua_State *L = luaL_newstate();
  struct vm_layout other = *lay;
  uint64_t g = (uint64_t)L + other.gg_g;
  luaL_openlibs(L);
  other.snap_sizeof ^= 8 ^ 12;
  if (!lay->hasjit)
    return;
  ck_assert(vm_matches(&mem, lay, g));
  ck_assert(vm_matches(&mem, &other, g));
  ck_assert(!luaL_dostring(L, "local n = 0 for i = 1, 200 do n = n + i end"));
  ck_assert(vm_matches(&mem, lay, g));
  ck_assert(!vm_matches(&mem, &other, g));
  ck_assert_uint_eq(vm_identify_global(&mem, g), lay_id);
  lua_close(L);
}
END_TEST

/* The interpreter's own code says how large its C frame is. */
START_TEST(test_the_code_tells_the_size_of_the_cframe)
{
  lua_State *L = new_vm();
  struct vm_layout other = *lay;
  uint64_t g = (uint64_t)L + other.gg_g;
  other.cframe_sizeof += 16; /* as LUAJIT_NO_UNWIND has it */
  ck_assert(vm_matches(&mem, lay, g));
  ck_assert(!vm_matches(&mem, &other, g));
  lua_close(L);
}
END_TEST

START_TEST(test_finds_the_vm_by_its_dispatch_table)
{
  lua_State *L = new_vm();
  uint64_t at = (uint64_t)L + lay->gg_dispatch, g = 0;
  ck_assert_uint_eq(vm_identify_dispatch(&careful, at, &g), lay_id);
  ck_assert_uint_eq(g, (uint64_t)L + lay->gg_g);
  ck_assert_uint_eq(vm_identify_dispatch(&careful, at + 8, &g),
                    VM_LAYOUT_UNKNOWN);
  ck_assert_uint_eq(vm_identify_dispatch(&careful, (uint64_t)L, &g),
                    VM_LAYOUT_UNKNOWN);
  ck_assert_uint_eq(g, 0);
  lua_close(L);
}
END_TEST

START_TEST(test_words_that_may_be_objects)
{
  ck_assert_uint_eq(vm_candidate(0x7f1234567890), 0x7f1234567890);
  ck_assert_uint_eq(vm_candidate(0x40000378), 0x40000378);
  /* SAVE_L below SAVE_PC */
  ck_assert_uint_eq(vm_candidate(UINT64_C(0x4001234440000378)), 0x40000378);
  ck_assert_uint_eq(vm_candidate(UINT64_C(0xfffffff840000378)), 0);
  ck_assert_uint_eq(vm_candidate(UINT64_C(0x0000800040000378)), 0);
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
  uint64_t g = vm_thread_global(&mem, lay, (uint64_t)L), value[4];
  uint32_t left_out = 0;
  uint64_t table = vm_zone_table(&mem, lay, g, place);
  unsigned n = table ? vm_zone_read(&mem, lay, table, value, 4, &left_out) : 0;
  *text = '\0';
  for (unsigned i = 0; i < n; i++) {
    if (left_out && i == 2)
      sprintf(text + strlen(text), "...%u/", left_out);
    sprintf(text + strlen(text), "%s/",
            vm_value_type(lay, value[i]) == VM_GCT_STR
                ? (const char *)vm_value_obj(lay, value[i]) + lay->str_sizeof
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
  ck_assert_uint_eq(vm_zone_table(&mem, lay, g, &place), 0);
  lua_close(L);
}
END_TEST

/* The module is forgotten when the game puts another in its place. */
START_TEST(test_a_replaced_module_is_noticed)
{
  lua_State *L = new_vm();
  struct vm_zone_place place = {0};
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

/* Tests that need jit.zone, which LuaJIT 2.0 does not have. */
static void add_zone_tests(TCase *c)
{
  if (lay->bc_max < 97)
    return;
  tcase_add_test(c, test_zones_of_the_stock_module);
  tcase_add_test(c, test_deep_zones);
  tcase_add_test(c, test_a_replaced_module_is_noticed);
}

int main(void)
{
  lay_id = this_layout_id();
  lay = vm_layout_get(lay_id);
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
  tcase_add_test(c, test_a_coroutine_resumed_by_the_program);
  tcase_add_test(c, test_a_call_on_another_thread);
  tcase_add_test(c, test_c_after_a_resume);
  tcase_add_test(c, test_an_error_handler_stands_on_what_raised);
  tcase_add_test(c, test_after_an_error);
  tcase_add_test(c, test_a_hook_stands_on_what_it_interrupted);
  tcase_add_test(c, test_a_finalizer_stands_on_the_collector);
  tcase_add_test(c, test_metamethods_of_all_kinds);
  tcase_add_test(c, test_iterators);
  tcase_add_test(c, test_a_yield_across_pcall);
  tcase_add_test(c, test_in_a_hot_loop);
  tcase_add_test(c, test_a_callback_of_foreign_code);
  tcase_add_test(c, test_depth_is_cut_and_said);
  tcase_add_test(c, test_a_stack_that_was_copied_and_freed);
  tcase_add_test(c, test_a_freed_stack_without_a_copy);
  tcase_add_test(c, test_a_builtin_that_has_overwritten_its_link);
  tcase_add_test(c, test_a_function_that_pcall_is_about_to_call);
  tcase_add_test(c, test_before_a_c_function_is_called);
  tcase_add_test(c, test_compiled_code_that_is_about_to_call);
  tcase_add_test(c, test_an_object_that_c_calls);
  tcase_add_test(c, test_the_way_out_to_c);
  tcase_add_test(c, test_a_vararg_frame_that_is_left);
  tcase_add_test(c, test_a_helper_that_a_trace_calls);
  tcase_add_test(c, test_areas_are_not_read_again);
  tcase_add_test(c, test_damaged_memory);
  tcase_add_test(c, test_identifies_the_vm);
  tcase_add_test(c, test_another_layout_is_unknown_not_misread);
  tcase_add_test(c, test_traces_tell_layouts_apart);
  tcase_add_test(c, test_the_code_tells_the_size_of_the_cframe);
  tcase_add_test(c, test_finds_the_vm_by_its_dispatch_table);
  tcase_add_test(c, test_words_that_may_be_objects);
  tcase_add_test(c, test_garbage_is_no_vm);
  tcase_add_test(c, test_asm_range_holds_the_interpreter);
  tcase_add_test(c, test_zones_of_a_table_made_ahead);
  tcase_add_test(c, test_the_agents_module_is_kept);
  tcase_add_test(c, test_no_zone_module_is_no_zone);
  add_zone_tests(c);
  suite_add_tcase(s, c);
  return suite_run(s);
}
