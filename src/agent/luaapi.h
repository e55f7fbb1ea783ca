/* SPDX-License-Identifier: MIT
 *
 * The Lua API of a VM in this process, taken from the object that holds the
 * VM's code and from no other: a process may hold more than one LuaJIT.  Only
 * for code that runs on the VM's own thread, where its API may be called.
 */
#ifndef AGENT_LUAAPI_H
#define AGENT_LUAAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vm_layout;

typedef struct lua_State lua_State;
typedef int lua_CFunction(lua_State *);

/* lua.h of Lua 5.1, which all LuaJIT versions keep. */
enum {
  LUA_REGISTRYINDEX = -10000,
  LUA_ENVIRONINDEX = -10001,
  LUA_GLOBALSINDEX = -10002,
};
#define lua_upvalueindex(i) (LUA_GLOBALSINDEX - (i))

enum lua_type {
  LUA_TNONE = -1,
  LUA_TNIL = 0,
  LUA_TBOOLEAN = 1,
  LUA_TLIGHTUSERDATA = 2,
  LUA_TNUMBER = 3,
  LUA_TSTRING = 4,
  LUA_TTABLE = 5,
  LUA_TFUNCTION = 6,
  LUA_TUSERDATA = 7,
  LUA_TTHREAD = 8,
};

/* The first group is complete in every struct api that one can get.  A member
 * of the second may be NULL when the object does not have it: whoever needs
 * some of those checks them once, before anything is installed that calls
 * them. */
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

  int (*luaL_loadstring)(lua_State *, const char *);
  void (*luaL_where)(lua_State *, int);
  int (*lua_pcall)(lua_State *, int, int, int);
  int (*lua_cpcall)(lua_State *, lua_CFunction *, void *);
  int (*lua_error)(lua_State *);
  void (*lua_concat)(lua_State *, int);
  void (*lua_createtable)(lua_State *, int, int);
  int (*lua_getmetatable)(lua_State *, int);
  void (*lua_gettable)(lua_State *, int);
  void (*lua_settable)(lua_State *, int);
  void (*lua_insert)(lua_State *, int);
  int (*lua_isnumber)(lua_State *, int);
  void *(*lua_newuserdata)(lua_State *, size_t);
  int (*lua_next)(lua_State *, int);
  size_t (*lua_objlen)(lua_State *, int);
  void (*lua_pushboolean)(lua_State *, int);
  const char *(*lua_pushfstring)(lua_State *, const char *, ...);
  void (*lua_pushinteger)(lua_State *, ptrdiff_t);
  void (*lua_pushlstring)(lua_State *, const char *, size_t);
  void (*lua_pushnil)(lua_State *);
  void (*lua_pushnumber)(lua_State *, double);
  void (*lua_pushstring)(lua_State *, const char *);
  int (*lua_rawequal)(lua_State *, int, int);
  void (*lua_rawget)(lua_State *, int);
  void (*lua_rawgeti)(lua_State *, int, int);
  void (*lua_rawset)(lua_State *, int);
  void (*lua_remove)(lua_State *, int);
  void (*lua_replace)(lua_State *, int);
  int (*lua_sethook)(lua_State *, void (*)(lua_State *, void *), int, int);
  int (*lua_status)(lua_State *);
  int (*lua_toboolean)(lua_State *, int);
  lua_CFunction *(*lua_tocfunction)(lua_State *, int);
  const char *(*lua_tolstring)(lua_State *, int, size_t *);
  double (*lua_tonumber)(lua_State *, int);
  const void *(*lua_topointer)(lua_State *, int);
  const char *(*lua_typename)(lua_State *, int);
};

/* The API of the object that holds the machine code at address code; NULL when
 * the first group is neither exported nor in a symbol table (symtab.h).  Lives
 * as long as the process. */
const struct api *luaapi_of(uint64_t code);
/* Looks for the objects that have one, of those that are loaded now, for: */
void luaapi_look(void);
/* The API of the object that holds the code; NULL: none that was found then.
 * Safe in a handler. */
const struct api *luaapi_found(uint64_t code);
/* The same of the VM that is running us: by the address of its code. */
const struct api *luaapi_running(lua_State *L);
/* The VM of a thread of ours; false: of no known layout. */
bool luaapi_vm(lua_State *L, const struct vm_layout **lay, uint64_t *g);

/* lua_pop, a macro in lua.h too. */
static inline void luaapi_pop(const struct api *api, lua_State *L, int n)
{
  api->lua_settop(L, -n - 1);
}

#endif
