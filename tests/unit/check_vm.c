/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "records.h"
#include "suite.h"
#include "vm/vm.h"
#include "vm/vm_internal.h"

#define LUA (TECS_PROTO_LINES | TECS_PROTO_NAME_KNOWN)

static struct vm_store *s;
static struct record rec;

static void setup(void)
{
  ck_assert_int_eq(vm_store_new(NULL, &s), RESULT_OK);
}

static void teardown(void)
{
  vm_store_free(s);
}

static void proto_in(unsigned slot, struct proto_spec spec)
{
  record_make_proto(&rec, spec);
  ck_assert_int_eq(vm_store_record(s, slot, record_of(&rec)), RESULT_OK);
}

/* Text of a prototype that is recorded in slot 0 as number 1. */
static const char *text_of(struct proto_spec spec, uint32_t pc, bool lines)
{
  spec.id = 1;
  proto_in(0, spec);
  const char *text = vm_frame_text(s, 0, 1, pc, lines);
  ck_assert_ptr_nonnull(text);
  return text;
}

#define TEXT(...) text_of((struct proto_spec){__VA_ARGS__}, 1, false)

START_TEST(test_functions)
{
  ck_assert_str_eq(TEXT(.flags = LUA, .firstline = 12, .chunk = "@game.lua",
                        .name = "Player:hit"),
                   "Player:hit (game.lua:12)");
  ck_assert_str_eq(TEXT(.flags = LUA, .firstline = 5, .chunk = "@a/b c.lua"),
                   "anonymous (a/b c.lua:5)");
  ck_assert_str_eq(TEXT(.flags = LUA, .chunk = "@game.lua"),
                   "main chunk (game.lua)");
  ck_assert_str_eq(TEXT(.flags = LUA | TECS_PROTO_LINES_CUT, .firstline = 3,
                        .chunk = "=(load)", .name = "f"),
                   "f ((load):3)");
  ck_assert_str_eq(TEXT(.firstline = UINT32_MAX, .chunk = "remove"),
                   "[builtin:remove]");
}
END_TEST

/* Stripped code has a first line of 0 everywhere and no line table. */
START_TEST(test_stripped)
{
  ck_assert_str_eq(TEXT(.opcode_hash = 0x1a2b3c, .chunk = "@out/game.luac"),
                   "anonymous#001a2b3c (out/game.luac:?)");
  ck_assert_str_eq(TEXT(.opcode_hash = 0xfffffffe, .chunk = "\x1bLJ\x02\x0a"),
                   "anonymous#fffffffe ([string \"...\"]:?)");
  ck_assert_str_eq(TEXT(.opcode_hash = 7, .chunk = "?"),
                   "anonymous#00000007 ([string \"?\"]:?)");
  ck_assert_str_eq(TEXT(.opcode_hash = 7, .chunk = "=?"),
                   "anonymous#00000007 (?:?)");
  ck_assert_str_eq(text_of((struct proto_spec){.chunk = "=packed",
                                               .opcode_hash = 9,
                                               .sizebc = 20},
                           5, true),
                   "anonymous#00000009 (packed:?)");
}
END_TEST

/* What LuaJIT's own lj_debug_shortname prints for them (luajit -e with
 * debug.getinfo(f).short_src). */
static const struct {
  const char *chunk, *shown;
} shortnames[] = {
    {"return 1", "[string \"return 1\"]"},
    {"local n = ... ; local s = 0\nfor",
     "[string \"local n = ... ; local s = 0...\"]"},
    {"", "[string \"\"]"},
    {"\n", "[string \"...\"]"},
    {"tab\there", "[string \"tab...\"]"},
    /* 48 bytes: whole; 49: the first 45 */
    {"123456789012345678901234567890123456789012345678",
     "[string \"123456789012345678901234567890123456789012345678\"]"},
    {"1234567890123456789012345678901234567890123456789",
     "[string \"123456789012345678901234567890123456789012345...\"]"},
    {"=name", "name"},
    {"= lead", " lead"},
    {"=", "?"},  /* ours: an empty text is no name */
    {"@", "@?"}, /* ours */
    {"@/usr/share/x y.lua", "/usr/share/x y.lua"},
};

START_TEST(test_chunk_names)
{
  char want[128];
  snprintf(want, sizeof want, "main chunk (%s)", shortnames[_i].shown);
  ck_assert_str_eq(TEXT(.flags = LUA, .chunk = shortnames[_i].chunk), want);
}
END_TEST

/* A text of `unit`s between a head and a tail. */
static const char *repeated(const char *head, const char *unit, unsigned n,
                            const char *tail)
{
  static char text[8192];
  strcpy(text, head);
  for (unsigned i = 0; i < n; i++)
    strcat(text, unit);
  return strcat(text, tail);
}

START_TEST(test_long_chunk_names)
{
  char want[512];
  /* a path keeps its tail: "..." and 237 bytes, of which "deep.lua" is 8 */
  snprintf(want, sizeof want, "main chunk (%s)",
           repeated(".../", "d/", 114, "deep.lua"));
  const char *path = repeated("@", "d/", 2000, "deep.lua");
  ck_assert_str_eq(TEXT(.flags = LUA, .chunk = path), want);
  /* other names their head: 79 letters of 3 bytes, 237 in all */
  snprintf(want, sizeof want, "main chunk (%s)",
           repeated("", "\xe4\xb8\xad", 79, "..."));
  path = repeated("=", "\xe4\xb8\xad", 400, "");
  ck_assert_str_eq(TEXT(.flags = LUA, .chunk = path), want);
  /* one byte later: 78 letters are 235, the next would end at 238 */
  snprintf(want, sizeof want, "main chunk (%s)",
           repeated("x", "\xe4\xb8\xad", 78, "..."));
  path = repeated("=x", "\xe4\xb8\xad", 400, "");
  ck_assert_str_eq(TEXT(.flags = LUA, .chunk = path), want);
  /* a cut within a letter moves on to the next one */
  snprintf(want, sizeof want, "main chunk (%s)",
           repeated("...", "\xe4\xb8\xad", 78, "ab"));
  path = repeated("@", "\xe4\xb8\xad", 400, "ab");
  ck_assert_str_eq(TEXT(.flags = LUA, .chunk = path), want);
}
END_TEST

START_TEST(test_chunk_tail)
{
  const uint32_t tail = LUA | TECS_PROTO_CHUNK_TAIL;
  ck_assert_str_eq(TEXT(.flags = tail, .chunk = "@d/deep.lua"),
                   "main chunk (...d/deep.lua)");
  ck_assert_str_eq(TEXT(.flags = tail, .chunk = "=end"), "main chunk (...end)");
  ck_assert_str_eq(TEXT(.flags = tail, .chunk = "lreturn s"),
                   "main chunk ([string \"...\"])");
}
END_TEST

START_TEST(test_long_and_odd_function_names)
{
  char want[512];
  snprintf(want, sizeof want, "%s (a.lua:1)", repeated("", "n", 197, "..."));
  const char *name = repeated("", "n", 300, "");
  ck_assert_str_eq(
      TEXT(.flags = LUA, .firstline = 1, .chunk = "@a.lua", .name = name),
      want);
  snprintf(want, sizeof want, "%s (a.lua:1)", repeated("", "n", 200, ""));
  name = repeated("", "n", 200, "");
  ck_assert_str_eq(
      TEXT(.flags = LUA, .firstline = 1, .chunk = "@a.lua", .name = name),
      want);
  ck_assert_str_eq(TEXT(.flags = LUA, .firstline = 1, .name = "t[\xff;]",
                        .chunk = "@a\0b", .chunk_len = 4),
                   "t[\xff;] (a?b:1)");
}
END_TEST

/* for i = 1, n do s = s + i % 7 end, say: entry k is the line of instruction
 * k + 1, relative to the first; instruction 0 is the function's header. */
static const struct {
  uint32_t pc;
  const char *line;
} lines8[] = {
    {0, "?"},  {1, "10"},         {2, "10"}, {3, "11"},
    {4, "13"}, {5, "16"}, /* instruction 4: the end of the table */
    {6, "16"},            /* behind the last instruction: firstline + numline */
    {7, "?"},  {UINT32_MAX, "?"},
};

START_TEST(test_current_line)
{
  static const uint8_t table[] = {0, 1, 3, 6};
  char want[64];
  snprintf(want, sizeof want, "f (a.lua:%s)", lines8[_i].line);
  ck_assert_str_eq(text_of((struct proto_spec){.flags = LUA,
                                               .firstline = 10,
                                               .numline = 6,
                                               .sizebc = 5,
                                               .chunk = "@a.lua",
                                               .name = "f",
                                               .lines = table,
                                               .lines_len = sizeof table},
                           lines8[_i].pc, true),
                   want);
}
END_TEST

START_TEST(test_current_line_wide_tables)
{
  static const uint8_t table2[] = {0, 0, 0x2c, 0x01};
  static const uint8_t table4[] = {0, 0, 0, 0, 0x70, 0x11, 0x01, 0x00};
  struct proto_spec spec = {.flags = LUA,
                            .firstline = 1,
                            .numline = 300,
                            .sizebc = 3,
                            .chunk = "@a.lua",
                            .name = "f",
                            .lines = table2,
                            .lines_len = sizeof table2,
                            .line_width = 2};
  ck_assert_str_eq(text_of(spec, 3, true), "f (a.lua:301)");
  spec.numline = 70000;
  spec.lines = table4;
  spec.lines_len = sizeof table4;
  spec.line_width = 4;
  ck_assert_str_eq(text_of(spec, 2, true), "f (a.lua:1)");
  ck_assert_str_eq(text_of(spec, 3, true), "f (a.lua:70001)");
  ck_assert_str_eq(text_of(spec, 3, false), "f (a.lua:1)");
  spec.lines_len = 4; /* a table that is shorter than the code */
  ck_assert_str_eq(text_of(spec, 3, true), "f (a.lua:?)");
  spec.flags = TECS_PROTO_LINES_CUT | TECS_PROTO_NAME_KNOWN;
  spec.lines_len = 0;
  ck_assert_str_eq(text_of(spec, 3, true), "f (a.lua:?)");
  ck_assert_str_eq(text_of(spec, 1, true), "f (a.lua:1)");
}
END_TEST

START_TEST(test_main_chunk_lines)
{
  static const uint8_t table[] = {1, 22};
  struct proto_spec spec = {.flags = LUA,
                            .numline = 30,
                            .sizebc = 3,
                            .chunk = "@a.lua",
                            .lines = table,
                            .lines_len = 2};
  ck_assert_str_eq(text_of(spec, 3, true), "main chunk (a.lua:22)");
  ck_assert_str_eq(text_of(spec, 0, true), "main chunk (a.lua:?)");
  ck_assert_str_eq(text_of(spec, 3, false), "main chunk (a.lua)");
}
END_TEST

/* ---- slots ---- */

START_TEST(test_slots_and_generations)
{
  struct proto_spec f = {.id = 1,
                         .flags = LUA,
                         .firstline = 1,
                         .chunk = "@a.lua",
                         .name = "f",
                         .addr = 0x1000};
  struct proto_spec h = f;
  h.name = "h";
  h.addr = 0x2000;
  proto_in(3, f);
  proto_in(4, h);
  f.id = 2;
  proto_in(4, f);
  ck_assert_str_eq(vm_frame_text(s, 3, 1, 1, false), "f (a.lua:1)");
  ck_assert_str_eq(vm_frame_text(s, 4, 1, 1, false), "h (a.lua:1)");
  ck_assert_ptr_eq(vm_frame_text(s, 4, 2, 1, false),
                   vm_frame_text(s, 3, 1, 1, false));
  ck_assert_ptr_null(vm_frame_text(s, 3, 2, 1, false));
  vm_store_reset_slot(s, 4);
  ck_assert_ptr_null(vm_frame_text(s, 4, 1, 1, false));
  ck_assert_str_eq(vm_frame_text(s, 3, 1, 1, false), "f (a.lua:1)");
  proto_in(4, (struct proto_spec){.id = 1, .flags = LUA, .chunk = "@n.lua"});
  ck_assert_str_eq(vm_frame_text(s, 4, 1, 1, false), "main chunk (n.lua)");
  ck_assert_ptr_null(vm_frame_text(s, TECS_SLOTS, 1, 1, false));
  vm_store_reset_slot(s, TECS_SLOTS);
}
END_TEST

START_TEST(test_bad_records)
{
  record_make_proto(&rec, (struct proto_spec){.chunk = "@a.lua"});
  ck_assert_int_eq(vm_store_record(s, VM_SLOTS, record_of(&rec)),
                   RESULT_CORRUPT);
  ((struct tecs_proto *)rec.bytes)->chunk_len = UINT32_MAX;
  ck_assert_int_eq(vm_store_record(s, 0, record_of(&rec)), RESULT_CORRUPT);
  record_make_string(&rec, 1, "zone", 4, 4);
  ((struct tecs_string *)rec.bytes)->len = 400;
  ck_assert_int_eq(vm_store_record(s, 0, record_of(&rec)), RESULT_CORRUPT);
  struct tecs_mcode m = {.g = 1, .count = 0x10000000};
  record_start(&rec, &m, sizeof m, TECS_RECORD_MCODE);
  ck_assert_int_eq(vm_store_record(s, 0, record_of(&rec)), RESULT_CORRUPT);
  record_of(&rec)->type = 999; /* a newer agent's */
  ck_assert_int_eq(vm_store_record(s, 0, record_of(&rec)), RESULT_OK);
}
END_TEST

/* ---- zones, machine code, builtins, states ---- */

static void zone_in(uint32_t id, const char *bytes, size_t len, size_t full)
{
  record_make_string(&rec, id, bytes, len, full);
  ck_assert_int_eq(vm_store_record(s, 0, record_of(&rec)), RESULT_OK);
}

static const char *zone(unsigned kind, uint64_t value)
{
  struct tecs_zone z = {.kind = kind, .value = value};
  return vm_zone_text(s, 0, &z);
}

static const char *number(double d)
{
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  return zone(TECS_ZONE_NUMBER, bits);
}

START_TEST(test_zone_strings)
{
  char want[512];
  zone_in(7, "z;1/x 3\n", 8, 8);
  zone_in(8, "", 0, 0);
  zone_in(9, "a\0b", 3, 3);
  zone_in(10,
          "\001"
          "1.0.5\001",
          7, 7);
  ck_assert_str_eq(zone(TECS_ZONE_STRING, 7), "z;1/x 3\n");
  ck_assert_str_eq(zone(TECS_ZONE_STRING, 8), "");
  ck_assert_str_eq(zone(TECS_ZONE_STRING, 9), "a?b");
  ck_assert(!vm_text_is_pending(zone(TECS_ZONE_STRING, 10)));
  ck_assert_str_eq(zone(TECS_ZONE_STRING, 99), "[lost]");
  ck_assert_str_eq(zone(TECS_ZONE_STRING, UINT64_C(7) << 32 | 7), "[lost]");
  /* cut by the agent, and by us */
  zone_in(11, "cut\xe4\xb8\xad", 6, 100000);
  ck_assert_str_eq(zone(TECS_ZONE_STRING, 11), "cut\xe4\xb8\xad...");
  const char *name = repeated("", "n", 1000, "");
  zone_in(12, name, 1000, 1000);
  snprintf(want, sizeof want, "%s", repeated("", "n", 197, "..."));
  ck_assert_str_eq(zone(TECS_ZONE_STRING, 12), want);
  vm_store_reset_slot(s, 0);
  ck_assert_str_eq(zone(TECS_ZONE_STRING, 7), "[lost]");
}
END_TEST

/* As luajit prints them. */
START_TEST(test_zone_values)
{
  ck_assert_str_eq(number(42), "42");
  ck_assert_str_eq(number(-0.5), "-0.5");
  ck_assert_str_eq(number(1e15), "1e+15");
  ck_assert_str_eq(number(0.1), "0.1");
  ck_assert_str_eq(number(3.14159265358979), "3.1415926535898");
  ck_assert_str_eq(number(1 / 0.0), "inf");
  ck_assert_str_eq(number(0 / 0.0), "nan");
  /* lj_obj.h: LJ_TTAB ~11, LJ_TFUNC ~8, LJ_TTRUE ~2, LJ_TCDATA ~10 */
  ck_assert_str_eq(zone(TECS_ZONE_OTHER, 11), "[table]");
  ck_assert_str_eq(zone(TECS_ZONE_OTHER, (uint32_t)~11), "[table]");
  ck_assert_str_eq(zone(TECS_ZONE_OTHER, ~UINT64_C(8)), "[function]");
  ck_assert_str_eq(zone(TECS_ZONE_OTHER, 2), "[boolean]");
  ck_assert_str_eq(zone(TECS_ZONE_OTHER, 10), "[cdata]");
  ck_assert_str_eq(zone(TECS_ZONE_OTHER, 1000), "[lost]");
  ck_assert_str_eq(zone(TECS_ZONE_GAP, 9936), "[zones left out]");
  ck_assert_str_eq(zone(77, 0), "[nil]");
}
END_TEST

static void mcode_in(uint64_t g, uint32_t count, const struct tecs_range *range)
{
  struct tecs_mcode m = {.g = g, .count = count};
  record_start(&rec, &m, sizeof m, TECS_RECORD_MCODE);
  record_put(&rec, range, count * sizeof *range);
  ck_assert_int_eq(vm_store_record(s, 5, record_of(&rec)), RESULT_OK);
}

START_TEST(test_mcode)
{
  struct tecs_range r[] = {{0x1000, 0x2000}, {0x5000, 0x9000}};
  size_t n = 9;
  ck_assert_ptr_null(vm_mcode(s, 1, &n));
  ck_assert_uint_eq(n, 0);
  mcode_in(1, 2, r);
  mcode_in(2, 1, r + 1);
  ck_assert_uint_eq(vm_mcode(s, 1, &n)[1].lo, 0x5000);
  ck_assert_uint_eq(n, 2);
  ck_assert_uint_eq(vm_mcode(s, 2, &n)[0].hi, 0x9000);
  ck_assert_uint_eq(n, 1);
  ck_assert(vm_is_mcode(s, 0x1000));
  ck_assert(!vm_is_mcode(s, 0x2000));
  ck_assert(vm_is_mcode(s, 0x8fff));
  mcode_in(1, 0, r); /* all traces flushed */
  ck_assert(!vm_is_mcode(s, 0x1000));
  vm_mcode(s, 1, &n);
  ck_assert_uint_eq(n, 0);
}
END_TEST

/* Numbers by LuaJIT's own order: debug.getinfo and jit.util give the same. */
START_TEST(test_builtins)
{
  ck_assert_ptr_null(vm_builtin_text(s, 0, 0, 0));
  ck_assert_ptr_null(vm_builtin_text(s, 0, 0, 1));
  ck_assert_str_eq(vm_builtin_text(s, 0, 0, 2), "assert");
  ck_assert_str_eq(vm_builtin_text(s, 0, 0, 7), "ipairs");
  ck_assert_str_eq(vm_builtin_text(s, 0, 0, 222), "buffer.decode");
  ck_assert_ptr_null(vm_builtin_text(s, 0, 0, 223));
  ck_assert_ptr_null(vm_builtin_text(s, 0, UINT32_MAX, 2));
}
END_TEST

START_TEST(test_states)
{
  ck_assert_int_eq(vm_state_letter(0, 0), 'N');
  ck_assert_int_eq(vm_state_letter(0, 1234), 'N');
  ck_assert_int_eq(vm_state_letter(0, ~0), 'I');
  ck_assert_int_eq(vm_state_letter(0, ~1), 'C');
  ck_assert_int_eq(vm_state_letter(0, ~2), 'G');
  for (int st = 3; st <= 6; st++)
    ck_assert_int_eq(vm_state_letter(0, ~st), 'J');
  ck_assert_int_eq(vm_state_letter(UINT32_MAX, 0), 0);
  ck_assert_uint_eq(vm_cframe_size(0), 80);
  ck_assert_uint_eq(vm_cframe_size(UINT32_MAX), 0);
}
END_TEST

/* ---- late names ---- */

#define UNNAMED TECS_PROTO_LINES

static struct proto_spec at_line(uint32_t id, uint32_t flags, uint64_t addr,
                                 uint32_t line)
{
  return (struct proto_spec){.id = id,
                             .flags = flags,
                             .addr = addr,
                             .g = 1,
                             .firstline = line,
                             .sizebc = 9,
                             .chunk = "@a.lua"};
}

static const char *settled(const char *text)
{
  static struct strbuf b;
  strbuf_free(&b);
  ck_assert(vm_text_is_pending(text));
  ck_assert(vm_text_settle(s, text, &b));
  return strbuf_text(&b);
}

/* The text a sample gets stays the same; its name comes in the end. */
START_TEST(test_late_name)
{
  proto_in(0, at_line(1, UNNAMED, 0x1000, 4));
  const char *text = vm_frame_text(s, 0, 1, 1, false);
  char before[64], with_state[80];
  strcpy(before, text);
  ck_assert_str_eq(settled(text), "anonymous (a.lua:4)");
  size_t cursor = 0;
  struct vm_image *im = vm_image_next_unnamed(s, &cursor);
  ck_assert_ptr_nonnull(im);
  ck_assert_uint_eq(im->addr, 0x1000);
  ck_assert_uint_eq(im->g, 1);
  ck_assert_uint_eq(im->firstline, 4);
  ck_assert_uint_eq(im->sizebc, 9);
  ck_assert_str_eq(vm_image_chunk(s, im), "@a.lua");
  ck_assert_ptr_null(vm_image_next_unnamed(s, &cursor));
  ck_assert(vm_image_set_name(s, im, "M.late", 6));
  ck_assert_str_eq(vm_frame_text(s, 0, 1, 1, false), before);
  ck_assert_str_eq(settled(before), "M.late (a.lua:4)");
  snprintf(with_state, sizeof with_state, "%s_[N]", before);
  ck_assert_str_eq(settled(with_state), "M.late (a.lua:4)_[N]");
  cursor = 0;
  ck_assert_ptr_null(vm_image_next_unnamed(s, &cursor));
}
END_TEST

START_TEST(test_only_functions_wait_for_names)
{
  size_t cursor = 0;
  proto_in(0, at_line(1, UNNAMED, 1, 0));    /* main chunk */
  proto_in(0, at_line(2, 0, 2, 0));          /* stripped */
  proto_in(0, at_line(3, 0, 3, UINT32_MAX)); /* builtin */
  proto_in(0, at_line(4, LUA, 4, 8));        /* anonymous, known */
  for (uint32_t id = 1; id <= 4; id++)
    ck_assert(!vm_text_is_pending(vm_frame_text(s, 0, id, 1, false)));
  ck_assert_ptr_null(vm_image_next_unnamed(s, &cursor));
}
END_TEST

/* The same source in another VM, and recorded again with a name. */
START_TEST(test_names_are_shared_by_source)
{
  struct proto_spec other = at_line(2, LUA, 0x2000, 4);
  proto_in(0, at_line(1, UNNAMED, 0x1000, 4));
  const char *text = vm_frame_text(s, 0, 1, 1, false);
  other.g = 2;
  other.name = "M.f";
  proto_in(1, other);
  ck_assert_str_eq(settled(text), "M.f (a.lua:4)");
  /* Two functions on one line, alike but for their names: only the one at the
   * same address can be told. */
  other.name = "M.g";
  other.addr = 0x3000;
  proto_in(1, other);
  ck_assert_str_eq(settled(text), "anonymous (a.lua:4)");
  other.name = "M.g";
  other.addr = 0x1000;
  other.g = 1;
  proto_in(1, other);
  ck_assert_str_eq(settled(text), "M.g (a.lua:4)");
}
END_TEST

START_TEST(test_address_used_again)
{
  struct proto_spec f = at_line(1, LUA, 0x1000, 4);
  f.name = "f";
  proto_in(0, f);
  f.id = 2;
  f.firstline = 9;
  f.name = "g";
  proto_in(0, f);
  ck_assert_str_eq(vm_frame_text(s, 0, 1, 1, false), "f (a.lua:4)");
  ck_assert_str_eq(vm_frame_text(s, 0, 2, 1, false), "g (a.lua:9)");
}
END_TEST

START_TEST(test_placeholders_of_another_store)
{
  struct vm_store *first = s;
  struct strbuf b = STRBUF_INIT;
  proto_in(0, at_line(1, UNNAMED, 0x1000, 4));
  const char *text = vm_frame_text(first, 0, 1, 1, false);
  ck_assert_int_eq(vm_store_new(NULL, &s), RESULT_OK);
  proto_in(0, at_line(1, UNNAMED, 0x1000, 4));
  ck_assert(!vm_text_settle(s, text, &b));
  ck_assert(vm_text_settle(first, text, &b));
  ck_assert(!vm_text_settle(first, "main", &b));
  ck_assert(!vm_text_settle(first, "\001x\001", &b));
  ck_assert(!vm_text_settle(first,
                            "\001"
                            "1.9.9\001",
                            &b));
  ck_assert_str_eq(strbuf_text(&b), "anonymous (a.lua:4)");
  strbuf_free(&b);
  vm_store_free(first);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("vm");
  TCase *tc = tcase_create("vm");
  suite_add_tcase(suite, tc);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, test_functions);
  tcase_add_test(tc, test_stripped);
  tcase_add_loop_test(tc, test_chunk_names, 0,
                      (int)(sizeof shortnames / sizeof *shortnames));
  tcase_add_test(tc, test_long_chunk_names);
  tcase_add_test(tc, test_chunk_tail);
  tcase_add_test(tc, test_long_and_odd_function_names);
  tcase_add_loop_test(tc, test_current_line, 0,
                      (int)(sizeof lines8 / sizeof *lines8));
  tcase_add_test(tc, test_current_line_wide_tables);
  tcase_add_test(tc, test_main_chunk_lines);
  tcase_add_test(tc, test_slots_and_generations);
  tcase_add_test(tc, test_bad_records);
  tcase_add_test(tc, test_zone_strings);
  tcase_add_test(tc, test_zone_values);
  tcase_add_test(tc, test_mcode);
  tcase_add_test(tc, test_builtins);
  tcase_add_test(tc, test_states);
  tcase_add_test(tc, test_late_name);
  tcase_add_test(tc, test_only_functions_wait_for_names);
  tcase_add_test(tc, test_names_are_shared_by_source);
  tcase_add_test(tc, test_address_used_again);
  tcase_add_test(tc, test_placeholders_of_another_store);
  return suite_run(suite);
}
