/* SPDX-License-Identifier: MIT
 *
 * The command line: options, units, formats, verdicts, and what is said at the
 * end.  Expected values are written by hand from the documented contract.
 */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/attach_internal.h"
#include "suite.h"

#define ARGS_MAX 24

static struct options opt;
static struct error err;

/* Splits at blanks; the words live until the next call. */
static enum result parse(const char *line)
{
  static char text[512];
  static char *argv[ARGS_MAX];
  int argc = 0;
  snprintf(text, sizeof text, "%s", line);
  argv[argc++] = "tecs-attach";
  for (char *w = strtok(text, " "); w && argc < ARGS_MAX - 1;
       w = strtok(NULL, " "))
    argv[argc++] = w;
  argv[argc] = NULL;
  memset(&err, 0, sizeof err);
  return options_parse(argc, argv, &opt, &err);
}

static void refused(const char *line, const char *because)
{
  ck_assert_msg(parse(line) == RESULT_USAGE, "accepted: %s", line);
  ck_assert_msg(strstr(err.text, because) != NULL, "%s: '%s' lacks '%s'", line,
                err.text, because);
}

static void accepted(const char *line)
{
  enum result r = parse(line);
  ck_assert_msg(r == RESULT_OK, "%s: %s", line, err.text);
}

/* ---- units ---- */

static void time_is(const char *text, uint64_t bare, uint64_t want)
{
  uint64_t ns = 0;
  ck_assert_msg(units_time(text, bare, &ns), "refused: %s", text);
  ck_assert_msg(ns == want, "%s: %llu", text, (unsigned long long)ns);
}

START_TEST(test_times)
{
  time_is("10", UNITS_MS, 10000000);
  time_is("10", UNITS_S, 10000000000);
  time_is("10ms", UNITS_S, 10000000);
  time_is("500us", UNITS_MS, 500000);
  time_is("1s", UNITS_MS, 1000000000);
  time_is("2m", UNITS_MS, 120000000000);
  time_is("1h", UNITS_MS, 3600000000000);
  time_is("0.5", UNITS_S, 500000000);
  time_is("1.25ms", UNITS_S, 1250000);
  time_is("0", UNITS_MS, 0);
  time_is("007", UNITS_MS, 7000000);
}
END_TEST

START_TEST(test_times_refused)
{
  static const char *const bad[] = {
      "",
      " ",
      "ms",
      "-1",
      "+1",
      "1 ms",
      "1ms ",
      "10x",
      "1e3",
      "0x10",
      "1.",
      ".",
      "1.2.3",
      "ten",
      "10mss",
      "10M",
      "nan",
      "inf",
      "10 000",
      "1,5",
      "10ns",
      "1.0000000001",
      "99999999999999999999999",
      "18446744073709551615h",
  };
  uint64_t ns;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    ck_assert_msg(!units_time(bad[i], UNITS_MS, &ns), "accepted: '%s'", bad[i]);
}
END_TEST

START_TEST(test_rates)
{
  uint64_t ns;
  ck_assert(units_rate("1000", &ns));
  ck_assert_uint_eq(ns, 1000000);
  ck_assert(units_rate("999", &ns));
  ck_assert_uint_eq(ns, 1001001);
  ck_assert(units_rate("0.5", &ns));
  ck_assert_uint_eq(ns, 2000000000);
  ck_assert(!units_rate("0", &ns));
  ck_assert(!units_rate("0.0", &ns));
  ck_assert(!units_rate("-5", &ns));
  ck_assert(!units_rate("100Hz", &ns));
  ck_assert(!units_rate("", &ns));
}
END_TEST

START_TEST(test_integers)
{
  long n;
  ck_assert(units_int("256", 1, 4096, &n));
  ck_assert_int_eq(n, 256);
  ck_assert(!units_int("0", 1, 4096, &n));
  ck_assert(!units_int("4097", 1, 4096, &n));
  ck_assert(!units_int("-1", -5, 5, &n));
  ck_assert(!units_int(" 1", 1, 5, &n));
  ck_assert(!units_int("1x", 1, 5, &n));
  ck_assert(!units_int("", 0, 5, &n));
  ck_assert(!units_int("9999999999999999999999", 0, LONG_MAX, &n));
}
END_TEST

/* ---- the parser ---- */

START_TEST(test_defaults)
{
  accepted("1234");
  ck_assert_int_eq(opt.action, OPTIONS_RUN);
  ck_assert_str_eq(opt.verb->name, "record");
  ck_assert_int_eq(opt.pid, 1234);
  ck_assert_ptr_null(opt.command);
  ck_assert_uint_eq(opt.interval_ns, 10000000);
  ck_assert_uint_eq(opt.duration_ns, 0);
  ck_assert_uint_eq(opt.wait_ns, 3000000000);
  ck_assert_int_eq(opt.depth, 256);
  ck_assert(opt.native && opt.lua && opt.zones && opt.state);
  ck_assert(!opt.threads && !opt.vms && !opt.lines && !opt.quiet);
  ck_assert_ptr_null(opt.output);
  ck_assert_ptr_null(opt.zone);
}
END_TEST

START_TEST(test_spellings)
{
  accepted("record -p 7 -i 500us -d 5 -D 16");
  ck_assert_int_eq(opt.pid, 7);
  ck_assert_uint_eq(opt.interval_ns, 500000);
  ck_assert_uint_eq(opt.duration_ns, 5000000000);
  ck_assert_int_eq(opt.depth, 16);
  accepted("--pid=7 --interval=20 --duration=1m --depth=1 --freq=999");
  ck_assert_uint_eq(opt.interval_ns, 1001001);
  ck_assert_uint_eq(opt.duration_ns, 60000000000);
  accepted("7 --rate 100");
  ck_assert_uint_eq(opt.interval_ns, 10000000);
  accepted("-r100 -d5 7");
  ck_assert_uint_eq(opt.duration_ns, 5000000000);
  accepted("-tvq 7");
  ck_assert(opt.threads && opt.verbose && opt.quiet);
  accepted("-tF999 7 --vms");
  ck_assert(opt.threads && opt.vms);
  ck_assert_uint_eq(opt.interval_ns, 1001001);
}
END_TEST

START_TEST(test_switches)
{
  accepted("7 --lines --no-native --no-zones --no-state");
  ck_assert(opt.lines && opt.lua && !opt.inlined);
  ck_assert(!opt.native && !opt.zones && !opt.state);
  accepted("7 --no-lua -z afterFixed/Render -o p.folded");
  ck_assert(!opt.lua);
  ck_assert_str_eq(opt.zone, "afterFixed/Render");
  ck_assert_str_eq(opt.output, "p.folded");
  accepted("7 -o - --mode cpu --require-agent --wait 500ms");
  ck_assert_ptr_null(opt.output);
  ck_assert(opt.require_agent);
  ck_assert_uint_eq(opt.wait_ns, 500000000);
}
END_TEST

START_TEST(test_command)
{
  accepted("-F 999 -d 5 -- luajit -d game.lua -- 7");
  ck_assert_int_eq(opt.pid, 0);
  ck_assert_str_eq(opt.command[0], "luajit");
  ck_assert_str_eq(opt.command[1], "-d");
  ck_assert_str_eq(opt.command[4], "7");
  ck_assert_ptr_null(opt.command[5]);
  accepted("record -- record");
  ck_assert_str_eq(opt.command[0], "record");
}
END_TEST

START_TEST(test_session_options)
{
  accepted("7 -i 2 -d 3 --wait 4 -D 9 -t --lines --inline --no-zones -z a/b");
  struct session_options s = record_session_options(&opt);
  ck_assert_uint_eq(s.interval_ns, 2000000);
  ck_assert_uint_eq(s.duration_ns, 3000000000);
  ck_assert_uint_eq(s.vm_wait_ns, 4000000000);
  ck_assert(s.by_thread && !s.by_vm);
  ck_assert_uint_eq(s.merge.depth, 9);
  ck_assert(s.merge.lines && s.merge.native && s.merge.lua && s.merge.state);
  ck_assert(s.merge.inlined && !s.merge.zones);
  ck_assert_str_eq(s.merge.zone_prefix, "a/b");
}
END_TEST

/* The agent starts us so for the program itself. */
START_TEST(test_from_inside)
{
  accepted("record --lines -i 10ms -D 16 -o - --vm 0x7f00deadbee0@c00c1e 7");
  struct session_options s = record_session_options(&opt);
  ck_assert(s.from_inside);
  ck_assert_uint_eq(s.vm, 0x7f00deadbee0);
  ck_assert_uint_eq(s.cookie, 0xc00c1e);
  accepted("7 --vm 0x0@1");
  s = record_session_options(&opt);
  ck_assert(s.from_inside);
  ck_assert_uint_eq(s.vm, 0);
  accepted("7 --vms");
  s = record_session_options(&opt);
  ck_assert(!s.from_inside);
  refused("7 --vm here", "not an address");
  refused("7 --vm 0x7f00deadbee0", "not an address@cookie");
  refused("7 --vm 0x7f00deadbee0@", "not an address@cookie");
  refused("7 --vm 0x7f00deadbee0@1x", "not an address@cookie");
}
END_TEST

START_TEST(test_verbs)
{
  accepted("trace 7");
  ck_assert_str_eq(opt.verb->name, "trace");
  ck_assert(!opt.benign && !opt.samples && !opt.by_cost);
  accepted("trace --benign --samples -F 999 -d 5 -o a.csv 7");
  ck_assert(opt.benign && opt.samples && !opt.by_cost);
  accepted("trace --by-cost 7");
  ck_assert(opt.by_cost && opt.samples);
  accepted("-d 5 trace -- luajit game.lua");
  ck_assert_str_eq(opt.command[0], "luajit");
  accepted("record --aborts a.csv --benign --by-cost 7");
  ck_assert_str_eq(opt.aborts, "a.csv");
  accepted("status -p 7");
  ck_assert_str_eq(opt.verb->name, "status");
  accepted("pause -q 7");
  accepted("resume 7");
  accepted("stop 7 -v");
}
END_TEST

START_TEST(test_options_and_verbs)
{
  refused("trace -z update 7", "--zone does not go with trace");
  refused("trace -f collapsed 7", "--format does not go with trace");
  refused("trace --aborts x 7", "--aborts does not go with trace");
  refused("trace --vm 0@1 7", "--vm does not go with trace");
  refused("trace -F 999 7", "only with --samples");
  refused("trace --interval 5 7", "only with --samples");
  refused("record --samples 7", "--samples does not go with record");
  refused("7 --benign", "--benign is about the table of trace aborts");
  refused("7 --by-cost", "--by-cost is about the table of trace aborts");
  refused("7 --aborts", "needs a value");
  refused("7 --aborts=", "--aborts needs a file name");
  refused("7 --aborts -", "--aborts needs a file name");
  refused("7 --aborts x -o x", "the same file");
  refused("pause -d 5 7", "--duration does not go with pause");
  refused("status -o x 7", "--output does not go with status");
  refused("stop -- luajit", "stop needs a process id");
  refused("status", "which process? tecs-attach status PID");
  refused("pause 7 8", "one process at a time");
}
END_TEST

START_TEST(test_whom)
{
  refused("", "which process?");
  refused("-F 999", "which process?");
  refused("--", "no command");
  refused("0", "not a process id");
  refused("-p 0", "not a process id");
  refused("-p -5", "not a process id");
  refused("abc", "'abc' is not a process id");
  refused("12x", "not a process id");
  refused("99999999999", "not a process id");
  refused("7 8", "one process at a time");
  refused("7 -- luajit", "not both");
  refused("record", "which process?");
  refused("7 record", "'record' is not a process id");
}
END_TEST

START_TEST(test_out_of_range)
{
  refused("7 -i 0", "out of range");
  refused("7 -i 99us", "out of range");
  refused("7 -i 61s", "out of range");
  refused("7 -i 99999999999999999999", "not an interval");
  refused("7 -i ten", "not an interval");
  refused("7 -i -5", "not an interval");
  refused("7 -i 10ms5", "not an interval");
  refused("7 -F 0", "not a rate");
  refused("7 -F 10001", "out of range");
  refused("7 -F fast", "not a rate");
  refused("7 -d 0", "not a duration");
  refused("7 -d forever", "not a duration");
  refused("7 -d 366000h", "not a duration");
  refused("7 -D 0", "not a depth");
  refused("7 -D 4097", "not a depth");
  refused("7 -D deep", "not a depth");
  refused("7 -D 1.5", "not a depth");
  refused("7 --wait soon", "not a time to wait");
  accepted("7 -i 100us");
  accepted("7 -F 10000");
  accepted("7 -D 4096");
  accepted("7 --wait 0");
}
END_TEST

START_TEST(test_inject)
{
  accepted("7 --inject");
  ck_assert(opt.inject && !opt.samples);
  accepted("status 7 --inject");
  ck_assert(opt.inject);
  accepted("trace 7 --inject"); /* its VMs are found in samples */
  ck_assert(opt.inject && opt.samples);
}
END_TEST

START_TEST(test_mistakes)
{
  refused("7 --colour", "unknown option --colour");
  refused("7 -x", "unknown option -x");
  refused("7 -tx", "unknown option -x");
  refused("7 -d", "needs a value");
  refused("7 --output", "needs a value");
  refused("7 --output=", "needs a file name");
  refused("7 --lines=yes", "takes no value");
  refused("7 --mode fast", "unknown mode");
  refused("7 --no-agent --require-agent", "exclude each other");
  refused("7 --no-agent --aborts x", "exclude each other");
  refused("trace --no-agent 7", "does not go with trace");
  refused("--inject -- game", "runs already");
  refused("7 --inject --no-agent", "either");
  refused("stop 7 --inject", "does not go with stop");
  refused("7 --no-native --no-lua --no-zones --no-state", "nothing is left");
}
END_TEST

START_TEST(test_report)
{
  accepted("report run.folded");
  ck_assert_str_eq(opt.file, "run.folded");
  ck_assert_ptr_null(opt.diff);
  accepted("report - -z a");
  ck_assert_str_eq(opt.file, "-");
  accepted("report --diff old --categories own new");
  ck_assert_str_eq(opt.diff, "old");
  ck_assert_str_eq(opt.categories, "own");
  accepted("--report 7");
  ck_assert(opt.report);
  refused("report", "which file?");
  refused("report a b", "one file at a time");
  refused("report - --diff -", "only once");
  refused("report a -p 7", "does not go with report");
  refused("report -F 9 a", "does not go with report");
  refused("report -- a", "needs a file");
  refused("7 --diff a", "does not go with record");
  refused("7 --categories a", "needs --report");
}
END_TEST

START_TEST(test_not_in_this_version)
{
  static const char *const lines[] = {
      "alloc 7",
      "top 7",
      "dump 7",
      "7 --weight cpu",
      "7 --weight=cpu",
      "top 7 --batch",
      "7 --slow 10ms",
      "7 --frames x",
      "7 --push url",
      "7 -f pprof",
      "7 -o x.pb.gz",
      "7 -o x.tecs",
      "7 -o x.perf",
      "7 -o x.trace.json",
      "7 -o x.speedscope.json",
  };
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
    refused(lines[i], "not in this version");
}
END_TEST

START_TEST(test_formats)
{
  accepted("7 -f collapsed");
  accepted("7 -o x.folded");
  accepted("7 -o x.collapsed");
  accepted("7 -o x.txt");
  accepted("7 -o profile");
  accepted("7 -o x.svg -f collapsed");
  ck_assert_int_eq(opt.format_id, FORMAT_COLLAPSED);
  accepted("7 -o x.svg");
  ck_assert_int_eq(opt.format_id, FORMAT_SVG);
  accepted("7 -o x.txt -f html");
  ck_assert_int_eq(opt.format_id, FORMAT_HTML);
  accepted("report x -o x.txt"); /* a report, not the stacks once more */
  ck_assert(!opt.convert);
  accepted("report x -o x.html");
  ck_assert(opt.convert);
  refused("report x -o x.html --diff y", "about the report");
  refused("7 -f flame", "unknown format 'flame'");
}
END_TEST

START_TEST(test_help_and_version)
{
  accepted("--help");
  ck_assert_int_eq(opt.action, OPTIONS_HELP);
  accepted("7 -h --nonsense");
  ck_assert_int_eq(opt.action, OPTIONS_HELP);
  accepted("--version");
  ck_assert_int_eq(opt.action, OPTIONS_VERSION);
}
END_TEST

/* --help lists what works and nothing else, in lines that fit a terminal. */
START_TEST(test_help_text)
{
  struct strbuf b = STRBUF_INIT;
  options_help(&b);
  const char *text = strbuf_text(&b);
  static const char *const shown[] = {"-p, --pid PID",
                                      "-i, --interval TIME",
                                      "-F, --freq HZ",
                                      "-d, --duration TIME",
                                      "--require-agent",
                                      "--no-state",
                                      "record",
                                      "trace",
                                      "status",
                                      "pause",
                                      "resume",
                                      "stop",
                                      "--aborts FILE",
                                      "--benign",
                                      "--samples",
                                      "--by-cost",
                                      "--follow",
                                      "--mode MODE",
                                      "--inline",
                                      "--inject",
                                      "report",
                                      "--diff FILE",
                                      "svg",
                                      "html"};
  for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
    ck_assert_msg(strstr(text, shown[i]) != NULL, "help lacks %s", shown[i]);
  static const char *const hidden[] = {
      "alloc",
      ".tecs",
      "--push",
      "--vm ",
  };
  for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
    ck_assert_msg(!strstr(text, hidden[i]), "help has %s", hidden[i]);
  for (const char *p = text; *p; p += strcspn(p, "\n") + 1)
    ck_assert_uint_lt(strcspn(p, "\n"), 80);
  strbuf_free(&b);
}
END_TEST

/* ---- verdicts ---- */

START_TEST(test_verdicts)
{
  static const struct {
    enum result r;
    enum status want;
  } rows[] = {
      {RESULT_OK, 0},       {RESULT_END, 0},     {RESULT_NOMEM, 1},
      {RESULT_IO, 1},       {RESULT_BUSY, 1},    {RESULT_FULL, 1},
      {RESULT_NOTFOUND, 1}, {RESULT_USAGE, 2},   {RESULT_GONE, 3},
      {RESULT_PERM, 3},     {RESULT_NOAGENT, 3}, {RESULT_VERSION, 3},
      {RESULT_CORRUPT, 3},  {RESULT_NOVM, 4},    {RESULT_UNSUPPORTED, 4},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    ck_assert_msg(verdict_status(rows[i].r) == rows[i].want, "%s",
                  result_text(rows[i].r));
  ck_assert_int_eq(verdict_of_wait(3 << 8), 3); /* exit(3) */
  ck_assert_int_eq(verdict_of_wait(SIGINT), 130);
  ck_assert_int_eq(verdict_of_wait(SIGSEGV | 0x80), 139);
}
END_TEST

/* ---- launch mode ---- */

START_TEST(test_preload)
{
  struct strbuf b = STRBUF_INIT;
  ck_assert_int_eq(agentlib_preload(NULL, "/x/a.so", &b, &err), RESULT_OK);
  ck_assert_str_eq(strbuf_text(&b), "/x/a.so");
  strbuf_clear(&b);
  ck_assert_int_eq(agentlib_preload("", "/x/a.so", &b, &err), RESULT_OK);
  ck_assert_str_eq(strbuf_text(&b), "/x/a.so");
  strbuf_clear(&b);
  ck_assert_int_eq(agentlib_preload("b.so:c.so", "/x/a.so", &b, &err),
                   RESULT_OK);
  ck_assert_str_eq(strbuf_text(&b), "b.so:c.so:/x/a.so");
  strbuf_clear(&b);
  ck_assert_int_eq(agentlib_preload(NULL, "/x y/a.so", &b, &err), RESULT_USAGE);
  ck_assert_ptr_nonnull(strstr(err.text, "/x y/a.so"));
  ck_assert_int_eq(agentlib_preload(NULL, "/x:y/a.so", &b, &err), RESULT_USAGE);
  strbuf_free(&b);
}
END_TEST

START_TEST(test_agent_by_environment)
{
  char path[256];
  setenv("TECS_AGENT_LIB", "/proc/self/exe", 1);
  ck_assert_int_eq(agentlib_path(path, sizeof path, &err), RESULT_OK);
  ck_assert_str_eq(path, "/proc/self/exe");
  setenv("TECS_AGENT_LIB", "/nowhere/agent.so", 1);
  ck_assert_int_eq(agentlib_path(path, sizeof path, &err), RESULT_NOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.text, "/nowhere/agent.so"));
  unsetenv("TECS_AGENT_LIB");
}
END_TEST

/* ---- the account ---- */

static const struct session_account plain = {.ticks = 4995,
                                             .sent = 5001,
                                             .samples = 4990,
                                             .lost = 11,
                                             .elapsed_ns = 5000000000,
                                             .cpu_ns = 125000000,
                                             .vms = 1,
                                             .threads = 3};

static void line_is(const struct closing *c, const char *want)
{
  struct strbuf b = STRBUF_INIT;
  closing_line(&b, c);
  ck_assert_str_eq(strbuf_text(&b), want);
  strbuf_free(&b);
}

START_TEST(test_closing_line)
{
  struct closing c = {.acc = &plain, .interval_ns = 1001001};
  line_is(&c, "4990 samples of 5001 sent, 11 lost, 0 partial; 999 of 999 Hz "
              "for 5.0 s; 1 VM, 3 threads; engine agent, own CPU 2.5%");
}
END_TEST

START_TEST(test_closing_line_slow)
{
  struct session_account a = {.ticks = 2,
                              .sent = 2,
                              .samples = 2,
                              .vms = 1,
                              .threads = 1,
                              .elapsed_ns = 100000000000};
  struct closing c = {.acc = &a, .interval_ns = 60 * UNITS_S};
  line_is(&c, "2 samples of 2 sent, 0 lost, 0 partial; 0.02 of 0.017 Hz for "
              "100.0 s; 1 VM, 1 thread; engine agent, own CPU 0.0%");
  a.ticks = 0;
  a.elapsed_ns = UNITS_S;
  c.interval_ns = 2 * UNITS_S;
  line_is(&c, "2 samples of 2 sent, 0 lost, 0 partial; 0 of 0.5 Hz for "
              "1.0 s; 1 VM, 1 thread; engine agent, own CPU 0.0%");
}
END_TEST

START_TEST(test_closing_line_full)
{
  struct session_account a = plain;
  a.samples = 1;
  a.filtered = 4989;
  a.of_zone = 4980;
  a.of_vm = 6;
  a.of_pause = 3;
  a.paused_ns = 2500000000;
  a.partial = 1;
  a.lua_partial = 2;
  a.lost_full = 8;
  a.undelivered = 2;
  a.lost_bad = 1;
  a.skipped = 1;
  a.no_slot = 7;
  a.vms = 2;
  a.unknown_vms = 1;
  strcpy(a.luajit, "LuaJIT 2.1.9");
  a.blocked_threads = 1;
  struct closing c = {.acc = &a, .interval_ns = 10000000, .zone = "a/b"};
  line_is(&c,
          "1 sample of 5001 sent, 11 lost (8 ring full, 2 not delivered, 1 bad "
          "record), 4980 outside zone a/b, 6 outside the VM, 3 in a pause, 1 "
          "partial (a part of the stack is missing), 2 with an incomplete Lua "
          "part; 999 of 100 Hz for 5.0 s and 2.5 s of pauses, "
          "1 late tick left out, 7 ticks of threads beyond the 128 that "
          "are sampled at once; 2 VMs (and 1 of LuaJIT 2.1.9, layout unknown: "
          "native stacks only), 3 threads (and 1 thread that blocks SIGURG, "
          "not sampled); engine agent, own CPU 2.5%");
}
END_TEST

START_TEST(test_closing_line_wall)
{
  struct session_account a = plain;
  a.asleep = 900;
  a.waiting = 12;
  struct closing c = {.acc = &a, .interval_ns = 1001001};
  line_is(&c, "4990 samples of 5001 sent, 11 lost, 0 partial; 900 of sleeping "
              "threads; 12 more of threads that waited for a CPU; 999 of 999 "
              "Hz for 5.0 s; 1 VM, 3 threads; engine agent, own CPU 2.5%");
  a.waiting = 0;
  a.asleep_filtered = 5;
  a.asleep_unread = 6;
  line_is(&c, "4990 samples of 5001 sent, 11 lost, 0 partial; 900 of sleeping "
              "threads, 5 outside the zone, 6 could not be read; 999 of 999 "
              "Hz for 5.0 s; 1 VM, 3 threads; engine agent, own CPU 2.5%");
  struct strbuf b = STRBUF_INIT;
  closing_why_unread(&b, &a);
  ck_assert_uint_eq(b.len, 0);
  a.asleep_denied = true;
  closing_why_unread(&b, &a);
  ck_assert_ptr_nonnull(strstr(strbuf_text(&b), "CAP_SYS_PTRACE"));
  strbuf_free(&b);
}
END_TEST

/* 5 s of the clock, in which three processes were sampled for 10 s. */
START_TEST(test_closing_line_follow)
{
  struct follow_sums f = {.processes = 3, .seen = 7, .process_ns = 10000000000};
  struct session_account a = plain;
  a.vms = 4;
  struct closing c = {.acc = &a, .follow = &f, .interval_ns = 2000000};
  line_is(&c, "4990 samples of 5001 sent, 11 lost, 0 partial; 499.5 of 500 Hz "
              "for 5.0 s; 3 of 7 processes, 4 VMs, 3 threads; engine agent, "
              "own CPU 2.5%");
  f.outside = 2;
  line_is(&c, "4990 samples of 5001 sent, 11 lost, 0 partial; 499.5 of 500 Hz "
              "for 5.0 s; 3 of 7 processes (2 from outside), 4 VMs, 3 threads; "
              "engine agent, own CPU 2.5%");
}
END_TEST

static void details_are(const struct session_account *a, uint64_t peak_kb,
                        const char *want)
{
  struct strbuf b = STRBUF_INIT;
  closing_details(&b, a, 12, peak_kb);
  ck_assert_str_eq(strbuf_text(&b), want);
  strbuf_free(&b);
}

START_TEST(test_closing_details)
{
  struct session_account a = {.ticks = 5, .execs = 1};
  details_are(&a, 0, "5 ticks, 0 bytes of records, 12 stacks, 1 execs");
  a.samples = 3;
  a.filtered = 1;
  a.bytes = 4003;
  a.cost[10] = 4;
  details_are(&a, 3482,
              "5 ticks, 4003 bytes of records (1000 a sample), handler 0.0 us "
              "(median), 0.0 us (99 %), 12 stacks, 1 execs, own memory 3.4 MB "
              "at most");
  ck_assert_uint_gt(closing_own_peak(), 100);
  ck_assert_uint_lt(closing_own_peak(), UINT64_C(1) << 30);
}
END_TEST

static void empty_is(const struct closing *c, const char *want)
{
  struct strbuf b = STRBUF_INIT;
  closing_why_empty(&b, c);
  ck_assert_msg(strstr(strbuf_text(&b), want) != NULL, "'%s' lacks '%s'",
                strbuf_text(&b), want);
  strbuf_free(&b);
}

START_TEST(test_why_empty)
{
  struct session_account a = {0};
  struct closing c = {.acc = &a, .interval_ns = 10000000, .zone = "z"};
  empty_is(&c, "target was idle");
  c.stopped = true;
  empty_is(&c, "stopped (state T)");
  c.stopped = false;
  a.blocked_threads = 1;
  empty_is(&c, "block SIGURG");
  a.sent = a.lost = 9;
  empty_is(&c, "could not read any: 9 asked for, 9 lost");
  a.filtered = a.of_vm = 3;
  empty_is(&c, "all 3 were outside the VM");
  a.of_zone = 2;
  empty_is(&c, "outside zone z");
  memset(&a, 0, sizeof a);
  a.paused_ns = 2000000000;
  a.elapsed_ns = 500000000;
  empty_is(&c, "paused for 2.0 of 2.5 s");
  a.samples = 1;
  struct strbuf b = STRBUF_INIT;
  closing_why_empty(&b, &c);
  ck_assert_uint_eq(b.len, 0);
  a = (struct session_account){0};
  c.too_soon = true; /* that was the reason */
  closing_why_empty(&b, &c);
  ck_assert_uint_eq(b.len, 0);
}
END_TEST

static const struct session_trace_account aborted = {.starts = 60,
                                                     .stops = 20,
                                                     .aborts = 40,
                                                     .benign = 30,
                                                     .blacklists = 2,
                                                     .sites = 1,
                                                     .benign_sites = 4,
                                                     .vms = 1,
                                                     .elapsed_ns = 5250000000};

static void trace_line_is(const struct session_trace_account *a, bool benign,
                          const char *want)
{
  struct strbuf b = STRBUF_INIT;
  closing_trace_line(&b, a, benign);
  ck_assert_str_eq(strbuf_text(&b), want);
  strbuf_free(&b);
}

START_TEST(test_trace_line)
{
  struct session_trace_account a = aborted;
  trace_line_is(&a, false,
                "10 trace aborts at 1 site, 2 blacklisted; 30 benign ones left "
                "out (--benign); 60 traces begun, 20 completed; for 5.2 s; 1 "
                "VM");
  a.flushes = 3;
  a.vms = 2;
  trace_line_is(&a, true,
                "40 trace aborts at 5 sites, 2 blacklisted; 60 traces begun, "
                "20 completed, all flushed 3 times; for 5.2 s; 2 VMs");
  struct strbuf b = STRBUF_INIT;
  closing_trace_progress(&b, &a, false);
  ck_assert_str_eq(strbuf_text(&b), "5 s: 10 trace aborts at 1 site, 2 "
                                    "blacklisted (Ctrl-C ends and writes)");
  strbuf_free(&b);
}
END_TEST

START_TEST(test_progress)
{
  struct strbuf b = STRBUF_INIT;
  closing_progress(&b, &plain);
  ck_assert_str_eq(strbuf_text(&b), "5 s: 4990 samples, 11 lost, 1 VM, 3 "
                                    "threads (Ctrl-C ends and writes)");
  strbuf_free(&b);
}
END_TEST

static TCase *options_case(void)
{
  TCase *tc = tcase_create("options");
  tcase_add_test(tc, test_defaults);
  tcase_add_test(tc, test_spellings);
  tcase_add_test(tc, test_switches);
  tcase_add_test(tc, test_command);
  tcase_add_test(tc, test_session_options);
  tcase_add_test(tc, test_from_inside);
  tcase_add_test(tc, test_verbs);
  tcase_add_test(tc, test_options_and_verbs);
  tcase_add_test(tc, test_whom);
  tcase_add_test(tc, test_out_of_range);
  tcase_add_test(tc, test_inject);
  tcase_add_test(tc, test_mistakes);
  tcase_add_test(tc, test_report);
  tcase_add_test(tc, test_not_in_this_version);
  tcase_add_test(tc, test_formats);
  tcase_add_test(tc, test_help_and_version);
  tcase_add_test(tc, test_help_text);
  return tc;
}

static TCase *other_case(void)
{
  TCase *tc = tcase_create("units, verdicts, account");
  tcase_add_test(tc, test_times);
  tcase_add_test(tc, test_times_refused);
  tcase_add_test(tc, test_rates);
  tcase_add_test(tc, test_integers);
  tcase_add_test(tc, test_verdicts);
  tcase_add_test(tc, test_preload);
  tcase_add_test(tc, test_agent_by_environment);
  tcase_add_test(tc, test_closing_line);
  tcase_add_test(tc, test_closing_line_slow);
  tcase_add_test(tc, test_closing_line_full);
  tcase_add_test(tc, test_closing_line_wall);
  tcase_add_test(tc, test_closing_line_follow);
  tcase_add_test(tc, test_closing_details);
  tcase_add_test(tc, test_why_empty);
  tcase_add_test(tc, test_progress);
  tcase_add_test(tc, test_trace_line);
  return tc;
}

int main(void)
{
  Suite *s = suite_create("attach");
  suite_add_tcase(s, options_case());
  suite_add_tcase(s, other_case());
  return suite_run(s);
}
