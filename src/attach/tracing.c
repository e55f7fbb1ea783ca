/* SPDX-License-Identifier: MIT
 *
 * A trace session and its table, for the verb trace and for record --aborts.
 */
#include "attach/attach_internal.h"
#include "base/clock.h"
#include "output/output.h"
#include "profile/profile.h"

enum result tracing_open(struct tracing *t, const struct options *o,
                         const char *path, struct error *e)
{
  t->o = o;
  t->table = aborts_new();
  if (!t->table)
    return error_set(e, RESULT_NOMEM, "no memory");
  return output_file_open(path, &t->out, e);
}

enum result tracing_begin(struct tracing *t, struct target *target,
                          struct error *e)
{
  t->start = clock_mono_ns();
  return session_trace_begin(target, t->o->command != NULL, &signals_stop,
                             t->table, &t->session, e);
}

enum result tracing_outside(struct tracing *t, struct target *target,
                            struct error *e)
{
  t->start = clock_mono_ns();
  t->outside = true;
  return session_trace_outside(target, t->table, &t->session, e);
}

void tracing_hit(void *tracing, const struct session_hit *hit)
{
  struct tracing *t = tracing;
  enum result r = aborts_sample(t->table, hit->chunk, hit->pt, hit->firstline,
                                hit->numline, hit->state);
  if (r != RESULT_OK)
    t->failed = r;
}

enum session_trace_state tracing_poll(struct tracing *t, uint64_t now)
{
  if (t->state == SESSION_TRACE_RUNS)
    t->state = session_trace_poll(t->session, now);
  return t->state;
}

/* ---- what is said at the end ---- */

static void tell_deaf(const struct tracing *t, int pid)
{
  const struct session_trace_account *a = &t->acc;
  unsigned other = a->replaced + a->withdrawn + a->waiting;
  unsigned mute = a->deaf > other ? a->deaf - other : 0;
  if (a->replaced) {
    double since = (double)a->replaced_ns / 1e9 - (double)t->start / 1e9;
    say("the program in %d has put its own listener in the place of the "
        "agent's (%u of %u VMs), %.0f s %s this session began: aborts since "
        "then are not counted",
        pid, a->replaced, a->vms, since < 0 ? -since : since,
        since < 0 ? "before" : "after");
  }
  if (a->withdrawn)
    say("exact counts are not available in %u of %u VMs of %d: its LuaJIT has "
        "a fault that kills while somebody listens, which the agent mends in "
        "a SIGSEGV handler, and the VM's thread blocks SIGSEGV or has too "
        "small an alternate stack for it (under 8 KB)",
        a->withdrawn, a->vms, pid);
  if (a->waiting)
    say("exact counts are not available yet in %u of %u VMs of %d: the agent "
        "came late, and waits for a moment at which the Lua API may be called "
        "(a sample in Lua code or in a system call)",
        a->waiting, a->vms, pid);
  if (mute && !t->outside)
    say("exact counts are not available in %u of %u VMs of %d: its LuaJIT "
        "exports no Lua API to listen with (linked in statically, without "
        "dynamic symbols)",
        mute, a->vms, pid);
  if (a->outside_sites)
    say("%u rows were read from its memory instead (column source): where "
        "LuaJIT's penalty cache or patched bytecode says that traces began and "
        "were given up, at any time",
        a->outside_sites);
}

static void tell(const struct tracing *t, int pid)
{
  const struct session_trace_account *a = &t->acc;
  struct strbuf b = STRBUF_INIT;
  if (t->o->quiet)
    return;
  tell_deaf(t, pid);
  if (a->vms && a->jit_off >= a->vms && !a->starts)
    say("the JIT compiler is off in %s of %d: nothing is compiled, so nothing "
        "is aborted",
        a->vms == 1 ? "the VM" : "all VMs", pid);
  if (a->overflow)
    say("%llu aborts are in no row: the table has room for %u distinct ones",
        (unsigned long long)a->overflow, TECS_ABORT_ROWS);
  if (!a->vms && !t->outside)
    strbuf_printf(&b, "no VM was seen in %d: nothing was counted", pid);
  else if (t->outside)
    strbuf_printf(&b, "%u sites read from outside", a->outside_sites);
  else
    closing_trace_line(&b, a, t->o->benign);
  say("%s", strbuf_text(&b));
  strbuf_free(&b);
}

/* ---- the table ---- */

static enum result write_table(struct tracing *t, struct error *e)
{
  struct output_aborts o = {.benign = t->o->benign,
                            .samples = t->o->samples || t->o->aborts,
                            .by_cost = t->o->by_cost,
                            .source = t->acc.outside_sites > 0};
  struct strbuf text = STRBUF_INIT;
  struct output_file *out = t->out;
  if (o.samples)
    aborts_join(t->table);
  enum result r = output_aborts(t->table, &o, &text);
  t->out = NULL;
  if (r == RESULT_OK) {
    r = output_file_finish(out, &text, e);
  } else {
    output_file_abandon(out);
    error_set(e, r, "cannot write the table: %s", result_text(r));
  }
  strbuf_free(&text);
  return r == RESULT_END ? RESULT_OK : r; /* the reader had enough */
}

void tracing_end(struct tracing *t)
{
  if (!t->session)
    return;
  enum result r = session_trace_end(t->session, &t->acc);
  t->session = NULL;
  if (r != RESULT_OK && t->failed != RESULT_NOMEM)
    t->failed = r;
}

enum result tracing_finish(struct tracing *t, int pid, struct error *e)
{
  tracing_end(t);
  if (t->failed == RESULT_NOMEM)
    return error_set(e, t->failed, "no memory for the table of trace aborts");
  if (t->failed)
    say("rows of the agent's table in %d made no sense and were left out", pid);
  enum result r = write_table(t, e);
  tell(t, pid);
  return r;
}

void tracing_free(struct tracing *t)
{
  tracing_end(t);
  if (t->out)
    output_file_abandon(t->out);
  aborts_free(t->table);
  *t = (struct tracing){0};
}
