/* SPDX-License-Identifier: MIT
 *
 * The functions of the Lua API: those that the object that has the VM exports,
 * by dlsym; others from its symbol table.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "agent/luaapi.h"
#include "agent/symtab.h"
#include "base/atomics.h"
#include "vmcore/discover.h"

#define NEEDED(f)                                                              \
  {                                                                            \
#f, offsetof(struct api, f), true                                          \
  }
#define WANTED(f)                                                              \
  {                                                                            \
#f, offsetof(struct api, f), false                                         \
  }
static const struct {
  const char *name;
  size_t offset;
  bool needed;
} functions[] = {
    NEEDED(luaL_findtable),   NEEDED(luaL_loadbuffer),
    NEEDED(luaL_error),       NEEDED(lua_call),
    NEEDED(lua_getfield),     NEEDED(lua_gettop),
    NEEDED(lua_pushcclosure), NEEDED(lua_pushvalue),
    NEEDED(lua_rawseti),      NEEDED(lua_setfield),
    NEEDED(lua_setmetatable), NEEDED(lua_settop),
    NEEDED(lua_type),         NEEDED(lua_checkstack),
    NEEDED(lua_touserdata),   NEEDED(lua_pushlightuserdata),
    WANTED(luaL_loadstring),  WANTED(luaL_where),
    WANTED(lua_pcall),        WANTED(lua_cpcall),
    WANTED(lua_error),        WANTED(lua_concat),
    WANTED(lua_createtable),  WANTED(lua_getmetatable),
    WANTED(lua_gettable),     WANTED(lua_settable),
    WANTED(lua_insert),       WANTED(lua_isnumber),
    WANTED(lua_newuserdata),  WANTED(lua_next),
    WANTED(lua_objlen),       WANTED(lua_pushboolean),
    WANTED(lua_pushfstring),  WANTED(lua_pushinteger),
    WANTED(lua_pushlstring),  WANTED(lua_pushnil),
    WANTED(lua_pushnumber),   WANTED(lua_pushstring),
    WANTED(lua_rawequal),     WANTED(lua_rawget),
    WANTED(lua_rawgeti),      WANTED(lua_rawset),
    WANTED(lua_remove),       WANTED(lua_replace),
    WANTED(lua_sethook),      WANTED(lua_status),
    WANTED(lua_toboolean),    WANTED(lua_tocfunction),
    WANTED(lua_tolstring),    WANTED(lua_tonumber),
    WANTED(lua_topointer),    WANTED(lua_typename),
};

enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* One set for each object that carries a VM; a process has one or two. */
enum { APIS_MAX = 8 };
struct known_api {
  void *base;              /* where the object is loaded */
  uint64_t end;            /* of it; 0: not looked up */
  volatile uint32_t state; /* 1: being made, 2: complete, 3: there is none */
  struct api api;
};
static struct known_api known[APIS_MAX];

/* name from the object at base, and from no other. */
static void *symbol_of(void *handle, const char *name, const void *base)
{
  Dl_info info;
  void *f = dlsym(handle, name);
  return f && dladdr(f, &info) && info.dli_fbase == base ? f : NULL;
}

static void *handle_of(const char *path)
{
  void *h = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  return h ? h : dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD); /* the program */
}

static bool resolve(struct api *api, const Dl_info *object, uint64_t code)
{
  struct symtab_wanted wanted[FUNCTIONS];
  void *h = handle_of(object->dli_fname);
  bool exported = h != NULL, ok = true;
  for (size_t i = 0; i < FUNCTIONS; i++) {
    void *f = h ? symbol_of(h, functions[i].name, object->dli_fbase) : NULL;
    wanted[i] = (struct symtab_wanted){functions[i].name, (uint64_t)f};
    exported &= f != NULL;
  }
  if (h)
    dlclose(h);
  if (!exported)
    symtab_find(code, wanted, FUNCTIONS);
  for (size_t i = 0; i < FUNCTIONS; i++) {
    ok &= wanted[i].address || !functions[i].needed;
    memcpy((char *)api + functions[i].offset, &wanted[i].address,
           sizeof wanted[i].address);
  }
  return ok;
}

const struct api *luaapi_of(uint64_t code)
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
    bool ok = resolve(&k->api, &object, code);
    atomic_release(&k->state, ok ? 2u : 3u);
    return ok ? &k->api : NULL;
  }
  return NULL;
}

/* ---- those that are there already ---- */

enum { OBJECTS_MAX = 1024 };
struct object {
  const char *path; /* the loader's; "" for the program */
  uint64_t base, end;
};
struct objects {
  struct object object[OBJECTS_MAX];
  unsigned count;
};

static int note_object(struct dl_phdr_info *info, size_t size, void *arg)
{
  struct objects *all = arg;
  (void)size;
  if (all->count == OBJECTS_MAX)
    return 1;
  struct object *o = &all->object[all->count++];
  *o = (struct object){.path = info->dlpi_name, .base = UINT64_MAX};
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
    uint64_t start = info->dlpi_addr + ph->p_vaddr;
    if (ph->p_type != PT_LOAD)
      continue;
    o->base = start < o->base ? start : o->base;
    o->end = start + ph->p_memsz > o->end ? start + ph->p_memsz : o->end;
  }
  return 0;
}

static void look_at(const struct object *o)
{
  struct symtab_wanted hook = {"lua_sethook", 0};
  void *h = dlopen(*o->path ? o->path : NULL, RTLD_LAZY | RTLD_NOLOAD);
  uint64_t f = h ? (uint64_t)dlsym(h, hook.name) : 0;
  if (h)
    dlclose(h);
  if (f < o->base || f >= o->end) {
    symtab_find(o->base, &hook, 1);
    f = hook.address;
  }
  if (!f || !luaapi_of(f))
    return;
  for (unsigned i = 0; i < APIS_MAX; i++)
    if (known[i].state == 2 && (uint64_t)known[i].base >= o->base &&
        (uint64_t)known[i].base < o->end)
      known[i].end = o->end;
}

void luaapi_look(void)
{
  static struct objects all;
  dl_iterate_phdr(note_object, &all);
  for (unsigned i = 0; i < all.count; i++)
    look_at(&all.object[i]);
}

const struct api *luaapi_found(uint64_t code)
{
  for (unsigned i = 0; i < APIS_MAX; i++)
    if (atomic_acquire(&known[i].state) == 2 &&
        code >= (uint64_t)known[i].base && code < known[i].end)
      return &known[i].api;
  return NULL;
}

/* ---- */

static bool vm_of(struct vm_mem *m, lua_State *L, const struct vm_layout **lay,
                  uint64_t *g)
{
  *g = vm_global_of(m, (uint64_t)L);
  struct capture_vm *e = *g ? registry_find(*g) : NULL;
  *lay = e ? vm_layout_get(e->layout) : NULL;
  return *lay != NULL;
}

bool luaapi_vm(lua_State *L, const struct vm_layout **lay, uint64_t *g)
{
  struct vm_mem mem;
  struct vm_mem *previous = guard_enter(&mem);
  bool known = vm_of(&mem, L, lay, g);
  guard_leave(previous);
  return known;
}

const struct api *luaapi_running(lua_State *L)
{
  const struct vm_layout *lay;
  struct vm_mem mem;
  struct vm_mem *previous = guard_enter(&mem);
  uint64_t g;
  uint64_t pc = vm_of(&mem, L, &lay, &g) ? vm_asm_pc(&mem, lay, g) : 0;
  guard_leave(previous);
  return pc ? luaapi_of(pc) : NULL;
}
