/* SPDX-License-Identifier: MIT
 *
 * LuaJIT's numbers in words, lines and the compiler's switch, against the
 * LuaJIT in this process and its own jit.vmdef and jit.util.
 */
#include <check.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "this_layout.h"
#include "vmcore/discover.h"
#include "vmcore/ffnames.h"
#include "vmcore/texts.h"
#include "vmcore/walk.h"

static uint64_t direct_load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  uint64_t v = 0;
  (void)m;
  memcpy(&v, (const void *)addr, width);
  return v;
}
static struct vm_mem mem = {.load = direct_load};
static const struct vm_layout *lay;
static uint64_t g;
static uint32_t lay_id;
static lua_State *L;

static void setup(void)
{
  L = luaL_newstate();
  luaL_openlibs(L);
  lay_id = vm_identify(&mem, (uint64_t)L, &g);
  ck_assert_uint_eq(lay_id, this_layout_id());
  lay = vm_layout_get(lay_id);
}

static void teardown(void)
{
  lua_close(L);
}

static void run(const char *script)
{
  ck_assert_msg(!luaL_dostring(L, script), "%s", lua_tostring(L, -1));
}

/* The script returns a table: entry i is texts[i]. */
static void expect_list(const char *script, const char *const *texts,
                        unsigned count)
{
  run(script);
  for (unsigned i = 0; i < count; i++) {
    lua_rawgeti(L, -1, (int)i);
    ck_assert_str_eq(texts[i], lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  lua_rawgeti(L, -1, (int)count);
  ck_assert(lua_isnil(L, -1));
}

#define PADDED(names)                                                          \
  "local t, s = {}, require('jit.vmdef')." names " for i = 1, #s / 6 do "      \
  "t[i - 1] = s:sub(i * 6 - 5, i * 6):gsub(' ', '') end return t"

START_TEST(test_names_of_this_build)
{
  const struct vm_texts *t = vm_texts_get(lay_id);
  ck_assert_ptr_nonnull(t);
  ck_assert_uint_eq(t->bcnames, lay->bc_max);
  expect_list(PADDED("bcnames"), t->bcname, t->bcnames);
  if (lay_id) /* the others share lists: see ffnames.h */
    return;
  expect_list(PADDED("irnames"), t->irname, t->irnames);
  expect_list("return require('jit.vmdef').ffnames", t->ffname, t->ffnames);
  const char *text[256];
  for (unsigned i = 0; i < t->traceerrs; i++)
    text[i] = t->traceerr[i].text;
  expect_list("return require('jit.vmdef').traceerr", text, t->traceerrs);
  for (uint32_t id = 0; id < vm_layout_count(); id++)
    ck_assert_ptr_nonnull(vm_texts_get(id));
  ck_assert_ptr_null(vm_texts_get(vm_layout_count()));
  ck_assert_ptr_null(vm_texts_get(VM_LAYOUT_UNKNOWN));
}
END_TEST

/* A builtin has its name or none, and some must have it. */
static void expect_builtins(const struct vm_ffnames *f)
{
  static const char *const must[] = {
      "assert",           "ipairs_aux",  "pcall",
      "xpcall",           "error",       "string.sub",
      "coroutine.resume", "string.gsub", "coroutine.wrap_aux",
      "math.floor",       "jit.attach",
  };
  unsigned seen = 0;
  run("return require('jit.vmdef').ffnames");
  for (unsigned id = 2; id < VM_FFIDS; id++) {
    const char *name = vm_ffname(f, id);
    lua_rawgeti(L, -1, (int)id);
    const char *want = lua_tostring(L, -1);
    if (name)
      ck_assert_str_eq(name, want ? want : "none");
    for (unsigned i = 0; name && i < sizeof must / sizeof *must; i++)
      seen += !strcmp(name, must[i]);
    lua_pop(L, 1);
  }
  ck_assert_uint_eq(seen, sizeof must / sizeof *must);
  ck_assert_ptr_null(vm_ffname(f, 0));
  ck_assert_ptr_null(vm_ffname(f, 1));
  ck_assert_ptr_null(vm_ffname(f, VM_FFIDS));
}

START_TEST(test_builtins_are_named_by_the_libraries)
{
  struct vm_ffnames f;
  ck_assert(vm_ffnames_read(&f, &mem, lay_id, g));
  expect_builtins(&f);
  /* as programs have it: other names for them, theirs under those names */
  run("string.foo = string.len table.unpack = unpack math.pow = math.fmod\n"
      "string.rep = table.concat mine = error assert = rawget");
  ck_assert(vm_ffnames_read(&f, &mem, lay_id, g));
  for (unsigned id = 2; id < VM_FFIDS; id++) {
    char script[96];
    if (!vm_ffname(&f, id))
      continue;
    snprintf(script, sizeof script,
             "assert = nil return require('jit.vmdef').ffnames[%u]", id);
    run(script);
    ck_assert_str_eq(vm_ffname(&f, id), lua_tostring(L, -1));
  }
}
END_TEST

START_TEST(test_builtins_without_libraries)
{
  struct vm_ffnames f, before;
  vm_ffnames_listed(&f, lay_id);
  before = f;
  run("for k in pairs(package.loaded) do package.loaded[k] = nil end");
  ck_assert(!vm_ffnames_read(&f, &mem, lay_id, g));
  ck_assert(!memcmp(&f, &before, sizeof f));
  /* forks number them in their own way */
  for (uint32_t id = 0; id < vm_layout_count(); id++) {
    vm_ffnames_listed(&f, id);
    bool upstream = !strncmp(vm_layout_get(id)->name, "luajit-", 7);
    ck_assert_int_eq(vm_ffname(&f, 2) != NULL,
                     upstream && vm_texts_get(id)->ffnames);
  }
}
END_TEST

START_TEST(test_names_of_types)
{
  ck_assert_str_eq(vm_type_text(0), "[nil]");
  ck_assert_str_eq(vm_type_text(11), "[table]");
  ck_assert_str_eq(vm_type_text(~11u), "[table]");
  ck_assert_str_eq(vm_type_text(12), "[userdata]");
  ck_assert_str_eq(vm_type_text(13), "[lost]");
}
END_TEST

START_TEST(test_compiler_switch)
{
  ck_assert(vm_jit_on(&mem, lay, g));
  run("jit.off()");
  ck_assert(!vm_jit_on(&mem, lay, g));
  run("jit.on()");
  ck_assert(vm_jit_on(&mem, lay, g));
  lua_State *bare = luaL_newstate();
  uint64_t other;
  ck_assert_uint_eq(vm_identify(&mem, (uint64_t)bare, &other), lay_id);
  ck_assert(!vm_jit_on(&mem, lay, other));
  lua_close(bare);
}
END_TEST

/* Functions of 1 byte, 2 byte and 4 byte line tables, and one without. */
static const char *const functions[] = {
    "f = loadstring('local a = 1\\nlocal b = a\\n\\nreturn a + b')",
    "f = loadstring('local a = 1\\n' .. ('\\n'):rep(300) .. 'return a')",
    "f = loadstring('local a = 1\\n' .. ('\\n'):rep(70000) .. 'return a')",
    "f = loadstring(string.dump(loadstring('local a = 1\\nreturn a'), true))",
};

START_TEST(test_lines)
{
  char script[128];
  run(functions[_i]);
  lua_getglobal(L, "f");
  uint64_t pt = vm_func_proto(&mem, lay, (uint64_t)lua_topointer(L, -1));
  ck_assert_uint_ne(pt, 0);
  uint32_t size = vm_load4(&mem, pt + lay->pt_sizebc);
  for (uint32_t pos = 0; pos < size; pos++) {
    snprintf(script, sizeof script,
             "return require('jit.util').funcinfo(f, %u).currentline", pos);
    run(script);
    ck_assert_uint_eq(vm_proto_line(&mem, lay, pt, pos),
                      (uint32_t)lua_tointeger(L, -1));
  }
  ck_assert_uint_eq(vm_proto_line(&mem, lay, pt, size + 1), 0);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("texts");
  TCase *c = tcase_create("core");
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, test_names_of_this_build);
  tcase_add_test(c, test_builtins_are_named_by_the_libraries);
  tcase_add_test(c, test_builtins_without_libraries);
  tcase_add_test(c, test_names_of_types);
  tcase_add_test(c, test_compiler_switch);
  tcase_add_loop_test(c, test_lines, 0,
                      (int)(sizeof functions / sizeof *functions));
  suite_add_tcase(s, c);
  return suite_run(s);
}
