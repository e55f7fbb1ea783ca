/* SPDX-License-Identifier: MIT
 *
 * The module: two functions, two kinds of session.  C closures alone: it needs
 * nothing of the game's globals, and no Lua code of ours runs.
 */
#include <string.h>

#include "agent/profile_internal.h"

bool profile_usable(const struct api *a)
{
  return a->luaL_where && a->lua_createtable && a->lua_getmetatable &&
         a->lua_newuserdata && a->lua_next && a->lua_pushboolean &&
         a->lua_pushinteger && a->lua_pushlstring && a->lua_pushnil &&
         a->lua_pushnumber && a->lua_pushstring && a->lua_rawequal &&
         a->lua_toboolean && a->lua_tolstring && a->lua_tonumber &&
         a->lua_typename;
}

void *session_new(const struct api *api, lua_State *L, size_t size)
{
  void *session = api->lua_newuserdata(L, size);
  memset(session, 0, size);
  api->lua_pushvalue(L, lua_upvalueindex(1));
  api->lua_setmetatable(L, -2);
  return session;
}

void *session_check(const struct api *api, lua_State *L, const char *method)
{
  void *session = api->lua_touserdata(L, 1);
  if (session && api->lua_type(L, 1) == LUA_TUSERDATA &&
      api->lua_getmetatable(L, 1)) {
    bool ours = api->lua_rawequal(L, -1, lua_upvalueindex(1));
    luaapi_pop(api, L, 1);
    if (ours)
      return session;
  }
  api->luaL_error(L,
                  "%s: called on a %s, not on its session (call it with a "
                  "colon)",
                  method, api->lua_typename(L, api->lua_type(L, 1)));
  return NULL;
}

struct method {
  const char *name;
  lua_CFunction *function;
};

/* Puts a function with the metatable on top of the stack as its upvalue into
 * the table below it. */
static void add_function(const struct api *api, lua_State *L,
                         const struct method *m)
{
  api->lua_pushvalue(L, -1);
  api->lua_pushcclosure(L, m->function, 1);
  api->lua_setfield(L, -3, m->name);
}

/* The module is on top of the stack. */
static void add_kind(const struct api *api, lua_State *L,
                     const struct method *start, const struct method *methods,
                     lua_CFunction *gc)
{
  const struct method collect = {"__gc", gc};
  api->lua_createtable(L, 0, 3); /* the metatable */
  api->lua_createtable(L, 0, 3); /* its methods */
  api->lua_pushvalue(L, -2);
  for (const struct method *m = methods; m->name; m++)
    add_function(api, L, m);
  luaapi_pop(api, L, 1);
  api->lua_setfield(L, -2, "__index");
  api->lua_pushboolean(L, 0); /* getmetatable gives false, not this table */
  api->lua_setfield(L, -2, "__metatable");
  api->lua_pushvalue(L, -1);
  add_function(api, L, &collect);
  luaapi_pop(api, L, 1);
  add_function(api, L, start);
  luaapi_pop(api, L, 1);
}

int profile_open(lua_State *L)
{
  static const struct method sample = {"sample", profile_sample};
  static const struct method samples[] = {{"stop", sample_stop},
                                          {"pause", sample_pause},
                                          {"resume", sample_resume},
                                          {NULL, NULL}};
  static const struct method trace = {"trace", profile_trace};
  static const struct method traces[] = {{"stop", trace_stop},
                                         {"pause", trace_pause},
                                         {"resume", trace_resume},
                                         {NULL, NULL}};
  const struct api *api = luaapi_running(L);
  if (!api)
    return 0;
  api->lua_createtable(L, 0, 2);
  add_kind(api, L, &sample, samples, sample_gc);
  add_kind(api, L, &trace, traces, trace_gc);
  return 1;
}

void profile_forked(void)
{
  profile_autostart_forked();
  sample_forked();
  trace_forked();
}
