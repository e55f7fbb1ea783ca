/* SPDX-License-Identifier: MIT
 *
 * Errors here are the caller's: luaL_error puts the caller's place in front.
 */
#include <string.h>

#include "agent/profile_internal.h"

static const char *const sample_known[] = {"intervalMs", "stackDepth", "zone",
                                           "scope", NULL};
static const char *const trace_known[] = {"includeBenign", NULL};

/* Is the string at that index the word?  Zero bytes count. */
static bool is_word(const struct api *api, lua_State *L, int index,
                    const char *word)
{
  size_t len;
  const char *s = api->lua_tolstring(L, index, &len);
  return len == strlen(word) && !memcmp(s, word, len);
}

static bool among(const struct api *api, lua_State *L, int index,
                  const char *const *known)
{
  while (*known && !is_word(api, L, index, *known))
    known++;
  return *known != NULL;
}

static void known_names(struct text *t, const char *const *known)
{
  for (const char *const *k = known; *k; k++) {
    text_add(t, k == known ? "" : ", ");
    text_add(t, *k);
  }
}

static void unknown_option(const struct api *api, lua_State *L,
                           const char *function, const char *const *known)
{
  char names[128];
  struct text t = text_in(names, sizeof names);
  known_names(&t, known);
  if (api->lua_type(L, -2) == LUA_TSTRING)
    api->luaL_error(L, "%s: unknown option '%s' (there are: %s)", function,
                    api->lua_tolstring(L, -2, NULL), names);
  api->luaL_error(L, "%s: option names are strings, not a %s (there are: %s)",
                  function, api->lua_typename(L, api->lua_type(L, -2)), names);
}

/* Argument 1 is nothing, or a table with none but known names; false: nothing.
 */
static bool check_table(const struct api *api, lua_State *L,
                        const char *function, const char *const *known)
{
  int type = api->lua_type(L, 1);
  if (type == LUA_TNONE || type == LUA_TNIL)
    return false;
  if (type != LUA_TTABLE)
    api->luaL_error(L, "%s: the options must be a table, not a %s", function,
                    api->lua_typename(L, type));
  api->lua_pushnil(L);
  while (api->lua_next(L, 1)) {
    if (api->lua_type(L, -2) != LUA_TSTRING || !among(api, L, -2, known))
      unknown_option(api, L, function, known);
    luaapi_pop(api, L, 1);
  }
  return true;
}

/* Pushes an option; false: not given, and nothing is pushed. */
static bool push_option(const struct api *api, lua_State *L,
                        const char *function, const char *name, int type,
                        const char *wanted)
{
  api->lua_getfield(L, 1, name);
  int given = api->lua_type(L, -1);
  if (given == LUA_TNIL) {
    luaapi_pop(api, L, 1);
    return false;
  }
  if (given != type)
    api->luaL_error(L, "%s: option '%s' must be %s, not a %s", function, name,
                    wanted, api->lua_typename(L, given));
  return true;
}

static int integer_option(const struct api *api, lua_State *L, const char *name,
                          int max, int otherwise)
{
  if (!push_option(api, L, "profile.sample", name, LUA_TNUMBER, "an integer"))
    return otherwise;
  double v = api->lua_tonumber(L, -1);
  if (!(v >= 1 && v <= max) || v != (int)v)
    api->luaL_error(L,
                    "profile.sample: option '%s' must be an integer from 1 to "
                    "%d, not %f",
                    name, max, v);
  luaapi_pop(api, L, 1);
  return (int)v;
}

static void zone_option(const struct api *api, lua_State *L,
                        struct sample_options *o)
{
  size_t len;
  o->has_zone =
      push_option(api, L, "profile.sample", "zone", LUA_TSTRING, "a string");
  if (!o->has_zone)
    return;
  const char *zone = api->lua_tolstring(L, -1, &len);
  if (len > PROFILE_ZONE_MAX)
    api->luaL_error(L,
                    "profile.sample: option 'zone' is too long: at most %d "
                    "bytes, not %d",
                    PROFILE_ZONE_MAX, (int)len);
  if (memchr(zone, 0, len))
    api->luaL_error(L, "profile.sample: option 'zone' holds a zero byte");
  memcpy(o->zone, zone, len + 1);
  luaapi_pop(api, L, 1);
}

static void scope_option(const struct api *api, lua_State *L,
                         struct sample_options *o)
{
  if (!push_option(api, L, "profile.sample", "scope", LUA_TSTRING,
                   "\"vm\" or \"process\""))
    return;
  const char *scope = api->lua_tolstring(L, -1, NULL);
  o->process = is_word(api, L, -1, "process");
  if (!o->process && !is_word(api, L, -1, "vm"))
    api->luaL_error(L,
                    "profile.sample: option 'scope' must be \"vm\" or "
                    "\"process\", not \"%s\"",
                    scope);
  luaapi_pop(api, L, 1);
}

void args_sample(const struct api *api, lua_State *L, struct sample_options *o)
{
  o->interval_ms = 10;
  o->depth = 16;
  o->process = o->has_zone = false;
  if (!check_table(api, L, "profile.sample", sample_known))
    return;
  o->interval_ms = integer_option(api, L, "intervalMs", PROFILE_INTERVAL_MAX,
                                  o->interval_ms);
  o->depth = integer_option(api, L, "stackDepth", PROFILE_DEPTH_MAX, o->depth);
  zone_option(api, L, o);
  scope_option(api, L, o);
}

bool args_include_benign(const struct api *api, lua_State *L)
{
  if (!check_table(api, L, "profile.trace", trace_known) ||
      !push_option(api, L, "profile.trace", "includeBenign", LUA_TBOOLEAN,
                   "a boolean"))
    return false;
  bool on = api->lua_toboolean(L, -1) != 0;
  luaapi_pop(api, L, 1);
  return on;
}

const char *args_filename(const struct api *api, lua_State *L,
                          const char *method)
{
  size_t len;
  int type = api->lua_type(L, 2);
  if (type == LUA_TNONE || type == LUA_TNIL)
    return NULL;
  if (type != LUA_TSTRING)
    api->luaL_error(L, "%s: the filename must be a string, not a %s", method,
                    api->lua_typename(L, type));
  const char *name = api->lua_tolstring(L, 2, &len);
  if (memchr(name, 0, len))
    api->luaL_error(L, "%s: the filename holds a zero byte", method);
  return name;
}

void args_place(const struct api *api, lua_State *L, struct text *t)
{
  size_t len;
  api->luaL_where(L, 1);
  const char *where = api->lua_tolstring(L, -1, &len);
  while (len && (where[len - 1] == ' ' || where[len - 1] == ':'))
    len--;
  if (len)
    text_add_bytes(t, where, len);
  else
    text_add(t, "an unknown place"); /* called from C */
  luaapi_pop(api, L, 1);
}
