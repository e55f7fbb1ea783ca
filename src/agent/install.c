/* SPDX-License-Identifier: MIT
 *
 * What the agent puts into a VM, at moments when the VM's own thread may call
 * its API: modules in package.preload, and the handlers of events (events.c).
 * The API is taken from the object that holds the VM's code; where none is to
 * be found, nothing is installed: sampling works from memory all the same.
 */
#include "agent/aborts.h"
#include "agent/agent_internal.h"
#include "agent/events.h"
#include "agent/luaapi.h"
#include "agent/profile_internal.h"
#include "agent/zones.h"
#include "vmcore/discover.h"

static void preload(const struct api *api, lua_State *L, const char *module,
                    lua_CFunction *open)
{
  api->luaL_findtable(L, LUA_REGISTRYINDEX, "_PRELOAD", 4);
  api->lua_pushcclosure(L, open, 0);
  api->lua_setfield(L, -2, module);
  api->lua_settop(L, -2);
}

/* ---- entry ---- */

static struct capture_vm *identify(void *L, enum tecs_vm_found found)
{
  struct vm_mem mem;
  struct capture_vm *e = NULL;
  uint64_t g;
  guard_install();
  struct vm_mem *previous = guard_enter(&mem);
  uint32_t id = vm_identify(&mem, (uint64_t)L, &g);
  if (id != VM_LAYOUT_UNKNOWN) {
    e = registry_add(&mem, id, g, found);
  } else {
    g = vm_resembles(&mem, (uint64_t)L);
    if (g)
      registry_add_unknown(g, found);
  }
  guard_leave(previous);
  return e;
}

static void install(struct capture_vm *e, void *L)
{
  const struct api *api = luaapi_of(e->asm_pc);
  if (!api || !api->lua_checkstack(L, 8))
    return;
  events_install(api, L, e->layout, e->g, e->asm_pc);
  if (zones_usable(api))
    preload(api, L, ZONES_MODULE, zones_open);
  if (profile_usable(api))
    preload(api, L, PROFILE_MODULE, profile_open);
}

void install_into(void *L, enum tecs_vm_found found)
{
  struct capture_vm *e = identify(L, found);
  if (!e || __atomic_exchange_n(&e->installed, 1u, __ATOMIC_ACQ_REL))
    return;
  profile_autostart();
  install(e, L);
  if (e->events == TECS_VM_WAITING) /* its API lacks what it takes */
    registry_events(e, 0);
  aborts_await_collector();
}

/* Besides package.preload: a game may take that, or package.loaders, away
 * before it asks for the module. */
void install_loaded(void *L)
{
  const struct api *api = luaapi_running(L);
  if (!api || !profile_usable(api) || !api->lua_checkstack(L, 12))
    return;
  api->luaL_findtable(L, LUA_REGISTRYINDEX, "_LOADED", 16);
  api->lua_getfield(L, -1, PROFILE_MODULE);
  bool there = api->lua_type(L, -1) != LUA_TNIL;
  luaapi_pop(api, L, 1);
  if (!there) {
    api->lua_pushcclosure(L, profile_open, 0);
    api->lua_call(L, 0, 1);
    api->lua_setfield(L, -2, PROFILE_MODULE);
  }
  luaapi_pop(api, L, 1);
}
