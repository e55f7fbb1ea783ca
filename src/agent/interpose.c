/* SPDX-License-Identifier: MIT
 *
 * Moments at which a VM shows itself: the API's constructors when the program
 * calls them in a shared LuaJIT, and, in every LuaJIT, the getenv("LUA_PATH")
 * of luaopen_package.
 */
#include <dlfcn.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "agent/events.h"
#include "agent/profile_internal.h"
#include "base/atomics.h"
#include "vmcore/discover.h"
#include "vmcore/value.h"

#define EXPORT __attribute__((visibility("default")))

/* The function that the caller would have got without us, when the program at
 * large has none: RTLD_NEXT does not see what came by dlopen(RTLD_LOCAL), as
 * modules of other languages do, each with a Lua of its own.  So it is the one
 * of the object that calls or of those that it needs, else of the libluajit
 * that is loaded. */
static void *local_function(const char *name, const void *caller)
{
  Dl_info info;
  const char *files[] = {NULL, "libluajit-5.1.so.2", "libluajit-5.1.so"};
  if (dladdr(caller, &info))
    files[0] = info.dli_fname;
  void *f = NULL;
  for (size_t i = 0; i < sizeof files / sizeof files[0] && !f; i++) {
    void *h = files[i] ? dlopen(files[i], RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (!h)
      continue;
    f = dlsym(h, name);
    dlclose(h);
  }
  return f;
}

#define REAL(name)                                                             \
  static __typeof__(name) *next;                                               \
  if (!next)                                                                   \
    *(void **)&next = dlsym(RTLD_NEXT, #name);                                 \
  __typeof__(name) *real = next;                                               \
  if (!real)                                                                   \
  *(void **)&real = local_function(#name, __builtin_return_address(0))

EXPORT lua_State *luaL_newstate(void);
/* Other Luas have a third argument: passed on. */
EXPORT lua_State *lua_newstate(void *alloc, void *ud, unsigned seed);
EXPORT void luaL_openlibs(lua_State *L);
EXPORT void lua_close(lua_State *L);
EXPORT char *getenv(const char *name);

lua_State *luaL_newstate(void)
{
  REAL(luaL_newstate);
  lua_State *L = real ? real() : NULL;
  if (L && agent_ready())
    install_into(L, TECS_FOUND_API);
  return L;
}

lua_State *lua_newstate(void *alloc, void *ud, unsigned seed)
{
  REAL(lua_newstate);
  lua_State *L = real ? real(alloc, ud, seed) : NULL;
  if (L && agent_ready())
    install_into(L, TECS_FOUND_API);
  return L;
}

void luaL_openlibs(lua_State *L)
{
  REAL(luaL_openlibs);
  if (agent_ready())
    install_into(L, TECS_FOUND_API);
  if (real)
    real(L);
}

void lua_close(lua_State *L)
{
  REAL(lua_close);
  uint64_t g = 0;
  if (agent_ready()) {
    struct vm_mem mem;
    struct vm_mem *previous = guard_enter(&mem);
    g = vm_global_of(&mem, (uint64_t)L);
    guard_leave(previous);
  }
  if (g) {
    unheard_vm_closes(g);
    events_forget(g);
  }
  if (real)
    real(L);
  if (g)
    registry_remove(g);
}

/* ---- getenv ---- */

enum { CALLER_STACK = 4096 };

/* Is L the thread that runs, in a C function that bytecode called on this very
 * stack?  LuaJIT 2.0 has no cur_L: there its C frame alone tells. */
static bool runs_c(struct vm_mem *m, const struct vm_layout *lay, uint64_t g,
                   uint64_t L, uint64_t sp)
{
  bool told = lay->g_cur_L != VM_ABSENT16;
  uint16_t trace = told ? lay->g_jit_base : lay->g_jit_L;
  if ((told && vm_ref(m, lay, g + lay->g_cur_L) != L) ||
      vm_ref(m, lay, g + trace))
    return false;
  uint64_t cframe = vm_load8(m, L + lay->L_cframe) & ~UINT64_C(3);
  return cframe > sp && cframe < sp + 2 * CALLER_STACK;
}

/* luaopen_package's lua_State: on the stack of its caller, running a C
 * function, on this very stack. */
static uint64_t calling_thread(struct vm_mem *m, uint64_t sp, uint64_t end)
{
  for (uint64_t p = sp; p < end; p += 8) {
    uint64_t v = vm_candidate(vm_load8(m, p));
    if (!v || (v >= sp && v < end) || !vm_may_be_thread(m, v))
      continue;
    uint64_t g;
    uint32_t id = vm_identify(m, v, &g);
    if (id != VM_LAYOUT_UNKNOWN && runs_c(m, vm_layout_get(id), g, v, sp))
      return v;
  }
  return 0;
}

static void package_opens(void)
{
  struct vm_mem mem;
  guard_install();
  struct vm_mem *previous = guard_enter(&mem);
  uint64_t sp = (uint64_t)__builtin_frame_address(0);
  uint64_t L = calling_thread(&mem, sp, sp + CALLER_STACK);
  guard_leave(previous);
  if (!L)
    return;
  install_into((void *)L, TECS_FOUND_GETENV);
  install_loaded((void *)L);
}

char *getenv(const char *name)
{
  REAL(getenv);
  if (!strcmp(name, "LUA_PATH") && agent_ready())
    package_opens();
  return real ? real(name) : NULL;
}
