/* SPDX-License-Identifier: MIT
 *
 * host SCRIPT: runs it in a LuaJIT that is linked in.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>

int main(int argc, char **argv)
{
  lua_State *L = luaL_newstate();
  if (argc != 2 || !L)
    return 2;
  luaL_openlibs(L);
  if (luaL_dofile(L, argv[1])) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    return 1;
  }
  lua_close(L);
  return 0;
}
