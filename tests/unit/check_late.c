/* SPDX-License-Identifier: MIT
 *
 * Late names, over a VM in this very process.  The scripts say what each
 * function is to be called: want(f, name); `-` where the source gives it no
 * name, `?` where nothing may be found.
 */
#include <check.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "records.h"
#include "suite.h"
#include "this_layout.h"
#include "vm/late_internal.h"
#include "vm/vm.h"

#define WANTS 32

struct wanted {
  uint64_t proto;
  char expected[64], got[VM_NAME_MAX + 1];
};

static struct wanted wanted[WANTS];
static size_t wanted_count;
static const struct vm_layout *lay;
static lua_State *L;

static uint64_t load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  uint64_t v = 0;
  if (addr < 4096) {
    m->faults++;
    return 0;
  }
  memcpy(&v, (const void *)addr, width);
  return v;
}

static uint32_t field(uint64_t proto, uint32_t off)
{
  return *(uint32_t *)(proto + off);
}

static int lua_want(lua_State *l)
{
  uint64_t fn = (uint64_t)lua_topointer(l, 1);
  ck_assert_uint_lt(wanted_count, WANTS);
  struct wanted *w = &wanted[wanted_count++];
  memset(w, 0, sizeof *w);
  w->proto = ref_at(lay, fn + lay->fn_pc) - lay->pt_sizeof;
  snprintf(w->expected, sizeof w->expected, "%s", luaL_checkstring(l, 2));
  strcpy(w->got, "?");
  return 0;
}

static void setup(void)
{
  lay = vm_layout_get(this_layout_id());
  wanted_count = 0;
  L = luaL_newstate();
  luaL_openlibs(L);
  lua_register(L, "want", lua_want);
}

static void teardown(void)
{
  lua_close(L);
}

/* Afterwards the chunk is gone, like every main chunk that has run. */
static void run(const char *name, const char *source)
{
  if (luaL_loadbuffer(L, source, strlen(source), name) != 0 ||
      lua_pcall(L, 0, 0, 0) != 0)
    ck_abort_msg("%s", lua_tostring(L, -1));
  lua_gc(L, LUA_GCCOLLECT, 0);
  lua_gc(L, LUA_GCCOLLECT, 0);
}

static uint64_t global_state(void)
{
  return ref_at(lay, (uint64_t)L + lay->L_glref);
}

static void found(void *ctx, const struct late_want *w, const char *name,
                  size_t len)
{
  (void)ctx;
  struct wanted *to = w->user;
  ck_assert_str_eq(to->got, "?"); /* once */
  memcpy(to->got, len ? name : "-", len ? len : 1);
  to->got[len ? len : 1] = '\0';
}

static void want_all(struct late *l, const char *chunk)
{
  late_init(l, lay, global_state());
  for (size_t i = 0; i < wanted_count; i++) {
    uint64_t pt = wanted[i].proto;
    struct late_want w = {
        .proto = pt,
        .firstline = field(pt, lay->pt_firstline),
        .numline = field(pt, lay->pt_numline),
        .sizebc = field(pt, lay->pt_sizebc),
        .chunk = chunk,
        .user = &wanted[i],
    };
    ck_assert(late_want(l, &w) == i);
  }
}

static void check_names(void)
{
  for (size_t i = 0; i < wanted_count; i++)
    ck_assert_str_eq(wanted[i].got, wanted[i].expected);
}

static void expect_names(const char *chunk)
{
  struct vm_mem m = {.load = load};
  struct late l;
  want_all(&l, chunk);
  ck_assert_int_eq(late_run(&l, &m, UINT64_C(10000000000), found, NULL),
                   LATE_DONE);
  late_free(&l);
  check_names();
}

#define expect(source)                                                         \
  do {                                                                         \
    wanted_count = 0;                                                          \
    run("@case.lua", source);                                                  \
    expect_names("@case.lua");                                                 \
  } while (0)

static const char host_script[] =
    "local function mix(a, b) return a + b end\n"
    "local function kernel() return mix(1, 2) end\n"
    "local function burn(z, f) return f(z) end\n"
    "local function on_event(frame) burn(3, kernel) return frame end\n"
    "local co = coroutine.create(function() burn(5, kernel) end)\n"
    "local function step() return coroutine.resume(co) end\n"
    "function tick(frame) burn(1, kernel) on_event(frame) step() end\n"
    "want(mix, 'mix') want(kernel, 'kernel') want(burn, 'burn')\n"
    "want(on_event, 'on_event') want(step, 'step') want(tick, 'tick')\n";

START_TEST(test_upvalues_and_globals)
{
  expect(host_script);
}
END_TEST

START_TEST(test_parents_that_live)
{
  expect("function outer() local function inner() end return inner end\n"
         "keep = outer() want(keep, 'inner') want(outer, 'outer')");
  expect("function mk() local t = {} function t:hit() end return t end\n"
         "object = mk() want(object.hit, 't:hit')");
  /* what the source does not name gets no name from where it is kept */
  expect("function mk() return function() end end\n"
         "handler = mk() want(handler, '-')");
  /* grandchildren */
  expect("function a() return function() local function c() end return c end "
         "end keep = a()() want(keep, 'c')");
}
END_TEST

/* name_now(): while the chunk is still running, and nothing but the stack leads
 * to it. */
static int lua_name_now(lua_State *l)
{
  struct vm_mem m = {.load = load};
  struct late late;
  (void)l;
  want_all(&late, "@case.lua");
  ck_assert_int_eq(late_run(&late, &m, UINT64_C(10000000000), found, NULL),
                   LATE_DONE);
  late_free(&late);
  return 0;
}

START_TEST(test_a_parent_that_runs)
{
  lua_register(L, "name_now", lua_name_now);
  run("@case.lua", "local function plain() end want(plain, 'plain')\n"
                   "local t = {} function t.of() end want(t.of, 't.of')\n"
                   "name_now()\n");
  check_names();
}
END_TEST

START_TEST(test_fields_of_upvalues)
{
  expect("local M = {} function M.f() return M end\n"
         "function M:g() return M end M.sub = {} function M.sub.h() end\n"
         "package.loaded['lib.m'] = M\n"
         "want(M.f, 'M.f') want(M.g, 'M:g') want(M.sub.h, 'M.sub.h')");
  /* the field is believed before the upvalue */
  expect("local M = {} local function draw() return M end M.draw = draw\n"
         "function go() return draw end want(draw, 'M.draw')");
}
END_TEST

START_TEST(test_keys)
{
  expect("love = {} love.update = function(dt) end\n"
         "game = { player = {} } function game.player:hit() end\n"
         "f = function() end\n"
         "want(love.update, 'love.update') want(f, 'f')\n"
         "want(game.player.hit, 'game.player:hit')");
  expect("local N = {} function N.f() end function N:g() end\n"
         "package.loaded['lib.busy'] = N package.loaded['a/b/solo'] = {\n"
         "run = function() end }\n"
         "want(N.f, 'busy.f') want(N.g, 'busy:g')\n"
         "want(package.loaded['a/b/solo'].run, 'solo.run')");
  /* the shortest path, then the first in byte order */
  expect("t1 = { a = { f = function() end } } t0 = { f = t1.a.f }\n"
         "want(t0.f, 't0.f')");
  expect("zz = function() end aa = zz want(zz, 'aa')");
  /* loops end */
  expect("loop = {} loop.me = loop loop.g = _G loop.f = function() end\n"
         "want(loop.f, 'loop.f')");
}
END_TEST

/* Captured parameters are no names. */
START_TEST(test_wrappers)
{
  expect("function wrap(fn) return function() return fn() end end\n"
         "keep = wrap(function() end)\n"
         "want(select(2, debug.getupvalue(keep, 1)), '?')");
  /* two functions further in, and a table */
  expect("function wrap(a, t) return function() return function() "
         "return a, t end end end\n"
         "keep = wrap(function() end, { f = function() end })()\n"
         "want(select(2, debug.getupvalue(keep, 1)), '?')\n"
         "want(select(2, debug.getupvalue(keep, 2)).f, '?')");
  /* a local beside the parameters is one */
  expect("function wrap(a) local t = { f = function() end } "
         "return function() return a, t end end\n"
         "keep = wrap(1)\n"
         "want(select(2, debug.getupvalue(keep, 2)).f, 't.f')");
  expect("local function wrap(fn) return function() return fn() end end\n"
         "local a, b = wrap(function() return 1 end), nil\n"
         "b = wrap(function() return 2 end)\n"
         "keep = { a, b }\n"
         "want(select(2, debug.getupvalue(a, 1)), '?')\n"
         "want(select(2, debug.getupvalue(b, 1)), '?')");
}
END_TEST

START_TEST(test_captures_that_disagree)
{
  expect("local a = function() end local b = a\n"
         "function g1() return a end function g2() return b end\n"
         "want(a, '?') want(g1, 'g1')");
  /* then a key decides */
  expect("local a = function() end local b = a key = a\n"
         "function g1() return a end function g2() return b end\n"
         "want(a, 'key')");
}
END_TEST

START_TEST(test_other_chunks_do_not_name)
{
  wanted_count = 0;
  run("@other.lua", "function set(cb) hold = function() return cb end end");
  run("@case.lua", "local function f() end set(f) want(f, '?')");
  run("@other.lua", "set = nil");
  expect_names("@case.lua");
}
END_TEST

START_TEST(test_reachable_by_odd_ways)
{
  /* metatables, coroutines' stacks, userdata, arrays, the registry */
  expect("local mt = {} mt.__index = function() return mt end\n"
         "thing = setmetatable({}, mt) want(mt.__index, 'mt.__index')");
  expect("local function f() end\n"
         "co = coroutine.wrap(function() local g = function() return f end "
         "coroutine.yield(g) return g end) co() want(f, 'f')");
  expect("local function f() end proxy = newproxy(true)\n"
         "getmetatable(proxy).__gc = function() return f end want(f, 'f')");
  expect("local function f() end list = { 1, 2, { function() return f end } }\n"
         "want(f, 'f')");
  expect("local function f() end\n"
         "debug.getregistry()[1] = function() return f end want(f, 'f')");
}
END_TEST

/* ---- identity ---- */

START_TEST(test_only_the_very_function)
{
  static const char source[] = "function f() end function g() end "
                               "function h() end want(f, '?') "
                               "want(g, '?') want(h, '?')";
  struct vm_mem m = {.load = load};
  struct late l;
  run("@case.lua", source);
  want_all(&l, "@case.lua");
  l.want[0].firstline++;
  l.want[1].sizebc++;
  l.want[2].numline++;
  ck_assert_int_eq(late_run(&l, &m, UINT64_C(10000000000), found, NULL),
                   LATE_DONE);
  ck_assert_uint_eq(l.left, 3);
  late_free(&l);
  check_names();
  want_all(&l, "@case.luac");
  late_run(&l, &m, UINT64_C(10000000000), found, NULL);
  ck_assert_uint_eq(l.left, 3);
  late_free(&l);
}
END_TEST

START_TEST(test_chunk_names_that_were_cut)
{
  struct vm_mem m = {.load = load};
  struct late l;
  run("@a/long/way/to/case.lua", "function f() end want(f, 'f')");
  want_all(&l, "@to/case.lua");
  l.want[0].chunk_tail = true;
  late_run(&l, &m, UINT64_C(10000000000), found, NULL);
  check_names();
  late_free(&l);
}
END_TEST

START_TEST(test_a_vm_that_is_gone)
{
  struct vm_mem m = {.load = load};
  uint64_t zeros[1024] = {0};
  struct late l;
  late_init(&l, lay, (uint64_t)&zeros[512]);
  ck_assert_int_eq(late_run(&l, &m, 1000, found, NULL), LATE_FAIL);
  late_free(&l);
}
END_TEST

/* ---- bounds ---- */

START_TEST(test_slices_of_time)
{
  struct vm_mem m = {.load = load};
  struct late l;
  unsigned calls = 1;
  run("@case.lua", host_script);
  want_all(&l, "@case.lua");
  while (late_run(&l, &m, 0, found, NULL) == LATE_MORE)
    ck_assert_uint_lt(++calls, 10000);
  ck_assert_uint_gt(calls, 3);
  ck_assert_uint_eq(l.left, 0);
  late_free(&l);
  check_names();
}
END_TEST

/* The same through target_read and the cache. */
START_TEST(test_through_the_cache)
{
  struct target *t;
  struct late l;
  ck_assert_int_eq(target_open(getpid(), &t, NULL), RESULT_OK);
  struct late_cache *c = late_cache_new(t);
  ck_assert_ptr_nonnull(c);
  run("@case.lua", host_script);
  want_all(&l, "@case.lua");
  struct vm_mem *m = late_cache_begin(c);
  ck_assert_int_eq(late_run(&l, m, UINT64_C(10000000000), found, NULL),
                   LATE_DONE);
  check_names();
  /* across pages, outside of memory, outside of user space */
  static uint8_t bytes[3 * 4096];
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (uint8_t)(i * 7);
  for (uint64_t off = 4090; off < 4100; off++)
    for (unsigned width = 1; width <= 8; width *= 2)
      ck_assert_uint_eq(m->load(m, (uint64_t)bytes + off, width),
                        load(m, (uint64_t)bytes + off, width));
  ck_assert_uint_eq(m->faults, 0);
  ck_assert_uint_eq(vm_load8(m, 8), 0);
  ck_assert_uint_eq(vm_load8(m, UINT64_C(0xffff800000000000)), 0);
  ck_assert_uint_eq(m->faults, 2);
  late_free(&l);
  late_cache_free(c);
  target_close(t);
}
END_TEST

static struct vm_mem *true_mem;
static unsigned damage;

/* Every so often, some other value: as if memory changed under the reader. */
static uint64_t load_damaged(struct vm_mem *m, uint64_t addr, unsigned width)
{
  uint32_t faults = true_mem->faults;
  uint64_t v = true_mem->load(true_mem, addr, width);
  m->faults += true_mem->faults - faults;
  if ((unsigned)rand() % damage)
    return v;
  switch (rand() % 4) {
  case 0:
    v ^= UINT64_C(1) << (unsigned)rand() % (8 * width);
    break;
  case 1:
    v += 8;
    break;
  case 2:
    v = 0;
    break;
  default:
    v = UINT64_MAX >> (unsigned)rand() % 64;
  }
  return width == 8 ? v : v & ((UINT64_C(1) << 8 * width) - 1);
}

START_TEST(test_memory_that_changes)
{
  struct target *t;
  struct vm_mem m = {.load = load_damaged};
  ck_assert_int_eq(target_open(getpid(), &t, NULL), RESULT_OK);
  struct late_cache *c = late_cache_new(t);
  ck_assert_ptr_nonnull(c);
  run("@case.lua", host_script);
  srand(1);
  for (unsigned round = 0; round < 1000; round++) {
    struct late l;
    enum late_state st;
    unsigned calls = 0;
    damage = 20u << round % 10;
    for (size_t i = 0; i < wanted_count; i++)
      strcpy(wanted[i].got, "?");
    true_mem = late_cache_begin(c);
    m.faults = 0;
    want_all(&l, "@case.lua");
    do
      st = late_run(&l, &m, UINT64_C(5000000), found, NULL);
    while (st == LATE_MORE && ++calls < 5);
    late_free(&l);
  }
  late_cache_free(c);
  target_close(t);
}
END_TEST

/* ---- the store ---- */

static void record(struct vm_store *s, const struct wanted *w, uint32_t id)
{
  static struct record r;
  record_make_proto(&r, (struct proto_spec){
                            .id = id,
                            .flags = TECS_PROTO_LINES,
                            .addr = w->proto,
                            .g = global_state(),
                            .firstline = field(w->proto, lay->pt_firstline),
                            .numline = field(w->proto, lay->pt_numline),
                            .sizebc = field(w->proto, lay->pt_sizebc),
                            .chunk = "@case.lua",
                            .lines = "\0\0\0",
                            .lines_len = 3,
                        });
  ck_assert_int_eq(vm_store_record(s, 0, record_of(&r)), RESULT_OK);
}

static void expect_text(struct vm_store *s, uint32_t id, const char *want)
{
  struct strbuf b = STRBUF_INIT;
  const char *text = vm_frame_text(s, 0, id, 1, false);
  ck_assert_ptr_nonnull(text);
  if (vm_text_is_pending(text)) {
    ck_assert(vm_text_settle(s, text, &b));
    text = strbuf_text(&b);
  }
  ck_assert_str_eq(text, want);
  strbuf_free(&b);
}

START_TEST(test_store)
{
  struct target *t;
  struct vm_store *s;
  ck_assert_int_eq(target_open(getpid(), &t, NULL), RESULT_OK);
  ck_assert_int_eq(vm_store_new(t, &s), RESULT_OK);
  vm_store_name_late(s); /* nothing to do */
  run("@case.lua", "function f() end local g = function() end\n"
                   "function h() return g end lost = { function() end }\n"
                   "function mk() return function() end end\n"
                   "want(f, '') want(g, '') want(lost[1], '') want(mk(), '')");
  for (uint32_t i = 0; i < wanted_count; i++)
    record(s, &wanted[i], i);
  expect_text(s, 0, "anonymous (case.lua:1)");
  vm_store_name_late(s);
  expect_text(s, 0, "f (case.lua:1)");
  expect_text(s, 1, "g (case.lua:1)");
  expect_text(s, 2, "anonymous (case.lua:2)");
  expect_text(s, 3, "anonymous (case.lua:3)");
  /* one that comes later */
  run("@case.lua", "\nfunction late() end want(late, '')");
  record(s, &wanted[4], 4);
  vm_store_name_late(s);
  expect_text(s, 4, "late (case.lua:2)");
  /* one that was collected before anybody looked */
  run("@case.lua", "\n\n\nlocal function gone() end want(gone, '')");
  record(s, &wanted[5], 5);
  run("@case.lua", "local t = {} for i = 1, 1e5 do t[i] = {} end");
  vm_store_name_late(s);
  expect_text(s, 5, "anonymous (case.lua:4)");
  vm_store_free(s);
  target_close(t);
}
END_TEST

START_TEST(test_store_without_a_process)
{
  struct vm_store *s;
  ck_assert_int_eq(vm_store_new(NULL, &s), RESULT_OK);
  vm_store_name_late(s);
  vm_store_free(s);
}
END_TEST

int main(void)
{
  const TTest *tests[] = {
      test_upvalues_and_globals,
      test_parents_that_live,
      test_a_parent_that_runs,
      test_fields_of_upvalues,
      test_keys,
      test_wrappers,
      test_captures_that_disagree,
      test_other_chunks_do_not_name,
      test_reachable_by_odd_ways,
      test_only_the_very_function,
      test_chunk_names_that_were_cut,
      test_a_vm_that_is_gone,
      test_slices_of_time,
      test_through_the_cache,
      test_memory_that_changes,
      test_store,
      test_store_without_a_process,
  };
  Suite *s = suite_create("late");
  TCase *tc = tcase_create("late");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 60);
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
    tcase_add_test(tc, tests[i]);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
