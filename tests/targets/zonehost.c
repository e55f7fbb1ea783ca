/* SPDX-License-Identifier: MIT
 *
 * zonehost MODE SECONDS: zones from native code, with tecs/zone.h alone.  What
 * the parts spent by the thread's CPU clock is printed at the end as `truth
 * THREAD.PART share`.  MODE:
 *   lua    the main thread runs LuaJIT in its zones, which opens zones as well;
 *          a second thread has no VM at all
 *   names  names that a program may get wrong
 *   deep   more zones than have names
 * Runs the same without the agent.
 */
#define _GNU_SOURCE
#include <tecs/zone.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))

enum { PARTS = 12 };
struct thread {
  const char *name;
  const char *part[PARTS];
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

static void account(struct thread *t, const char *part, double begin)
{
  int i = 0;
  while (t->part[i] && strcmp(t->part[i], part))
    i++;
  t->part[i] = part;
  t->spent[i] += cpu() - begin;
}

/* 2 ms of CPU time */
static NOINLINE void spin(struct thread *t, const char *part)
{
  double begin = cpu();
  do
    for (int i = 1; i < 300; i++)
      t->sink += 1.0 / (i + t->sink * 1e-9);
  while (cpu() - begin < 0.002);
  account(t, part, begin);
}

static void report(const struct thread *t)
{
  double sum = 0;
  for (int i = 0; i < PARTS; i++)
    sum += t->spent[i];
  for (int i = 0; i < PARTS && t->part[i]; i++)
    printf("truth %s.%s %.4f\n", t->name, t->part[i], t->spent[i] / sum);
}

/* ---- lua ---- */

static struct thread game = {.name = "game"}, worker = {.name = "worker"};

static const char script[] =
    "local cpu, account, native = ...\n"
    "local has_zones, zone = pcall(require, 'jit.zone')\n"
    "if not has_zones then zone = function() end end\n"
    "local function crunch()\n"
    "  local s = 0\n"
    "  for i = 1, 2000 do s = s + i % 7 end\n"
    "  return s\n"
    "end\n"
    "function tick()\n"
    "  zone('script')\n"
    "  local t = cpu()\n"
    "  repeat crunch() until cpu() - t > 0.002\n"
    "  account(t)\n"
    "  native()\n"
    "  zone()\n"
    "end\n"
    "function fail() zone('lost') error('fails', 0) end\n";

static int api_cpu(lua_State *L)
{
  lua_pushnumber(L, cpu());
  return 1;
}

static int api_account(lua_State *L)
{
  account(&game, "script", lua_tonumber(L, 1));
  return 0;
}

static NOINLINE int api_native(lua_State *L)
{
  (void)L;
  tecs_zone_begin("native");
  spin(&game, "native");
  tecs_zone_end();
  return 0;
}

/* An error of Lua's leaves this without the end of its zone. */
static int api_unbalanced(lua_State *L)
{
  tecs_zone_begin("left");
  return luaL_error(L, "unbalanced");
}

static void check(lua_State *L, int err)
{
  if (!err)
    return;
  fprintf(stderr, "%s\n", lua_tostring(L, -1));
  exit(3);
}

static NOINLINE void frame(lua_State *L)
{
  tecs_zone_reset();
  tecs_zone_begin("frame");
  spin(&game, "engine");
  lua_getglobal(L, "tick");
  check(L, lua_pcall(L, 0, 0, 0));
  tecs_zone_begin("draw");
  spin(&game, "draw");
  tecs_zone_end();
  lua_pushcfunction(L, api_unbalanced);
  if (lua_pcall(L, 0, 0, 0) == 0)
    exit(4);
  lua_pop(L, 1);
  spin(&game, "unbalanced");
}

static void *work(void *arg)
{
  (void)arg;
  while (now(CLOCK_MONOTONIC) < deadline) {
    tecs_zone_begin("job");
    spin(&worker, "job");
    tecs_zone_end();
    spin(&worker, "idle");
  }
  return NULL;
}

static void mode_lua(lua_State *L)
{
  pthread_t thread;
  check(L, luaL_loadbuffer(L, script, strlen(script), "@script.lua"));
  lua_pushcfunction(L, api_cpu);
  lua_pushcfunction(L, api_account);
  lua_pushcfunction(L, api_native);
  check(L, lua_pcall(L, 3, 0, 0));
  if (pthread_create(&thread, NULL, work, NULL))
    exit(2);
  pthread_setname_np(thread, "worker");
  while (now(CLOCK_MONOTONIC) < deadline)
    frame(L);
  pthread_join(thread, NULL);
  report(&game);
  report(&worker);
}

/* ---- names ---- */

static void in_zone(const char *name, const char *part)
{
  tecs_zone_begin(name);
  spin(&game, part);
  tecs_zone_end();
}

static void mode_names(void)
{
  static char huge[100000], changing[32];
  static jmp_buf out;
  static int turn;
  long page = 4096;
  /* ends with the last byte before memory that can't be read */
  char *edge = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(huge, 'h', sizeof huge - 1);
  munmap(edge + page, page);
  strcpy(edge + page - 5, "edge");
  for (; now(CLOCK_MONOTONIC) < deadline; turn++) {
    in_zone(huge, "huge");
    in_zone("", "empty");
    in_zone(NULL, "null");
    in_zone((const char *)8, "bad");
    in_zone("\xff\xfe;a\nb", "bytes");
    in_zone(edge + page - 5, "edge");
    snprintf(changing, sizeof changing, "turn %d", turn % 2);
    in_zone(changing, turn % 2 ? "odd" : "even");
    if (!setjmp(out)) {
      tecs_zone_begin("jumped");
      longjmp(out, 1);
    }
    spin(&game, "jumped");
    tecs_zone_reset();
    tecs_zone_end(); /* of nothing */
    spin(&game, "none");
  }
  report(&game);
}

/* ---- deep ---- */

static void mode_deep(void)
{
  static char name[100][8];
  for (int i = 0; i < 100; i++)
    snprintf(name[i], sizeof name[i], "z%d", i + 1);
  while (now(CLOCK_MONOTONIC) < deadline) {
    for (int i = 0; i < 100; i++)
      tecs_zone_begin(name[i]);
    spin(&game, "deep");
    for (int i = 0; i < 36; i++)
      tecs_zone_end();
    spin(&game, "full"); /* 64 */
    for (int i = 0; i < 64; i++)
      tecs_zone_end();
    spin(&game, "none");
  }
  report(&game);
}

int main(int argc, char **argv)
{
  const char *mode = argc > 1 ? argv[1] : "lua";
  setvbuf(stdout, NULL, _IONBF, 0);
  deadline = now(CLOCK_MONOTONIC) + (argc > 2 ? atof(argv[2]) : 5);
  lua_State *L = luaL_newstate(); /* tecs-attach asks for one */
  luaL_openlibs(L);
  puts("ready");
  if (!strcmp(mode, "names"))
    mode_names();
  else if (!strcmp(mode, "deep"))
    mode_deep();
  else
    mode_lua(L);
  lua_close(L);
  return 0;
}
