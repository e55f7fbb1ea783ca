/* SPDX-License-Identifier: MIT
 *
 * straight MODE [N]: a host that calls Lua functions straight from C, with no
 * Lua function further out, so that traces abort when none is left.  Prints
 * `ready`, and at every line of its input does its N functions of each kind and
 * prints `did`; at the end what LuaJIT must have counted.
 *
 * That is so by construction (lj_trace.c, penalty_pc): a function whose traces
 * abort is tried again after 72 calls, each time after twice as many and up to
 * 15 more, and given up when that passes 60000: at its 11th abort, whatever the
 * 15 are, within 89,000 calls.  Functions are kept, since a penalty goes by the
 * address of the code.
 *
 * MODE: plain; listen: with a listener of its own; blocked, smallstack: its
 * thread takes no SIGSEGV, or on an alternate stack that is too small; fault:
 * it dies of a bad pointer of its own within LuaJIT.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 90000, TRIES = 11 };

static int nothing(lua_State *L)
{
  (void)L;
  return 0;
}

static void call_nothing(lua_State *L)
{
  lua_pushcfunction(L, nothing);
  lua_pcall(L, 0, 0, 0);
}

/* The function has made way for a builtin. */
static void tail(lua_State *L)
{
  lua_pushvalue(L, 1);
  lua_pcall(L, 0, 0, 0);
}

/* It was left by an error; the next that runs is a C function. */
static void error(lua_State *L)
{
  tail(L);
  call_nothing(L);
}

/* Meanwhile the stack is elsewhere, or another thread runs. */
static void moved(lua_State *L)
{
  static int size = 100;
  tail(L);
  if (size < 6000)
    lua_checkstack(L, size += 100);
  call_nothing(L);
}

static void elsewhere(lua_State *L)
{
  tail(L);
  lua_State *other = lua_newthread(L);
  lua_pushcfunction(other, nothing);
  lua_resume(other, 0);
  lua_settop(L, 2);
}

static void thread(lua_State *L)
{
  lua_State *co = lua_tothread(L, 2);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_resume(co, 0);
  lua_settop(co, 0);
}

#define LEFT "NYI: return to lower frame"
#define THROWN "error thrown or hook called during recording"
#define BUILTIN "return function() return math.floor(1.5) end"
#define THROWS "return function() assert(false) end"

static const struct {
  const char *name, *source, *reason;
  void (*call)(lua_State *);
} kinds[] = {
    {"tail", BUILTIN, LEFT, tail},        {"thread", BUILTIN, LEFT, thread},
    {"error", THROWS, THROWN, error},     {"moved", THROWS, THROWN, moved},
    {"other", THROWS, THROWN, elsewhere},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static int made; /* rounds that were done */

static void must(lua_State *L, int status)
{
  if (!status)
    return;
  fprintf(stderr, "%s\n", lua_tostring(L, -1));
  exit(1);
}

static void work(lua_State *L, int n)
{
  char name[64];
  for (unsigned k = 0; k < KINDS; k++)
    for (int i = 0; i < n; i++) {
      snprintf(name, sizeof name, "=%s%d", kinds[k].name, made * n + i);
      lua_settop(L, 0);
      must(L,
           luaL_loadbuffer(L, kinds[k].source, strlen(kinds[k].source), name) ||
               lua_pcall(L, 0, 1, 0));
      lua_pushvalue(L, 1);
      luaL_ref(L, LUA_REGISTRYINDEX);
      lua_newthread(L);
      for (int c = 0; c < CALLS; c++) {
        kinds[k].call(L);
        lua_settop(L, 2);
      }
    }
  made++;
}

static void print_truth(int n)
{
  for (unsigned k = 0; k < KINDS; k++)
    for (int i = 0; i < made * n; i++)
      printf("truth abort %d\tblacklist\t%s\t%s%d:1\t\n", TRIES,
             kinds[k].reason, kinds[k].name, i);
  printf("truth total start %d\ntruth total stop 0\ntruth total abort %d\n"
         "truth total flush 0\n",
         TRIES * (int)KINDS * made * n, TRIES * (int)KINDS * made * n);
}

static void hinder(const char *mode)
{
  static char small[4096];
  stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGSEGV);
  if (!strcmp(mode, "blocked"))
    sigprocmask(SIG_BLOCK, &set, NULL);
  if (!strcmp(mode, "smallstack"))
    sigaltstack(&stack, NULL);
}

int main(int argc, char **argv)
{
  char line[64];
  const char *mode = argc > 1 ? argv[1] : "plain";
  int n = argc > 2 ? atoi(argv[2]) : 1;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (!strcmp(mode, "listen"))
    must(L,
         luaL_dostring(L, "local n = 0 jit.attach(function(what, _, fn)\n"
                          "  if what == 'abort' then n = n + 1 end\n"
                          "  if fn then require('jit.util').funcinfo(fn) end\n"
                          "end, 'trace')\n"
                          "function heard() return n end"));
  hinder(mode);
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    if (!strcmp(mode, "fault"))
      lua_pushlstring(L, (const char *)16, 8);
    work(L, n);
    puts("did");
    fflush(stdout);
  }
  print_truth(n);
  lua_getglobal(L, "heard");
  if (lua_isfunction(L, -1)) {
    lua_call(L, 0, 1);
    printf("truth heard %d\n", (int)lua_tointeger(L, -1));
  }
  lua_close(L);
  return 0;
}
