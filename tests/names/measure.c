/* SPDX-License-Identifier: MIT
 *
 * Loads Lua files, does not run them, and prints what the namer calls their
 * functions: for each file `F path` (or `B path<TAB>message` when it does not
 * load), then a line for each function in the order in which they end:
 *
 *   first line<TAB>name        a name
 *   first line<TAB>            the source gives it none
 *   first line<TAB>?           not decided (never with sound bytecode)
 *
 * Paths come on stdin.  With -t nothing is printed but what naming costs.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vmcore/bcname.h"

struct function {
  uint64_t proto;
  uint32_t firstline;
  int decided;
  size_t len;
  char name[VM_NAME_MAX];
};

static struct function *functions;
static size_t count, cap;
static const struct vm_layout *lay;
static unsigned long total_children;

static uint64_t load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  (void)m;
  switch (width) {
  case 1:
    return *(const uint8_t *)addr;
  case 2:
    return *(const uint16_t *)addr;
  case 4:
    return *(const uint32_t *)addr;
  default:
    return *(const uint64_t *)addr;
  }
}

/* Children come shortly before their parent. */
static void decide(void *ctx, uint64_t child, const char *name, size_t len)
{
  (void)ctx;
  for (size_t i = count; i-- > 0;) {
    struct function *f = &functions[i];
    if (f->proto != child || f->decided)
      continue;
    f->decided = 1;
    f->len = len;
    memcpy(f->name, name, len);
    return;
  }
}

static int on_bc(lua_State *L)
{
  struct vm_mem m = {.load = load};
  uint64_t proto = (uint64_t)lua_topointer(L, 1);
  vm_name_children(&m, lay, proto, decide, NULL);
  if (count == cap) {
    cap = cap ? 2 * cap : 1024;
    functions = realloc(functions, cap * sizeof *functions);
    if (!functions)
      abort();
  }
  functions[count++] = (struct function){
      .proto = proto,
      .firstline = *(const uint32_t *)(proto + lay->pt_firstline),
  };
  return 0;
}

static void count_child(void *ctx, uint64_t child, const char *name, size_t len)
{
  (void)ctx;
  (void)child;
  (void)name;
  (void)len;
  total_children++;
}

static int on_bc_empty(lua_State *L)
{
  (void)L;
  return 0;
}

static int on_bc_timed(lua_State *L)
{
  struct vm_mem m = {.load = load};
  vm_name_children(&m, lay, (uint64_t)lua_topointer(L, 1), count_child, NULL);
  return 0;
}

static void attach(lua_State *L, lua_CFunction handler)
{
  lua_getglobal(L, "jit");
  lua_getfield(L, -1, "attach");
  lua_pushcfunction(L, handler);
  lua_pushstring(L, "bc");
  lua_call(L, 2, 0);
  lua_settop(L, 0);
}

static void print_file(lua_State *L, const char *path)
{
  count = 0;
  if (luaL_loadfile(L, path) != 0) {
    printf("B %s\t%s\n", path, lua_tostring(L, -1));
    return;
  }
  printf("F %s\n", path);
  /* the last one is the chunk */
  for (size_t i = 0; i + 1 < count; i++) {
    const struct function *f = &functions[i];
    printf("%u\t", f->firstline);
    for (size_t j = 0; j < f->len; j++)
      putchar((unsigned char)f->name[j] < ' ' ? '?' : f->name[j]);
    puts(f->decided ? "" : "?");
  }
}

static double cpu_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double time_files(lua_State *L, char **paths, size_t n)
{
  double start = cpu_seconds();
  for (size_t i = 0; i < n; i++) {
    luaL_loadfile(L, paths[i]);
    lua_settop(L, 0);
  }
  return cpu_seconds() - start;
}

int main(int argc, char **argv)
{
  int timing = argc > 1 && strcmp(argv[1], "-t") == 0;
  static char *paths[100000];
  size_t n = 0;
  char line[4096];
  lua_State *L = luaL_newstate();
  lay = vm_layout_get(0);
  luaL_openlibs(L);
  while (n < 100000 && fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = '\0';
    paths[n++] = strdup(line);
  }
  if (timing) {
    attach(L, on_bc_empty);
    time_files(L, paths, n); /* page cache, allocator */
    double base = time_files(L, paths, n);
    attach(L, on_bc_timed);
    double with = time_files(L, paths, n);
    printf("%lu functions, loading %.1f ms, naming %.1f ms, %.2f us each\n",
           total_children, base * 1e3, (with - base) * 1e3,
           (with - base) * 1e6 / (double)(total_children ? total_children : 1));
    return 0;
  }
  attach(L, on_bc);
  for (size_t i = 0; i < n; i++) {
    lua_gc(L, LUA_GCSTOP, 0); /* prototypes must not move into each other */
    print_file(L, paths[i]);
    lua_settop(L, 0);
    lua_gc(L, LUA_GCRESTART, 0);
  }
  return 0;
}
