/* SPDX-License-Identifier: MIT
 *
 * debug.getmetatable and debug.setmetatable, in a VM whose jit.zone is ours.
 *
 * LuaJIT takes __call from the metatable itself (lj_meta.c, lj_meta_call), and
 * a store to a field that is there meets no metamethod: who has the metatable
 * replaces __call unnoticed, and zones are lost.  getmetatable() shows a face
 * in its place (zonemod.h); so do these two.  A table of the game's own that is
 * set as the module's metatable is copied into one whose __call keeps the
 * zones and calls that of the game's table, as it is at each call.
 *
 * Both functions stay the objects, numbers and names that they are: only the C
 * function behind each is another.  The compiler knows debug.getmetatable by
 * its number and calls nothing (lj_ffrecord.c, recff_debug_getmetatable), so a
 * recording that meets our metatable is aborted, as by an error.  What is left:
 * a trace that was recorded with other objects shows it when it then meets the
 * module, and so does lua_getmetatable.
 */
#include <string.h>

#include "agent/zones.h"
#include "base/atomics.h"
#include "vmcore/discover.h"

/* What is in the box, a table in the registry.  META, FACE and CALL are the
 * module's (zonemod.h); OTHER is the metatable that stands for the game's. */
enum { BOX_META = 1, BOX_FACE, BOX_CALL, BOX_OTHER, BOX_SHOWN };
static char box_key;

/* Of one VM.  Addresses of what the box holds: objects do not move. */
struct debug_functions {
  volatile uint64_t g; /* 0: free */
  const struct api *api;
  const struct vm_layout *lay;
  lua_CFunction *get, *set; /* LuaJIT's own */
  const void *zone, *meta, *face, *other;
};
static struct debug_functions known[TECS_VMS];

static struct debug_functions *find(uint64_t g)
{
  for (unsigned i = 0; i < TECS_VMS; i++)
    if (atomic_acquire(&known[i].g) == g)
      return &known[i];
  return NULL;
}

static struct debug_functions *running(lua_State *L)
{
  struct vm_mem mem;
  struct vm_mem *previous = guard_enter(&mem);
  uint64_t g = vm_global_of(&mem, (uint64_t)L);
  guard_leave(previous);
  return g ? find(g) : NULL;
}

/* The entry of g: that of an earlier VM in its place, a free one, or that of a
 * VM that is gone. */
static struct debug_functions *claim(uint64_t g)
{
  struct debug_functions *d = find(g);
  for (unsigned i = 0; i < TECS_VMS && !d; i++) {
    uint64_t was = atomic_get(&known[i].g);
    if ((!was || !registry_find(was)) &&
        __atomic_compare_exchange_n(&known[i].g, &was, g, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      d = &known[i];
  }
  return d;
}

/* false, and nothing is pushed: the game has emptied the registry. */
static bool push_box(const struct api *api, lua_State *L)
{
  api->lua_pushlightuserdata(L, &box_key);
  api->lua_rawget(L, LUA_REGISTRYINDEX);
  if (api->lua_type(L, -1) == LUA_TTABLE)
    return true;
  luaapi_pop(api, L, 1);
  return false;
}

/* ---- debug.getmetatable ---- */

/* Every error aborts it (lj_err.c, lj_err_throw), also one that goes no further
 * than this.  Nothing that is called would do: calls are recorded. */
static void abort_recording(const struct debug_functions *d, lua_State *L)
{
  struct vm_mem mem;
  const struct vm_layout *lay = d->lay;
  if (!lay->hasjit)
    return;
  struct vm_mem *previous = guard_enter(&mem);
  bool idle = !vm_load4(&mem, d->g - lay->gg_g + lay->gg_J + lay->J_state);
  guard_leave(previous);
  if (!idle && d->api->luaL_loadbuffer(L, "?", 1, "=" ZONES_MODULE))
    luaapi_pop(d->api, L, 1);
}

static int debug_getmetatable(lua_State *L)
{
  const struct debug_functions *d = running(L);
  if (!d)
    return 0;
  int results = d->get(L); /* 1 */
  const void *mt = d->api->lua_topointer(L, -1);
  if (!mt || (mt != d->meta && mt != d->other))
    return results;
  abort_recording(d, L);
  if (push_box(d->api, L))
    d->api->lua_rawgeti(L, -1, mt == d->meta ? BOX_FACE : BOX_SHOWN);
  return 1;
}

/* ---- debug.setmetatable ---- */

/* The fields of the table at index 2 into that at index 4, but for __call. */
static void copy_fields(const struct api *api, lua_State *L)
{
  api->lua_pushnil(L);
  while (api->lua_next(L, 2)) {
    bool call = api->lua_type(L, -2) == LUA_TSTRING &&
                !strcmp(api->lua_tolstring(L, -2, NULL), "__call");
    if (!call) {
      api->lua_pushvalue(L, -2);
      api->lua_pushvalue(L, -2);
      api->lua_rawset(L, 4);
    }
    luaapi_pop(api, L, 1);
  }
}

/* Pushes what is to stand for the table at index 2; the box is at index 3. */
static void push_other(struct debug_functions *d, lua_State *L)
{
  const struct api *api = d->api;
  api->lua_createtable(L, 0, 4);
  copy_fields(api, L);
  api->lua_rawgeti(L, 3, BOX_CALL);
  api->lua_setfield(L, 4, "__call");
  api->lua_getfield(L, 4, "__metatable");
  if (api->lua_type(L, -1) == LUA_TNIL) {
    api->lua_pushvalue(L, 2);
    api->lua_setfield(L, 4, "__metatable");
  }
  luaapi_pop(api, L, 1);
  api->lua_pushvalue(L, 4);
  api->lua_rawseti(L, 3, BOX_OTHER);
  api->lua_pushvalue(L, 2);
  api->lua_rawseti(L, 3, BOX_SHOWN);
  d->other = api->lua_topointer(L, 4);
}

static int debug_setmetatable(lua_State *L)
{
  struct debug_functions *d = running(L);
  if (!d)
    return 0;
  const struct api *api = d->api;
  const void *mt =
      api->lua_type(L, 2) == LUA_TTABLE ? api->lua_topointer(L, 2) : NULL;
  bool face = mt && mt == d->face;
  bool foreign = mt && !face && mt != d->meta && mt != d->other &&
                 api->lua_topointer(L, 1) == d->zone;
  if (face || foreign)
    api->lua_settop(L, 2);
  if ((face || foreign) && push_box(api, L)) {
    if (face)
      api->lua_rawgeti(L, 3, BOX_META);
    else
      push_other(d, L);
    api->lua_replace(L, 2);
    api->lua_settop(L, 2);
  }
  return d->set(L);
}

/* ---- entry ---- */

/* LuaJIT's function on top of the stack calls ours; returns what it called.
 * NULL: it is not one of LuaJIT's own (lj_obj.h: FF_LUA 0, FF_C 1). */
static lua_CFunction *take_over(const struct debug_functions *d, lua_State *L,
                                lua_CFunction *ours)
{
  struct vm_mem mem;
  lua_CFunction *f = d->api->lua_tocfunction(L, -1);
  uint64_t fn = (uint64_t)d->api->lua_topointer(L, -1);
  if (!f || f == ours)
    return NULL;
  struct vm_mem *previous = guard_enter(&mem);
  bool own = vm_load1(&mem, fn + d->lay->fn_ffid) > 1 &&
             vm_load8(&mem, fn + d->lay->fn_f) == (uint64_t)f;
  guard_leave(previous);
  if (!own)
    return NULL;
  *(volatile uint64_t *)(fn + d->lay->fn_f) = (uint64_t)ours;
  return f;
}

/* Pushes registry._LOADED.debug[name]; nil where the game took it away. */
static void push_debug(const struct api *api, lua_State *L, const char *name)
{
  const char *const path[] = {"_LOADED", "debug", name};
  api->lua_pushvalue(L, LUA_REGISTRYINDEX);
  for (size_t i = 0; i < sizeof path / sizeof path[0]; i++) {
    if (api->lua_type(L, -1) == LUA_TTABLE) {
      api->lua_pushstring(L, path[i]);
      api->lua_rawget(L, -2);
    } else {
      api->lua_pushnil(L);
    }
    api->lua_remove(L, -2);
  }
}

bool zones_meta_usable(const struct api *api)
{
  return api->lua_next && api->lua_pushnil && api->lua_pushstring &&
         api->lua_rawget && api->lua_rawgeti && api->lua_rawset &&
         api->lua_remove && api->lua_replace && api->lua_tocfunction &&
         api->lua_tolstring && api->lua_topointer;
}

void zones_meta_push_box(const struct api *api, lua_State *L)
{
  api->lua_createtable(L, BOX_SHOWN, 0);
  api->lua_pushlightuserdata(L, &box_key);
  api->lua_pushvalue(L, -2);
  api->lua_rawset(L, LUA_REGISTRYINDEX);
}

static const void *in_box(const struct api *api, lua_State *L, int what)
{
  const void *p = NULL;
  if (push_box(api, L)) {
    api->lua_rawgeti(L, -1, what);
    p = api->lua_topointer(L, -1);
    luaapi_pop(api, L, 2);
  }
  return p;
}

void zones_meta_take_over(const struct api *api, lua_State *L)
{
  const struct vm_layout *lay;
  uint64_t g;
  struct debug_functions *d = luaapi_vm(L, &lay, &g) ? claim(g) : NULL;
  if (!d)
    return;
  d->api = api;
  d->lay = lay;
  d->zone = api->lua_topointer(L, -1);
  d->meta = in_box(api, L, BOX_META);
  d->face = in_box(api, L, BOX_FACE);
  d->other = NULL;
  push_debug(api, L, "getmetatable");
  lua_CFunction *get = take_over(d, L, debug_getmetatable);
  d->get = get ? get : d->get;
  luaapi_pop(api, L, 1);
  push_debug(api, L, "setmetatable");
  lua_CFunction *set = take_over(d, L, debug_setmetatable);
  d->set = set ? set : d->set;
  luaapi_pop(api, L, 1);
}
