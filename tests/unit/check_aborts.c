/* SPDX-License-Identifier: MIT
 *
 * Trace aborts: reasons, places, rows.  LuaJIT's objects are made by hand, at
 * the offsets of layout 0 (Debian 12's LuaJIT).
 */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/aborts_internal.h"
#include "suite.h"
#include "vmcore/value.h"

/* ---- this process's memory, and objects in it ---- */

static uint64_t load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  uint64_t v = 0;
  (void)m;
  memcpy(&v, (const void *)addr, width);
  return v;
}
static struct vm_mem mem = {.load = load};
static const struct vm_layout *lay;
static const struct vm_texts *texts;
static struct vm_ffnames words;
static struct tecs_abort row;

static _Alignas(8) uint8_t heap[1 << 16];
static size_t heap_used;

static void setup(void)
{
  lay = vm_layout_get(0);
  texts = vm_texts_get(0);
  vm_ffnames_listed(&words, 0);
  memset(&row, 0, sizeof row);
  memset(heap, 0, sizeof heap);
  heap_used = 0;
}

static uint8_t *object(size_t size, uint8_t gct)
{
  uint8_t *o = heap + heap_used;
  heap_used += (size + 7) & ~(size_t)7;
  ck_assert_uint_lt(heap_used, sizeof heap);
  o[lay->L_gct] = gct;
  return o;
}

static uint64_t tagged(const void *o, unsigned gct)
{
  return ((~(uint64_t)gct) << 47) | (uint64_t)o;
}

static void put4(uint8_t *o, unsigned at, uint32_t v)
{
  memcpy(o + at, &v, 4);
}

static void put8(uint8_t *o, unsigned at, uint64_t v)
{
  memcpy(o + at, &v, 8);
}

static uint64_t string_n(const char *s, size_t n)
{
  uint8_t *o = object(lay->str_sizeof + n + 1, VM_GCT_STR);
  put4(o, lay->str_len, (uint32_t)n);
  memcpy(o + lay->str_sizeof, s, n);
  return tagged(o, VM_GCT_STR);
}

static uint64_t string(const char *s)
{
  return string_n(s, strlen(s));
}

static uint64_t number(double d)
{
  uint64_t tv;
  memcpy(&tv, &d, 8);
  return tv;
}

static const uint64_t NIL = ~UINT64_C(0);

static uint64_t c_function(uint8_t ffid)
{
  uint8_t *o = object(64, VM_GCT_FUNC);
  o[lay->fn_ffid] = ffid;
  return tagged(o, VM_GCT_FUNC);
}

/* A function of 4 instructions behind its header, on lines first, first + 1,
 * first + numline, first + 2; without lines when numline is UINT32_MAX. */
static uint64_t lua_function(uint64_t chunk, uint32_t first, uint32_t numline)
{
  uint8_t *pt = object(lay->pt_sizeof + 20, VM_GCT_PROTO);
  uint8_t *fn = object(64, VM_GCT_FUNC);
  put4(pt, lay->pt_sizebc, 5);
  put8(pt, lay->pt_chunkname, vm_value_obj(lay, chunk));
  put4(pt, lay->pt_firstline, first);
  if (numline != UINT32_MAX) {
    uint32_t lines[] = {0, 1, numline, 2};
    unsigned width = numline < 256 ? 1 : numline < 65536 ? 2 : 4;
    uint8_t *table = object(16, 0);
    memset(table, 0, 16);
    for (unsigned i = 0; i < 4; i++)
      memcpy(table + i * width, &lines[i], width);
    put4(pt, lay->pt_numline, numline);
    put8(pt, lay->pt_lineinfo, (uint64_t)table);
  }
  put8(fn, lay->fn_pc, (uint64_t)pt + lay->pt_sizeof);
  return tagged(fn, VM_GCT_FUNC);
}

#define IS(field, text)                                                        \
  do {                                                                         \
    ck_assert_uint_eq(row.field##_len, strlen(text));                          \
    ck_assert(!memcmp(row.field, text, row.field##_len));                      \
  } while (0)

/* ---- reasons ---- */

/* lj_traceerr.h of that build, by number. */
static const struct {
  const char *text;
  enum tecs_severity severity;
} wanted[] = {
    {"error thrown or hook called during recording", TECS_SEVERITY_WARN},
    {"trace too short", TECS_SEVERITY_WARN},
    {"trace too long", TECS_SEVERITY_WARN},
    {"trace too deep", TECS_SEVERITY_WARN},
    {"too many snapshots", TECS_SEVERITY_WARN},
    {"blacklisted", TECS_SEVERITY_BLACKLIST},
    {"retry recording", TECS_SEVERITY_INFO},
    {"NYI: bytecode FNEW", TECS_SEVERITY_WARN},
    {"leaving loop in root trace", TECS_SEVERITY_INFO},
    {"inner loop in root trace", TECS_SEVERITY_INFO},
    {"loop unroll limit reached", TECS_SEVERITY_WARN},
    {"bad argument type", TECS_SEVERITY_WARN},
    {"JIT compilation disabled for function", TECS_SEVERITY_WARN},
    {"call unroll limit reached", TECS_SEVERITY_WARN},
    {"down-recursion, restarting", TECS_SEVERITY_INFO},
    {"NYI: unsupported variant of FastFunc ?", TECS_SEVERITY_WARN},
    {"NYI: return to lower frame", TECS_SEVERITY_WARN},
    {"store with nil or NaN key", TECS_SEVERITY_WARN},
    {"missing metamethod", TECS_SEVERITY_WARN},
    {"looping index lookup", TECS_SEVERITY_WARN},
    {"NYI: mixed sparse/dense table", TECS_SEVERITY_WARN},
    {"symbol not in cache", TECS_SEVERITY_WARN},
    {"NYI: unsupported C type conversion", TECS_SEVERITY_WARN},
    {"NYI: unsupported C function type", TECS_SEVERITY_WARN},
    {"guard would always fail", TECS_SEVERITY_WARN},
    {"too many PHIs", TECS_SEVERITY_WARN},
    {"persistent type instability", TECS_SEVERITY_WARN},
    {"failed to allocate mcode memory", TECS_SEVERITY_WARN},
    {"machine code too long", TECS_SEVERITY_WARN},
    {"hit mcode limit (retrying)", TECS_SEVERITY_INFO},
    {"too many spill slots", TECS_SEVERITY_WARN},
    {"inconsistent register allocation", TECS_SEVERITY_WARN},
    {"NYI: cannot assemble IR instruction CALLXS", TECS_SEVERITY_WARN},
    {"NYI: PHI shuffling too complex", TECS_SEVERITY_WARN},
    {"NYI: register coalescing too complex", TECS_SEVERITY_WARN},
};
enum {
  ERRORS = sizeof wanted / sizeof wanted[0],
  TRERR_NYIBC = 7,
  TRERR_NYIFFU = 15,
  TRERR_NYIIR = 32,
  BC_FNEW = 51,  /* lj_bc.h */
  IR_CALLXS = 99 /* lj_ir.h */
};

START_TEST(test_every_error)
{
  uint64_t info = _i == TRERR_NYIIR ? number(IR_CALLXS) : number(BC_FNEW);
  ck_assert_uint_eq(texts->traceerrs, ERRORS);
  ck_assert_int_eq(aborts_reason(&mem, lay, &words, number(_i), info, &row),
                   wanted[_i].severity);
  IS(reason, wanted[_i].text);
}
END_TEST

START_TEST(test_detail_of_bytecode)
{
  aborts_reason(&mem, lay, &words, number(TRERR_NYIBC), number(50), &row);
  IS(reason, "NYI: bytecode UCLO");
  aborts_reason(&mem, lay, &words, number(TRERR_NYIBC), number(200), &row);
  IS(reason, "NYI: bytecode 200");
  aborts_reason(&mem, lay, &words, number(TRERR_NYIBC), NIL, &row);
  IS(reason, "NYI: bytecode ?");
  aborts_reason(&mem, lay, &words, number(TRERR_NYIBC), number(-1), &row);
  IS(reason, "NYI: bytecode -1");
}
END_TEST

START_TEST(test_detail_of_function)
{
  struct vm_ffnames other = words;
  uint64_t e = number(TRERR_NYIFFU);
  aborts_reason(&mem, lay, &words, e, c_function(2), &row);
  IS(reason, "NYI: unsupported variant of FastFunc assert");
  aborts_reason(&mem, lay, &words, e, c_function(1), &row);
  IS(reason, "NYI: unsupported variant of FastFunc C");
  aborts_reason(&mem, lay, &words, e, string("x"), &row);
  IS(reason, "NYI: unsupported variant of FastFunc ?");
  memset(other.at, 0, sizeof other.at); /* another build's numbers */
  aborts_reason(&mem, lay, &other, e, c_function(29), &row);
  IS(reason, "NYI: unsupported variant of FastFunc builtin#29");
}
END_TEST

START_TEST(test_thrown)
{
  ck_assert_int_eq(
      aborts_reason(&mem, lay, &words, string("not enough memory"), NIL, &row),
      TECS_SEVERITY_WARN);
  IS(reason, "not enough memory");
  aborts_reason(&mem, lay, &words, NIL, NIL, &row);
  IS(reason, "[nil]");
  aborts_reason(&mem, lay, &words, number(99), NIL, &row);
  IS(reason, "unknown trace error 99");
  aborts_reason(&mem, lay, &words, number(-3), NIL, &row);
  IS(reason, "unknown trace error -3");
  char text[300];
  memset(text, 'e', sizeof text);
  aborts_reason(&mem, lay, &words, string_n(text, sizeof text), NIL, &row);
  ck_assert_uint_eq(row.reason_len, 128);
  ck_assert(!memcmp(row.reason + 123, "ee...", 5));
}
END_TEST

START_TEST(test_integers)
{
  int64_t v;
  ck_assert(aborts_int(lay, number(7), &v) && v == 7);
  ck_assert(aborts_int(lay, number(-7), &v) && v == -7);
  ck_assert(aborts_int(lay, (~UINT64_C(13) << 47) | 7, &v) && v == 7);
  ck_assert(aborts_int(lay, (~UINT64_C(13) << 47) | 0xffffffff, &v) && v == -1);
  ck_assert(!aborts_int(lay, number(7.5), &v));
  ck_assert(!aborts_int(lay, number(1e300), &v));
  ck_assert(!aborts_int(lay, number((double)NAN), &v));
  ck_assert(!aborts_int(lay, number((double)INFINITY), &v));
  ck_assert(!aborts_int(lay, NIL, &v));
  ck_assert(!aborts_int(lay, string("7"), &v));
}
END_TEST

/* lj_bc.h: ITERC 69, ITERN 70, FORL 79, ITERL 82, LOOP 85, FUNCF 89, FUNCV 92;
 * behind each of the last five its I* form, then its J* form. */
START_TEST(test_given_up)
{
  static const uint8_t start[] = {79, 82, 85, 89, 92};
  for (unsigned i = 0; i < sizeof start; i++) {
    ck_assert(aborts_gave_up(texts, start[i], start[i] + 1));
    ck_assert(!aborts_gave_up(texts, start[i], start[i]));
    ck_assert(!aborts_gave_up(texts, start[i], start[i] + 2));
    ck_assert(!aborts_gave_up(texts, start[i] + 1, start[i] + 1));
  }
  ck_assert(aborts_gave_up(texts, 70, 69));
  ck_assert(!aborts_gave_up(texts, 70, 70));
  ck_assert(!aborts_gave_up(texts, 69, 69));
  ck_assert(!aborts_gave_up(texts, 69, 70));
  ck_assert(!aborts_gave_up(texts, 88, 88)); /* JMP, of a side trace */
  ck_assert(!aborts_gave_up(texts, 255, 80));
  ck_assert(!aborts_gave_up(texts, 79, 255));
}
END_TEST

/* ---- places ---- */

static void locate(uint64_t func, uint32_t pc)
{
  aborts_location(&mem, lay, aborts_proto(&mem, lay, func), pc, &row);
}

static void at(const char *chunk, uint32_t first, uint32_t numline, uint32_t pc)
{
  locate(lua_function(string(chunk), first, numline), pc);
}

START_TEST(test_locations)
{
  at("@game/ai.lua", 10, 5, 1);
  IS(location, "game/ai.lua:10");
  ck_assert_uint_eq(row.firstline, 10);
  ck_assert_uint_eq(row.numline, 5);
  ck_assert_uint_ne(row.pt, 0);
  at("@game/ai.lua", 10, 5, 2);
  IS(location, "game/ai.lua:11");
  at("=console", 1, 300, 3);
  IS(location, "console:301");
  at("=console", 1, 70000, 3);
  IS(location, "console:70001");
  at("@a", 3, 5, 0);
  IS(location, "a:3");
  at("@a", 3, 5, 5);
  IS(location, "a:8");
  at("@a", 3, 5, 6);
  IS(location, "a:0");
}
END_TEST

START_TEST(test_locations_unknown)
{
  locate(NIL, 3);
  IS(location, "?:0");
  ck_assert_uint_eq(row.pt, 0);
  locate(c_function(1), 3);
  IS(location, "?:0");
  at("=?", 0, UINT32_MAX, 3); /* stripped */
  IS(location, "?:0");
  at("@", 1, 5, 1);
  IS(location, "?:1");
  at("=", 1, 5, 1);
  IS(location, "?:1");
  at("", 1, 5, 1);
  IS(location, "[string \"\"]:1");
  at("remove", UINT32_MAX, UINT32_MAX, 2);
  IS(location, "[builtin:remove]:0");
}
END_TEST

/* lj_debug.c, lj_debug_shortname: whole up to 48 bytes, else 45 and dots. */
START_TEST(test_locations_of_source_text)
{
  at("return 1", 1, 5, 1);
  IS(location, "[string \"return 1\"]:1");
  at("local x\nreturn x", 1, 5, 2);
  IS(location, "[string \"local x...\"]:2");
  at("1234567890123456789012345678901234567890123456789", 1, 5, 1);
  IS(location,
     "[string \"123456789012345678901234567890123456789012345...\"]:1");
  at("123456789012345678901234567890123456789012345678", 1, 5, 1);
  IS(location,
     "[string \"123456789012345678901234567890123456789012345678\"]:1");
}
END_TEST

START_TEST(test_locations_too_long)
{
  char name[1000];
  memset(name, 'w', sizeof name);
  name[0] = '=';
  uint64_t fn = lua_function(string_n(name, 245), 123, 5);
  locate(fn, 1);
  ck_assert_uint_eq(row.location_len, 244 + 4);
  fn = lua_function(string_n(name, 1000), 123, 5);
  locate(fn, 1);
  ck_assert_uint_le(row.location_len, sizeof row.location);
  ck_assert(!memcmp(row.location + row.location_len - 9, "ww...:123", 9));
  name[0] = '@';
  memcpy(name + 990, "/ai.lua", 7);
  fn = lua_function(string_n(name, 997), 123, 5);
  locate(fn, 1);
  ck_assert_uint_le(row.location_len, sizeof row.location);
  ck_assert(!memcmp(row.location, "...ww", 5));
  ck_assert(!memcmp(row.location + row.location_len - 11, "/ai.lua:123", 11));
}
END_TEST

/* No character is split: a row of two-byte ones, odd and even. */
START_TEST(test_locations_cut_between_characters)
{
  for (unsigned odd = 0; odd < 2; odd++) {
    char name[802] = "=a";
    for (unsigned i = 1 + odd; i + 2 < sizeof name; i += 2)
      memcpy(name + i, "\xc3\xa4", 2);
    for (unsigned tail = 0; tail < 2; tail++) {
      name[0] = tail ? '@' : '=';
      locate(lua_function(string_n(name, 801 - odd), 1, 5), 1);
      unsigned pairs = 0;
      for (unsigned i = 0; i + 1 < row.location_len; i++)
        pairs += !memcmp(row.location + i, "\xc3\xa4", 2);
      unsigned others = row.location_len - 2 * pairs;
      ck_assert_uint_ge(pairs, 118);
      ck_assert_uint_eq(others, 5u + (odd && !tail)); /* ...:1 and the a */
    }
  }
}
END_TEST

START_TEST(test_texts_are_clean)
{
  at("=a\tb\nc\rd\x01"
     "e\x7f"
     "f",
     1, 5, 1);
  IS(location, "a\tb\nc\rd?e?f:1");
  at("=x\xff\xc3y\xc2\x85z\xef\xbf\xbf", 1, 5, 1);
  IS(location, "x\xef\xbf\xbd\xef\xbf\xbdy?z\xef\xbf\xbd:1");
  at("=\xe2\x82\xac\xf0\x9f\x98\x80", 1, 5, 1);
  IS(location, "\xe2\x82\xac\xf0\x9f\x98\x80:1");
}
END_TEST

static void zones(const uint64_t *value, uint32_t n)
{
  struct abort_zones z = {.value = value, .values = n};
  aborts_zone(&mem, lay, &z, &row);
}

START_TEST(test_zones)
{
  uint64_t zone[] = {
      string("frame"), number(7),           number(0.5),
      tagged(0, 1),    string_n("a\0b", 3), string(""),
  };
  zones(zone, 0);
  IS(zone, "");
  zones(zone, 1);
  IS(zone, "frame");
  zones(zone, 6);
  IS(zone, "frame/7/0.5/[boolean]/a?b/");
  zone[0] = number((double)NAN);
  zone[1] = tagged(object(64, VM_GCT_TAB), VM_GCT_TAB);
  zone[2] = number(-1e15);
  zones(zone, 3);
  IS(zone, "nan/[table]/-1e+15");
}
END_TEST

START_TEST(test_zones_of_native_code)
{
  const char *const native[] = {"engine", NULL, "step"};
  uint64_t zone[] = {string("a"), string("b"), string("c"), string("d")};
  struct abort_zones z = {.native = native, .natives = 3};
  aborts_zone(&mem, lay, &z, &row);
  IS(zone, "engine/[nil]/step");
  z.value = zone;
  z.values = 4;
  aborts_zone(&mem, lay, &z, &row);
  IS(zone, "engine/[nil]/step/a/b/c/d");
  z.natives = 1;
  z.natives_left_out = 5;
  z.values_left_out = 7;
  aborts_zone(&mem, lay, &z, &row);
  IS(zone, "engine/[zones left out]/a/b/[zones left out]/c/d");
}
END_TEST

START_TEST(test_zones_too_long)
{
  char name[400];
  uint64_t zone[64];
  memset(name, 'z', sizeof name);
  zone[0] = string_n(name, sizeof name);
  zones(zone, 1);
  ck_assert_uint_eq(row.zone_len, sizeof row.zone);
  ck_assert(!memcmp(row.zone + sizeof row.zone - 4, "z...", 4));
  zone[0] = string_n(name, sizeof row.zone);
  zones(zone, 1);
  ck_assert_uint_eq(row.zone_len, sizeof row.zone);
  ck_assert(row.zone[sizeof row.zone - 1] == 'z');
  for (unsigned i = 0; i < 64; i++)
    zone[i] = string("nested");
  zones(zone, 64);
  ck_assert(!memcmp(row.zone, "nested/nested/", 14));
  ck_assert(!memcmp(row.zone + row.zone_len - 3, "...", 3));
  const char *const native[] = {name};
  name[sizeof name - 1] = 0;
  struct abort_zones z = {.native = native, .natives = 1};
  aborts_zone(&mem, lay, &z, &row);
  ck_assert_uint_eq(row.zone_len, sizeof row.zone);
}
END_TEST

/* ---- rows ---- */

static struct tecs_aborts totals;
static struct tecs_abort rows[TECS_ABORT_ROWS];
static struct abort_table table;

static void setup_table(void)
{
  setup();
  memset(&totals, 0, sizeof totals);
  memset(rows, 0, sizeof rows);
  table = (struct abort_table){
      .totals = &totals, .rows = rows, .backed = TECS_ABORT_ROWS};
}

static struct tecs_abort made(const char *reason, const char *location,
                              const char *zone, enum tecs_severity severity)
{
  struct tecs_abort r = {.severity = severity};
  r.reason_len = (uint16_t)strlen(reason);
  r.location_len = (uint16_t)strlen(location);
  r.zone_len = (uint16_t)strlen(zone);
  memcpy(r.reason, reason, r.reason_len);
  memcpy(r.location, location, r.location_len);
  memcpy(r.zone, zone, r.zone_len);
  return r;
}

/* The lock is given up after a while: whoever holds it may have lost its CPU,
 * for long where the test itself is slow (sanitizers). */
static void add(uint32_t session, struct tecs_abort r)
{
  bool open = false;
  for (int i = 0; i < 1000 && !open; i++)
    open = abort_table_open(&table, session);
  ck_assert(open);
  abort_table_add(&table, &r);
  abort_table_close(&table);
}

START_TEST(test_rows_by_key)
{
  add(1, made("r", "l", "z", TECS_SEVERITY_WARN));
  add(1, made("r", "l", "z", TECS_SEVERITY_BLACKLIST));
  add(1, made("r", "l", "z", TECS_SEVERITY_INFO));
  add(1, made("r", "l", "", TECS_SEVERITY_INFO));
  add(1, made("rl", "", "z", TECS_SEVERITY_WARN));
  add(1, made("", "rl", "z", TECS_SEVERITY_WARN));
  ck_assert_uint_eq(totals.session, 1);
  ck_assert_uint_eq(totals.rows, 4);
  ck_assert_uint_eq(totals.aborts, 6);
  ck_assert_uint_eq(totals.blacklists, 1);
  ck_assert_uint_eq(rows[0].count, 3);
  ck_assert_uint_eq(rows[0].severity, TECS_SEVERITY_BLACKLIST);
  ck_assert_uint_eq(rows[0].state, 2);
  ck_assert_uint_eq(rows[1].count, 1);
  ck_assert_uint_eq(rows[1].severity, TECS_SEVERITY_INFO);
}
END_TEST

START_TEST(test_rows_of_one_session)
{
  add(1, made("r", "l", "z", TECS_SEVERITY_BLACKLIST));
  add(1, made("r", "m", "z", TECS_SEVERITY_WARN));
  add(2, made("r", "l", "z", TECS_SEVERITY_WARN));
  ck_assert_uint_eq(totals.session, 2);
  ck_assert_uint_eq(totals.rows, 1);
  ck_assert_uint_eq(totals.aborts, 1);
  ck_assert_uint_eq(totals.blacklists, 0);
  ck_assert_uint_eq(rows[0].count, 1);
  ck_assert_uint_eq(rows[0].severity, TECS_SEVERITY_WARN);
  ck_assert_uint_eq(rows[1].state, 0);
}
END_TEST

static struct tecs_abort numbered(unsigned i)
{
  char location[32];
  snprintf(location, sizeof location, "file.lua:%u", i);
  return made("reason", location, "", TECS_SEVERITY_WARN);
}

START_TEST(test_rows_full)
{
  for (unsigned twice = 0; twice < 2; twice++)
    for (unsigned i = 0; i < TECS_ABORT_ROWS + 10; i++)
      add(1, numbered(i));
  ck_assert_uint_eq(totals.rows, TECS_ABORT_ROWS);
  ck_assert_uint_eq(totals.aborts, 2 * (TECS_ABORT_ROWS + 10));
  ck_assert_uint_eq(totals.overflow, 20);
  for (unsigned i = 0; i < TECS_ABORT_ROWS; i++)
    ck_assert_uint_eq(rows[i].count, 2);
}
END_TEST

static unsigned asked;

static bool some_more(struct abort_table *t)
{
  asked++;
  if (t->backed >= 30)
    return false;
  t->backed += 10;
  return true;
}

START_TEST(test_rows_as_memory_comes)
{
  table.backed = 10;
  table.more = some_more;
  asked = 0;
  for (unsigned i = 0; i < 40; i++)
    add(1, numbered(i));
  ck_assert_uint_eq(totals.rows, 30);
  ck_assert_uint_eq(totals.overflow, 10);
  ck_assert_uint_eq(asked, 2 + 10);
  ck_assert_uint_eq(rows[30].state, 0);
}
END_TEST

enum { THREADS = 4, TIMES = 20000, KEYS = 100 };

static void *count_many(void *arg)
{
  (void)arg;
  for (unsigned i = 0; i < TIMES; i++)
    add(7, numbered(i % KEYS));
  return NULL;
}

START_TEST(test_rows_of_threads)
{
  pthread_t thread[THREADS];
  for (unsigned i = 0; i < THREADS; i++)
    ck_assert(!pthread_create(&thread[i], NULL, count_many, NULL));
  for (unsigned i = 0; i < THREADS; i++)
    pthread_join(thread[i], NULL);
  ck_assert_uint_eq(totals.rows, KEYS);
  ck_assert_uint_eq(totals.aborts, THREADS * TIMES);
  ck_assert_uint_eq(totals.overflow, 0);
  for (unsigned i = 0; i < KEYS; i++)
    ck_assert_uint_eq(rows[i].count, THREADS * TIMES / KEYS);
}
END_TEST

START_TEST(test_table_of_a_stuck_thread)
{
  ck_assert(abort_table_open(&table, 1));
  ck_assert(!abort_table_open(&table, 1));
  abort_table_close(&table);
  ck_assert(abort_table_open(&table, 1));
}
END_TEST

int main(void)
{
  Suite *s = suite_create("aborts");
  TCase *t = tcase_create("reasons");
  tcase_add_checked_fixture(t, setup, NULL);
  tcase_add_loop_test(t, test_every_error, 0, ERRORS);
  tcase_add_test(t, test_detail_of_bytecode);
  tcase_add_test(t, test_detail_of_function);
  tcase_add_test(t, test_thrown);
  tcase_add_test(t, test_integers);
  tcase_add_test(t, test_given_up);
  suite_add_tcase(s, t);
  t = tcase_create("places");
  tcase_add_checked_fixture(t, setup, NULL);
  tcase_add_test(t, test_locations);
  tcase_add_test(t, test_locations_unknown);
  tcase_add_test(t, test_locations_of_source_text);
  tcase_add_test(t, test_locations_too_long);
  tcase_add_test(t, test_locations_cut_between_characters);
  tcase_add_test(t, test_texts_are_clean);
  tcase_add_test(t, test_zones);
  tcase_add_test(t, test_zones_of_native_code);
  tcase_add_test(t, test_zones_too_long);
  suite_add_tcase(s, t);
  t = tcase_create("rows");
  tcase_add_checked_fixture(t, setup_table, NULL);
  tcase_set_timeout(t, 60);
  tcase_add_test(t, test_rows_by_key);
  tcase_add_test(t, test_rows_of_one_session);
  tcase_add_test(t, test_rows_full);
  tcase_add_test(t, test_rows_as_memory_comes);
  tcase_add_test(t, test_rows_of_threads);
  tcase_add_test(t, test_table_of_a_stuck_thread);
  suite_add_tcase(s, t);
  return suite_run(s);
}
