/* SPDX-License-Identifier: MIT
 *
 * threads SECONDS: the main thread makes a VM thread and ends; that one runs
 * Lua, opens and closes VMs, and makes short threads that do the same.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char code[] =
    "local function work(n) local s = 0 for i = 1, n do s = s + i % 7 end "
    "return s end\n"
    "local function rounds() for _ = 1, 20 do work(2e5) end end\n"
    "rounds()\n";

static void one_vm(void)
{
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (luaL_loadbuffer(L, code, sizeof code - 1, "@rounds.lua") ||
      lua_pcall(L, 0, 0, 0)) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    exit(1);
  }
  lua_close(L);
}

static void *short_thread(void *arg)
{
  one_vm();
  return arg;
}

static double secs;

static void *long_thread(void *arg)
{
  time_t end = time(NULL) + (time_t)secs;
  unsigned rounds = 0;
  while (time(NULL) < end) {
    pthread_t th;
    pthread_create(&th, NULL, short_thread, NULL);
    one_vm();
    pthread_join(th, NULL);
    rounds++;
  }
  printf("truth rounds %u\n", rounds);
  fflush(stdout);
  exit(0);
  return arg;
}

int main(int argc, char **argv)
{
  pthread_t th;
  secs = argc > 1 ? atof(argv[1]) : 5;
  puts("ready");
  fflush(stdout);
  pthread_create(&th, NULL, long_thread, NULL);
  pthread_exit(NULL);
}
