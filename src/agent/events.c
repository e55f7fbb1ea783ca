/* SPDX-License-Identifier: MIT */
#include "agent/events.h"

#include <string.h>

#include "agent/aborts.h"
#include "agent/aborts_internal.h"
#include "agent/agent_internal.h"
#include "agent/events_internal.h"
#include "agent/reclog.h"
#include "base/atomics.h"
#include "vmcore/discover.h"
#include "vmcore/value.h"

enum {
  HOOK_VMEVENT = 0x20,   /* lj_obj.h: a VM event is being handled */
  VMEVENT_NOCACHE = 255, /* lj_vmevent.h: ask the table at every event */
  MASK_BC = 1 << 0,      /* VMEVENT_MASK of each, in the order of its enum */
  MASK_TRACE = 1 << 1,
  MASK_RECORD = 1 << 2,
};
static const char VMEVENTS[] = "_VMEVENTS"; /* key in the registry */

static int on_bc(lua_State *L);
static int on_trace(lua_State *L);
static int on_record(lua_State *L);
static void withdraw(struct vm_events *v, lua_State *L);
static void recheck(struct vm_events *v, lua_State *L, enum event_kind kind);
static void check(struct vm_events *v, lua_State *L, enum event_kind kind);
static void check_from(lua_State *L, unsigned kind);

/* Keys of the handlers in that table (lj_vmevent.h, VMEVENT_HASH), and how many
 * upvalues each has of its own: "trace" the function of events_fault.c.  One
 * more is what it passes on to. */
static const struct {
  int key;
  lua_CFunction *handler;
  unsigned own;
} kinds[EVENT_KINDS] = {
    [EVENT_BC] = {115736, on_bc, 0},
    [EVENT_TRACE] = {-1765235912, on_trace, 1},
    [EVENT_RECORD] = {-1809450376, on_record, 0},
};

static struct vm_events known[TECS_VMS];

/* ---- which VM ---- */

static struct vm_events *find(uint64_t g)
{
  for (unsigned i = 0; i < TECS_VMS; i++)
    if (atomic_acquire(&known[i].g) == g)
      return &known[i];
  return NULL;
}

static struct vm_events *find_thread(struct vm_mem *m, lua_State *L)
{
  uint64_t g = vm_global_of(m, (uint64_t)L);
  return g ? find(g) : NULL;
}

static struct vm_events *running(lua_State *L)
{
  struct vm_mem mem;
  struct vm_mem *previous = guard_enter(&mem);
  struct vm_events *v = find_thread(&mem, L);
  guard_leave(previous);
  return v;
}

/* The entry of g: of an earlier VM in its place, a free one, or that of a VM
 * that is gone. */
static struct vm_events *claim(uint64_t g)
{
  struct vm_events *v = find(g);
  for (unsigned i = 0; i < TECS_VMS && !v; i++) {
    uint64_t was = atomic_get(&known[i].g);
    if ((!was || !registry_find(was)) &&
        __atomic_compare_exchange_n(&known[i].g, &was, g, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      v = &known[i];
  }
  return v;
}

const struct vm_events *events_at(unsigned index)
{
  return &known[index];
}

/* ---- the handlers ---- */

/* Argument 0 of the running C function; its closure lies below. */
static uint64_t base_of(struct vm_mem *m, const struct vm_events *v,
                        lua_State *L)
{
  return vm_load8(m, (uint64_t)L + v->lay->L_base);
}

/* Calls whoever was attached before us, by the upvalue, with our arguments.
 * Errors go to LuaJIT as they would without us (lj_vmevent.c). */
static void chain(const struct api *api, lua_State *L, enum event_kind kind)
{
  int n = api->lua_gettop(L);
  if (!api->lua_checkstack(L, n + 1))
    return;
  api->lua_pushvalue(L, lua_upvalueindex((int)kinds[kind].own + 1));
  for (int i = 1; i <= n; i++)
    api->lua_pushvalue(L, i);
  api->lua_call(L, n, 0);
}

/* An older closure of ours, that the program fetched and calls from its own
 * handler, only passes on: the one in the place has counted. */
static int handle(lua_State *L, enum event_kind kind,
                  void (*take)(struct vm_mem *, struct vm_events *, uint64_t,
                               unsigned))
{
  struct vm_mem mem;
  struct vm_mem *previous = guard_enter(&mem);
  struct vm_events *v = find_thread(&mem, L);
  bool passes_on = false;
  if (v) {
    uint64_t base = base_of(&mem, v, L),
             self = vm_base_func(&mem, v->lay, base);
    uint64_t top = vm_load8(&mem, (uint64_t)L + v->lay->L_top);
    passes_on = vm_load1(&mem, self + v->lay->fn_nupvalues) > kinds[kind].own;
    v->heard = v->heard || (v->foreign && kind == EVENT_TRACE);
    if (self == v->current[kind])
      take(&mem, v, base, (unsigned)((top - base) / 8));
  }
  guard_leave(previous);
  if (passes_on)
    chain(v->api, L, kind);
  return 0;
}

static void take_bc(struct vm_mem *m, struct vm_events *v, uint64_t base,
                    unsigned n)
{
  uint64_t pt = n ? vm_value_as(v->lay, vm_load8(m, base), VM_GCT_PROTO) : 0;
  if (vm_plausible(pt) && vm_is_proto(m, v->lay, pt))
    names_proto_made(m, v->lay, pt);
}

/* Argument 1 is the prototype (lj_bcread.c, lj_parse.c). */
static int on_bc(lua_State *L)
{
  check_from(L, EVENT_TRACE);
  return handle(L, EVENT_BC, take_bc);
}

static void take_trace(struct vm_mem *m, struct vm_events *v, uint64_t base,
                       unsigned n)
{
  events_settle_search(m, v, base, n);
  enum abort_event what =
      n ? aborts_what(m, v->lay, vm_load8(m, base)) : ABORT_EVENT_OTHER;
  if (!v->shared && (v->log || aborts_wanted()) && what == ABORT_EVENT_START)
    v->withdrawn = events_may_kill(m, v);
  aborts_event(m, v, what, base, n);
  if (v->log && vm_load1(m, v->g + v->lay->g_hookmask) & HOOK_VMEVENT)
    reclog_trace(m, v, what, base, n);
}

/* A recording that is heard in part is no recording: whether the other of the
 * two handlers is still in its place is looked up first. */
static int on_trace(lua_State *L)
{
  struct vm_events *v = running(L);
  if (v && v->log && !v->foreign_record)
    recheck(v, L, EVENT_RECORD);
  handle(L, EVENT_TRACE, take_trace);
  if (v && v->withdrawn)
    withdraw(v, L);
  return 0;
}

static uint64_t load(uint64_t addr, unsigned width)
{
  switch (width) {
  case 8:
    return *(const volatile uint64_t *)addr;
  case 4:
    return *(const volatile uint32_t *)addr;
  default:
    return *(const volatile uint8_t *)addr;
  }
}

/* As running(), for what happens once for each recorded bytecode: without a
 * guard, since all that is read is alive. */
static struct vm_events *running_again(lua_State *L)
{
  AGENT_TLS struct vm_events *last;
  uint64_t at = (uint64_t)L;
  struct vm_events *v = last;
  if (!v || load(at + v->lay->L_glref, vm_ref_size(v->lay)) != v->g)
    last = v = running(L);
  return v;
}

static int on_record(lua_State *L)
{
  struct vm_events *v = running_again(L);
  if (!v)
    return 0;
  const struct vm_layout *lay = v->lay;
  uint64_t base = load((uint64_t)L + lay->L_base, 8);
  uint64_t top = load((uint64_t)L + lay->L_top, 8);
  uint64_t self =
      lay->gc64 ? load(base - 16, 8) & VM_GCV_MASK : load(base - 8, 4);
  bool heard = true;
  if (v->log && self == v->current[EVENT_RECORD] &&
      load(v->g + lay->g_hookmask, 1) & HOOK_VMEVENT)
    heard = reclog_record(v, base, (unsigned)((top - base) / 8));
  if (load(self + lay->fn_nupvalues, 1) > kinds[EVENT_RECORD].own)
    chain(v->api, L, EVENT_RECORD);
  if (!heard && !v->foreign && !v->withdrawn)
    recheck(v, L, EVENT_TRACE);
  return 0;
}

/* ---- the places ---- */

/* The events that are listened to are those before this one. */
static unsigned kinds_of(const struct vm_events *v)
{
  return v->log ? EVENT_KINDS : EVENT_RECORD;
}

/* Address of the function on top of the stack, 0: none. */
static uint64_t top_function(const struct api *api, lua_State *L)
{
  if (api->lua_type(L, -1) != LUA_TFUNCTION)
    return 0;
  return (uint64_t)api->lua_topointer(L, -1);
}

static void report_log(const struct vm_events *v)
{
  enum tecs_log_state state = TECS_LOG_ON;
  if (v->withdrawn)
    state = TECS_LOG_WITHDRAWN;
  else if ((v->foreign && !v->heard) || v->foreign_record)
    state = TECS_LOG_REPLACED;
  reclog_listens(v, state);
}

static void report_record(struct vm_events *v, uint64_t foreign)
{
  v->foreign_record = foreign;
  v->shared = v->shared || foreign;
  report_log(v);
}

static void report(struct vm_events *v, uint64_t foreign)
{
  struct capture_vm *e = registry_find(v->g);
  if (foreign != v->foreign)
    v->heard = false;
  v->foreign = foreign;
  v->shared = v->shared || foreign;
  v->withdrawn = false;
  uint32_t events = foreign ? TECS_VM_REPLACED : TECS_VM_LISTENING;
  if (foreign && v->heard)
    events |= TECS_VM_LISTENING;
  if (e && events != e->events)
    registry_events(e, events);
  report_log(v);
}

/* Without a record log, the event is let through only while aborts are counted,
 * or while the program itself listens to events: nothing is put at risk or
 * slowed down otherwise (events_fault.c). */
static uint8_t wanted_mask(const struct vm_events *v)
{
  if (v->shared)
    return VMEVENT_NOCACHE;
  if (v->log)
    return MASK_BC | MASK_TRACE | MASK_RECORD;
  return aborts_wanted() ? MASK_BC | MASK_TRACE : MASK_BC;
}

void events_follow(void)
{
  struct vm_mem mem;
  struct vm_mem *previous = guard_enter(&mem);
  for (unsigned i = 0; i < TECS_VMS; i++) {
    const struct vm_events *v = &known[i];
    uint64_t g = atomic_acquire(&known[i].g);
    if (g && !v->shared && registry_find(g) && vm_is_global(&mem, v->lay, g))
      guard_store1(g + v->lay->g_vmevmask, wanted_mask(v));
  }
  guard_leave(previous);
}

void events_forget(uint64_t g)
{
  struct vm_events *v = find(g);
  if (!v)
    return;
  reclog_forget(v);
  atomic_release(&v->g, (uint64_t)0);
}

void events_forked(void)
{
  for (unsigned i = 0; i < TECS_VMS; i++)
    if (known[i].g && registry_find(known[i].g))
      reclog_forked(&known[i]);
}

/* The handler on top of the stack goes into the place and is popped; below it
 * is the table.  Then what jit.attach does too (lib_jit.c): the cache of
 * events that nobody listens to is forgotten. */
static void put(struct vm_events *v, lua_State *L, enum event_kind kind)
{
  v->current[kind] = top_function(v->api, L);
  v->api->lua_rawseti(L, -2, kinds[kind].key);
  *(volatile uint8_t *)(v->g + v->lay->g_vmevmask) = wanted_mask(v);
  if (kind == EVENT_TRACE)
    report(v, 0);
  else if (kind == EVENT_RECORD)
    report_record(v, 0);
}

static char function_key; /* in the registry: the function of events_fault.c */

/* Our closure; what it is to pass on to, if anything, is on top of the stack.
 */
static void push_handler(const struct vm_events *v, lua_State *L,
                         enum event_kind kind, bool passes_on)
{
  if (kinds[kind].own) {
    v->api->lua_pushlightuserdata(L, &function_key);
    v->api->lua_rawget(L, LUA_REGISTRYINDEX);
    if (passes_on)
      v->api->lua_insert(L, -2);
  }
  v->api->lua_pushcclosure(L, kinds[kind].handler,
                           (int)kinds[kind].own + passes_on);
}

static bool bring_function(const struct api *api, lua_State *L)
{
  api->lua_pushlightuserdata(L, &function_key);
  if (api->luaL_loadbuffer(L, "", 0, "=tecs-agent")) {
    luaapi_pop(api, L, 2);
    return false;
  }
  api->lua_rawset(L, LUA_REGISTRYINDEX);
  return true;
}

/* Ours in front of what the place holds, which is on top of the stack. */
static void put_in_front(struct vm_events *v, lua_State *L,
                         enum event_kind kind)
{
  bool occupied = top_function(v->api, L) != 0;
  if (!occupied)
    luaapi_pop(v->api, L, 1);
  push_handler(v, L, kind, occupied);
  put(v, L, kind);
}

static bool is_ours(const struct vm_events *v, lua_State *L,
                    enum event_kind kind)
{
  return v->api->lua_tocfunction(L, -1) == kinds[kind].handler;
}

/* What our closure at address fn passes on to, 0: nothing. */
static uint64_t passes_to(const struct vm_events *v, uint64_t fn,
                          enum event_kind kind)
{
  struct vm_mem mem;
  struct vm_mem *previous = guard_enter(&mem);
  uint64_t to = 0;
  unsigned own = kinds[kind].own;
  if (vm_load1(&mem, fn + v->lay->fn_nupvalues) > own)
    to =
        vm_value_obj(v->lay, vm_load8(&mem, fn + v->lay->fn_upvalue + 8 * own));
  guard_leave(previous);
  return to;
}

/* The table of handlers, and the one of that kind: both on the stack.  false,
 * and nothing there: the program put something else in the table's place. */
static bool push_place(const struct vm_events *v, lua_State *L,
                       enum event_kind kind)
{
  if (v->api->luaL_findtable(L, LUA_REGISTRYINDEX, VMEVENTS, 4))
    return false;
  v->api->lua_rawgeti(L, -1, kinds[kind].key);
  return true;
}

/* check(), when something else than ours is in the place.  Called from within
 * events, hence by what takes no memory. */
static void recheck(struct vm_events *v, lua_State *L, enum event_kind kind)
{
  const struct api *api = v->api;
  if (!api->lua_checkstack(L, 8))
    return;
  api->lua_getfield(L, LUA_REGISTRYINDEX, VMEVENTS);
  uint64_t now = 0;
  if (api->lua_type(L, -1) == LUA_TTABLE) {
    api->lua_rawgeti(L, -1, kinds[kind].key);
    now = top_function(api, L);
    luaapi_pop(api, L, 1);
  }
  luaapi_pop(api, L, 1);
  if (now != v->current[kind])
    check(v, L, kind);
}

/* Where a fault would kill (events_fault.c), LuaJIT must find no listener. */
static void withdraw(struct vm_events *v, lua_State *L)
{
  if (!v->api->lua_checkstack(L, 4) || !push_place(v, L, EVENT_TRACE))
    return;
  if (is_ours(v, L, EVENT_TRACE)) {
    v->api->lua_pushnil(L);
    v->api->lua_rawseti(L, -3, kinds[EVENT_TRACE].key);
    v->current[EVENT_TRACE] = 0;
    struct capture_vm *e = registry_find(v->g);
    if (e)
      registry_events(e, TECS_VM_WITHDRAWN);
    report_log(v);
  }
  luaapi_pop(v->api, L, 2);
}

/* ---- jit.attach ---- */

/* After LuaJIT's own jit.attach.  before: what the place held; detached: the
 * function that it was told to detach, 0: none. */
static void settle(struct vm_events *v, lua_State *L, enum event_kind kind,
                   uint64_t before, uint64_t detached)
{
  if (!push_place(v, L, kind))
    return;
  uint64_t now = top_function(v->api, L);
  if (now && is_ours(v, L, kind)) {
    if (detached && passes_to(v, now, kind) == detached) {
      luaapi_pop(v->api, L, 1);
      push_handler(v, L, kind, false);
    }
    put(v, L, kind);
  } else if (now && now == before) { /* put there past jit.attach */
    luaapi_pop(v->api, L, 1);
  } else {
    put_in_front(v, L, kind);
  }
  luaapi_pop(v->api, L, 1);
}

static uint64_t holder(const struct vm_events *v, lua_State *L,
                       enum event_kind kind)
{
  if (!push_place(v, L, kind))
    return 0;
  uint64_t fn = top_function(v->api, L);
  luaapi_pop(v->api, L, 2);
  return fn;
}

/* jit.attach(function, event) and jit.attach(function): LuaJIT's own does it,
 * or raises what there is to raise; then ours come back in front. */
static int attach(lua_State *L)
{
  struct vm_events *v = running(L);
  if (!v || !v->attach)
    return 0;
  uint64_t before[EVENT_KINDS];
  for (unsigned kind = 0; kind < kinds_of(v); kind++)
    before[kind] = holder(v, L, kind);
  int results = v->attach(L);
  v->shared = true;
  bool detach = v->api->lua_type(L, 2) != LUA_TSTRING;
  uint64_t fn = (uint64_t)v->api->lua_topointer(L, 1);
  for (unsigned kind = 0; kind < kinds_of(v); kind++)
    settle(v, L, kind, before[kind], detach ? fn : 0);
  return results;
}

/* The libraries of this VM are there now: they tell the names by ffid. */
static bool take_over(struct vm_events *v, uint64_t fn)
{
  struct vm_mem mem;
  struct vm_mem *previous = guard_enter(&mem);
  uint32_t ffid = vm_load1(&mem, fn + v->lay->fn_ffid);
  vm_ffnames_read(&v->words, &mem, v->layout, v->g);
  uint64_t f = vm_load8(&mem, fn + v->lay->fn_f);
  guard_leave(previous);
  if (ffid <= 1 || !f || f == (uint64_t)attach)
    return false; /* not LuaJIT's own (lj_obj.h: FF_LUA 0, FF_C 1) */
  v->attach = (lua_CFunction *)f;
  *(volatile uint64_t *)(fn + v->lay->fn_f) = (uint64_t)attach;
  return true;
}

/* Pushes t[name] of the table on top of the stack in its place. */
static bool descend(const struct api *api, lua_State *L, const char *name)
{
  if (api->lua_type(L, -1) != LUA_TTABLE)
    return false;
  api->lua_pushstring(L, name);
  api->lua_rawget(L, -2);
  api->lua_remove(L, -2);
  return true;
}

/* Takes over the jit.attach that package.loaded holds; false: there is none, or
 * it is ours already. */
static bool take_over_loaded(struct vm_events *v, lua_State *L)
{
  const struct api *api = v->api;
  bool taken = false;
  api->lua_pushvalue(L, LUA_REGISTRYINDEX);
  if (descend(api, L, "_LOADED") && descend(api, L, "jit") &&
      descend(api, L, "attach") && top_function(api, L))
    taken = take_over(v, top_function(api, L));
  luaapi_pop(api, L, 1);
  return taken;
}

/* ---- entry ---- */

/* A handler that came by a jit.attach that we had not seen yet is one like any
 * other; one that came by another way has the place. */
static void check(struct vm_events *v, lua_State *L, enum event_kind kind)
{
  if (kind == EVENT_TRACE && v->withdrawn && !events_may_return(v))
    return;
  if (!push_place(v, L, kind))
    return;
  uint64_t now = top_function(v->api, L);
  if (!now || (!is_ours(v, L, kind) && take_over_loaded(v, L))) {
    put_in_front(v, L, kind);
    luaapi_pop(v->api, L, 1);
    return;
  }
  bool ours = is_ours(v, L, kind);
  if (ours)
    v->current[kind] = now;
  if (kind == EVENT_TRACE)
    report(v, ours ? 0 : now);
  else if (kind == EVENT_RECORD)
    report_record(v, ours ? 0 : now);
  luaapi_pop(v->api, L, 2);
}

static void check_from(lua_State *L, unsigned kind)
{
  struct vm_events *v = running(L);
  if (!v || !v->api->lua_checkstack(L, 8))
    return;
  if (!v->attach)
    take_over_loaded(v, L);
  for (; kind < kinds_of(v); kind++)
    check(v, L, kind);
}

void events_check(lua_State *L)
{
  check_from(L, 0);
}

void events_install(const struct api *api, lua_State *L, uint32_t id,
                    uint64_t g, uint64_t code)
{
  const struct vm_texts *texts = vm_texts_get(id);
  struct vm_events *v = texts ? claim(g) : NULL;
  if (!v || !api->lua_pushstring || !api->lua_rawget || !api->lua_rawgeti ||
      !api->lua_remove || !api->lua_tocfunction || !api->lua_topointer ||
      !api->lua_rawset || !api->lua_pushnil || !api->lua_insert ||
      !bring_function(api, L))
    return;
  v->api = api;
  v->lay = vm_layout_get(id);
  v->layout = id;
  memset(&v->words, 0, sizeof v->words);
  memset(v->asked, 0, sizeof v->asked);
  v->words.texts = texts;
  v->attach = NULL;
  v->foreign = v->foreign_record = 0;
  v->heard = v->withdrawn = false;
  events_find_code(v, code);
  /* somebody attached a handler before us */
  v->shared = *(volatile uint8_t *)(g + v->lay->g_vmevmask) != 0;
  memset(v->current, 0, sizeof v->current);
  memset(&v->zone, 0, sizeof v->zone);
  reclog_made(v);
  events_check(L);
}
