/* SPDX-License-Identifier: MIT
 *
 * A host of LuaJIT for tecs.utils.profile.  embed MODE ...: prints `pass TEXT`
 * or `fail TEXT: WHY`, at the end `done FAILURES`.
 */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int failures;
static volatile sig_atomic_t children;

static void check(bool good, const char *text, const char *why)
{
  failures += !good;
  if (good)
    printf("pass %s\n", text);
  else
    printf("fail %s: %s\n", text, why ? why : "?");
}

static int finish(void)
{
  printf("done %d\n", failures);
  return failures != 0;
}

static int now(lua_State *L)
{
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  lua_pushnumber(L, (double)ts.tv_sec + (double)ts.tv_nsec / 1e9);
  return 1;
}

static lua_State *new_vm(void)
{
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_register(L, "now", now);
  if (luaL_dostring(L, "function spin(s) local stop, n = now() + s, 0 "
                       "repeat for i = 1, 5000 do n = n + i % 7 end "
                       "until now() >= stop return n end"))
    abort();
  return L;
}

/* Runs code; its results, or its error as a string, stay on the stack. */
static bool run(lua_State *L, const char *code)
{
  lua_settop(L, 0);
  return !luaL_loadstring(L, code) && !lua_pcall(L, 0, LUA_MULTRET, 0);
}

static void expect(lua_State *L, const char *text, const char *code)
{
  bool good = run(L, code);
  check(good && (lua_gettop(L) == 0 || lua_toboolean(L, 1)), text,
        lua_gettop(L) ? lua_tostring(L, -1) : NULL);
}

static void expect_error(lua_State *L, const char *text, const char *code,
                         const char *part)
{
  bool good = run(L, code);
  const char *err = lua_gettop(L) ? lua_tostring(L, -1) : NULL;
  check(!good && err && strstr(err, part), text, good ? "no error" : err);
}

/* ---- script: a script's own checks, seen from the host's side ---- */

static void on_child(int signo)
{
  (void)signo;
  children++;
}

static int script(char **argv)
{
  signal(SIGCHLD, on_child);
  lua_State *L = new_vm();
  if (luaL_loadfile(L, argv[0]))
    check(false, "loads", lua_tostring(L, -1));
  lua_pushstring(L, argv[1]);
  if (lua_pcall(L, 1, 1, 0))
    check(false, "runs", lua_tostring(L, -1));
  else
    failures += (int)lua_tointeger(L, -1);
  lua_close(L);
  check(children == 0, "no SIGCHLD", "a collector was the program's child");
  check(wait(NULL) < 0 && errno == ECHILD, "nothing for wait()", "a child");
  return finish();
}

/* ---- two: two VMs ask at once ---- */

static pthread_barrier_t barrier;

static void *ask(void *arg)
{
  lua_State *L = arg;
  pthread_barrier_wait(&barrier);
  run(L, "local ok, r = pcall(require('tecs.utils.profile').sample) "
         "if ok then session = r end return ok, tostring(r)");
  return NULL;
}

static int two(void)
{
  enum { ROUNDS = 20 };
  lua_State *L[2] = {new_vm(), new_vm()};
  for (int i = 0; i < ROUNDS; i++) {
    pthread_t t[2];
    pthread_barrier_init(&barrier, NULL, 2);
    for (int k = 0; k < 2; k++)
      pthread_create(&t[k], NULL, ask, L[k]);
    for (int k = 0; k < 2; k++)
      pthread_join(t[k], NULL);
    int got[2] = {lua_toboolean(L[0], 1), lua_toboolean(L[1], 1)};
    int loser = got[0] ? 1 : 0;
    const char *err = lua_tostring(L[loser], 2);
    if (got[0] + got[1] != 1 || !err || !strstr(err, "running already")) {
      check(false, "one of two", err);
      return finish();
    }
    if (!run(L[!loser], "session:stop()")) {
      check(false, "stops", lua_tostring(L[!loser], -1));
      return finish();
    }
  }
  check(true, "one of two VMs gets the session, the other an error", NULL);
  expect(L[0], "session of one VM",
         "session = require('tecs.utils.profile').sample({intervalMs = 1}) "
         "return true");
  run(L[1], "spin(0.3)");
  /* stop itself runs in this VM and may be met */
  expect(L[0], "threads of another VM are left out",
         "local t = session:stop() return not t:find('spin') or nil, t");
  expect(L[0], "session of the process",
         "session = require('tecs.utils.profile').sample({intervalMs = 1, "
         "scope = 'process'}) return true");
  run(L[1], "spin(0.3)");
  expect(L[0], "threads of another VM are in it", "return #session:stop() > 0");
  lua_close(L[0]);
  lua_close(L[1]);
  return finish();
}

/* ---- closed: a VM goes while its session runs ---- */

static int closed(void)
{
  lua_State *other = new_vm();
  for (int i = 0; i < 5; i++) {
    lua_State *L = new_vm();
    expect(L, "starts",
           "session = require('tecs.utils.profile').sample({intervalMs = 1}) "
           "tracing = require('tecs.utils.profile').trace() "
           "spin(0.1) return true");
    lua_close(L);
    expect(other, "its place is free when the VM is closed",
           "local p = require('tecs.utils.profile') "
           "local s, t = p.sample({intervalMs = 1}), p.trace() spin(0.2) "
           "t:stop() return #s:stop() > 0");
  }
  lua_close(other);
  return finish();
}

/* ---- unheard: VMs that nothing listens in are not passed over ---- */

static void block(int how)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGSEGV);
  pthread_sigmask(how, &set, NULL);
}

/* A thread that blocks SIGSEGV is listened to only where LuaJIT has no fault
 * that would kill it then: its aborts are counted, or it is said. */
static void unheard_blocked(void)
{
  lua_State *L = new_vm();
  block(SIG_BLOCK);
  expect(L, "SIGSEGV blocked: counted, or said to be missing",
         "local t = require('tecs.utils.profile').trace() "
         "local f for n = 1, 40 do for i = 1, 100 do "
         "f = function() return i end end end "
         "local r = t:stop() local why = r.unheard[1] "
         "return r.totalAborts > 0 and not why or why "
         "and why:find('^its thread blocks SIGSEGV') and #r.unheard == 1, "
         "tostring(why)");
  block(SIG_UNBLOCK);
  lua_close(L);
}

static int unheard(void)
{
  lua_State *L = new_vm(), *other = new_vm();
  expect(L, "starts",
         "trace = require('tecs.utils.profile').trace t = trace() return true");
  expect(other, "another VM puts its own listener in the place",
         "jit.attach(print, 'trace') jit.attach(print) " /* makes the table */
         "debug.getregistry()._VMEVENTS[-1765235912] = function() end "
         "return loadstring('return true')()");
  expect(L, "that is said",
         "local r = t:stop() t = trace() return #r.unheard == 1 and "
         "r.unheard[1]:find('^the program has put its own listener'), "
         "tostring(r.unheard[1])");
  lua_close(other);
  expect(L, "also when it was closed since",
         "local r = t:stop() t = trace() return #r.unheard == 1 and "
         "r.unheard[1]:find('^closed since: the program has put'), "
         "tostring(r.unheard[1])");
  other = new_vm();
  lua_close(other);
  expect(L, "the next session has nothing to say",
         "return #t:stop().unheard == 0");
  lua_close(L);
  unheard_blocked();
  return finish();
}

/* ---- forked: a child has no session ---- */

static int forked(void)
{
  lua_State *L = new_vm();
  int status = 0;
  expect(L, "starts",
         "p = require('tecs.utils.profile') s = p.sample({intervalMs = 1}) "
         "t = p.trace() spin(0.2) return true");
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    failures = 0;
    expect_error(L, "child: no session", "s:stop()", "has ended already");
    expect_error(L, "child: no pause", "s:pause()", "has ended already");
    expect_error(L, "child: no trace session", "t:stop()", "has ended already");
    expect(L, "child: a session of its own",
           "local s, t = p.sample({intervalMs = 1}), p.trace() spin(0.3) "
           "t:stop() return #s:stop() > 0");
    fflush(stdout);
    _exit(failures);
  }
  waitpid(child, &status, 0);
  check(status == 0, "the child's checks", "see above");
  expect(L, "the parent's session goes on",
         "spin(0.2) t:stop() return #s:stop() > 0");
  lua_close(L);
  return finish();
}

/* ---- bare: what a game may have taken away ---- */

static int bare(void)
{
  static const char *const takes[] = {
      "jit, ffi, debug = nil package.loaded.jit = nil package.loaded.ffi = nil "
      "package.preload.ffi = nil",
      "package.loaders = nil",
      "package.loaders = {}",
      "package.preload = {}",
      "package = nil",
      "local old = require require = function(...) return old(...) end",
      "for k in pairs(_G) do if k ~= 'require' and k ~= 'spin' and k ~= 'now' "
      "then _G[k] = "
      "nil "
      "end end",
  };
  for (size_t i = 0; i < sizeof takes / sizeof takes[0]; i++) {
    lua_State *L = new_vm();
    run(L, takes[i]);
    expect(L, takes[i],
           "local p = require('tecs.utils.profile') "
           "local s, t = p.sample({intervalMs = 1}), p.trace() "
           "spin(0.2) local r = t:stop() return r.sites and #s:stop() > 0");
    lua_close(L);
  }
  return finish();
}

/* ---- gap: what a frame feels ---- */

static int gap(void)
{
  lua_State *L = new_vm();
  if (!run(L,
           "local p = require('tecs.utils.profile') "
           "local function ms(f) local t = now() f() return (now() - t) * 1e3 "
           "end "
           "for i = 1, 5 do local s, t "
           "local a = ms(function() s = p.sample({intervalMs = 1}) end) "
           "spin(0.3) "
           "local b = ms(function() s:pause() s:resume() end) "
           "local c = ms(function() s:stop() end) "
           "local d = ms(function() t = p.trace() end) "
           "local e = ms(function() t:stop() end) "
           "print(('gap sample %.3f pause+resume %.4f stop %.3f trace %.3f "
           "trace-stop %.3f'):format(a, b, c, d, e)) end"))
    check(false, "gap", lua_tostring(L, -1));
  return finish();
}

int main(int argc, char **argv)
{
  const char *mode = argc > 1 ? argv[1] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!strcmp(mode, "script") && argc > 3)
    return script(argv + 2);
  if (!strcmp(mode, "two"))
    return two();
  if (!strcmp(mode, "closed"))
    return closed();
  if (!strcmp(mode, "unheard"))
    return unheard();
  if (!strcmp(mode, "forked"))
    return forked();
  if (!strcmp(mode, "bare"))
    return bare();
  if (!strcmp(mode, "gap"))
    return gap();
  return 2;
}
