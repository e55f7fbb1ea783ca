/* SPDX-License-Identifier: MIT
 *
 * TECS_AGENT=readable: where Yama lets a process be read by its ancestors
 * alone, others of the same user may read this one.
 * TECS_AGENT="start,interval=1ms,duration=5s,output=/tmp/%p.folded": a session
 * without a second terminal.  The agent does not print: what it can't make
 * sense of is said in the segment, where `tecs-attach status` finds it.  The
 * collector reports on the game's stderr, as it does for a command that it
 * started.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/profile_internal.h"
#include "base/atomics.h"

enum { SETTINGS_MAX = 2048, OUTPUT_MAX = 1024, ARGS_MAX = 20 };

static const struct {
  const char *name, *option;
} known[] = {
    {"interval", "-i"}, {"duration", "-d"}, {"depth", "-D"},
    {"zone", "-z"},     {"output", "-o"},
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

/* What the collector takes for a time or a number: digits, a unit. */
static bool is_number(const char *v)
{
  static const char *const units[] = {"", "us", "ms", "s", "m", "h"};
  size_t digits = strspn(v, "0123456789.");
  if (strspn(v, "0.") == digits) /* nothing, or zero */
    return false;
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (!strcmp(v + digits, units[i]))
      return true;
  return false;
}

static bool set(const char *word)
{
  size_t len = strcspn(word, "=");
  if (!word[len] || !word[len + 1])
    return false;
  for (unsigned i = 0; i < KNOWN; i++) {
    if (strlen(known[i].name) != len || strncmp(known[i].name, word, len))
      continue;
    asked.value[i] = word + len + 1;
    return i > 2 || is_number(asked.value[i]);
  }
  return false;
}

static bool parse(const char *settings, bool *start, bool *readable)
{
  struct text t = text_in(asked.settings, sizeof asked.settings);
  text_add(&t, settings);
  bool ok = !t.cut, last = !*settings;
  *start = *readable = false;
  for (char *word = asked.settings; ok && !last;) {
    size_t len = strcspn(word, ",");
    last = !word[len];
    word[len] = 0;
    if (!strcmp(word, "start"))
      *start = true;
    else if (!strcmp(word, "readable"))
      *readable = true;
    else
      ok = set(word);
    word += len + 1;
  }
  return ok;
}

/* Standard output is the program's own. */
static bool to_stdout(void)
{
  return asked.value[OUTPUT] && !strcmp(asked.value[OUTPUT], "-");
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
  bool start;
  const char *settings = getenv("TECS_AGENT");
  if (!settings || !*settings)
    return;
  /* settings without `start` do nothing: said, rather than left to be found */
  bool ok = parse(settings, &start, &asked.readable);
  profile_autostart_forked();
  if (!ok || !(start || asked.readable) || to_stdout())
    notice(TECS_REASON_BAD_ENV);
  else if (start)
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

static void compose(char **argv, const char *output, const char *pid)
{
  size_t argc = 0;
  argv[argc++] = "tecs-attach";
  argv[argc++] = "record";
  argv[argc++] = "--lines";
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
  char output[OUTPUT_MAX], pid[24], message[64];
  char *argv[ARGS_MAX] = {NULL};
  struct text out = text_in(output, sizeof output);
  struct text number = text_in(pid, sizeof pid);
  struct text why = text_in(message, sizeof message);
  struct collector *c;
  const char *pattern = asked.value[OUTPUT];
  if (!expand(pattern ? pattern : "tecs-%p.folded", &out))
    return TECS_REASON_BAD_ENV;
  text_add_number(&number, (uint64_t)getpid(), 10);
  compose(argv, output, pid);
  if (!sample_claim_autostart(&c))
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
