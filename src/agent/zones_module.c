/* SPDX-License-Identifier: MIT
 *
 * require "jit.zone".
 */
#include <string.h>

#include "agent/zonemod.h"
#include "agent/zones.h"
#include "base/atomics.h"
#include "vmcore/discover.h"

bool zones_usable(const struct api *api)
{
  return api->lua_createtable && api->lua_pushboolean && zones_meta_usable(api);
}

/* As stock LuaJIT: with the place in the module (lib/jit/zone.lua, assert). */
static int underflow(lua_State *L)
{
  const struct api *api = luaapi_running(L);
  return api ? api->luaL_error(L, "empty zone stack") : 0;
}

static int jit_is_on(lua_State *L)
{
  const struct vm_layout *lay;
  uint64_t g;
  struct vm_mem mem;
  const struct api *api = luaapi_running(L);
  if (!api || !luaapi_vm(L, &lay, &g))
    return 0;
  struct vm_mem *previous = guard_enter(&mem);
  bool on = vm_jit_on(&mem, lay, g);
  guard_leave(previous);
  api->lua_pushboolean(L, on);
  return 1;
}

/* Leaves the module on the stack.  Its table has room for names in the array
 * part, where a store is cheapest, and none to spare in the hash part, where
 * names that follow a full array would go (lj_tab.c, lj_tab_newkey). */
static void make(const struct api *api, lua_State *L)
{
  api->lua_createtable(L, 15, 2);
  if (api->luaL_loadbuffer(L, zonemod_source, strlen(zonemod_source),
                           "=" ZONES_MODULE))
    api->luaL_error(L, "%s: the agent's module can't be loaded", ZONES_MODULE);
  api->lua_pushvalue(L, -2);
  api->lua_pushcclosure(L, underflow, 0);
  api->lua_pushcclosure(L, jit_is_on, 0);
  zones_meta_push_box(api, L);
  api->lua_call(L, 4, 3); /* metatable, its face, the face's metatable */
  api->lua_setmetatable(L, -2);
  luaapi_pop(api, L, 1);
  api->lua_setmetatable(L, -2);
  api->lua_pushvalue(L, -1);
  api->lua_setfield(L, LUA_REGISTRYINDEX, VM_ZONE_OWN);
  zones_meta_take_over(api, L);
}

/* The handler finds the module at its next tick. */
static void forget_search(lua_State *L)
{
  const struct vm_layout *lay;
  uint64_t g;
  struct capture_vm *e = luaapi_vm(L, &lay, &g) ? registry_find(g) : NULL;
  if (e)
    atomic_set(&e->zone.wait, 0u);
}

int zones_open(lua_State *L)
{
  const struct api *api = luaapi_running(L);
  if (!api)
    return 0;
  api->lua_getfield(L, LUA_REGISTRYINDEX, VM_ZONE_OWN);
  if (api->lua_type(L, -1) != LUA_TTABLE) {
    luaapi_pop(api, L, 1);
    make(api, L);
  }
  forget_search(L);
  return 1;
}
