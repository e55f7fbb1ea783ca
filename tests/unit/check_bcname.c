/* SPDX-License-Identifier: MIT
 *
 * The namer's rules, over bytecode that the installed LuaJIT makes.  Each case
 * is a piece of Lua and, written by hand, the names of its functions in the
 * order in which the enclosing functions end; `-` stands for a function that
 * the source gives no name.
 */
#include "bc_event.h"

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
  };
  return run_tests("bcname", tests, sizeof tests / sizeof tests[0]);
}
