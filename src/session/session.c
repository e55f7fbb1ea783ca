/* SPDX-License-Identifier: MIT
 *
 * The loop of a session.
 *
 * A session goes through parts: one program image each.  A process that execs
 * over itself keeps its pid, but not its addresses: everything that knows an
 * address belongs to the part and is made anew.
 */
#include "session/session.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "session/session_internal.h"

#define NEVER UINT64_MAX
#define SLICE                                                                  \
  (50 * MS) /* longest sleep: the stop flag is looked at between               \
             */
#define DRAIN_AFTER (2 * MS)
#define ALIVE_EVERY (100 * MS)
#define SEGMENT_EVERY (250 * MS)
#define ANSWER_WAIT (50 * MS) /* for the last signals */
#define NAMES_AT_END 8        /* bounded looks for names, 50 ms each at most */
#define EXEC_WAIT (1 * SEC)   /* for the next image's agent */

enum part_end {
  PART_GOES_ON = 0,
  PART_STOPPED,
  PART_TARGET, /* the process ended */
  PART_EXEC,   /* the image did */
};

static void sleep_until(uint64_t when)
{
  struct timespec ts = {.tv_sec = (time_t)(when / SEC),
                        .tv_nsec = (long)(when % SEC)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

/* The same; who asks for the end of the session wakes us. */
static void sleep_or_stop(struct session *s, uint64_t when)
{
  struct timespec ts = {.tv_sec = (time_t)(when / SEC),
                        .tv_nsec = (long)(when % SEC)};
  syscall(SYS_futex, &s->shm.control->stop, FUTEX_WAIT_BITSET, 0, &ts, NULL,
          FUTEX_BITSET_MATCH_ANY);
}

static void account_now(struct session *s, uint64_t now)
{
  struct session_account *acc = s->acc;
  acc->elapsed_ns = steer_elapsed(s, now);
  acc->paused_ns = now - s->start - acc->elapsed_ns;
  acc->cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - s->cpu_start;
}

/* ---- opening a part ---- */

static enum result claim_patiently(struct session *s, uint64_t patience)
{
  uint64_t give_up = clock_mono_ns() + patience;
  for (;;) {
    enum result r = s->engine->open(s);
    if (!segment_is_early(s->t, r, give_up) || *s->stop)
      return r;
  }
}

static enum result open_part(struct session *s, uint64_t patience)
{
  target_comm(s->t, s->comm);
  enum result r = claim_patiently(s, patience);
  if (r)
    return r;
  if ((r = modules_new(s->t, &s->modules, s->e)))
    return r;
  if ((r = unwinder_new(s->modules, &s->unwinder, s->e)))
    return r;
  if ((r = vm_store_new(s->t, &s->vm)))
    return error_set(s->e, r, "cannot start a session: %s", result_text(r));
  vm_store_set_logs(s->vm, &s->shm);
  target_comm(s->t, s->comm);
  return wall_open(s);
}

static void start_clocks(struct session *s)
{
  uint64_t now = clock_mono_ns();
  s->tick_grid = s->next_tick = now;
  s->next_drain = NEVER;
  s->next_alive = now + ALIVE_EVERY;
  s->next_segment = now + SEGMENT_EVERY;
  s->next_second = now + SEC;
  s->next_refresh = now;
  s->next_wait = s->wait_start = now;
  s->wait_round = 0;
  s->waiting = !s->acc->vms && !s->acc->unknown_vms;
}

/* ---- closing a part ---- */

static uint64_t all_outstanding(const struct session *s)
{
  uint64_t n = 0;
  for (unsigned i = 0; i < TECS_SLOTS; i++)
    if (s->slot[i].tid)
      n += slot_outstanding(s, i);
  return n;
}

static void wait_for_answers(struct session *s)
{
  uint64_t give_up = clock_mono_ns() + ANSWER_WAIT;
  while (all_outstanding(s) && target_alive(s->t) && clock_mono_ns() < give_up)
    sleep_until(clock_mono_ns() + MS / 2);
}

/* Nothing is asked of a process that is another program by now. */
static void name_late(struct session *s, unsigned times)
{
  for (unsigned i = 0; i < times; i++)
    if (s->engine->same_image(s))
      vm_store_name_late(s->vm);
}

/* What the rings still hold, and the names that were open. */
static void finish_samples(struct session *s, enum part_end why)
{
  if (why != PART_TARGET && why != PART_EXEC)
    wait_for_answers(s);
  drain_rings(s, NEVER);
  name_late(s, NAMES_AT_END);
  enum result r = merge_finish(s->p, s->vm);
  if (r != RESULT_OK && s->failed == RESULT_OK)
    s->failed =
        error_set(s->e, r, "cannot name the functions: %s", result_text(r));
}

/* Also of one that was opened in part, or not at all. */
static void close_part(struct session *s, enum part_end why)
{
  if (s->claimed && s->vm)
    finish_samples(s, why);
  for (unsigned i = 0; i < TECS_SLOTS; i++)
    slot_release(s, i);
  s->engine->close(s);
  ticks_free(s);
  wall_close(s);
  vm_store_free(s->vm);
  unwinder_free(s->unwinder);
  modules_free(s->modules);
  s->vm = NULL;
  s->unwinder = NULL;
  s->modules = NULL;
  s->image_gone = false;
  memset(s->vms, 0, sizeof s->vms);
}

/* ---- running a part ---- */

static enum part_end check_target(struct session *s, uint64_t now)
{
  if (now >= s->next_alive) {
    s->next_alive = now + ALIVE_EVERY;
    if (!target_alive(s->t))
      return PART_TARGET;
  }
  if (now >= s->next_segment || s->image_gone) {
    s->next_segment = now + SEGMENT_EVERY;
    if (!s->engine->same_image(s))
      return target_alive(s->t) ? PART_EXEC : PART_TARGET;
  }
  return PART_GOES_ON;
}

static void each_second(struct session *s, uint64_t now)
{
  if (now < s->next_second)
    return;
  s->next_second = now + SEC;
  drain_refresh(s, now);
  name_late(s, 1);
  account_now(s, now);
  if (s->o->progress)
    s->o->progress(s->o->progress_arg, s->acc);
}

static bool ring_presses(const struct session *s)
{
  for (unsigned i = 0; i < s->rings; i++)
    if (s->slot[i].tid && slot_presses(s, i))
      return true;
  return false;
}

static void tick(struct session *s)
{
  uint64_t now = clock_mono_ns(), sent = s->acc->sent;
  if (now < s->next_tick)
    return;
  if (s->paused) { /* looked at again at the next tick, or after a slice */
    s->tick_grid = s->next_tick = now + s->o->interval_ns;
    return;
  }
  ticks_rescan(s, now);
  ticks_fire(s, now);
  if (s->acc->sent != sent && s->next_drain == NEVER)
    s->next_drain = now + DRAIN_AFTER;
  ticks_schedule(s, clock_mono_ns());
}

/* A ring that still holds something, or is owed an answer, is seen to soon. */
static void drain(struct session *s)
{
  uint64_t now = clock_mono_ns();
  if (now < s->next_drain && !ring_presses(s))
    return;
  drain_rings(s, s->next_tick);
  s->next_drain = NEVER;
  for (unsigned i = 0; i < s->rings && s->next_drain == NEVER; i++)
    if (s->slot[i].tid && (slot_holds(s, i) || slot_outstanding(s, i)))
      s->next_drain = clock_mono_ns() + DRAIN_AFTER;
}

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static enum result run_part(struct session *s, enum part_end *why)
{
  start_clocks(s);
  for (;;) {
    uint64_t now = clock_mono_ns();
    if (s->o->poll)
      s->o->poll(s->o->arg, now);
    if (steer_follow(s, now) || *s->stop || now >= s->end) {
      *why = PART_STOPPED;
      if (s->waiting)
        wait_last_resort(s);
      return RESULT_OK;
    }
    if ((*why = check_target(s, now)) != PART_GOES_ON)
      return RESULT_OK;
    if (s->waiting && now >= s->next_wait) {
      enum result r = wait_check(s, now);
      if (r)
        return r;
    }
    each_second(s, now);
    drain(s); /* first: the tick's samples need room */
    tick(s);
    if (s->failed)
      return s->failed;
    uint64_t until = least(least(s->next_tick, s->next_drain), s->end);
    if (s->engine->attend)
      until = least(until, s->engine->attend(s, clock_mono_ns()));
    sleep_or_stop(s, least(until, clock_mono_ns() + SLICE));
  }
}

/* ---- the session ---- */

/* Two descriptors are kept for each thread of the target. */
static void raise_file_limit(void)
{
  struct rlimit lim;
  if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < lim.rlim_max) {
    lim.rlim_cur = lim.rlim_max;
    setrlimit(RLIMIT_NOFILE, &lim);
  }
}

/* No agent, and no LuaJIT either: maybe a launcher was meant to be its game.
 */
static enum result no_agent(struct session *s)
{
  char comm[16];
  pid_t child = target_has_luajit(s->t) == TARGET_LUAJIT_NO
                    ? wait_find_child(s->t, true, comm)
                    : 0;
  return child ? wait_name_child(s, child, comm) : RESULT_NOAGENT;
}

/* Next image after an exec; false: it has no agent, or there is none.  A
 * session of the program itself ends with it: nobody is left who would stop it,
 * and the next image has a right to its own. */
static bool follow_exec(struct session *s)
{
  struct error ignored, *e = s->e;
  if (s->o->from_inside)
    return false;
  s->e = &ignored;
  enum result r = open_part(s, EXEC_WAIT);
  if (r != RESULT_OK)
    close_part(s, PART_TARGET);
  s->e = e;
  s->acc->execs += r == RESULT_OK;
  return r == RESULT_OK;
}

static enum result run(struct session *s, enum session_end *end)
{
  enum part_end why = PART_STOPPED;
  enum result r = open_part(s, segment_patience(s->t));
  s->start = s->wait_start = clock_mono_ns();
  s->cpu_start = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
  s->end = s->o->duration_ns ? s->start + s->o->duration_ns : NEVER;
  if (r == RESULT_NOAGENT)
    r = no_agent(s);
  while (r == RESULT_OK) {
    r = run_part(s, &why);
    close_part(s, why);
    if (r != RESULT_OK || why != PART_EXEC || !follow_exec(s))
      break;
  }
  close_part(s, PART_TARGET); /* what a failed opening left */
  *end = why == PART_STOPPED ? SESSION_END_STOPPED : SESSION_END_TARGET;
  if (r == RESULT_OK && s->failed)
    r = s->failed;
  if (r == RESULT_OK && !s->acc->vms && !s->acc->unknown_vms)
    r = wait_failed(s, clock_mono_ns());
  return r;
}

enum result session_run(struct target *t, const struct session_options *o,
                        const volatile sig_atomic_t *stop, struct profile *p,
                        struct session_account *acc, enum session_end *end,
                        struct error *e)
{
  memset(acc, 0, sizeof *acc);
  struct session *s = calloc(1, sizeof *s);
  if (s)
    s->stack = malloc(sizeof *s->stack);
  if (!s || !s->stack) {
    free(s);
    return error_set(e, RESULT_NOMEM, "no memory for a session");
  }
  s->t = t;
  s->o = o;
  s->engine =
      o->engine == SESSION_ENGINE_PTRACE ? &engine_remote : &engine_agent;
  s->acc = acc;
  acc->engine = o->engine;
  s->p = p;
  s->stop = stop;
  s->e = e;
  s->random = clock_mono_ns() | 1;
  s->shm.fd = -1;
  int slack = prctl(PR_GET_TIMERSLACK);
  prctl(PR_SET_TIMERSLACK, 1);
  raise_file_limit();
  enum result r = run(s, end);
  prctl(PR_SET_TIMERSLACK, slack);
  account_now(s, clock_mono_ns());
  acc->lost = acc->sent - acc->samples - acc->filtered;
  free(s->stack);
  free(s);
  return r;
}
