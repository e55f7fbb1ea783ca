/* SPDX-License-Identifier: MIT
 *
 * The namer within bounds: long names, huge constructors, memory that can't be
 * read or makes no sense, its own stack; and its single questions.
 */
#include <ucontext.h>

#include "bc_event.h"

/* Bytes of stack; an instrumented build needs more. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define STACK_MAX 65536
#else
#define STACK_MAX 5120
#endif

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
  last_proto = ref_at(lay, fn + lay->fn_pc) - lay->pt_sizeof;
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
  *pt = ref_at(lay, fn + lay->fn_pc) - lay->pt_sizeof;
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
  if (!lay->hasjit)
    return;
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
  other.bc_max = 98; /* in no version */
  found_count = 0;
  vm_name_children(&m, &other, last_proto, collect, NULL);
  ck_assert_uint_eq(found_count, 0);
}
END_TEST

int main(void)
{
  const TTest *tests[] = {
      test_long_names,
      test_long_paths_end,
      test_work_is_linear,
      test_work_is_bounded,
      test_unreadable_memory,
      test_damaged_prototypes,
      test_truncated_debug_information,
      test_without_debug_information,
      test_stack_use,
      test_hash_survives_the_jit_compiler,
      test_upvalue_names,
      test_other_numbering_is_left_alone,
  };
  return run_tests("bcname_bounds", tests, sizeof tests / sizeof tests[0]);
}
