/* SPDX-License-Identifier: MIT
 *
 * host SECONDS: C -> Lua -> C -> Lua on two threads, each with a VM of its own,
 * and an FFI callback.  Every part spins for a fixed share of each frame by the
 * thread's CPU clock; what it really got is printed as `truth THREAD.PART
 * share`. Linked with LuaJIT inside, stripped, nothing exported: what most
 * games are.
 */
#define _GNU_SOURCE
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

enum part { OUTER, COMPILED, MIDDLE, CALLBACK, FFI, PARTS };
static const char *const part_name[PARTS] = {"outer", "compiled", "middle",
                                             "callback", "ffi"};
/* Microseconds of each frame. */
static const int budget[PARTS] = {2000, 3000, 1000, 2000, 2000};

struct game {
  lua_State *L;
  const char *name;
  double spent[PARTS];
  volatile double sink;
};

static double deadline;

static double now(clockid_t id)
{
  struct timespec ts;
  clock_gettime(id, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double cpu(void)
{
  return now(CLOCK_THREAD_CPUTIME_ID);
}

static NOINLINE void native_spin(struct game *g, enum part part)
{
  double begin = cpu(), end = begin + budget[part] * 1e-6, t;
  do
    for (int i = 1; i < 300; i++)
      g->sink += 1.0 / (i + g->sink * 1e-9);
  while ((t = cpu()) < end);
  g->spent[part] += t - begin;
}

static struct game *self(lua_State *L)
{
  return lua_touserdata(L, lua_upvalueindex(1));
}

static int api_cpu(lua_State *L)
{
  lua_pushnumber(L, cpu());
  return 1;
}

static int api_spent(lua_State *L)
{
  self(L)->spent[lua_tointeger(L, 1)] += lua_tonumber(L, 2);
  return 0;
}

/* Lua -> C -> Lua */
static NOINLINE int api_middle(lua_State *L)
{
  native_spin(self(L), MIDDLE);
  lua_pushvalue(L, 1);
  lua_call(L, 0, 0);
  return 0;
}

/* Called through the FFI, calls back into Lua. */
static NOINLINE int call_back(int (*f)(int))
{
  return f(3) + 1;
}

static const char script[] =
    "local cpu, spent, middle, address, budget = ...\n"
    "local ffi = require('ffi')\n"
    "local call_back = ffi.cast('int (*)(int (*)(int))', address)\n"
    "local function spin(part, step)\n"
    "  local t = cpu()\n"
    "  local stop, c = t + budget[part] * 1e-6\n"
    "  repeat step() c = cpu() until c >= stop\n"
    "  spent(part, c - t)\n"
    "end\n"
    "local function crunch()\n"
    "  local s = 0\n"
    "  for i = 1, 2000 do s = s + i % 7 end\n"
    "  return s\n"
    "end\n"
    "local function compiled() spin(1, crunch) end\n"
    "local function on_middle() spin(3, crunch) end\n"
    "local function on_ffi(n) spin(4, crunch) return n end\n"
    "local callback = ffi.cast('int (*)(int)', on_ffi)\n"
    "local function through_ffi() return call_back(callback) + 0 end\n"
    "jit.off(through_ffi)\n"
    "function tick()\n"
    "  compiled()\n"
    "  middle(on_middle)\n"
    "  through_ffi()\n"
    "end\n";

static void check(lua_State *L, int err)
{
  if (!err)
    return;
  fprintf(stderr, "%s\n", lua_tostring(L, -1));
  exit(3);
}

static void push(lua_State *L, struct game *g, lua_CFunction f)
{
  lua_pushlightuserdata(L, g);
  lua_pushcclosure(L, f, 1);
}

static NOINLINE void game_init(struct game *g)
{
  lua_State *L = g->L = luaL_newstate();
  luaL_openlibs(L);
  if (getenv("HOST_JIT_OFF"))
    check(L, luaL_dostring(L, "jit.off()"));
  check(L, luaL_loadbuffer(L, script, strlen(script), "@game/script.lua"));
  push(L, g, api_cpu);
  push(L, g, api_spent);
  push(L, g, api_middle);
  lua_pushlightuserdata(L, (void *)(uintptr_t)call_back);
  lua_createtable(L, PARTS, 0);
  for (int i = 0; i < PARTS; i++) {
    lua_pushinteger(L, budget[i]);
    lua_rawseti(L, -2, i);
  }
  check(L, lua_pcall(L, 5, 0, 0));
}

static NOINLINE void game_frame(struct game *g)
{
  native_spin(g, OUTER);
  lua_getglobal(g->L, "tick");
  check(g->L, lua_pcall(g->L, 0, 0, 0));
}

static void *game_run(void *arg)
{
  struct game *g = arg;
  game_init(g);
  while (now(CLOCK_MONOTONIC) < deadline)
    game_frame(g);
  lua_close(g->L);
  return NULL;
}

static void report(const struct game *g)
{
  double sum = 0;
  for (int i = 0; i < PARTS; i++)
    sum += g->spent[i];
  for (int i = 0; i < PARTS; i++)
    printf("truth %s.%s %.4f\n", g->name, part_name[i], g->spent[i] / sum);
}

int main(int argc, char **argv)
{
  static struct game first = {.name = "main"}, second = {.name = "worker"};
  pthread_t thread;
  setvbuf(stdout, NULL, _IONBF, 0);
  deadline = now(CLOCK_MONOTONIC) + (argc > 1 ? atof(argv[1]) : 5);
  puts("ready");
  if (pthread_create(&thread, NULL, game_run, &second))
    return 2;
  pthread_setname_np(thread, "worker");
  game_run(&first);
  pthread_join(thread, NULL);
  report(&first);
  report(&second);
  return 0;
}
