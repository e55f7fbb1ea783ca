/* SPDX-License-Identifier: MIT
 *
 * vms N SCRIPT ARGUMENT: the script in N VMs on N threads at once.  It has a
 * function wait(): all of them go on after a line on the program's input.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static char **args;
static pthread_barrier_t all;

static int wait(lua_State *L)
{
  (void)L;
  if (pthread_barrier_wait(&all) == PTHREAD_BARRIER_SERIAL_THREAD)
    while (getchar() != '\n' && !feof(stdin))
      ;
  pthread_barrier_wait(&all);
  return 0;
}

static void *run(void *arg)
{
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_register(L, "wait", wait);
  lua_newtable(L);
  lua_pushstring(L, args[3]);
  lua_rawseti(L, -2, 1);
  lua_setglobal(L, "arg");
  if (luaL_dofile(L, args[2])) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    exit(1);
  }
  lua_close(L);
  return arg;
}

int main(int argc, char **argv)
{
  pthread_t thread[64];
  int n = argc > 3 ? atoi(argv[1]) : 0;
  if (n < 1 || n > 64)
    return 2;
  args = argv;
  pthread_barrier_init(&all, NULL, (unsigned)n);
  for (int i = 0; i < n; i++)
    pthread_create(&thread[i], NULL, run, NULL);
  for (int i = 0; i < n; i++)
    pthread_join(thread[i], NULL);
  return 0;
}
