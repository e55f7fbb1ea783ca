/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "attach/attach_internal.h"

/* ---- setters ---- */

static enum result set_pid(struct options *o, const char *v, struct error *e)
{
  long n;
  if (!units_int(v, 1, INT_MAX, &n))
    return error_set(e, RESULT_USAGE, "'%s' is not a process id", v);
  if (o->pid && o->pid != n)
    return error_set(e, RESULT_USAGE, "one process at a time: %d or %ld?",
                     (int)o->pid, n);
  o->pid = (pid_t)n;
  return RESULT_OK;
}

static enum result set_file(struct options *o, const char *v, struct error *e)
{
  if (o->file)
    return error_set(e, RESULT_USAGE,
                     "one file at a time: %s or %s? (--diff FILE compares)",
                     o->file, v);
  o->file = v;
  return RESULT_OK;
}

static enum result interval_in_range(struct options *o, uint64_t ns,
                                     const char *v, struct error *e)
{
  if (ns < OPTIONS_INTERVAL_MIN || ns > OPTIONS_INTERVAL_MAX)
    return error_set(e, RESULT_USAGE,
                     "'%s' is out of range: the interval is 100us to 60s, "
                     "the rate 10000 to 0.0167 a second",
                     v);
  o->interval_ns = ns;
  return RESULT_OK;
}

static enum result set_interval(struct options *o, const char *v,
                                struct error *e)
{
  uint64_t ns;
  if (!units_time(v, UNITS_MS, &ns))
    return error_set(e, RESULT_USAGE,
                     "'%s' is not an interval; try 10, 10ms or 500us", v);
  return interval_in_range(o, ns, v, e);
}

static enum result set_rate(struct options *o, const char *v, struct error *e)
{
  uint64_t ns;
  if (!units_rate(v, &ns))
    return error_set(e, RESULT_USAGE,
                     "'%s' is not a rate; try 999 (samples a second)", v);
  return interval_in_range(o, ns, v, e);
}

static enum result set_duration(struct options *o, const char *v,
                                struct error *e)
{
  uint64_t ns;
  if (!units_time(v, UNITS_S, &ns) || !ns || ns > OPTIONS_DURATION_MAX)
    return error_set(e, RESULT_USAGE,
                     "'%s' is not a duration; try 5, 500ms or 2m (at most a "
                     "year)",
                     v);
  o->duration_ns = ns;
  return RESULT_OK;
}

static enum result set_wait(struct options *o, const char *v, struct error *e)
{
  uint64_t ns;
  if (!units_time(v, UNITS_S, &ns) || ns > OPTIONS_WAIT_MAX)
    return error_set(e, RESULT_USAGE,
                     "'%s' is not a time to wait; try 3, 500ms or 1m (at most "
                     "a day)",
                     v);
  o->wait_ns = ns;
  return RESULT_OK;
}

static enum result set_depth(struct options *o, const char *v, struct error *e)
{
  if (!units_int(v, 1, OPTIONS_DEPTH_MAX, &o->depth))
    return error_set(e, RESULT_USAGE, "'%s' is not a depth: 1 to %d frames", v,
                     OPTIONS_DEPTH_MAX);
  return RESULT_OK;
}

static enum result set_zone(struct options *o, const char *v, struct error *e)
{
  (void)e;
  o->zone = v;
  return RESULT_OK;
}

static enum result set_mode(struct options *o, const char *v, struct error *e)
{
  o->wall = !strcmp(v, "wall");
  if (o->wall || !strcmp(v, "cpu"))
    return RESULT_OK;
  return error_set(e, RESULT_USAGE, "unknown mode '%s'; try cpu or wall", v);
}

static enum result set_output(struct options *o, const char *v, struct error *e)
{
  if (!*v)
    return error_set(e, RESULT_USAGE, "--output needs a file name");
  o->output = strcmp(v, "-") ? v : NULL;
  return RESULT_OK;
}

static enum result set_format(struct options *o, const char *v, struct error *e)
{
  (void)e;
  o->format = v;
  return RESULT_OK;
}

static enum result set_aborts(struct options *o, const char *v, struct error *e)
{
  if (!*v || !strcmp(v, "-"))
    return error_set(e, RESULT_USAGE, "--aborts needs a file name");
  o->aborts = v;
  return RESULT_OK;
}

static enum result set_diff(struct options *o, const char *v, struct error *e)
{
  (void)e;
  o->diff = v;
  return RESULT_OK;
}

static enum result set_categories(struct options *o, const char *v,
                                  struct error *e)
{
  (void)e;
  o->categories = v;
  return RESULT_OK;
}

/* From the agent: a session that the program itself has asked for. */
static enum result set_vm(struct options *o, const char *v, struct error *e)
{
  char *end = NULL;
  o->vm = strtoull(v, &end, 16);
  if (*v && *end == '@')
    o->cookie = (uint32_t)strtoul(end + 1, &end, 16);
  if (!*v || *end || !o->cookie)
    return error_set(e, RESULT_USAGE, "'%s' is not an address@cookie", v);
  o->from_inside = true;
  return RESULT_OK;
}

static enum result set_help(struct options *o, const char *v, struct error *e)
{
  (void)v, (void)e;
  o->action = OPTIONS_HELP;
  return RESULT_OK;
}

static enum result set_version(struct options *o, const char *v,
                               struct error *e)
{
  (void)v, (void)e;
  o->action = OPTIONS_VERSION;
  return RESULT_OK;
}

/* ---- the table: what works in this version, and its help ---- */

#define FLAG(verbs, letter, name, field, value, help)                          \
  {                                                                            \
    verbs, letter, name, NULL, NULL, offsetof(struct options, field), value,   \
        help                                                                   \
  }
#define CALL(verbs, letter, name, arg, set, help)                              \
  {                                                                            \
    verbs, letter, name, arg, set, 0, false, help                              \
  }
#define SAMPLER (VERB_RECORD | VERB_TRACE)

const struct option_row options_table[] = {
    CALL(VERB_PROCESS, 'p', "pid", "PID", set_pid, "the process (or just PID)"),
    CALL(SAMPLER, 'i', "interval", "TIME", set_interval,
         "sampling interval: 10, 10ms, 500us; a bare number is milliseconds "
         "(10ms)"),
    CALL(SAMPLER, 'F', "freq", "HZ", set_rate, "the same as a rate: -F 999"),
    CALL(SAMPLER, 'r', "rate", "HZ", set_rate, "the same as --freq"),
    CALL(SAMPLER, 'd', "duration", "TIME", set_duration,
         "stop after that long; a bare number is seconds (until Ctrl-C or the "
         "target's end)"),
    CALL(VERB_RECORD, 'D', "depth", "N", set_depth,
         "frames kept per stack, innermost kept (256)"),
    CALL(VERB_RECORD | VERB_REPORT, 'z', "zone", "PREFIX", set_zone,
         "only samples whose zone path starts with PREFIX"),
    FLAG(VERB_RECORD, 't', "threads", threads, true,
         "split by thread: a root frame name/tid"),
    FLAG(VERB_RECORD, 0, "vms", vms, true, "split by VM"),
    FLAG(VERB_RECORD, 0, "follow", follow, true,
         "children too: all that come from the process, split by process: a "
         "root frame comm/pid"),
    CALL(VERB_RECORD, 0, "vm", "ADDRESS@COOKIE", set_vm, NULL),
    FLAG(VERB_RECORD, 0, "keep-own", keep_own, true, NULL),
    CALL(VERB_RECORD, 0, "mode", "MODE", set_mode,
         "cpu: threads on a CPU; wall: all threads, sleeping ones marked "
         "[idle] (cpu)"),
    FLAG(VERB_RECORD, 0, "lines", lines, true,
         "Lua frames carry the current line, not the function's first"),
    FLAG(VERB_RECORD, 0, "inline", inlined, true,
         "inlined native functions too, by the debug information"),
    FLAG(VERB_RECORD, 0, "no-native", native, false, "leave native frames out"),
    FLAG(VERB_RECORD, 0, "no-lua", lua, false,
         "leave Lua frames and builtins out"),
    FLAG(VERB_RECORD, 0, "no-zones", zones, false, "leave zones out"),
    FLAG(VERB_RECORD, 0, "no-state", state, false, "leave the VM state out"),
    CALL(SAMPLER | VERB_REPORT, 'o', "output", "FILE", set_output,
         "write there, complete or not at all (stdout)"),
    CALL(VERB_RECORD | VERB_REPORT, 'f', "format", "NAME", set_format,
         "by the file's suffix, else collapsed: collapsed (.folded .collapsed "
         ".txt), svg (needs inferno), html"),
    CALL(VERB_RECORD, 0, "aborts", "FILE", set_aborts,
         "(record) the table of trace aborts as well, as trace --samples has "
         "it"),
    FLAG(VERB_RECORD, 0, "report", report, true,
         "print the report to stderr at the end"),
    CALL(VERB_REPORT, 0, "diff", "FILE", set_diff,
         "(report) what grew and what shrank since FILE, in points"),
    CALL(VERB_RECORD | VERB_REPORT, 0, "categories", "FILE", set_categories,
         "(report, --report) categories of your own, tried before the "
         "built-in ones"),
    FLAG(SAMPLER, 0, "benign", benign, true,
         "(trace, --aborts) rows of severity info too"),
    FLAG(VERB_TRACE, 0, "samples", samples, true,
         "(trace) sample as well: columns cpu_percent and state"),
    FLAG(SAMPLER, 0, "by-cost", by_cost, true,
         "(trace, --aborts) within a severity, order by cpu_percent; trace "
         "then samples"),
    CALL(SAMPLER, 0, "wait", "TIME", set_wait,
         "how long to wait for a VM to appear; a bare number is seconds (3s)"),
    FLAG(VERB_RECORD, 0, "no-agent", no_agent, true,
         "sample from outside, also where the agent is loaded: every sample "
         "stops a thread for a moment"),
    FLAG(SAMPLER | VERB_STATUS, 0, "inject", inject, true,
         "load the agent into the process, when it runs without"),
    FLAG(SAMPLER, 0, "require-agent", require_agent, true,
         "fail when the agent is not loaded"),
    FLAG(VERB_ANY, 'v', "verbose", verbose, true,
         "say more on stderr; of status: each trace, too"),
    FLAG(VERB_ANY, 'q', "quiet", quiet, true, "no progress, no closing line"),
    CALL(VERB_ANY, 'h', "help", NULL, set_help, "this text"),
    CALL(VERB_ANY, 0, "version", NULL, set_version, "the version"),
};
const size_t options_count = sizeof options_table / sizeof options_table[0];

/* Known from the documentation of later versions: told apart from a typing
 * error. */
static const char *const later[] = {
    "weight", "batch", "slow", "frames", "frame-zone", "live", "push",
};

/* ---- the parser ---- */

struct parse {
  char **arg; /* next one */
  struct options *o;
  struct error *e;
  uint64_t used; /* rows of the table, by number */
};
_Static_assert(sizeof options_table / sizeof options_table[0] <= 64, "used");

static const struct option_row *by_name(const char *name, size_t len)
{
  for (size_t i = 0; i < options_count; i++)
    if (strlen(options_table[i].name) == len &&
        !memcmp(options_table[i].name, name, len))
      return &options_table[i];
  return NULL;
}

static const struct option_row *by_letter(char letter)
{
  for (size_t i = 0; i < options_count; i++)
    if (options_table[i].letter && options_table[i].letter == letter)
      return &options_table[i];
  return NULL;
}

static enum result unknown_long(const char *name, size_t len, struct error *e)
{
  for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
    if (strlen(later[i]) == len && !memcmp(later[i], name, len))
      return error_set(e, RESULT_USAGE, "--%s is not in this version",
                       later[i]);
  return error_set(e, RESULT_USAGE, "unknown option --%.*s; see --help",
                   (int)(len < 64 ? len : 64), name);
}

/* value NULL: the next argument, when the option takes one. */
static enum result apply(struct parse *p, const struct option_row *row,
                         const char *value)
{
  p->used |= UINT64_C(1) << (row - options_table);
  if (row->arg && !value && !(value = *p->arg++))
    return error_set(p->e, RESULT_USAGE, "--%s needs a value: %s", row->name,
                     row->arg);
  if (row->set)
    return row->set(p->o, value, p->e);
  *(bool *)(void *)((char *)p->o + row->flag) = row->value;
  return RESULT_OK;
}

static enum result parse_long(struct parse *p, const char *name)
{
  size_t len = strcspn(name, "=");
  const char *value = name[len] ? name + len + 1 : NULL;
  const struct option_row *row = by_name(name, len);
  if (!row)
    return unknown_long(name, len, p->e);
  if (value && !row->arg)
    return error_set(p->e, RESULT_USAGE, "--%s takes no value", row->name);
  return apply(p, row, value);
}

/* `-d5`, `-d 5`, `-tv`: flags may be joined, a value ends the group. */
static enum result parse_short(struct parse *p, const char *letters)
{
  for (; *letters; letters++) {
    const struct option_row *row = by_letter(*letters);
    if (!row)
      return error_set(p->e, RESULT_USAGE, "unknown option -%c; see --help",
                       *letters);
    if (row->arg)
      return apply(p, row, letters[1] ? letters + 1 : NULL);
    enum result r = apply(p, row, NULL);
    if (r != RESULT_OK)
      return r;
  }
  return RESULT_OK;
}

static enum result parse_word(struct parse *p, const char *word, bool first)
{
  const struct verb *verb = first ? verb_find(word) : NULL;
  if (!verb && p->o->verb->bit == VERB_REPORT)
    return set_file(p->o, word, p->e);
  if (!verb)
    return set_pid(p->o, word, p->e);
  if (!verb->run)
    return error_set(p->e, RESULT_USAGE, "'%s' is not in this version",
                     verb->name);
  p->o->verb = verb;
  return RESULT_OK;
}

static enum result parse_command(struct parse *p)
{
  if (!p->arg[0] || !p->arg[0][0])
    return error_set(p->e, RESULT_USAGE, "no command after --");
  p->o->command = p->arg;
  return RESULT_OK;
}

static bool used(const struct parse *p, const char *name)
{
  const struct option_row *row = by_name(name, strlen(name));
  return p->used >> (row - options_table) & 1;
}

static enum result check_verb(const struct parse *p)
{
  const struct verb *verb = p->o->verb;
  for (size_t i = 0; i < options_count; i++)
    if (p->used >> i & 1 && !(options_table[i].verbs & verb->bit))
      return error_set(p->e, RESULT_USAGE,
                       "--%s does not go with %s; see --help",
                       options_table[i].name, verb->name);
  if (p->o->command && !(verb->bit & SAMPLER))
    return error_set(p->e, RESULT_USAGE, "%s needs a %s, not a command",
                     verb->name,
                     verb->bit == VERB_REPORT ? "file" : "process id");
  return RESULT_OK;
}

static enum result check_whom(const struct options *o, struct error *e)
{
  if (o->pid && o->command)
    return error_set(e, RESULT_USAGE,
                     "either a process id or -- command, not both");
  if (o->command && o->inject)
    return error_set(e, RESULT_USAGE,
                     "--inject is for a process that runs already; a command "
                     "is started with the agent");
  if (o->follow && o->inject)
    return error_set(e, RESULT_USAGE,
                     "--inject is about one process: it does not go with "
                     "--follow");
  if (o->no_agent && o->inject)
    return error_set(e, RESULT_USAGE, "either --inject or --no-agent");
  if (o->pid || o->command)
    return RESULT_OK;
  if (!(o->verb->bit & SAMPLER))
    return error_set(e, RESULT_USAGE, "which process? " ATTACH_NAME " %s PID",
                     o->verb->name);
  return error_set(e, RESULT_USAGE,
                   "which process? " ATTACH_NAME " PID, or " ATTACH_NAME
                   " -- command (see --help)");
}

static enum result check_format(struct options *o, struct error *e)
{
  enum format_id id;
  enum result r = format_check(o->format, o->output, &id, e);
  if (r == RESULT_OK)
    o->format_id = id;
  return r;
}

static enum result check_record(struct options *o, struct error *e)
{
  if (!o->native && !o->lua && !o->zones && !o->state)
    return error_set(e, RESULT_USAGE,
                     "nothing is left of the stacks: --no-native, --no-lua, "
                     "--no-zones and --no-state together");
  if (o->no_agent && (o->require_agent || o->aborts))
    return error_set(e, RESULT_USAGE, "--no-agent and --%s exclude each other",
                     o->aborts ? "aborts" : "require-agent");
  if (o->categories && !o->report)
    return error_set(e, RESULT_USAGE,
                     "--categories is about the report: it needs --report, or "
                     "the verb report");
  if (!o->aborts && (o->benign || o->by_cost))
    return error_set(e, RESULT_USAGE,
                     "--%s is about the table of trace aborts: it needs "
                     "--aborts FILE, or the verb trace",
                     o->benign ? "benign" : "by-cost");
  if (o->aborts && o->follow)
    return error_set(e, RESULT_USAGE,
                     "--aborts is about one process: it does not go with "
                     "--follow");
  if (o->aborts && o->output && !strcmp(o->aborts, o->output))
    return error_set(e, RESULT_USAGE,
                     "--aborts and --output name the same file, %s", o->output);
  return check_format(o, e);
}

static enum result check_trace(const struct parse *p)
{
  /* VMs that were there before the agent are found in samples */
  p->o->samples |= p->o->by_cost || p->o->inject;
  if (!p->o->samples &&
      (used(p, "interval") || used(p, "freq") || used(p, "rate")))
    return error_set(p->e, RESULT_USAGE,
                     "trace takes samples only with --samples; without it, it "
                     "has no rate");
  return RESULT_OK;
}

static enum result check_report(struct options *o, struct error *e)
{
  if (!o->file)
    return error_set(e, RESULT_USAGE,
                     "which file? " ATTACH_NAME
                     " report FILE, or - for standard input");
  if (o->diff && !strcmp(o->file, "-") && !strcmp(o->diff, "-"))
    return error_set(e, RESULT_USAGE, "standard input can be read only once");
  enum result r = check_format(o, e);
  o->convert = o->format || o->format_id != FORMAT_COLLAPSED;
  if (r == RESULT_OK && o->convert && (o->diff || o->categories || o->zone))
    return error_set(e, RESULT_USAGE,
                     "--diff, --categories and --zone are about the report; "
                     "in another format (%s) the whole file is written",
                     o->format ? o->format : o->output);
  return r;
}

static enum result check_whole(const struct parse *p)
{
  enum result r = check_verb(p);
  if (r == RESULT_OK && p->o->verb->bit == VERB_REPORT)
    return check_report(p->o, p->e);
  if (r == RESULT_OK)
    r = check_whom(p->o, p->e);
  if (r == RESULT_OK && p->o->verb->bit == VERB_RECORD)
    r = check_record(p->o, p->e);
  if (r == RESULT_OK && p->o->verb->bit == VERB_TRACE)
    r = check_trace(p);
  return r;
}

static void defaults(struct options *o)
{
  memset(o, 0, sizeof *o);
  o->verb = verb_find("record");
  o->interval_ns = 10 * UNITS_MS;
  o->wait_ns = 3 * UNITS_S;
  o->depth = 256;
  o->native = o->lua = o->zones = o->state = true;
}

enum result options_parse(int argc, char **argv, struct options *o,
                          struct error *e)
{
  defaults(o);
  bool first = true;
  struct parse p = {argv + (argc > 0), o, e, 0};
  enum result r = RESULT_OK;
  while (r == RESULT_OK && o->action == OPTIONS_RUN && *p.arg && !o->command) {
    const char *a = *p.arg++;
    if (!strcmp(a, "--"))
      r = parse_command(&p);
    else if (!strncmp(a, "--", 2))
      r = parse_long(&p, a + 2);
    else if (a[0] == '-' && a[1])
      r = parse_short(&p, a + 1);
    else
      r = parse_word(&p, a, first), first = false;
  }
  if (r == RESULT_OK && o->action == OPTIONS_RUN)
    r = check_whole(&p);
  return r;
}
