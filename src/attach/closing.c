/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "attach/attach_internal.h"

void say(const char *fmt, ...)
{
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  /* In one write, so that lines of programs that share a terminal stay whole.
   */
  fprintf(stderr, ATTACH_NAME ": %s\n", text);
}

static void counted(struct strbuf *b, uint64_t n, const char *noun)
{
  strbuf_printf(b, "%" PRIu64 " %s%s", n, noun, n == 1 ? "" : "s");
}

/* Hertz with one digit after the point, none when it is 0; below 1 Hz with two
 * digits that say something. */
static void hertz(struct strbuf *b, double hz)
{
  uint64_t tenths = (uint64_t)(hz * 10 + 0.5);
  if (hz > 0 && hz < 1) {
    strbuf_printf(b, "%.2g", hz);
    return;
  }
  strbuf_printf(b, "%" PRIu64, tenths / 10);
  if (tenths % 10)
    strbuf_printf(b, ".%" PRIu64, tenths % 10);
}

static bool by_ptrace(const struct session_account *a)
{
  return a->engine == SESSION_ENGINE_PTRACE;
}

/* " (3 ring full, 1 not delivered)" */
static void reasons(struct strbuf *b, const struct session_account *a)
{
  const struct {
    uint64_t n;
    const char *why;
  } row[] = {{a->lost_full, "ring full"},
             {a->undelivered, by_ptrace(a) ? "did not stop" : "not delivered"},
             {a->lost_bad, "bad record"}};
  const char *before = " (";
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
    if (!row[i].n)
      continue;
    strbuf_printf(b, "%s%" PRIu64 " %s", before, row[i].n, row[i].why);
    before = ", ";
  }
  if (*before == ',')
    strbuf_add_str(b, ")");
}

static void samples_part(struct strbuf *b, const struct closing *c)
{
  const struct session_account *a = c->acc;
  counted(b, a->samples, "sample");
  strbuf_printf(b, " of %" PRIu64 " sent, %" PRIu64 " lost", a->sent, a->lost);
  reasons(b, a);
  if (a->of_zone)
    strbuf_printf(b, ", %" PRIu64 " outside zone %s", a->of_zone,
                  c->zone ? c->zone : "?");
  if (a->of_vm)
    strbuf_printf(b, ", %" PRIu64 " outside the VM", a->of_vm);
  if (a->of_pause)
    strbuf_printf(b, ", %" PRIu64 " in a pause", a->of_pause);
  strbuf_printf(b, ", %" PRIu64 " partial", a->partial);
  if (a->partial)
    strbuf_add_str(b, " (a part of the stack is missing)");
  if (a->lua_partial)
    strbuf_printf(b, ", %" PRIu64 " with an incomplete Lua part",
                  a->lua_partial);
}

/* "; compiled: 97.2 % line, 2.6 % function, 0.2 % trace" */
static void compiled_part(struct strbuf *b, const struct session_account *a)
{
  const struct {
    uint64_t n;
    const char *what;
    bool always;
  } row[] = {{a->of_line, "line", true},
             {a->of_function, "function", true},
             {a->of_trace, "trace", true},
             {a->of_snapshot, "by snapshot", false}};
  uint64_t all = a->of_line + a->of_function + a->of_trace + a->of_snapshot;
  const char *before = "; compiled: ";
  for (size_t i = 0; all && i < sizeof row / sizeof row[0]; i++) {
    if (!row[i].n && !row[i].always)
      continue;
    strbuf_printf(b, "%s%.1f %% %s", before,
                  100.0 * (double)row[i].n / (double)all, row[i].what);
    before = ", ";
  }
}

static void asleep_part(struct strbuf *b, const struct session_account *a)
{
  if (a->asleep || a->asleep_filtered || a->asleep_unread)
    strbuf_printf(b, "; %" PRIu64 " of sleeping threads", a->asleep);
  if (a->asleep_filtered)
    strbuf_printf(b, ", %" PRIu64 " outside the zone", a->asleep_filtered);
  if (a->asleep_unread)
    strbuf_printf(b, ", %" PRIu64 " could not be read", a->asleep_unread);
  if (a->waiting)
    strbuf_printf(b, "; %" PRIu64 " more of threads that waited for a CPU",
                  a->waiting);
}

static void rate_part(struct strbuf *b, const struct closing *c)
{
  const struct session_account *a = c->acc;
  double seconds = (double)a->elapsed_ns / 1e9;
  strbuf_add_str(b, "; ");
  double sampled = c->follow ? (double)c->follow->process_ns / 1e9 : seconds;
  sampled -= (double)a->held_ns / 1e9;
  hertz(b, sampled > 0 ? (double)a->ticks / sampled : 0);
  strbuf_add_str(b, " of ");
  hertz(b, 1e9 / (double)c->interval_ns);
  strbuf_printf(b, " Hz for %.1f s", seconds);
  if (a->paused_ns)
    strbuf_printf(b, " and %.1f s of pauses", (double)a->paused_ns / 1e9);
  if (a->skipped) {
    strbuf_add_str(b, ", ");
    counted(b, a->skipped, "late tick");
    strbuf_add_str(b, " left out");
  }
  if (a->no_slot) {
    strbuf_add_str(b, ", ");
    counted(b, a->no_slot, "tick");
    strbuf_add_str(b, " of threads beyond the 128 that are sampled at once");
  }
}

static void seen_part(struct strbuf *b, const struct closing *c)
{
  const struct session_account *a = c->acc;
  strbuf_add_str(b, "; ");
  if (c->follow) {
    strbuf_printf(b, "%u of %u processes", c->follow->processes,
                  c->follow->seen);
    if (c->follow->outside)
      strbuf_printf(b, " (%u from outside)", c->follow->outside);
    strbuf_add_str(b, ", ");
  }
  counted(b, a->vms, "VM");
  if (a->unknown_vms)
    strbuf_printf(b, " (and %u of %s, layout unknown: native stacks only)",
                  a->unknown_vms, *a->luajit ? a->luajit : "a LuaJIT");
  strbuf_add_str(b, ", ");
  counted(b, a->threads, "thread");
  if (a->blocked_threads) {
    strbuf_add_str(b, " (and ");
    counted(b, a->blocked_threads, "thread");
    strbuf_add_str(b, a->blocked_threads == 1
                          ? " that blocks SIGURG, not sampled)"
                          : " that block SIGURG, not sampled)");
  }
}

/* ", handler 1.9 us (median), 13.3 us (99 %)" */
static void times_part(struct strbuf *b, const struct session_account *a,
                       const char *what)
{
  strbuf_printf(b, "%s %.1f us (median), %.1f us (99 %%)", what,
                (double)session_cost_ns(a, 0.5) / 1e3,
                (double)session_cost_ns(a, 0.99) / 1e3);
}

void closing_line(struct strbuf *b, const struct closing *c)
{
  const struct session_account *a = c->acc;
  samples_part(b, c);
  compiled_part(b, a);
  asleep_part(b, a);
  rate_part(b, c);
  seen_part(b, c);
  strbuf_printf(b, "; engine %s", by_ptrace(a) ? "ptrace" : "agent");
  if (by_ptrace(a) && a->samples + a->filtered)
    times_part(b, a, ", stops");
  strbuf_printf(
      b, ", own CPU %.1f%%",
      a->elapsed_ns ? 100.0 * (double)a->cpu_ns / (double)a->elapsed_ns : 0.0);
}

void closing_details(struct strbuf *b, const struct session_account *a,
                     size_t stacks, uint64_t peak_kb)
{
  uint64_t samples = a->samples + a->filtered;
  strbuf_printf(b, "%" PRIu64 " ticks, %" PRIu64 " bytes of records", a->ticks,
                a->bytes);
  if (samples) {
    strbuf_printf(b, " (%" PRIu64 " a sample)", a->bytes / samples);
    if (!by_ptrace(a))
      times_part(b, a, ", handler");
  }
  strbuf_printf(b, ", %zu stacks, %u execs", stacks, a->execs);
  if (peak_kb)
    strbuf_printf(b, ", own memory %.1f MB at most", (double)peak_kb / 1024);
}

/* getrusage would count the shell before exec, too. */
uint64_t closing_own_peak(void)
{
  uint64_t kb = 0;
  char line[256];
  FILE *f = fopen("/proc/self/status", "re");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "VmHWM: %" SCNu64 " kB", &kb) == 1)
      break;
  if (f)
    fclose(f);
  return kb;
}

void closing_why_empty(struct strbuf *b, const struct closing *c)
{
  const struct session_account *a = c->acc;
  if (a->samples || a->asleep || c->too_soon)
    return;
  strbuf_add_str(b, "no samples: ");
  if (a->of_zone)
    strbuf_printf(b, "all %" PRIu64 " were outside zone %s", a->of_zone,
                  c->zone ? c->zone : "?");
  else if (a->of_vm)
    strbuf_printf(b, "all %" PRIu64 " were outside the VM", a->of_vm);
  else if (a->sent)
    strbuf_printf(b,
                  "could not read any: %" PRIu64 " asked for, %" PRIu64 " lost",
                  a->sent, a->lost);
  else if (a->paused_ns > a->elapsed_ns)
    strbuf_printf(b, "the session was paused for %.1f of %.1f s",
                  (double)a->paused_ns / 1e9,
                  (double)(a->paused_ns + a->elapsed_ns) / 1e9);
  else if (c->stopped)
    strbuf_add_str(b, "the target is stopped (state T)");
  else if (a->blocked_threads)
    strbuf_add_str(b, "the target's busy threads block SIGURG");
  else
    strbuf_add_str(b, "the target was idle (no thread on a CPU)");
}

void closing_why_unread(struct strbuf *b, const struct session_account *a)
{
  if (a->asleep_denied)
    strbuf_add_str(b, "sleeping threads could not be read: the system lets a "
                      "process be read by its ancestors alone (Yama); run "
                      "tecs-attach as root or with CAP_SYS_PTRACE, let it "
                      "start the program, or start that with "
                      "TECS_AGENT=readable");
}

void closing_progress(struct strbuf *b, const struct session_account *acc)
{
  strbuf_printf(b, "%" PRIu64 " s: ", acc->elapsed_ns / UNITS_S);
  counted(b, acc->samples, "sample");
  strbuf_printf(b, ", %" PRIu64 " lost, ", acc->lost);
  counted(b, acc->vms, "VM");
  strbuf_add_str(b, ", ");
  counted(b, acc->threads, "thread");
  strbuf_add_str(b, " (Ctrl-C ends and writes)");
}

/* ---- trace sessions ---- */

static void sites_part(struct strbuf *b, const struct session_trace_account *a,
                       bool benign)
{
  counted(b, a->aborts - (benign ? 0 : a->benign), "trace abort");
  strbuf_add_str(b, " at ");
  counted(b, a->sites + (benign ? a->benign_sites : 0), "site");
  strbuf_printf(b, ", %" PRIu64 " blacklisted", a->blacklists);
}

void closing_trace_line(struct strbuf *b, const struct session_trace_account *a,
                        bool benign)
{
  sites_part(b, a, benign);
  if (a->benign && !benign)
    strbuf_printf(b, "; %" PRIu64 " benign ones left out (--benign)",
                  a->benign);
  strbuf_add_str(b, "; ");
  counted(b, a->starts, "trace");
  strbuf_printf(b, " begun, %" PRIu64 " completed", a->stops);
  if (a->flushes)
    strbuf_printf(b, ", all flushed %" PRIu64 " times", a->flushes);
  strbuf_printf(b, "; for %.1f s; ", (double)a->elapsed_ns / 1e9);
  counted(b, a->vms, "VM");
}

void closing_trace_progress(struct strbuf *b,
                            const struct session_trace_account *a, bool benign)
{
  strbuf_printf(b, "%" PRIu64 " s: ", a->elapsed_ns / UNITS_S);
  sites_part(b, a, benign);
  strbuf_add_str(b, " (Ctrl-C ends and writes)");
}
