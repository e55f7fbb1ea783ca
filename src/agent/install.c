/* SPDX-License-Identifier: MIT
 *
 * What the agent puts into a VM, at moments when the VM's own thread may call
 * its API: the module jit.zone in package.preload, and the "bc" event.  The
 * API is taken from the object that holds the VM's code; where it exports
 * none, nothing is installed: sampling works from memory all the same.
 */
#include <dlfcn.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "agent/zonemod.h"
#include "base/atomics.h"
#include "vmcore/discover.h"

typedef struct lua_State lua_State;
typedef int lua_CFunction(lua_State *);

enum {
  LUA_REGISTRYINDEX = -10000,
  LUA_GLOBALSINDEX = -10002,
  /* lj_vmevent.h: hash index of "bc" in registry._VMEVENTS */
  VMEVENT_BC_KEY = 115736,
  VMEVENT_NOCACHE = 255,
};

struct api {
  const char *(*luaL_findtable)(lua_State *, int, const char *, int);
  int (*luaL_loadbuffer)(lua_State *, const char *, size_t, const char *);
  int (*luaL_error)(lua_State *, const char *, ...);
  void (*lua_call)(lua_State *, int, int);
  void (*lua_getfield)(lua_State *, int, const char *);
  int (*lua_gettop)(lua_State *);
  void (*lua_pushcclosure)(lua_State *, lua_CFunction *, int);
  void (*lua_pushvalue)(lua_State *, int);
  void (*lua_rawseti)(lua_State *, int, int);
  void (*lua_setfield)(lua_State *, int, const char *);
  int (*lua_setmetatable)(lua_State *, int);
  void (*lua_settop)(lua_State *, int);
  int (*lua_type)(lua_State *, int);
  int (*lua_checkstack)(lua_State *, int);
  void *(*lua_touserdata)(lua_State *, int);
  void (*lua_pushlightuserdata)(lua_State *, void *);
};

#define API_NAME(f)                                                            \
  {                                                                            \
#f, offsetof(struct api, f)                                                \
  }
static const struct {
  const char *name;
  size_t offset;
} api_names[] = {
    API_NAME(luaL_findtable),   API_NAME(luaL_loadbuffer),
    API_NAME(luaL_error),       API_NAME(lua_call),
    API_NAME(lua_getfield),     API_NAME(lua_gettop),
    API_NAME(lua_pushcclosure), API_NAME(lua_pushvalue),
    API_NAME(lua_rawseti),      API_NAME(lua_setfield),
    API_NAME(lua_setmetatable), API_NAME(lua_settop),
    API_NAME(lua_type),         API_NAME(lua_checkstack),
    API_NAME(lua_touserdata),   API_NAME(lua_pushlightuserdata),
};

/* One set for each object that carries a VM; a process has one or two. */
enum { APIS_MAX = 8 };
struct known_api {
  void *base;              /* where the object is loaded */
  volatile uint32_t state; /* 1: being made, 2: complete, 3: not exported */
  struct api api;
};
static struct known_api known[APIS_MAX];

/* Every function, each from the object at base and from no other. */
static bool resolve(struct api *api, const Dl_info *object)
{
  void *h = dlopen(object->dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (!h) /* the program itself */
    h = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
  bool ok = h != NULL;
  for (size_t i = 0; ok && i < sizeof api_names / sizeof api_names[0]; i++) {
    Dl_info info;
    void *f = dlsym(h, api_names[i].name);
    ok = f && dladdr(f, &info) && info.dli_fbase == object->dli_fbase;
    memcpy((char *)api + api_names[i].offset, &f, sizeof f);
  }
  if (h)
    dlclose(h);
  return ok;
}

static const struct api *api_of(uint64_t code)
{
  Dl_info object;
  if (!dladdr((void *)code, &object) || !object.dli_fname)
    return NULL;
  for (unsigned i = 0; i < APIS_MAX; i++) {
    struct known_api *k = &known[i];
    uint32_t none = 0;
    if (atomic_acquire(&k->state) >= 2 && k->base == object.dli_fbase)
      return k->state == 2 ? &k->api : NULL;
    if (!__atomic_compare_exchange_n(&k->state, &none, 1u, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      continue;
    k->base = object.dli_fbase;
    bool ok = resolve(&k->api, &object);
    atomic_release(&k->state, ok ? 2u : 3u);
    return ok ? &k->api : NULL;
  }
  return NULL;
}

/* ---- the "bc" event ---- */

/* A C function of the VM: argument 1 is the prototype (lj_bcread.c and
 * lj_parse.c send it).  Reads memory only, so it can't raise an error. */
static int on_bc(lua_State *L)
{
  struct vm_mem mem;
  struct vm_mem *previous = guard_enter(&mem);
  uint64_t g;
  uint32_t id = VM_LAYOUT_UNKNOWN;
  for (uint32_t i = 0; i < vm_layout_count() && id == VM_LAYOUT_UNKNOWN; i++) {
    g = vm_thread_global(&mem, vm_layout_get(i), (uint64_t)L);
    if (g)
      id = i;
  }
  const struct vm_layout *lay = vm_layout_get(id);
  if (lay) {
    uint64_t base = vm_load8(&mem, (uint64_t)L + lay->L_base);
    uint64_t pt = vm_load8(&mem, base) & VM_GCV_MASK;
    if (vm_plausible(pt) && vm_is_proto(&mem, lay, pt))
      names_proto_made(&mem, lay, pt);
  }
  guard_leave(previous);
  return 0;
}

/* What jit.attach does (lib_jit.c), without needing the jit library to be
 * open: enter the handler, and forget the cache of events nobody listens to. */
static void attach_bc(const struct api *api, lua_State *L,
                      const struct vm_layout *lay, uint64_t g)
{
  api->luaL_findtable(L, LUA_REGISTRYINDEX, "_VMEVENTS", 4);
  api->lua_pushcclosure(L, on_bc, 0);
  api->lua_rawseti(L, -2, VMEVENT_BC_KEY);
  api->lua_settop(L, -2);
  *(volatile uint8_t *)(g + lay->g_vmevmask) = VMEVENT_NOCACHE;
}

/* ---- jit.zone ---- */

/* The API of the VM that is running us: by the address of its code, since a
 * process may hold more than one LuaJIT. */
static const struct api *running_api(lua_State *L)
{
  struct vm_mem mem;
  struct vm_mem *previous = guard_enter(&mem);
  uint64_t g = 0, pc = 0;
  for (uint32_t i = 0; i < vm_layout_count() && !g; i++) {
    const struct vm_layout *lay = vm_layout_get(i);
    g = vm_thread_global(&mem, lay, (uint64_t)L);
    pc = g ? vm_asm_pc(&mem, lay, g) : 0;
  }
  guard_leave(previous);
  return pc ? api_of(pc) : NULL;
}

/* What stock LuaJIT raises (lib/jit/zone.lua). */
static int zone_underflow(lua_State *L)
{
  const struct api *api = running_api(L);
  return api ? api->luaL_error(L, "empty zone stack") : 0;
}

/* require "jit.zone": the module's chunk gets the function that raises, and
 * returns the module and its metatable. */
static int open_zone(lua_State *L)
{
  const struct api *api = running_api(L);
  if (!api)
    return 0;
  if (api->luaL_loadbuffer(L, zonemod_source, strlen(zonemod_source),
                           "=jit.zone"))
    return api->luaL_error(L, "jit.zone: the agent's module can't be loaded");
  api->lua_pushcclosure(L, zone_underflow, 0);
  api->lua_call(L, 1, 2);
  api->lua_setmetatable(L, -2);
  return 1;
}

static void preload(const struct api *api, lua_State *L, const char *module,
                    lua_CFunction *open)
{
  api->luaL_findtable(L, LUA_REGISTRYINDEX, "_PRELOAD", 4);
  api->lua_pushcclosure(L, open, 0);
  api->lua_setfield(L, -2, module);
  api->lua_settop(L, -2);
}

/* ---- entry ---- */

static struct vm_entry *identify(void *L, enum tecs_vm_found found)
{
  struct vm_mem mem;
  struct vm_entry *e = NULL;
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

void install_into(void *L, enum tecs_vm_found found)
{
  struct vm_entry *e = identify(L, found);
  if (!e || __atomic_exchange_n(&e->installed, 1u, __ATOMIC_ACQ_REL))
    return;
  const struct api *api = api_of(e->asm_pc);
  if (!api || !api->lua_checkstack(L, 8))
    return;
  attach_bc(api, L, vm_layout_get(e->layout), e->g);
  preload(api, L, "jit.zone", open_zone);
}
