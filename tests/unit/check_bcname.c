/* SPDX-License-Identifier: MIT
 *
 * The namer over bytecode that the installed LuaJIT makes.  Each case is a
 * piece of Lua and, written by hand, the names of its functions in the order
 * in which the enclosing functions end; `-` stands for a function that the
 * source gives no name.
 */
#include <check.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "vmcore/bcname.h"

/* Bytes of stack; an instrumented build needs more. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define STACK_MAX 65536
#else
#define STACK_MAX 5120
#endif

/* ---- memory of this process, counted ---- */

static unsigned long loads;
static uint64_t fault_lo, fault_hi; /* a range that can't be read */

static uint64_t load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  uint64_t v = 0;
  loads++;
  if (addr < 4096 || (addr < fault_hi && addr + width > fault_lo)) {
    m->faults++;
    return 0;
  }
  memcpy(&v, (const void *)addr, width);
  return v;
}

/* ---- a Lua state whose "bc" event we listen to ---- */

static char found[1 << 20];
static unsigned found_count, found_named;
static uint64_t last_proto; /* of the chunk: its event comes last */
static const struct vm_layout *lay;

static void collect(void *ctx, uint64_t child, const char *name, size_t len)
{
  (void)ctx;
  (void)child;
  size_t used = strlen(found);
  found_count++;
  if (len > 0)
    found_named++;
  if (used + len + 3 >= sizeof found)
    return;
  if (used > 0)
    found[used++] = ' ';
  memcpy(found + used, len ? name : "-", len ? len : 1);
  found[used + (len ? len : 1)] = '\0';
}

static int on_bc(lua_State *L)
{
  struct vm_mem m = {.load = load};
  last_proto = (uint64_t)lua_topointer(L, 1);
  vm_name_children(&m, lay, last_proto, collect, NULL);
  return 0;
}

static lua_State *L;

static void setup(void)
{
  lay = vm_layout_get(0);
  L = luaL_newstate();
  luaL_openlibs(L);
  lua_getglobal(L, "jit");
  lua_getfield(L, -1, "attach");
  lua_pushcfunction(L, on_bc);
  lua_pushstring(L, "bc");
  lua_call(L, 2, 0);
  lua_settop(L, 0);
  /* The prototypes of a chunk must outlive its load. */
  lua_gc(L, LUA_GCSTOP, 0);
}

static void teardown(void)
{
  lua_close(L);
  fault_lo = fault_hi = 0;
}

static const char *names(const char *source)
{
  found[0] = '\0';
  found_count = found_named = 0;
  if (luaL_loadbuffer(L, source, strlen(source), "=case") != 0)
    ck_abort_msg("%s: %s", source, lua_tostring(L, -1));
  return found;
}

#define expect(source, want) ck_assert_str_eq(names(source), want)

/* ---- where the source names them ---- */

START_TEST(test_locals)
{
  expect("local function f() end return f", "f");
  expect("local f = function() end return f", "f");
  expect("local a, b = function() end, function() end return a, b", "a b");
  expect("local a, b, c = 1, function() end, 2 return a, b, c", "b");
  expect("local f f = function() end return f", "f");
  expect("local a, b a, b = function() end, function() end", "a b");
  expect("local x = x or function() end return x", "x");
  expect("local x = c and function() end or function() end return x", "x x");
  expect("local x = (function() end) return x", "x");
  expect("local f local function g() f = function() end end return f, g",
         "f g");
}
END_TEST

START_TEST(test_locals_that_end_at_once)
{
  expect("do local function f() end end", "f");
  expect("do local f = function() end end x = 1", "f");
  expect("do local a, b = function() end, function() end end", "a b");
  expect("do local v = function() end v = function() end end", "v v");
  expect("if c then local function f() end end local function g() end", "f g");
  expect("for i = 1, 9 do local function f() end end", "f");
  expect("do local x local function f() return x end end", "f");
  expect("do local x local function f() end local function g() end end", "f g");
  /* a variable with an empty scope, then one that is no function */
  expect("do local x end local y function g() end return y", "g");
}
END_TEST

START_TEST(test_globals)
{
  expect("function f() end", "f");
  expect("f = function() end", "f");
  expect("f = f or function() end", "f");
  expect("f = c and function() end or function() end", "f f");
  expect("f = not c and function() end", "f");
  expect("p, q = function() end, function() end", "p q");
  expect("p, q.r = function() end, function() end", "p q.r");
  expect("if c then function f() end else f = function() end end", "f f");
  expect("while c do f = function() end end", "f");
}
END_TEST

START_TEST(test_fields)
{
  expect("function M.f() end", "M.f");
  expect("function M.sub.deep.x() end", "M.sub.deep.x");
  expect("M.f = M.f or function() end", "M.f");
  expect("if not M.g then M.g = function() end end", "M.g");
  expect("M['a b'] = function() end", "M.a b");
  expect("local M = {} function M.f() end M.sub.g = function() end",
         "M.f M.sub.g");
  expect("local M = {} function f() M.x = function() end "
         "function M.sub.y() end end",
         "M.x M.sub.y f");
  expect("M.a, M.b = function() end, function() end", "M.a M.b");
  expect("M.c, M.d = (function() end), 5", "M.c");
  expect("_G.f = function() end", "_G.f");
  expect("local _ENV = _G.E function _ENV.f() end", "_ENV.f");
  expect("self.timer.cb = function() end", "self.timer.cb");
  expect("local a = M.x a.f = function() end", "a.f");
}
END_TEST

START_TEST(test_indices)
{
  expect("M[1] = function() end", "M[1]");
  expect("M[0].x = function() end", "M[0].x");
  expect("M[-1] = function() end", "M[-1]");
  expect("M[255] = function() end M[256] = function() end", "M[255] M[256]");
  expect("M[100000] = function() end", "M[100000]");
  expect("M[0.5] = function() end M[-2.25] = function() end",
         "M[0.5] M[-2.25]");
  expect("M[1e300] = function() end", "M[?]");
  expect("M.x.y[3].z = function() end", "M.x.y[3].z");
  expect("M[k] = function() end", "M[k]");
  expect("local k M[k] = function() end", "M[k]");
  expect("M[a.b] = function() end", "M[a.b]");
  expect("M[a[b]] = function() end", "M[a[b]]");
  expect("M[a[1].c].d = function() end", "M[a[1].c].d");
  expect("M['get' .. n] = function() end", "M[?]");
  expect("M[f()] = function() end", "M[?]");
  expect("M[f().x] = function() end", "M[?]");
  expect("for i = 1, 2 do M[i].r = function() end end", "M[i].r");
  expect("for _, n in ipairs{1} do M[n] = function() end end", "M[n]");
  expect("M[300].x = function() end", "M[300].x");
}
END_TEST

START_TEST(test_methods)
{
  expect("function C:hit() end", "C:hit");
  expect("function C.sub:hit() end", "C.sub:hit");
  expect("local C = {} function C:hit()\nreturn self end", "C:hit");
  expect("local C = {} function f() function C:hit() end end", "C:hit f");
  expect("C.hit = function(self)\nend", "C.hit");
  expect("function C.hit(me) end", "C.hit");
  expect("function C.hit(a, self) end", "C.hit");
  expect("function C.static:mk() return 1 end", "C.static:mk");
  expect("M = { hit = function(self) end }", "M.hit");
  expect("local t = { hit = function(self) end }", "t.hit");
  expect("f().x.y = function(self) end", "x.y");
  expect("M[1] = function(self) end", "M[1]");
  expect("local self = {} self.cb = function() end", "self.cb");
}
END_TEST

START_TEST(test_classes)
{
  expect("local C = class('C') function C:init() end", "C:init");
  expect("Unit = Object:extend() function Unit:update(dt) end", "Unit:update");
  expect("local G = common_class and X or Y function G:m() end", "G:m");
  expect("H = Class{ init = function(self) end }", "init");
  expect("local P = {} local P_mt = {__index = P} "
         "function P.new() return setmetatable({}, P_mt) end",
         "P.new");
}
END_TEST

/* ---- constructors ---- */

START_TEST(test_constructors)
{
  expect("local C = { k = function() end, nest = { z = function() end } }",
         "C.k C.nest.z");
  expect("M = { a = { b = { f = function() end, g = function() end } } }",
         "M.a.b.f M.a.b.g");
  expect("local t = { ['q r'] = function() end, [true] = 1 }", "t.q r");
  expect("local t = { function() end, function() end }", "t[1] t[2]");
  expect("local t = { { cb = function() end }, [5] = { c = function() end } }",
         "t[1].cb t[5].c");
  expect("local t t = { f = function() end }", "t.f");
  expect("M.x = { f = function() end }", "M.x.f");
  expect("M.x = M.x or { f = function() end }", "M.x.f");
  expect("M[1] = { f = function() end }", "M[1].f");
  expect("self.timer = { cb = function() end }", "self.timer.cb");
  expect("local k = { [M] = function() end, [a.b] = function() end }",
         "k[M] k[a.b]");
  expect("local z = { c and function() end or function() end }", "z[1] z[1]");
  expect("local z = { a = c and function() end or nil }", "z.a");
  expect("local a, b = {f = function() end}, {g = function() end}", "a.f b.g");
  expect("local f function g() f = {h = function() end} end", "f.h g");
}
END_TEST

START_TEST(test_constructors_without_a_name)
{
  expect("return { f = function() end, sub = { g = function() end } }",
         "f sub.g");
  expect("f{ init = function() end }", "init");
  expect("f(1, { { cb = function() end } })", "cb");
  expect("return { function() end }", "-");
  expect("f{ [0] = function() end, [x] = function() end }", "- -");
  expect("({ f = function() end }).x = 1", "f");
  expect("f().x.y = function() end", "x.y");
  expect("f()[1].y = function() end", "y");
  expect("f()[1] = function() end", "-");
  expect("f().a[1] = function() end", "a[1]");
}
END_TEST

START_TEST(test_setmetatable_returns_its_table)
{
  expect("D = setmetatable({ f = function() end }, { g = function() end })",
         "D.f g");
  expect("local E = setmetatable({ f = function() end }, {})", "E.f");
  expect("M.x = setmetatable({ f = function() end }, mt)", "M.x.f");
  expect("local setmetatable = setmetatable "
         "local E = setmetatable({ f = function() end }, {})",
         "E.f");
  expect("local setmetatable = setmetatable function g() "
         "local E = setmetatable({ f = function() end }, {}) end",
         "E.f g");
  expect("local E = other({ f = function() end }, {})", "f");
  expect("local E = setmetatable({}, { f = function() end })", "f");
  expect("return setmetatable({ f = function() end }, {})", "f");
  expect("M = setmetatable({ a = setmetatable({ f = function() end }, x) }, y)",
         "M.a.f");
}
END_TEST

static char *repeat(const char *head, const char *piece, unsigned n,
                    const char *tail)
{
  size_t cap = strlen(head) + strlen(tail) + (strlen(piece) + 16) * n + 1;
  char *s = malloc(cap);
  ck_assert_ptr_nonnull(s);
  size_t len = (size_t)snprintf(s, cap, "%s", head);
  for (unsigned i = 1; i <= n; i++)
    len += (size_t)snprintf(s + len, cap - len, piece, i);
  snprintf(s + len, cap - len, "%s", tail);
  return s;
}

/* More than 255 constants: keys come from registers. */
START_TEST(test_many_constants)
{
  char *s = repeat("local M = {} ", "x%u = 1 ", 300,
                   "function M.f() end function M:g() end M.h = {k = "
                   "function() end} sub.t.u = function() end");
  expect(s, "M.f M:g M.h.k sub.t.u");
  free(s);
  s = repeat("local t = { ", "x%u = 1, ", 300,
             " f = function() end, s = {g = function() end} }");
  expect(s, "t.f t.s.g");
  free(s);
}
END_TEST

START_TEST(test_many_items)
{
  char *s = repeat("local t = { ", "%u, ", 299, "function() end }");
  expect(s, "t[300]");
  free(s);
  s = repeat("local t = { ", "%u, ", 299, "{f = function() end} }");
  expect(s, "t[300].f");
  free(s);
}
END_TEST

/* ---- the ones without a name ---- */

START_TEST(test_anonymous)
{
  expect("f(function() end)", "-");
  expect("f(1, function() end, function() end)", "- -");
  expect("f(function() end, ...)", "-");
  expect("local r = f(function() end) return r", "-");
  expect("r = pcall(function() end)", "-");
  expect("o:on('x', function() end)", "-");
  expect("return function() end", "-");
  expect("return 1, function() end", "-");
  expect("return function() end, ...", "-");
  expect("return f(function() end)", "-");
  expect("(function() end)()", "-");
  expect("local x = (function() return 1 end)() return x", "-");
  expect("local co = coroutine.wrap(function() end) return co", "-");
  expect("local s = ('x'):rep(3, function() end)", "-");
  expect("rawset(M, 'x', function() end)", "-");
  expect("for k in function() end do local y = 5 end", "-");
  expect("for k in f, function() end do local y = 5 end", "-");
  expect("local a = (function() end) .. 'x'", "-");
  expect("local a = #(function() end) local b", "-");
  expect("local a = (function() end).x local b", "-");
  expect("local a = (function() end) == f local b", "-");
  expect("t[function() end] = 1 local b", "-");
  expect("if function() end then local x = 1 end", "-");
  expect("while true do f(function() end) end", "-");
  expect("t = { f(function() end) }", "-");
  expect("t = { x = f(function() end) }", "-");
  expect("x = f and f(function() end) or function() end", "- x");
  expect("a = 1, function() end", "-");
}
END_TEST

/* What stands in the register depends on the way taken. */
START_TEST(test_roots_that_differ)
{
  expect("(a or b).f = function() end", "f");
  expect("(a and b).c.f = function() end", "c.f");
  expect("local a, b (a or b).f = function() end", "f");
  expect("(a or b)[1] = function() end", "-");
  expect("if a or b then M.f = function() end end", "M.f");
  expect("local x = a or b x.f = function() end", "x.f");
}
END_TEST

START_TEST(test_moonscript)
{
  expect("local Types do local _class_0 local _base_0 = {\n"
         "set = function(self, a) return a end,\n"
         "make = function(a) return a end }\n"
         "_base_0.__index = _base_0\n"
         "_class_0 = setmetatable({\n"
         "__init = function(self) self.x = {} end,\n"
         "__base = _base_0, __name = \"Types\" },\n"
         "{ __index = _base_0, __call = function(cls, ...) return 1 end })\n"
         "_base_0.__class = _class_0\n"
         "Types = _class_0 end\n"
         "do local _class_0 local _base_0 = { f = function(self) end }\n"
         "_class_0 = setmetatable({ __base = _base_0, __name = 'B' }, {}) end",
         "Types:set Types.make Types:__init __call B:f");
  expect("local _base_0 = { f = function(self) end }", "_base_0.f");
}
END_TEST

START_TEST(test_nested_functions)
{
  expect("function outer() local function inner() end "
         "return function() return function() end end end",
         "- inner - outer");
}
END_TEST

/* ---- bounds ---- */

START_TEST(test_long_names)
{
  char word[VM_NAME_MAX + 50], src[2 * sizeof word + 64];
  memset(word, 'k', sizeof word - 1);
  word[sizeof word - 1] = '\0';
  /* one field that is too long is cut */
  snprintf(src, sizeof src, "function M.%s() end", word);
  names(src);
  ck_assert_uint_eq(strlen(found), VM_NAME_MAX);
  ck_assert_uint_eq(strspn(found, "k"), VM_NAME_MAX);
  /* a root that does not fit is left out */
  word[VM_NAME_MAX - 10] = '\0';
  snprintf(src, sizeof src, "function %s.sub.field1() end", word);
  expect(src, "sub.field1");
  /* no UTF-8 character is split */
  memset(word, 'k', VM_NAME_MAX - 1);
  strcpy(word + VM_NAME_MAX - 1, "\xc3\xa4xx");
  snprintf(src, sizeof src, "M['%s'] = function() end", word);
  names(src);
  ck_assert_uint_eq(strlen(found), VM_NAME_MAX - 1);
}
END_TEST

START_TEST(test_long_paths_end)
{
  char *s = repeat("M", ".f%u", 40, " = function() end");
  names(s);
  ck_assert_uint_eq(found_named, 1);
  ck_assert_ptr_nonnull(strstr(found, ".f40"));
  free(s);
}
END_TEST

/* Loads for each function of a table must not grow with the table. */
static double loads_per_child(const char *head, const char *piece, unsigned n,
                              const char *tail)
{
  char *s = repeat(head, piece, n, tail);
  loads = 0;
  names(s);
  ck_assert_uint_eq(found_count, n);
  ck_assert_uint_eq(found_named, n);
  free(s);
  return (double)loads / n;
}

START_TEST(test_work_is_linear)
{
  static const char *const shape[][3] = {
      {"local t = {\n", "f%u = function() end,\n", "}"},
      {"M = { sub = { deep = {\n", "f%u = function() end,\n", "} } }"},
      {"return { sub = {\n", "f%u = function() end,\n", "} }"},
      {"M.x.y = {\n", "{ f%u = function() end },\n", "}"},
      {"M[k] = {\n", "function() return %u end,\n", "}"},
      {"local t = setmetatable({\n", "f%u = function() end,\n", "}, {})"},
      {"local M = {}\n", "function M.f%u() end\n", ""},
      {"", "function M.sub.f%u() end\n", ""},
      {"", "do local function f%u() end end\n", ""},
      {"f({{{ x = {\n", "f%u = function() end,\n", "} }}})"},
  };
  for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
    double few = loads_per_child(shape[i][0], shape[i][1], 300, shape[i][2]);
    double many = loads_per_child(shape[i][0], shape[i][1], 6000, shape[i][2]);
    ck_assert_msg(many < few * 1.5 + 20, "%s: %f then %f loads", shape[i][1],
                  few, many);
    ck_assert_msg(many < 250, "%s: %f loads", shape[i][1], many);
  }
}
END_TEST

/* Closures that wait in registers while a long constructor is evaluated: the
 * work allowed ends, and what is left is not called anonymous. */
START_TEST(test_work_is_bounded)
{
  char *args = repeat("f(", "function() return %u end, ", 200, "{");
  char *s = repeat(args, "x%u = g(),\n", 20000, "})");
  loads = 0;
  names(s);
  ck_assert_uint_le(found_count, 200);
  ck_assert_uint_eq(found_named, 0);
  ck_assert_uint_lt(loads, 60000ul * 40 * 3);
  free(s);
  free(args);
}
END_TEST

/* ---- hostile memory ---- */

static const char program[] =
    "local M = {} local up = 1\n"
    "function M.sub:f() return up end\n"
    "local t = { a = { function() end, [300] = function() end } }\n"
    "M[t.a] = function() up = function() end end\n"
    "x = setmetatable({ y = function() end }, {})\n"
    "local _base_0 = { z = function(self) end }\n"
    "local c = { __base = _base_0, __name = 'K' }\n";

static void name_last(struct vm_mem *m)
{
  found[0] = '\0';
  found_count = found_named = 0;
  vm_name_children(m, lay, last_proto, collect, NULL);
}

START_TEST(test_unreadable_memory)
{
  struct vm_mem m = {.load = load};
  expect(program, "up M.sub:f t.a[1] t.a[300] M[t.a] x.y K:z");
  uint32_t size = *(uint32_t *)(last_proto + lay->pt_sizept);
  for (uint32_t off = 0; off < size; off += 4) {
    fault_lo = last_proto + off;
    fault_hi = fault_lo + 4;
    m.faults = 0;
    name_last(&m);
    ck_assert(m.faults > 0 || found_count == 6);
  }
  fault_lo = 1;
  fault_hi = UINT64_MAX / 2;
  m.faults = 0;
  name_last(&m);
  ck_assert_uint_eq(found_count, 0);
  ck_assert_uint_gt(m.faults, 0);
}
END_TEST

/* Memory with one byte changed; what is outside the prototype is real, except
 * where changed pointers lead: those loads are faults. */
static unsigned char *image;
static uint32_t image_size;

static uint64_t load_image(struct vm_mem *m, uint64_t addr, unsigned width)
{
  uint64_t v = 0;
  loads++;
  if (addr - last_proto > image_size ||
      image_size - (addr - last_proto) < width) {
    if (m->ctx) { /* no address is good but those inside */
      m->faults++;
      return 0;
    }
    return load(m, addr, width);
  }
  memcpy(&v, image + (addr - last_proto), width);
  return v;
}

START_TEST(test_damaged_prototypes)
{
  struct vm_mem m = {.load = load_image, .ctx = &m};
  names(program);
  image_size = *(uint32_t *)(last_proto + lay->pt_sizept);
  image = malloc(image_size);
  ck_assert_ptr_nonnull(image);
  memcpy(image, (void *)last_proto, image_size);
  srand(1);
  for (unsigned round = 0; round < 200000; round++) {
    uint32_t off = (uint32_t)rand() % image_size;
    unsigned char was = image[off];
    image[off] = (unsigned char)rand();
    m.faults = 0;
    loads = 0;
    name_last(&m);
    ck_assert_uint_lt(loads, 200000);
    if (round % 8 == 0)
      memcpy(image, (void *)last_proto, image_size);
    else if (round % 2)
      image[off] = was;
  }
  free(image);
}
END_TEST

/* Debug information cut off anywhere: as if the prototype ended there. */
START_TEST(test_truncated_debug_information)
{
  struct vm_mem m = {.load = load_image};
  names(program);
  image_size = *(uint32_t *)(last_proto + lay->pt_sizept);
  image = malloc(image_size);
  ck_assert_ptr_nonnull(image);
  memcpy(image, (void *)last_proto, image_size);
  for (uint32_t size = 0; size < image_size; size++) {
    memcpy(image + lay->pt_sizept, &size, sizeof size);
    m.faults = 0;
    name_last(&m);
    ck_assert_uint_eq(m.faults, 0);
  }
  free(image);
}
END_TEST

START_TEST(test_without_debug_information)
{
  names(program);
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "dump");
  lua_pushvalue(L, 1);
  lua_pushboolean(L, 1); /* strip */
  lua_call(L, 2, 1);
  size_t len;
  const char *bytes = lua_tolstring(L, -1, &len);
  ck_assert_int_eq(luaL_loadbuffer(L, bytes, len, "=stripped"), 0);
  struct vm_mem m = {.load = load};
  uint64_t fn = (uint64_t)lua_topointer(L, -1);
  last_proto = *(uint64_t *)(fn + lay->fn_pc) - lay->pt_sizeof;
  name_last(&m);
  ck_assert_uint_eq(found_count, 0);
  ck_assert_uint_eq(m.faults, 0);
}
END_TEST

/* It runs on a game's stack, within an event handler. */
static ucontext_t back;
static unsigned char stack[64 * 1024];

static void on_painted_stack(void)
{
  struct vm_mem m = {.load = load};
  name_last(&m);
}

START_TEST(test_stack_use)
{
  ucontext_t there;
  names(
      "local t = {} t[a[b[c]]].x[d[e]] = function() end "
      "M = { a = { b = { [x[y]] = setmetatable({ f = function() end }) } } }");
  memset(stack, 0xa5, sizeof stack);
  ck_assert_int_eq(getcontext(&there), 0);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = sizeof stack;
  there.uc_link = &back;
  makecontext(&there, on_painted_stack, 0);
  ck_assert_int_eq(swapcontext(&back, &there), 0);
  ck_assert_uint_eq(found_count, 2);
  size_t left = 0;
  while (left < sizeof stack && stack[left] == 0xa5)
    left++;
  ck_assert_uint_lt(sizeof stack - left, STACK_MAX);
}
END_TEST

/* ---- single questions ---- */

static void function_at(int index, uint64_t *pt)
{
  uint64_t fn = (uint64_t)lua_topointer(L, index);
  *pt = *(uint64_t *)(fn + lay->fn_pc) - lay->pt_sizeof;
}

static void run(const char *source)
{
  if (luaL_dostring(L, source) != 0)
    ck_abort_msg("%s: %s", source, lua_tostring(L, -1));
}

START_TEST(test_hash_survives_the_jit_compiler)
{
  struct vm_mem m = {.load = load};
  uint64_t pt;
  run("function f(n) local s, t = 0, {1, 2, 3} "
      "for i = 1, n do s = s + i end "
      "while s > 0 do s = s - 1e3 end "
      "for k, v in pairs(t) do s = s + v end "
      "for k, v in next, t do s = s + v end "
      "local it = ipairs(t) for k, v in it, t, 0 do s = s + v end "
      "return s end "
      "function rec(n) if n == 0 then return 0 end return 1 + rec(n - 1) end");
  for (unsigned i = 0; i < 2; i++) {
    lua_getglobal(L, i ? "rec" : "f");
    function_at(-1, &pt);
    uint32_t sizebc = *(uint32_t *)(pt + lay->pt_sizebc);
    uint32_t *bc = malloc(sizebc * 4);
    ck_assert_ptr_nonnull(bc);
    memcpy(bc, (void *)(pt + lay->pt_sizeof), sizebc * 4);
    uint32_t before = vm_opcode_hash(&m, lay, pt, sizebc);
    run("for i = 1, 200 do f(100) rec(150) end");
    unsigned patched = 0;
    for (uint32_t j = 0; j < sizebc; j++)
      patched += (bc[j] & 0xff) != *(uint8_t *)(pt + lay->pt_sizeof + j * 4);
    ck_assert_uint_gt(patched, 0); /* the test is about something */
    ck_assert_uint_eq(vm_opcode_hash(&m, lay, pt, sizebc), before);
    run("jit.flush()");
    ck_assert_uint_eq(vm_opcode_hash(&m, lay, pt, sizebc), before);
    free(bc);
  }
}
END_TEST

START_TEST(test_upvalue_names)
{
  struct vm_mem m = {.load = load};
  char name[VM_NAME_MAX];
  uint64_t pt;
  run("local first, second, third = 1, 2, 3 "
      "function f(self) return second + third + first end "
      "function g(me) end function h() end");
  lua_getglobal(L, "f");
  function_at(-1, &pt);
  ck_assert_uint_eq(vm_upvalue_name(&m, lay, pt, 0, name), 6);
  ck_assert_mem_eq(name, "second", 6);
  ck_assert_uint_eq(vm_upvalue_name(&m, lay, pt, 2, name), 5);
  ck_assert_mem_eq(name, "first", 5);
  ck_assert_uint_eq(vm_upvalue_name(&m, lay, pt, 3, name), 0);
  ck_assert(vm_takes_self(&m, lay, pt));
  lua_getglobal(L, "g");
  function_at(-1, &pt);
  ck_assert(!vm_takes_self(&m, lay, pt));
  lua_getglobal(L, "h");
  function_at(-1, &pt);
  ck_assert(!vm_takes_self(&m, lay, pt));
  fault_lo = 1;
  fault_hi = UINT64_MAX / 2;
  ck_assert_uint_eq(vm_upvalue_name(&m, lay, pt, 0, name), 0);
  ck_assert(!vm_takes_self(&m, lay, pt));
}
END_TEST

START_TEST(test_other_numbering_is_left_alone)
{
  struct vm_mem m = {.load = load};
  struct vm_layout other;
  names(program);
  other = *lay;
  other.bc_max = 104;
  other.bc_funcf = 96;
  found_count = 0;
  vm_name_children(&m, &other, last_proto, collect, NULL);
  ck_assert_uint_eq(found_count, 0);
}
END_TEST

int main(void)
{
  const TTest *tests[] = {
      test_locals,
      test_locals_that_end_at_once,
      test_globals,
      test_fields,
      test_indices,
      test_methods,
      test_classes,
      test_constructors,
      test_constructors_without_a_name,
      test_setmetatable_returns_its_table,
      test_many_constants,
      test_many_items,
      test_anonymous,
      test_roots_that_differ,
      test_moonscript,
      test_nested_functions,
      test_long_names,
      test_long_paths_end,
      test_work_is_linear,
      test_work_is_bounded,
      test_unreadable_memory,
      test_damaged_prototypes,
      test_truncated_debug_information,
      test_without_debug_information,
      test_stack_use,
      test_other_numbering_is_left_alone,
      test_hash_survives_the_jit_compiler,
      test_upvalue_names,
  };
  Suite *s = suite_create("bcname");
  TCase *tc = tcase_create("bcname");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 60);
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
    tcase_add_test(tc, tests[i]);
  suite_add_tcase(s, tc);
  SRunner *sr = srunner_create(s);
  srunner_set_tap(sr, "-");
  srunner_run_all(sr, CK_SILENT);
  int failed = srunner_ntests_failed(sr);
  srunner_free(sr);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
