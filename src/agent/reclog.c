/* SPDX-License-Identifier: MIT */
#include "agent/reclog.h"

#include <sched.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "vmcore/value.h"

enum {
  SPINS = 1000,
  YIELDS = 20000, /* then whoever publishes is stuck: that log goes lost */
  REF_MAX = UINT16_MAX,
};

/* What is being recorded in one VM.  Only the pages that were written have
 * memory. */
struct recording {
  bool active;   /* since a "start" */
  bool overflow; /* too long: it gets no log */
  uint32_t traceno;
  uint32_t nproto, nevent;
  uint32_t ref;   /* of the last event: it never falls within a recording */
  uint64_t pt;    /* prototype of the last event but for builtins, */
  uint16_t proto; /* and its index */
  struct tecs_log_proto protos[TECS_LOG_PROTOS_MAX];
  struct tecs_log_event events[TECS_LOG_EVENTS_MAX];
};
static struct recording recordings[TECS_VMS]; /* by vm_events.place */

static bool off;

void reclog_off(void)
{
  off = true;
}

/* ---- the segment ---- */

static volatile uint32_t lock; /* who publishes */

static bool take(void)
{
  for (unsigned i = 0; i < SPINS + YIELDS; i++) {
    uint32_t none = 0;
    if (__atomic_compare_exchange_n(&lock, &none, 1u, false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED))
      return true;
    if (i >= SPINS)
      sched_yield();
  }
  return false;
}

static void release(void)
{
  atomic_release(&lock, 0u);
}

static uint32_t now_s(void)
{
  return (uint32_t)(clock_mono_ns() / 1000000000u);
}

static struct tecs_log_vm *entry(const struct vm_events *v)
{
  return &agent.shm.log->vm[v->place];
}

/* Only this thread has traces of this VM logged, so that all its logs lie below
 * the head that it sees. */
static void drop_all(const struct vm_events *v)
{
  shm_log_flush(&agent.shm, v->place);
}

static void drop(const struct vm_events *v, uint32_t traceno)
{
  if (take()) {
    shm_log_drop(&agent.shm, v->g, traceno);
    release();
  } else {
    drop_all(v);
  }
}

static void count(uint64_t *counter)
{
  atomic_set(counter, *counter + 1);
}

/* ---- VMs ---- */

/* A fault of LuaJIT's own can be mended with GC64 alone (events_fault.c), and
 * later versions, whose events have a stack of their own, do not have it. */
static enum tecs_log_state possible(const struct vm_layout *lay)
{
  if (!lay->hasjit)
    return TECS_LOG_NONE;
  if (!lay->gc64 && lay->g_vmthref == VM_ABSENT16)
    return TECS_LOG_UNSAFE;
  return off ? TECS_LOG_OFF : TECS_LOG_ON;
}

static void publish(const struct vm_events *v, enum tecs_log_state state)
{
  if (agent_ready() && shm_log_back(&agent.shm) == RESULT_OK)
    shm_log_vm_made(&agent.shm, v->place, v->g, state, now_s());
}

void reclog_made(struct vm_events *v)
{
  struct capture_vm *e = registry_find(v->g);
  v->log = false;
  if (!e)
    return;
  v->place = (unsigned)(e - registry.entry);
  recordings[v->place].active = false;
  enum tecs_log_state state = possible(v->lay);
  v->log = state == TECS_LOG_ON;
  if (!take())
    return;
  publish(v, state);
  release();
}

void reclog_forked(const struct vm_events *v)
{
  atomic_release(&lock, 0u); /* its holder may be a thread of the parent */
  publish(v, possible(v->lay));
}

void reclog_listens(const struct vm_events *v, enum tecs_log_state state)
{
  if (!v->log || !agent_ready() || !agent.shm.log_backed ||
      atomic_get(&entry(v)->state) == state)
    return;
  recordings[v->place].active = false;
  drop_all(v);
  atomic_set(&entry(v)->since_s, now_s());
  atomic_release(&entry(v)->state, (uint32_t)state);
}

void reclog_forget(const struct vm_events *v)
{
  if (agent_ready() && agent.shm.log_backed)
    shm_log_vm_made(&agent.shm, v->place, 0, TECS_LOG_NONE, now_s());
}

/* ---- a recording ---- */

static uint64_t jit_state(const struct vm_events *v)
{
  return v->g - v->lay->gg_g + v->lay->gg_J;
}

static void begin(const struct vm_events *v, uint32_t traceno)
{
  struct recording *r = &recordings[v->place];
  r->active = true;
  r->overflow = false;
  r->traceno = traceno;
  r->nproto = r->nevent = r->ref = 0;
  r->pt = 0;
  drop(v, traceno);
}

/* T of that number (lj_trace.c: trace_stop has put it there). */
static uint64_t trace_of(struct vm_mem *m, const struct vm_events *v,
                         uint32_t traceno)
{
  const struct vm_layout *lay = v->lay;
  uint64_t table = vm_load8(m, jit_state(v) + lay->J_trace);
  uint64_t T = vm_ref(m, lay, table + (uint64_t)traceno * vm_ref_size(lay));
  return vm_load2(m, T + lay->tr_traceno) == traceno ? T : 0;
}

static bool put(struct vm_mem *m, const struct vm_events *v,
                const struct recording *r)
{
  uint64_t T = trace_of(m, v, r->traceno);
  struct tecs_log_trace head = {
      .g = v->g,
      .traceno = r->traceno,
      .nproto = r->nproto,
      .nevent = r->nevent,
      .mcode = vm_load8(m, T + v->lay->tr_mcode),
      .szmcode = vm_load4(m, T + v->lay->tr_szmcode),
  };
  if (r->overflow || !T || m->faults || !take())
    return false;
  enum result done = shm_log_put(&agent.shm, &head, r->protos, r->events);
  release();
  return done == RESULT_OK;
}

/* A trace without a recorded bytecode only leaves to the interpreter
 * (lj_record.c, lj_record_setup: sidecheck): there is nothing to log. */
static void end(struct vm_mem *m, const struct vm_events *v, uint32_t traceno)
{
  struct recording *r = &recordings[v->place];
  bool complete = r->active && r->traceno == traceno;
  r->active = false;
  if (!complete || (!r->nevent && !r->overflow))
    return;
  count(put(m, v, r) ? &entry(v)->logged : &entry(v)->missed);
}

void reclog_trace(struct vm_mem *m, const struct vm_events *v,
                  enum abort_event what, uint64_t base, unsigned n)
{
  int64_t traceno = 0;
  if (!agent_ready() || !agent.shm.log_backed)
    return;
  if (n > 1)
    aborts_int(v->lay, vm_load8(m, base + 8), &traceno);
  if (what == ABORT_EVENT_START)
    begin(v, (uint32_t)traceno);
  else if (what == ABORT_EVENT_STOP)
    end(m, v, (uint32_t)traceno);
  else if (what != ABORT_EVENT_OTHER)
    recordings[v->place].active = false;
  if (what == ABORT_EVENT_FLUSH)
    drop_all(v);
}

/* ---- a bytecode ---- */

static uint64_t load8(uint64_t addr)
{
  return *(const volatile uint64_t *)addr;
}
static uint32_t load4(uint64_t addr)
{
  return *(const volatile uint32_t *)addr;
}

/* The place of prototype pt in the recording; TECS_LOG_NO_PROTO: none is free.
 */
static uint16_t proto_index(struct recording *r, const struct vm_layout *lay,
                            uint64_t pt)
{
  uint32_t i = r->nproto;
  while (i > 0 && r->protos[i - 1].addr != pt)
    i--;
  if (i > 0)
    return (uint16_t)(i - 1);
  if (r->nproto == TECS_LOG_PROTOS_MAX)
    return TECS_LOG_NO_PROTO;
  r->protos[r->nproto] = (struct tecs_log_proto){
      pt, load4(pt + lay->pt_firstline), load4(pt + lay->pt_sizebc)};
  return (uint16_t)r->nproto++;
}

/* J->pc in J->pt, which lj_trace_ins (lj_trace.c) has set: NULL in a builtin.
 * false: no room. */
static bool place(struct recording *r, const struct vm_layout *lay, uint64_t J,
                  struct tecs_log_event *e)
{
  uint64_t pt = load8(J + lay->J_pt);
  *e = (struct tecs_log_event){.proto = TECS_LOG_NO_PROTO};
  if (!pt)
    return true;
  if (pt != r->pt) {
    uint16_t i = proto_index(r, lay, pt);
    if (i == TECS_LOG_NO_PROTO)
      return false;
    r->pt = pt;
    r->proto = i;
  }
  uint64_t ofs = load8(J + lay->J_pc) - (pt + lay->pt_sizeof);
  if (ofs / 4 < r->protos[r->proto].sizebc) {
    e->proto = r->proto;
    e->pc = (uint32_t)(ofs / 4);
  }
  return true;
}

/* Arguments: number, function, position, depth (lj_trace.c, trace_state). */
bool reclog_record(const struct vm_events *v, uint64_t base, unsigned n)
{
  struct recording *r = &recordings[v->place];
  uint64_t J = jit_state(v);
  uint32_t ref = load4(J + v->lay->tr_nins);
  int64_t traceno = 0, depth = -1;
  if (n > 3) {
    aborts_int(v->lay, load8(base), &traceno);
    aborts_int(v->lay, load8(base + 24), &depth);
  }
  r->active = r->active && traceno == r->traceno && ref >= r->ref;
  if (!r->active)
    return false;
  r->ref = ref;
  if (r->nevent == TECS_LOG_EVENTS_MAX || ref > REF_MAX || depth < 0 ||
      depth > UINT16_MAX || !place(r, v->lay, J, &r->events[r->nevent])) {
    r->overflow = true;
    return true;
  }
  struct tecs_log_event *e = &r->events[r->nevent++];
  e->ref = (uint16_t)ref;
  e->depth = (uint16_t)depth;
  return true;
}
