/* SPDX-License-Identifier: MIT
 *
 * The verb that says what there is in a process and what can be had from it:
 * lines `key: value`, keys that stay the same.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/attach_internal.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "target/target.h"

struct status_text {
  struct strbuf text;
  struct target *target;
  struct shm shm; /* fd -1: no agent */
  bool traces;    /* each of them */
  struct session_vm vm[TECS_VMS];
  unsigned vms, known; /* of them: of a known layout */
  unsigned heard, replaced, waiting, mute;
  struct error no_agent; /* why there is none */
};

#define LINE(s, ...) strbuf_printf(&(s)->text, __VA_ARGS__)

/* ---- the agent and its VMs ---- */

static const char *state_text(const struct tecs_header *h)
{
  switch (atomic_acquire(&h->state)) {
  case TECS_STATE_STARTING:
    return "starting";
  case TECS_STATE_READY:
    return "ready";
  default:
    break;
  }
  return h->reason == TECS_REASON_SIGNAL_TAKEN
             ? "off: it could not install its signal handler"
             : "off: it got no memory at start";
}

void status_add_plain(struct strbuf *b, const char *text, size_t len)
{
  for (; len; text++, len--) {
    char c = (unsigned char)*text < 32 || *text == 127 ? '?' : *text;
    strbuf_add(b, &c, 1);
  }
}

/* What is good for the setting (agent/profile_autostart.c). */
static const char *good_values(const char *setting, size_t len)
{
  static const struct {
    const char *name, *text;
  } all[] = {
      {"interval", "100us to 60s; a bare number is milliseconds"},
      {"duration", "more than 0 to 8760h; a bare number is seconds"},
      {"depth", "1 to 4096 frames"},
      {"zone", "what zone paths begin with"},
      {"output", "a file, %p in its name for the process id and %% for a per "
                 "cent sign; stdout is the program's own"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    size_t n = strlen(all[i].name);
    if (n <= len && !memcmp(all[i].name, setting, n) &&
        (n == len || setting[n] == '='))
      return all[i].text;
  }
  return NULL;
}

static void fault_text(struct status_text *s, uint32_t fault, const char *word,
                       size_t len)
{
  const char *good = good_values(word, len);
  if (fault == TECS_FAULT_NO_START)
    LINE(s, ": `start` is missing");
  else if (fault == TECS_FAULT_TOO_LONG)
    LINE(s, ": it is longer than 2047 bytes");
  if (fault != TECS_FAULT_UNKNOWN && fault != TECS_FAULT_VALUE)
    return;
  LINE(s, ": '");
  status_add_plain(&s->text, word, len);
  if (fault == TECS_FAULT_UNKNOWN)
    LINE(s, "' is no setting (there are: start, readable, interval, duration, "
            "depth, zone, output, log=off)");
  else
    LINE(s, "' is refused%s%s%s", good ? " (" : "", good ? good : "",
         good ? ")" : "");
}

/* The setting lies in the environment that the program was started with, which
 * it may have overwritten since. */
static void bad_setting(struct status_text *s, const struct tecs_header *h)
{
  char *value = target_variable(target_pid(s->target), "TECS_AGENT");
  size_t len = value ? strlen(value) : 0;
  LINE(s, "agent.notice: TECS_AGENT is not understood, so nothing was started");
  if (h->fault_at <= len && h->fault_len <= len - h->fault_at && value)
    fault_text(s, h->fault, value + h->fault_at, h->fault_len);
  LINE(s, "; try TECS_AGENT=\"start,interval=1ms,duration=5s,output=FILE\"\n");
  free(value);
}

/* In state READY: what the agent was asked for and did not do. */
static void notice_line(struct status_text *s, const struct tecs_header *h)
{
  if (h->reason == TECS_REASON_BAD_ENV)
    bad_setting(s, h);
  if (h->reason == TECS_REASON_NO_COLLECTOR)
    LINE(s, "agent.notice: TECS_AGENT asks for a session, but " ATTACH_NAME
            " was not found or not started; set TECS_ATTACH to its path\n");
}

static void agent_lines(struct status_text *s)
{
  const struct tecs_header *h = s->shm.header;
  if (s->shm.fd < 0) {
    LINE(s, "agent: none\n");
    return;
  }
  LINE(s, "agent: %.*s\n", (int)sizeof h->build, h->build);
  LINE(s, "agent.state: %s\n", state_text(h));
  LINE(s, "agent.segment: %u.%u\n", h->major, h->minor);
  LINE(s, "agent.loaded: %s\n",
       h->flags & TECS_AGENT_LATE
           ? "late, into the running process: zones of C code (tecs/zone.h) "
             "are not seen; VMs are found in samples; names of code that was "
             "loaded before come from what is left of it"
           : "from the program's start");
  notice_line(s, h);
}

static const char *found_text(uint32_t found)
{
  static const char *const text[] = {
      [TECS_FOUND_API] = "made through the Lua API",
      [TECS_FOUND_GETENV] = "while its package library opened",
      [TECS_FOUND_SCAN] = "in a sample of a thread",
  };
  return found && found < sizeof text / sizeof *text ? text[found] : "?";
}

/* The agent knows threads by their ids in its own pid namespace. */
static pid_t outer_tid(struct target *t, uint32_t inner)
{
  struct target_tids tids = {0};
  pid_t found = (pid_t)inner;
  if (target_threads(t, &tids) != RESULT_OK)
    tids.count = 0;
  for (size_t i = 0; i < tids.count; i++)
    if (target_thread_ns_tid(t, tids.tid[i]) == (pid_t)inner)
      found = tids.tid[i];
  target_tids_free(&tids);
  return found;
}

#define WAITING                                                                \
  "the agent came late, and waits for a moment at which the Lua API may be "   \
  "called\n"

static void zones_line(struct status_text *s, unsigned n,
                       const struct session_vm *vm)
{
  const char *text = "loaded";
  if (!vm->zones)
    text = vm->require ? "not loaded"
                       : "not available in this VM: it has no package library";
  LINE(s, "vm.%u.zones: %s\n", n, text);
}

static void aborts_line(struct status_text *s, unsigned n,
                        const struct session_vm *vm)
{
  LINE(s, "vm.%u.aborts: ", n);
  if (vm->events & TECS_VM_LISTENING)
    LINE(s, "%s\n", vm->jit ? "exact" : "exact (none while the JIT is off)");
  else if (vm->events & TECS_VM_REPLACED)
    LINE(s,
         "not available in this VM: for %.0f s the program has had its own "
         "listener in the place of the agent's\n",
         (double)(clock_mono_ns() - vm->replaced_ns) / 1e9);
  else if (vm->events & TECS_VM_WITHDRAWN)
    LINE(s, "not available in this VM: its thread blocks SIGSEGV, or takes it "
            "on too small a stack, and a fault of LuaJIT's could not be "
            "mended\n");
  else if (vm->events & TECS_VM_WAITING)
    LINE(s, "not yet: " WAITING);
  else
    LINE(s, "not available in this VM: its LuaJIT exports no Lua API to "
            "listen with\n");
}

static const char *log_text(uint32_t state)
{
  static const char *const text[] = {
      [TECS_LOG_NONE] = "none in this VM: it has no JIT",
      [TECS_LOG_ON] = "kept of every trace that is made",
      [TECS_LOG_OFF] = "none: TECS_AGENT has log=off",
      [TECS_LOG_REPLACED] = "none in this VM: the program has its own listener "
                            "in the place of the agent's",
      [TECS_LOG_WITHDRAWN] = "none in this VM: its thread blocks SIGSEGV, or "
                             "takes it on too small a stack, and a fault of "
                             "LuaJIT's could not be mended",
      [TECS_LOG_UNSAFE] = "none in this VM: a LuaJIT without GC64, in which a "
                          "fault of its own could not be mended",
  };
  return state < sizeof text / sizeof *text ? text[state] : "?";
}

/* The record log: which bytecodes traces were made from. */
static void log_line(struct status_text *s, unsigned n,
                     const struct session_vm *vm)
{
  struct tecs_log_vm v;
  enum result r = shm_log_vm(&s->shm, vm->g, &v);
  LINE(s, "vm.%u.log: ", n);
  if (r != RESULT_OK && vm->events & TECS_VM_WAITING)
    LINE(s, "not yet: " WAITING);
  else if (r == RESULT_UNSUPPORTED)
    LINE(s, "none: the agent is older, or got no memory for it\n");
  else if (r != RESULT_OK)
    LINE(s, "none in this VM: its LuaJIT exports no Lua API to listen with\n");
  else
    LINE(s, "%s, for %.0f s; of %" PRIu64 " traces, %" PRIu64 " got none\n",
         log_text(v.state),
         (double)(clock_mono_ns() / 1000000000u) - (double)v.since_s,
         v.logged + v.missed, v.missed);
}

static void vm_lines(struct status_text *s, unsigned n,
                     const struct session_vm *vm)
{
  LINE(s, "vm.%u.layout: %s\n", n, vm->layout ? vm->layout : "unknown");
  LINE(s, "vm.%u.found: %s\n", n, found_text(vm->found));
  LINE(s, "vm.%u.thread: %d\n", n, (int)outer_tid(s->target, vm->tid));
  if (!vm->layout)
    return;
  LINE(s, "vm.%u.jit: %s\n", n, vm->jit ? "on" : "off");
  zones_line(s, n, vm);
  aborts_line(s, n, vm);
  log_line(s, n, vm);
  if (s->traces)
    status_traces(&s->text, s->target, &s->shm, n, vm);
}

/* Without an agent VMs have to be searched for: only when they are asked for.
 */
static void outside_vms_lines(struct status_text *s)
{
  struct session_vm vm[TECS_VMS];
  unsigned n = session_find_vms(s->target, vm);
  LINE(s, "vm.count: %u\n", n);
  for (unsigned i = 0; i < n; i++) {
    LINE(s, "vm.%u.layout: %s\n", i + 1, vm[i].layout);
    LINE(s, "vm.%u.jit: %s\n", i + 1, vm[i].jit ? "on" : "off");
    status_traces(&s->text, s->target, NULL, i + 1, &vm[i]);
  }
}

static void count_vms(struct status_text *s)
{
  for (unsigned i = 0; i < s->vms; i++) {
    const struct session_vm *vm = &s->vm[i];
    if (!vm->layout)
      continue;
    s->known++;
    if (vm->events & TECS_VM_LISTENING)
      s->heard++;
    else if (vm->events & (TECS_VM_REPLACED | TECS_VM_WITHDRAWN))
      s->replaced++;
    else if (vm->events & TECS_VM_WAITING)
      s->waiting++;
    else
      s->mute++;
  }
}

static void vms_lines(struct status_text *s)
{
  if (s->shm.fd < 0 && s->traces && s->no_agent.code == RESULT_NOAGENT)
    outside_vms_lines(s);
  if (s->shm.fd < 0)
    return;
  s->vms = session_vms(s->target, &s->shm, s->vm);
  count_vms(s);
  LINE(s, "vm.count: %u\n", s->vms);
  for (unsigned i = 0; i < s->vms; i++)
    vm_lines(s, i + 1, &s->vm[i]);
}

/* ---- sessions and threads ---- */

static void session_line(struct status_text *s, enum session_kind kind,
                         const char *name)
{
  struct session_seen seen;
  session_look(&s->shm, kind, &seen);
  if (!seen.running)
    LINE(s, "session.%s: none\n", name);
  else if (seen.owner == s->shm.header->pid)
    LINE(s, "session.%s: %s, owner the program itself\n", name,
         seen.paused ? "paused" : "running");
  else
    LINE(s, "session.%s: %s, owner process %u\n", name,
         seen.paused ? "paused" : "running", seen.owner);
}

/* A session that samples without the agent. */
static bool outside_line(struct status_text *s)
{
  struct session_seen seen;
  if (!session_outside_look(s->target, &seen))
    return false;
  LINE(s, "session.sampling: %s from outside, owner process %u\n",
       seen.paused ? "paused" : "running", seen.owner);
  return true;
}

static void sessions_lines(struct status_text *s)
{
  bool outside = outside_line(s);
  if (s->shm.fd < 0) {
    if (!outside)
      LINE(s, "session.sampling: none\n");
    return;
  }
  if (!outside)
    session_line(s, SESSION_SAMPLING, "sampling");
  session_line(s, SESSION_TRACE, "trace");
}

static void thread_line(struct status_text *s, pid_t tid)
{
  char comm[16], state = target_thread_state(s->target, tid);
  if (!state)
    return; /* gone */
  target_thread_comm(s->target, tid, comm);
  LINE(s, "thread.%d: %c ", (int)tid, state);
  status_add_plain(&s->text, comm, strlen(comm));
  if (target_thread_blocks(s->target, tid, SIGURG))
    LINE(s, " (blocks SIGURG: not sampled)");
  LINE(s, "\n");
}

static void threads_lines(struct status_text *s)
{
  struct target_tids tids = {0};
  if (target_threads(s->target, &tids) == RESULT_OK) {
    LINE(s, "thread.count: %zu\n", tids.count);
    for (size_t i = 0; i < tids.count; i++)
      thread_line(s, tids.tid[i]);
  }
  target_tids_free(&tids);
}

/* ---- what can be had ---- */

/* Why nothing can; NULL: something can. */
static const char *hindrance(const struct status_text *s)
{
  if (s->shm.fd < 0)
    return s->no_agent.text;
  if (atomic_get(&s->shm.header->state) == TECS_STATE_OFF)
    return "the agent has switched itself off";
  if (s->vms && !s->known)
    return "the layout of its LuaJIT is not known to the agent";
  return NULL;
}

static void modules_line(struct status_text *s)
{
  if (s->mute)
    LINE(s,
         "can.modules: no (%u of %u VMs): their LuaJIT exports no Lua API "
         "to install jit.zone and tecs.utils.profile with\n",
         s->mute, s->known);
  else if (s->waiting)
    LINE(s, "can.modules: not yet (%u of %u VMs): " WAITING, s->waiting,
         s->known);
  else
    LINE(s, "can.modules: yes, jit.zone and tecs.utils.profile by require\n");
}

#define FROM_MEMORY                                                            \
  "no exact counts, only what LuaJIT's penalty cache and patched bytecode "    \
  "tell"

static void aborts_can_line(struct status_text *s)
{
  LINE(s, "can.aborts: ");
  if (s->heard == s->known)
    LINE(s, "yes, exact counts\n");
  else if (s->heard)
    LINE(s, "exact counts in %u of %u VMs\n", s->heard, s->known);
  else
    LINE(s, FROM_MEMORY "; see vm.1.aborts\n");
}

/* Without an agent: what ptrace allows. */
static void outside_can_lines(struct status_text *s, const char *why)
{
  struct error e = {0};
  pid_t tracer = target_thread_tracer(s->target, target_pid(s->target));
  int fd = -1;
  enum result r = tracer ? target_traced(s->target, tracer, &e)
                         : target_image_open(s->target, &fd, &e);
  if (fd >= 0)
    close(fd);
  if (r != RESULT_OK) {
    LINE(s, "can.sampling: no: %s\ncan.zones: no: %s\n", e.text, e.text);
    return;
  }
  LINE(s,
       "can.sampling: from outside, which stops a thread for a moment for each "
       "sample: %s\n",
       why);
  LINE(s, "can.zones: yes, of jit.zone\n");
}

static void cannot_lines(struct status_text *s, const char *why)
{
  bool readable = s->shm.fd < 0 && s->no_agent.code == RESULT_NOAGENT;
  if (readable) {
    outside_can_lines(s, why);
  } else {
    LINE(s, "can.sampling: no: %s\n", why);
    LINE(s, "can.zones: no: %s\n", why);
  }
  if (readable)
    LINE(s, "can.aborts: " FROM_MEMORY ": %s\n", why);
  else
    LINE(s, "can.aborts: no: %s\n", why);
  LINE(s, "can.modules: no: %s\n", why);
}

static void can_lines(struct status_text *s)
{
  const char *why = hindrance(s);
  if (why) {
    cannot_lines(s, why);
    return;
  }
  LINE(s, "can.sampling: yes, by the agent's signal handler\n");
  if (!s->known) {
    LINE(s, "can.zones: no VM yet\ncan.aborts: no VM yet\n"
            "can.modules: no VM yet\n");
    return;
  }
  LINE(s, "can.zones: yes, of jit.zone\n");
  aborts_can_line(s);
  modules_line(s);
}

/* ---- the verb ---- */

static enum result compose(struct status_text *s, struct error *e)
{
  char comm[16];
  target_comm(s->target, comm);
  enum result r = session_segment(s->target, &s->shm, &s->no_agent);
  if (r == RESULT_PERM || r == RESULT_GONE)
    return error_set(e, r, "%s", s->no_agent.text);
  if (r == RESULT_NOAGENT)
    reach_why_no_agent(s->target, &s->no_agent);
  LINE(s, "process: %d ", (int)target_pid(s->target));
  status_add_plain(&s->text, comm, strlen(comm));
  LINE(s, "\n");
  agent_lines(s);
  vms_lines(s);
  sessions_lines(s);
  threads_lines(s);
  can_lines(s);
  return s->text.failed ? error_set(e, RESULT_NOMEM, "no memory") : RESULT_OK;
}

int status_run(const struct options *o)
{
  struct status_text s = {.shm.fd = -1, .traces = o->verbose};
  struct error e;
  enum result r = o->inject ? reach_open(o->pid, false, 0, &s.target, &e)
                            : target_open(o->pid, &s.target, &e);
  if (r == RESULT_NOAGENT && o->inject)
    r = inject_into(s.target, o, &e);
  if (r == RESULT_OK)
    r = compose(&s, &e);
  if (r != RESULT_OK)
    say("%s", e.text);
  else if (fputs(strbuf_text(&s.text), stdout) < 0 || fflush(stdout))
    r = RESULT_IO;
  if (s.shm.fd >= 0)
    shm_detach(&s.shm);
  if (s.target)
    target_close(s.target);
  strbuf_free(&s.text);
  return (int)verdict_status(r);
}
