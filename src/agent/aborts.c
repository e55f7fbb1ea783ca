/* SPDX-License-Identifier: MIT
 *
 * The "trace" event (lj_trace.c: trace_start, trace_stop, trace_abort,
 * lj_trace_flushall), and sessions that the game begins itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/aborts.h"
#include "agent/aborts_internal.h"
#include "agent/agent_internal.h"
#include "agent/zones.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "vmcore/discover.h"
#include "vmcore/value.h"
#include "vmcore/walk.h"

enum {
  HOOK_VMEVENT = 0x20, /* lj_obj.h: a VM event is being handled */
  AWAIT_NAPS = 1000,   /* of a millisecond, for a collector that starts us */
};

static bool more_rows(struct abort_table *t);
static struct abort_table table = {.more = more_rows};

/* ---- events ---- */

enum abort_event aborts_what(struct vm_mem *m, const struct vm_layout *lay,
                             uint64_t tv)
{
  static const char *const names[] = {"start", "stop", "abort", "flush"};
  char text[8] = "";
  uint32_t len;
  uint64_t str = vm_value_as(lay, tv, VM_GCT_STR);
  if (!vm_plausible(str))
    return ABORT_EVENT_OTHER;
  abort_text_load(m, lay, str, ABORT_TEXT_HEAD, text, sizeof text - 1, &len);
  unsigned i = 0;
  while (i < ABORT_EVENT_OTHER && strcmp(text, names[i]))
    i++;
  return i;
}

/* trace_abort gives up only what a root trace began at: side traces have a
 * parent, stitched ones the number of the trace before them in exitno.  J->cur
 * is still what it was, startins the instruction as it stood at the start. */
static bool gave_up(struct vm_mem *m, const struct vm_events *v)
{
  const struct vm_layout *lay = v->lay;
  uint64_t J = v->g - lay->gg_g + lay->gg_J;
  uint64_t pc = vm_ref(m, lay, J + lay->tr_startpc);
  if (!pc || vm_load4(m, J + lay->J_parent) || vm_load4(m, J + lay->J_exitno))
    return false;
  return aborts_gave_up(v->words.texts,
                        (uint8_t)vm_load1(m, J + lay->tr_startins),
                        (uint8_t)vm_load1(m, pc));
}

/* Where no Lua function is left (events_fault.c): where the trace began. */
static uint64_t start_of_trace(struct vm_mem *m, const struct vm_events *v,
                               int64_t *pos)
{
  const struct vm_layout *lay = v->lay;
  uint64_t J = v->g - lay->gg_g + lay->gg_J;
  uint64_t pt = vm_ref(m, lay, J + lay->tr_startpt);
  uint64_t pc = vm_ref(m, lay, J + lay->tr_startpc);
  if (!vm_plausible(pt) || !vm_is_proto(m, lay, pt))
    return 0;
  *pos = (int64_t)(pc - pt - lay->pt_sizeof) / 4;
  return pt;
}

static void add_zone(struct vm_mem *m, struct vm_events *v,
                     struct tecs_abort *row)
{
  const char *native[NATIVE_ZONES_MAX];
  uint64_t value[CAPTURE_ZONES];
  struct abort_zones z = {.native = native, .value = value};
  z.natives = zones_native(native);
  if (z.natives > NATIVE_ZONES_MAX) {
    z.natives_left_out = z.natives - NATIVE_ZONES_MAX;
    z.natives = NATIVE_ZONES_MAX;
  }
  uint64_t table = vm_zone_table(m, v->lay, v->g, &v->zone);
  if (table)
    z.values = vm_zone_read(m, v->lay, table, value, CAPTURE_ZONES,
                            &z.values_left_out);
  aborts_zone(m, v->lay, &z, row);
}

/* A library that was opened later, as ffi is: its functions have names now. */
static void learn_name(struct vm_mem *m, struct vm_events *v, uint64_t info)
{
  uint64_t fn = vm_value_as(v->lay, info, VM_GCT_FUNC);
  uint32_t ffid = fn ? vm_load1(m, fn + v->lay->fn_ffid) : 0;
  if (ffid < 2 || v->asked[ffid] || vm_ffname(&v->words, ffid))
    return; /* lj_obj.h: FF_LUA 0, FF_C 1 */
  v->asked[ffid] = true;
  vm_ffnames_read(&v->words, m, v->layout, v->g);
}

/* "abort", traceno, function, position, error, details */
static void describe(struct vm_mem *m, struct vm_events *v, uint64_t arg,
                     unsigned n, struct tecs_abort *row)
{
  int64_t pos = 0;
  uint64_t nil = ~UINT64_C(0);
  uint64_t func = n > 2 ? vm_load8(m, arg + 16) : nil;
  if (n > 3)
    aborts_int(v->lay, vm_load8(m, arg + 24), &pos);
  if (n > 5)
    learn_name(m, v, vm_load8(m, arg + 40));
  row->severity =
      aborts_reason(m, v->lay, &v->words, n > 4 ? vm_load8(m, arg + 32) : nil,
                    n > 5 ? vm_load8(m, arg + 40) : nil, row);
  if (gave_up(m, v))
    row->severity = TECS_SEVERITY_BLACKLIST;
  uint64_t pt = aborts_proto(m, v->lay, func);
  if (!pt)
    pt = start_of_trace(m, v, &pos);
  aborts_location(m, v->lay, pt, (uint32_t)pos, row);
  add_zone(m, v, row);
}

static void count_event(enum abort_event what, const struct tecs_abort *row)
{
  struct tecs_aborts *a = table.totals;
  if (what == ABORT_EVENT_START)
    atomic_set(&a->starts, a->starts + 1);
  else if (what == ABORT_EVENT_STOP)
    atomic_set(&a->stops, a->stops + 1);
  else if (what == ABORT_EVENT_FLUSH)
    atomic_set(&a->flushes, a->flushes + 1);
  else
    abort_table_add(&table, row);
}

static bool file_is_ours(void)
{
  struct stat st;
  return agent_ready() && !fstat(agent.shm.fd, &st) &&
         st.st_ino == agent.shm.inode;
}

static bool more_rows(struct abort_table *t)
{
  uint32_t to = t->backed + SHM_ABORT_STEP;
  if (!file_is_ours() ||
      shm_back_abort_rows(&agent.shm, t->backed, to) != RESULT_OK)
    return false;
  t->backed = to;
  return true;
}

/* 0: nothing is to be counted.  No memory behind the table then. */
static uint32_t current_session(void)
{
  if (!agent_ready())
    return 0;
  const struct tecs_control *c = agent.shm.control;
  uint32_t session = atomic_acquire(&c->trace_session);
  return atomic_get(&c->trace_paused) ? 0 : session;
}

bool aborts_wanted(void)
{
  return agent_ready() && atomic_acquire(&agent.shm.control->trace_session);
}

static void count(uint32_t session, enum abort_event what,
                  const struct tecs_abort *row)
{
  table.totals = agent.shm.aborts;
  table.rows = agent.shm.abort_rows;
  if (!table.backed) /* by whoever began the session */
    table.backed = SHM_ABORT_STEP;
  if (abort_table_open(&table, session)) {
    if (current_session() == session) /* not over while we waited */
      count_event(what, row);
    abort_table_close(&table);
  } else if (what == ABORT_EVENT_ABORT) {
    atomic_add(&table.totals->overflow, 1);
  }
}

void aborts_event(struct vm_mem *m, struct vm_events *v, enum abort_event what,
                  uint64_t arg, unsigned n)
{
  struct tecs_abort row;
  int saved = errno;
  uint32_t session = current_session();
  if (!session || !(vm_load1(m, v->g + v->lay->g_hookmask) & HOOK_VMEVENT))
    return;
  if (what == ABORT_EVENT_ABORT)
    describe(m, v, arg, n, &row);
  if (what != ABORT_EVENT_OTHER)
    count(session, what, &row);
  errno = saved;
}

/* ---- a session of the game ---- */

/* The lock that a collector takes too, as another open file: the kernel drops
 * it when the game ends. */
static struct flock claim_range(short type)
{
  return (struct flock){.l_type = type,
                        .l_whence = SEEK_SET,
                        .l_start = ABORTS_CLAIM_BYTE,
                        .l_len = 1};
}

static bool lock_claim(short type)
{
  struct flock range = claim_range(type);
  return fcntl(agent.shm.fd, F_OFD_SETLK, &range) == 0;
}

static void announce(struct tecs_control *c, uint32_t owner)
{
  uint32_t session = (uint32_t)clock_mono_ns() | 1;
  if (session == agent.shm.aborts->session)
    session += 2;
  atomic_set(&c->trace_paused, 0u);
  atomic_set(&c->trace_stop, 0u);
  atomic_set(&c->trace_owner, owner);
  atomic_release(&c->trace_session, session);
}

/* The lock is of this process: a second session of its own passes it. */
static volatile uint32_t own_session;
static volatile uint32_t awaited; /* pid of the collector that starts us */

void aborts_forked(void)
{
  table = (struct abort_table){.more = more_rows};
  own_session = 0;
  awaited = 0;
}

enum result aborts_begin(lua_State *L, uint32_t *owner)
{
  uint32_t none = 0;
  *owner = 0;
  if (!file_is_ours())
    return RESULT_IO;
  struct tecs_control *c = agent.shm.control;
  if (!__atomic_compare_exchange_n(&own_session, &none, 1u, false,
                                   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    *owner = atomic_get(&c->trace_owner);
    return RESULT_BUSY;
  }
  enum result r = RESULT_BUSY;
  if (lock_claim(F_WRLCK)) {
    r = shm_back_aborts(&agent.shm);
    if (r == RESULT_OK) {
      announce(c, (uint32_t)getpid());
      events_check(L);
      events_follow();
      return r;
    }
    lock_claim(F_UNLCK);
  } else {
    *owner = atomic_get(&c->trace_owner);
  }
  atomic_release(&own_session, 0u);
  return r;
}

void aborts_from_start(uint32_t owner)
{
  if (shm_back_aborts(&agent.shm) != RESULT_OK)
    return;
  announce(agent.shm.control, owner);
  atomic_set(&awaited, owner);
}

static bool is_claimed(void)
{
  struct flock range = claim_range(F_WRLCK);
  return fcntl(agent.shm.fd, F_OFD_GETLK, &range) || range.l_type != F_UNLCK;
}

void aborts_await_collector(void)
{
  const struct timespec nap = {.tv_nsec = 1000000};
  uint32_t owner = __atomic_exchange_n(&awaited, 0u, __ATOMIC_ACQ_REL);
  if (!owner || !file_is_ours())
    return;
  for (int i = 0;
       i < AWAIT_NAPS && !is_claimed() && (uint32_t)getppid() == owner; i++)
    nanosleep(&nap, NULL);
  nanosleep(&nap, NULL); /* it looks at the VMs next */
}

void aborts_pause(bool paused)
{
  if (atomic_get(&own_session))
    atomic_release(&agent.shm.control->trace_paused, paused ? 1u : 0u);
}

void aborts_end(void)
{
  if (!atomic_get(&own_session))
    return;
  struct tecs_control *c = agent.shm.control;
  atomic_release(&c->trace_session, 0u);
  atomic_set(&c->trace_owner, 0u);
  events_follow();
  if (file_is_ours())
    lock_claim(F_UNLCK);
  atomic_release(&own_session, 0u);
}

const struct tecs_abort *aborts_read(struct tecs_aborts *totals)
{
  memset(totals, 0, sizeof *totals);
  if (!atomic_get(&own_session))
    return agent.shm.abort_rows;
  const struct tecs_aborts *a = agent.shm.aborts;
  uint32_t session = atomic_get(&agent.shm.control->trace_session);
  if (atomic_acquire(&a->session) == session)
    memcpy(totals, a, sizeof *totals);
  return agent.shm.abort_rows;
}
