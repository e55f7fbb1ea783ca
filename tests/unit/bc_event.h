/* SPDX-License-Identifier: MIT
 *
 * A Lua state whose "bc" event runs the namer, as in a game.
 */
#ifndef TESTS_UNIT_BC_EVENT_H
#define TESTS_UNIT_BC_EVENT_H

#include <check.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "this_layout.h"
#include "vmcore/bcname.h"

/* ---- memory of this process, counted ---- */

static unsigned long loads;
static uint64_t fault_lo, fault_hi; /* a range that can't be read */

static inline uint64_t load(struct vm_mem *m, uint64_t addr, unsigned width)
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

static inline void collect(void *ctx, uint64_t child, const char *name,
                           size_t len)
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

static inline int on_bc(lua_State *L)
{
  struct vm_mem m = {.load = load};
  last_proto = (uint64_t)lua_topointer(L, 1);
  vm_name_children(&m, lay, last_proto, collect, NULL);
  return 0;
}

static lua_State *L;

static inline void setup(void)
{
  lay = vm_layout_get(this_layout_id());
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

static inline void teardown(void)
{
  lua_close(L);
  fault_lo = fault_hi = 0;
}

static inline const char *names(const char *source)
{
  found[0] = '\0';
  found_count = found_named = 0;
  if (luaL_loadbuffer(L, source, strlen(source), "=case") != 0)
    ck_abort_msg("%s: %s", source, lua_tostring(L, -1));
  return found;
}

#define expect(source, want) ck_assert_str_eq(names(source), want)

static inline char *repeat(const char *head, const char *piece, unsigned n,
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

static inline int run_tests(const char *name, const TTest **tests, size_t n)
{
  Suite *s = suite_create(name);
  TCase *tc = tcase_create(name);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 60);
  for (size_t i = 0; i < n; i++)
    tcase_add_test(tc, tests[i]);
  suite_add_tcase(s, tc);
  return suite_run(s);
}

#endif
