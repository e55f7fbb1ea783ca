/* SPDX-License-Identifier: MIT
 *
 * TECS_AGENT=readable: where Yama lets a process be read by its ancestors
 * alone, others of the same user may read this one.
 * TECS_AGENT=log=off: no record log (reclog.h).
 * TECS_AGENT="start,interval=1ms,duration=5s,output=/tmp/%p.folded": a session
 * without a second terminal.  The agent does not print into a game that is not
 * being profiled: settings that it can't make sense of, or that the collector
 * would refuse, start nothing and are said in the segment, where `tecs-attach
 * status` finds them.  A collector that was started reports on the game's
 * stderr, as it does for a command that it started.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/profile_internal.h"
#include "agent/reclog.h"
#include "base/atomics.h"

enum { SETTINGS_MAX = 2048, OUTPUT_MAX = 1024, ARGS_MAX = 20 };

static bool is_interval(const char *v);
static bool is_duration(const char *v);
static bool is_depth(const char *v);
static bool is_zone(const char *v);
static bool is_output(const char *v);

static const struct {
  const char *name, *option;
  bool (*is_good)(const char *v);
} known[] = {
    {"interval", "-i", is_interval}, {"duration", "-d", is_duration},
    {"depth", "-D", is_depth},       {"zone", "-z", is_zone},
    {"output", "-o", is_output},
};
enum { KNOWN = sizeof known / sizeof known[0], OUTPUT = 4 };

static struct {
  volatile uint32_t armed;
  bool readable;
  char settings[SETTINGS_MAX]; /* split at the commas */
  const char *value[KNOWN];    /* into settings; NULL: not given */
} asked;

static void notice(enum tecs_reason reason)
{
  if (agent_ready())
    atomic_release(&agent.shm.header->reason, (uint32_t)reason);
}

/* ---- reading ---- */

/* What the collector would refuse is refused here, so that all of it is said in
 * one place (attach/units.c and options.c have the same limits). */

enum { DECIMALS = 9, DIGITS = 15 };

/* Reads digits with at most one point; NULL: no number. */
static const char *number(const char *v, double *out)
{
  unsigned digits = 0, decimals = 0;
  bool point = false;
  double scale = 1;
  *out = 0;
  for (; (*v >= '0' && *v <= '9') || (*v == '.' && !point); v++) {
    if (*v == '.') {
      point = true;
      continue;
    }
    digits++;
    decimals += point;
    scale *= point ? 10 : 1;
    *out = *out * 10 + (*v - '0');
  }
  *out /= scale;
  return digits && digits <= DIGITS && decimals <= DECIMALS && v[-1] != '.'
             ? v
             : NULL;
}

/* A time in seconds; a number without a unit counts in `bare`. */
static bool time_within(const char *v, double bare, double lo, double hi)
{
  static const struct {
    const char *name;
    double s;
  } units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  double n, unit = 0;
  const char *rest = number(v, &n);
  if (rest && !*rest)
    unit = bare;
  for (size_t i = 0; rest && i < sizeof units / sizeof units[0]; i++)
    if (!strcmp(rest, units[i].name))
      unit = units[i].s;
  /* a thousandth of what a nanosecond is of the shortest: for rounding */
  return n * unit >= lo * (1 - 1e-12) && n * unit <= hi * (1 + 1e-12);
}

static bool is_interval(const char *v)
{
  return time_within(v, 1e-3, 100e-6, 60);
}

static bool is_duration(const char *v)
{
  return time_within(v, 1, 1e-9, 365 * 86400.0);
}

static bool is_depth(const char *v)
{
  double n;
  const char *rest = number(v, &n);
  return rest && !*rest && !strchr(v, '.') && n >= 1 && n <= PROFILE_DEPTH_MAX;
}

static bool is_zone(const char *v)
{
  return *v != 0;
}

static bool expand(const char *pattern, struct text *t);

/* Standard output is the program's own. */
static bool is_output(const char *v)
{
  char path[OUTPUT_MAX];
  struct text t = text_in(path, sizeof path);
  return strcmp(v, "-") != 0 && expand(v, &t);
}

static enum tecs_fault set(const char *word)
{
  size_t len = strcspn(word, "=");
  for (unsigned i = 0; i < KNOWN; i++) {
    if (strlen(known[i].name) != len || strncmp(known[i].name, word, len))
      continue;
    asked.value[i] = word + len + 1;
    bool good = word[len] && word[len + 1] && known[i].is_good(asked.value[i]);
    return good ? TECS_FAULT_NONE : TECS_FAULT_VALUE;
  }
  return TECS_FAULT_UNKNOWN;
}

/* What is asked for besides `readable`. */
struct wishes {
  bool start, no_log;
};

static enum tecs_fault parse(const char *settings, struct wishes *w, size_t *at,
                             size_t *len)
{
  struct text t = text_in(asked.settings, sizeof asked.settings);
  text_add(&t, settings);
  enum tecs_fault fault = t.cut ? TECS_FAULT_TOO_LONG : TECS_FAULT_NONE;
  *w = (struct wishes){false, false};
  *at = *len = 0;
  for (bool last = false; !fault && !last;) {
    char *word = asked.settings + *at;
    *len = strcspn(word, ",");
    last = !word[*len];
    word[*len] = 0;
    if (!strcmp(word, "start"))
      w->start = true;
    else if (!strcmp(word, "readable"))
      asked.readable = true;
    else if (!strcmp(word, "log=off"))
      w->no_log = true;
    else
      fault = set(word);
    if (!fault)
      *at += *len + 1;
  }
  /* settings without `start` do nothing: said, rather than left to be found */
  if (fault || w->start || w->no_log || asked.readable)
    return fault;
  *at = *len = 0;
  return TECS_FAULT_NO_START;
}

static void refuse(enum tecs_fault fault, size_t at, size_t len)
{
  if (agent_ready()) {
    agent.shm.header->fault_at = (uint32_t)at;
    agent.shm.header->fault_len = (uint32_t)len;
    agent.shm.header->fault = fault;
  }
  notice(TECS_REASON_BAD_ENV);
}

/* prctl(2); fails where there is no Yama, and then nothing is needed.  Not
 * inherited by a child. */
void profile_autostart_forked(void)
{
  if (asked.readable)
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

void profile_autostart_read(void)
{
  struct wishes w;
  size_t at, len;
  const char *settings = getenv("TECS_AGENT");
  if (!settings || !*settings)
    return;
  enum tecs_fault fault = parse(settings, &w, &at, &len);
  profile_autostart_forked();
  if (w.no_log)
    reclog_off();
  if (fault)
    refuse(fault, at, len);
  else if (w.start)
    atomic_release(&asked.armed, 1u);
}

/* ---- starting ---- */

/* %p is the process's number, %% a per cent sign. */
static bool expand(const char *pattern, struct text *t)
{
  for (; *pattern; pattern++) {
    if (*pattern != '%')
      text_add_bytes(t, pattern, 1);
    else if (*++pattern == 'p')
      text_add_number(t, (uint64_t)getpid(), 10);
    else if (*pattern == '%')
      text_add(t, "%");
    else
      return false;
  }
  return !t->cut;
}

/* image: of which program in this process, and all its VMs (--vm). */
static void compose(char **argv, const char *output, const char *image,
                    const char *pid)
{
  size_t argc = 0;
  argv[argc++] = "tecs-attach";
  argv[argc++] = "record";
  argv[argc++] = "--lines";
  argv[argc++] = "--keep-own"; /* what this process wrote before an exec */
  argv[argc++] = "--vm";
  argv[argc++] = (char *)image;
  for (unsigned i = 0; i < KNOWN; i++) {
    const char *value = i == OUTPUT ? output : asked.value[i];
    if (!value)
      continue;
    argv[argc++] = (char *)known[i].option;
    argv[argc++] = (char *)value;
  }
  argv[argc] = (char *)pid;
}

static enum tecs_reason start(void)
{
  char output[OUTPUT_MAX], image[24], pid[24], message[64];
  char *argv[ARGS_MAX] = {NULL};
  struct text out = text_in(output, sizeof output);
  struct text number = text_in(pid, sizeof pid);
  struct text of = text_in(image, sizeof image);
  struct text why = text_in(message, sizeof message);
  struct collector *c;
  const char *pattern = asked.value[OUTPUT];
  if (!expand(pattern ? pattern : "tecs-%p.folded", &out))
    return TECS_REASON_BAD_ENV;
  text_add_number(&number, (uint64_t)getpid(), 10);
  text_add(&of, "0@");
  text_add_number(&of, agent.cookie, 16);
  compose(argv, output, image, pid);
  if (!agent_ready() || !sample_claim_autostart(&c))
    return TECS_REASON_NONE; /* the game was faster */
  if (collector_start(c, argv, true, &why))
    return TECS_REASON_NONE;
  sample_drop_autostart();
  return TECS_REASON_NO_COLLECTOR;
}

void profile_autostart(void)
{
  if (!atomic_get(&asked.armed) ||
      !__atomic_exchange_n(&asked.armed, 0u, __ATOMIC_ACQ_REL))
    return;
  enum tecs_reason reason = start();
  if (reason != TECS_REASON_NONE)
    notice(reason);
}
