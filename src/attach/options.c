/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stddef.h>
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
  (void)o;
  if (!strcmp(v, "cpu"))
    return RESULT_OK;
  if (!strcmp(v, "wall"))
    return error_set(e, RESULT_USAGE,
                     "--mode wall is not in this version; it samples threads "
                     "on a CPU (--mode cpu)");
  return error_set(e, RESULT_USAGE, "unknown mode '%s'; try --mode cpu", v);
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

#define FLAG(letter, name, field, value, help)                                 \
  {                                                                            \
    letter, name, NULL, NULL, offsetof(struct options, field), value, help     \
  }
#define CALL(letter, name, arg, set, help)                                     \
  {                                                                            \
    letter, name, arg, set, 0, false, help                                     \
  }

const struct option_row options_table[] = {
    CALL('p', "pid", "PID", set_pid, "the process (or just PID)"),
    CALL('i', "interval", "TIME", set_interval,
         "sampling interval: 10, 10ms, 500us; a bare number is milliseconds "
         "(10ms)"),
    CALL('F', "freq", "HZ", set_rate, "the same as a rate: -F 999"),
    CALL('r', "rate", "HZ", set_rate, "the same as --freq"),
    CALL('d', "duration", "TIME", set_duration,
         "stop after that long; a bare number is seconds (until Ctrl-C or the "
         "target's end)"),
    CALL('D', "depth", "N", set_depth,
         "frames kept per stack, innermost kept (256)"),
    CALL('z', "zone", "PREFIX", set_zone,
         "only samples whose zone path starts with PREFIX"),
    FLAG('t', "threads", threads, true,
         "split by thread: a root frame name/tid"),
    FLAG(0, "vms", vms, true, "split by VM"),
    CALL(0, "mode", "cpu", set_mode, "threads on a CPU (cpu)"),
    FLAG(0, "lines", lines, true,
         "Lua frames carry the current line, not the function's first"),
    FLAG(0, "no-native", native, false, "leave native frames out"),
    FLAG(0, "no-lua", lua, false, "leave Lua frames and builtins out"),
    FLAG(0, "no-zones", zones, false, "leave zones out"),
    FLAG(0, "no-state", state, false, "leave the VM state out"),
    CALL('o', "output", "FILE", set_output,
         "write there, complete or not at all (stdout)"),
    CALL('f', "format", "NAME", set_format,
         "collapsed: by the file's suffix (.folded .collapsed .txt), and the "
         "default"),
    CALL(0, "wait", "TIME", set_wait,
         "how long to wait for a VM to appear; a bare number is seconds (3s)"),
    FLAG(0, "require-agent", require_agent, true,
         "fail when the agent is not loaded (always so in this version)"),
    FLAG('v', "verbose", verbose, true, "say more on stderr"),
    FLAG('q', "quiet", quiet, true, "no progress, no closing line"),
    CALL('h', "help", NULL, set_help, "this text"),
    CALL(0, "version", NULL, set_version, "the version"),
};
const size_t options_count = sizeof options_table / sizeof options_table[0];

/* Known from the documentation of later versions: told apart from a typing
 * error. */
static const char *const later[] = {
    "no-agent",   "inject", "follow",  "inline",     "weight", "report",
    "aborts",     "benign", "samples", "by-cost",    "batch",  "diff",
    "categories", "slow",   "frames",  "frame-zone", "live",   "push",
};

/* ---- the parser ---- */

struct parse {
  char **arg; /* next one */
  struct options *o;
  struct error *e;
};

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

static enum result check_whole(const struct options *o, struct error *e)
{
  if (o->pid && o->command)
    return error_set(e, RESULT_USAGE,
                     "either a process id or -- command, not both");
  if (!o->pid && !o->command)
    return error_set(e, RESULT_USAGE,
                     "which process? " ATTACH_NAME " PID, or " ATTACH_NAME
                     " -- command (see --help)");
  if (!o->native && !o->lua && !o->zones && !o->state)
    return error_set(e, RESULT_USAGE,
                     "nothing is left of the stacks: --no-native, --no-lua, "
                     "--no-zones and --no-state together");
  return format_check(o->format, o->output, e);
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
  struct parse p = {argv + (argc > 0), o, e};
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
    r = check_whole(o, e);
  return r;
}
