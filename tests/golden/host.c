/* SPDX-License-Identifier: MIT
 *
 * host SCENE.lua: plays a scene for the recorder.
 *
 * A scene is a script that goes to a place, announces it and stays there until
 * the recorder has taken its samples: so each of them is known beforehand, not
 * by chance.  It says on stdout
 *   truth LABEL FILE:LINE ... the Lua frames there, outermost first, as the
 *                             VM's own lua_getinfo has them; [C] for C
 *                             functions; where the VM can be asked
 *   stage LABEL TID COUNT     take COUNT samples of that thread, then send it
 *                             SIGUSR1, which ends the stay
 *   stage LABEL TID COUNT interrupted   the same, after a SIGUSR2
 *
 * How a stay ends: C code looks at `stop`, compiled code at the same word
 * through the FFI; interpreted code at the global `running`, which a hook
 * clears (set in the handler, as luajit.c's laction does).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
/* Arithmetic behind a call keeps it from becoming a jump. */
#define STAY_ON_STACK(n) __asm__ volatile("" : : "r"(n) : "memory")

/* An int that the FFI reads. */
static volatile int stop;
static lua_State *volatile staged;
static lua_State *main_state;
/* Where step functions stay: set by stage_step. */
static int step_at, step_count;
static const char *step_label = "";

/* ---- ends of a stay ---- */

static void end_loop(lua_State *L, lua_Debug *ar)
{
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  lua_pushboolean(L, 0);
  lua_setglobal(L, "running");
}

static void on_next(int signo)
{
  (void)signo;
  stop = 1;
  if (staged)
    lua_sethook(staged, end_loop, LUA_MASKCOUNT, 1);
}

static NOINLINE void spin(void)
{
  while (!stop)
    ;
}

static void on_interrupt(int signo)
{
  spin();
  STAY_ON_STACK(signo);
}

static void install(int signo, void (*handler)(int), int flags)
{
  struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};
  sigaction(signo, &sa, NULL);
}

static void use_other_stack(void)
{
  static char bytes[32768];
  stack_t ss = {.ss_sp = bytes, .ss_size = sizeof bytes};
  sigaltstack(&ss, NULL);
  install(SIGUSR2, on_interrupt, SA_ONSTACK | SA_RESTART);
}

/* ---- what is announced ---- */

static int depth_of(lua_State *L)
{
  lua_Debug ar;
  int n = 0;
  while (lua_getstack(L, n, &ar))
    n++;
  return n;
}

/* Frames from `innermost` outward, outermost first. */
static size_t add_truth(lua_State *L, int innermost, char *out, size_t cap)
{
  lua_Debug ar;
  size_t len = 0;
  for (int i = depth_of(L) - 1; i >= innermost && len < cap / 2; i--) {
    lua_getstack(L, i, &ar);
    lua_getinfo(L, "S", &ar);
    if (*ar.what == 'C')
      len += (size_t)snprintf(out + len, cap - len, " [C]");
    else
      len += (size_t)snprintf(out + len, cap - len, " %s:%d", ar.short_src,
                              ar.linedefined);
  }
  return len;
}

static void say_stage(const char *label, int count, const char *how)
{
  char line[256];
  int n = snprintf(line, sizeof line, "stage %s %ld %d %s\n", label,
                   syscall(SYS_gettid), count, how);
  stop = 0;
  if (write(1, line, (size_t)n) != n)
    _exit(3);
}

/* first: number of the argument from where on coroutines stand that are further
 * out, outermost first; 0: none. */
static void say_truth(lua_State *L, const char *label, int first)
{
  char text[4096];
  size_t len = (size_t)snprintf(text, sizeof text, "truth %s", label);
  if (first && L != main_state && lua_isthread(L, first))
    len += add_truth(main_state, 0, text + len, sizeof text - len);
  for (int i = first; i && lua_isthread(L, i); i++)
    if (lua_tothread(L, i) != L)
      len += add_truth(lua_tothread(L, i), 0, text + len, sizeof text - len);
  len += add_truth(L, first != 0, text + len, sizeof text - len);
  text[len++] = '\n';
  if (write(1, text, len) != (ssize_t)len)
    _exit(3);
}

/* stage(label, count, how, outer coroutines ...) */
static int api_stage(lua_State *L)
{
  const char *label = luaL_checkstring(L, 1), *how = luaL_optstring(L, 3, "");
  say_truth(L, label, 4);
  lua_pushboolean(L, 1);
  lua_setglobal(L, "running");
  staged = L;
  say_stage(label, (int)luaL_checkinteger(L, 2), how);
  return 0;
}

/* ---- C functions of the scenes ---- */

static NOINLINE int api_spin(lua_State *L)
{
  spin();
  STAY_ON_STACK(L);
  return 0;
}

/* Lua -> C -> Lua */
static NOINLINE int api_call(lua_State *L)
{
  lua_call(L, lua_gettop(L) - 1, 0);
  STAY_ON_STACK(L);
  return 0;
}

/* Code without unwind information: calls its first argument with the second. */
void bare_call(void (*f)(lua_State *), lua_State *L);
__asm__(".text\n"
        ".p2align 4\n"
        ".type bare_call, @function\n"
        "bare_call:\n"
        "  subq $40, %rsp\n"
        "  movq %rdi, %rax\n"
        "  movq %rsi, %rdi\n"
        "  call *%rax\n"
        "  addq $40, %rsp\n"
        "  ret\n"
        ".size bare_call, . - bare_call\n");

static NOINLINE void call_top(lua_State *L)
{
  lua_call(L, 0, 0);
  STAY_ON_STACK(L);
}

static NOINLINE int api_bare(lua_State *L)
{
  bare_call(call_top, L);
  STAY_ON_STACK(L);
  return 0;
}

/* Called through the FFI: from compiled code, where the VM cannot be asked. */
static NOINLINE int ffi_step(int i)
{
  if (i == step_at) {
    say_stage(step_label, step_count, "");
    spin();
  }
  STAY_ON_STACK(i);
  return i & 1;
}

/* Called through the FFI, calls back into Lua. */
static NOINLINE int ffi_back(int (*f)(int))
{
  return f(3) + 1;
}

/* The same as a C function of the API, which compiled code cannot call. */
static NOINLINE int api_step(lua_State *L)
{
  if (lua_tointeger(L, 1) == step_at) {
    say_truth(L, step_label, 0);
    say_stage(step_label, step_count, "");
    spin();
  }
  STAY_ON_STACK(L);
  return 0;
}

/* stage_step(label, i, count): a step function stays when it is called with
 * i. */
static int api_stage_step(lua_State *L)
{
  step_label = luaL_checkstring(L, 1);
  step_at = (int)luaL_checkinteger(L, 2);
  step_count = (int)luaL_checkinteger(L, 3);
  return 0;
}

static int api_other_stack(lua_State *L)
{
  (void)L;
  use_other_stack();
  return 0;
}

/* ---- VMs ---- */

static lua_State *open_state(void);

static void check(lua_State *L, int err)
{
  if (!err)
    return;
  fprintf(stderr, "%s\n", lua_tostring(L, -1));
  exit(3);
}

/* A second VM on the same thread runs the function's source text. */
static NOINLINE int api_other_vm(lua_State *L)
{
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  lua_State *other = open_state();
  check(other, luaL_loadbuffer(other, text, len, "@other.lua"));
  lua_call(other, 0, 0);
  STAY_ON_STACK(L);
  return 0;
}

static void *run_worker(void *arg)
{
  lua_State *L = open_state();
  check(L, luaL_loadstring(L, arg));
  lua_call(L, 0, 0);
  STAY_ON_STACK(L);
  return NULL;
}

/* A VM on a thread of its own; returns when that has ended. */
static int api_worker(lua_State *L)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_worker, (void *)luaL_checkstring(L, 1)))
    exit(3);
  pthread_join(thread, NULL);
  return 0;
}

static const luaL_Reg functions[] = {
    {"stage", api_stage},
    {"stage_step", api_stage_step},
    {"step", api_step},
    {"spin", api_spin},
    {"call", api_call},
    {"bare", api_bare},
    {"other_stack", api_other_stack},
    {"other_vm", api_other_vm},
    {"worker", api_worker},
    {NULL, NULL},
};

static lua_State *open_state(void)
{
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  for (const luaL_Reg *f = functions; f->name; f++)
    lua_register(L, f->name, f->func);
  lua_pushlightuserdata(L, (void *)&stop);
  lua_setglobal(L, "stop_word");
  lua_pushlightuserdata(L, (void *)ffi_step);
  lua_setglobal(L, "ffi_step");
  lua_pushlightuserdata(L, (void *)ffi_back);
  lua_setglobal(L, "ffi_back");
  return L;
}

static NOINLINE int play(const char *path)
{
  lua_State *L = main_state = open_state();
  check(L, luaL_loadfile(L, path));
  lua_call(L, 0, 0);
  STAY_ON_STACK(L);
  return 0;
}

int main(int argc, char **argv)
{
  if (argc != 2)
    return 2;
  install(SIGUSR1, on_next, SA_RESTART);
  install(SIGUSR2, on_interrupt, SA_RESTART);
  int status = play(argv[1]);
  STAY_ON_STACK(status);
  return status;
}
