/* SPDX-License-Identifier: MIT
 *
 * Opening the target: waits for the agent of one that is just starting, and
 * says why another can't be sampled.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "attach/attach_internal.h"
#include "target/target.h"

/* A shell's `game & tecs-attach $!` comes here before the game has even been
 * executed. */
#define REACH_YOUNG (2 * UNITS_S)
#define REACH_GRACE (1 * UNITS_S)
#define REACH_STEP (2 * UNITS_MS)

static uint64_t clock_ns(clockid_t id)
{
  struct timespec ts;
  clock_gettime(id, &ts);
  return (uint64_t)ts.tv_sec * UNITS_S + (uint64_t)ts.tv_nsec;
}

/* proc(5): starttime counts clock ticks since boot. */
static uint64_t age_ns(struct target *t)
{
  long hz = sysconf(_SC_CLK_TCK);
  uint64_t start = target_start_time(t) * (UNITS_S / (uint64_t)hz);
  uint64_t now = clock_ns(CLOCK_BOOTTIME);
  return now > start ? now - start : 0;
}

static bool young(struct target *t)
{
  return age_ns(t) < REACH_YOUNG;
}

uint64_t reach_started_ns(struct target *t)
{
  return clock_ns(CLOCK_REALTIME) - age_ns(t);
}

bool reach_stopped(struct target *t)
{
  return target_thread_state(t, target_pid(t)) == 'T';
}

static enum result child_with_vm(struct target *t, pid_t *pid, char comm[16])
{
  struct target_tids kids = {0};
  enum result r = target_children(t, &kids);
  enum result found = RESULT_NOTFOUND;
  for (size_t i = 0; r == RESULT_OK && found != RESULT_OK && i < kids.count;
       i++) {
    struct target *kid;
    if (target_open(kids.tid[i], &kid, NULL) != RESULT_OK)
      continue;
    if (target_has_luajit(kid) != TARGET_LUAJIT_NO) {
      *pid = kids.tid[i];
      target_comm(kid, comm);
      found = RESULT_OK;
    }
    target_close(kid);
  }
  target_tids_free(&kids);
  return found;
}

static enum result no_vm(struct target *t, const char *comm, struct error *e)
{
  pid_t kid;
  char kid_comm[16];
  int pid = (int)target_pid(t);
  if (child_with_vm(t, &kid, kid_comm) == RESULT_OK)
    return error_set(e, RESULT_NOVM,
                     "no LuaJIT VM in %d (%s); its child %d (%s) has one: "
                     "try " ATTACH_NAME " %d",
                     pid, comm, (int)kid, kid_comm, (int)kid);
  return error_set(e, RESULT_NOVM,
                   "no LuaJIT VM in %d (%s), and the agent is not loaded in it",
                   pid, comm);
}

static enum result no_agent(struct target *t, bool launched, struct error *e)
{
  char comm[16], lib[4096];
  int pid = (int)target_pid(t);
  target_comm(t, comm);
  if (target_has_luajit(t) == TARGET_LUAJIT_NO)
    return no_vm(t, comm, e);
  if (launched)
    return error_set(e, RESULT_NOAGENT,
                     "the agent did not load in %d (%s): LD_PRELOAD has no "
                     "effect on a statically linked or set-user-id program",
                     pid, comm);
  if (agentlib_path(lib, sizeof lib, NULL) != RESULT_OK)
    snprintf(lib, sizeof lib, "/path/to/libtecs-agent.so");
  return error_set(e, RESULT_NOAGENT,
                   "the agent is not loaded in %d (%s); load it (--inject), or "
                   "start it as LD_PRELOAD=%.300s %s ..., or as " ATTACH_NAME
                   " -- %s ...",
                   pid, comm, lib, comm, comm);
}

enum result reach_why_no_agent(struct target *t, struct error *e)
{
  return no_agent(t, false, e);
}

enum result reach_process(pid_t pid, struct target **out, struct error *e)
{
  struct target *t;
  enum result r = target_open(pid, &t, e);
  if (r != RESULT_OK)
    return r;
  if (target_word_bits(t) == 32) {
    target_close(t);
    return error_set(e, RESULT_UNSUPPORTED,
                     "%d is a 32-bit process: not supported", (int)pid);
  }
  *out = t;
  return RESULT_OK;
}

/* One look.  NOAGENT leaves *out open. */
static enum result look(pid_t pid, struct target **out, struct error *e)
{
  int fd;
  enum result r = reach_process(pid, out, e);
  if (r != RESULT_OK)
    return r;
  r = target_segment_open(*out, &fd, e);
  if (r == RESULT_OK)
    close(fd);
  return r;
}

static void nap(void)
{
  struct timespec ts = {0, (long)REACH_STEP};
  nanosleep(&ts, NULL);
}

/* Nobody waits long for a process that was there before, and a command that
 * we started gets the time that its VM would get. */
static uint64_t grace_of(bool launched, uint64_t wait_ns)
{
  if (launched)
    return wait_ns > REACH_GRACE ? wait_ns : REACH_GRACE;
  return wait_ns < REACH_GRACE ? wait_ns : REACH_GRACE;
}

enum result reach_open(pid_t pid, bool launched, uint64_t wait_ns,
                       struct target **out, struct error *e)
{
  uint64_t start = clock_ns(CLOCK_MONOTONIC);
  uint64_t grace = grace_of(launched, wait_ns);
  *out = NULL;
  for (;;) {
    struct target *t = NULL;
    enum result r = look(pid, &t, e);
    if (r == RESULT_OK) {
      *out = t;
      return r;
    }
    bool again = r == RESULT_NOAGENT && (launched || young(t)) &&
                 !target_is_static(t) &&
                 clock_ns(CLOCK_MONOTONIC) - start < grace && !signals_stop;
    if (r == RESULT_NOAGENT && !again)
      r = no_agent(t, launched, e);
    if (!again) {
      *out = t;
      return r;
    }
    target_close(t);
    nap();
  }
}

enum result reach_no_vm(struct target *t, uint64_t waited_ns, uint64_t wait_ns,
                        unsigned unknown, struct error *e)
{
  pid_t kid;
  char comm[16], kid_comm[16];
  int pid = (int)target_pid(t);
  target_comm(t, comm);
  if (unknown)
    return error_set(
        e, RESULT_NOVM,
        "process %d (%s) runs a LuaJIT whose layout the agent does "
        "not know, so nothing was read from it",
        pid, comm);
  if (!target_alive(t))
    return error_set(e, RESULT_NOVM,
                     "process %d (%s) ended before a LuaJIT VM appeared in it",
                     pid, comm);
  if (target_has_luajit(t) == TARGET_LUAJIT_NO &&
      child_with_vm(t, &kid, kid_comm) == RESULT_OK)
    return error_set(e, RESULT_NOVM,
                     "no LuaJIT VM in %d (%s); its child %d (%s) has one: "
                     "try " ATTACH_NAME " trace %d",
                     pid, comm, (int)kid, kid_comm, (int)kid);
  if (waited_ns < wait_ns)
    return RESULT_OK;
  return error_set(e, RESULT_NOVM,
                   "no LuaJIT VM appeared in %d (%s) in %.1f s; is that the "
                   "right process? wait longer (--wait) if it starts its VM "
                   "late",
                   pid, comm, (double)waited_ns / 1e9);
}
