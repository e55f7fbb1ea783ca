/* SPDX-License-Identifier: MIT
 *
 * native KIND SECONDS: where a native stack is hard to follow.
 *   signal   a third of the time in a handler, on an alternate stack, of a
 *            signal that interrupts Lua and C
 *   nocfi    hand-written code without unwind information between main and Lua
 *   loop     unwind information that names itself as its caller
 *   nested   the same (nocfi) between two runs of Lua
 *   leaf     hand-written code without unwind information, innermost
 * update takes two thirds of the CPU time, draw one.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

typedef int call(lua_State *L, const char *name);
int through_nocfi(call *f, lua_State *L, const char *name);
int through_loop(call *f, lua_State *L, const char *name);
void spin_nocfi(long n);

/* clang-format off */
__asm__(".text\n"
        ".globl through_nocfi\n.type through_nocfi,@function\n"
        "through_nocfi:\n"
        "push %rbp\npush %rbx\nsub $0x128,%rsp\n"
        "mov %rdi,%rax\nmov %rsi,%rdi\nmov %rdx,%rsi\nmov $0x1234,%ebp\n"
        "call *%rax\n"
        "add $0x128,%rsp\npop %rbx\npop %rbp\nret\n"
        ".size through_nocfi,.-through_nocfi\n"
        ".globl through_loop\n.type through_loop,@function\n"
        "through_loop:\n.cfi_startproc\n"
        "sub $0x18,%rsp\n.cfi_def_cfa rsp,0\n.cfi_same_value rip\n"
        "mov %rdi,%rax\nmov %rsi,%rdi\nmov %rdx,%rsi\n"
        "call *%rax\n"
        "add $0x18,%rsp\nret\n.cfi_endproc\n"
        ".size through_loop,.-through_loop\n"
        ".globl spin_nocfi\n.type spin_nocfi,@function\n"
        "spin_nocfi:\npush %rbx\nmov %rdi,%rbx\n"
        "1: imul %rbx,%rax\ndec %rbx\njnz 1b\n"
        "pop %rbx\nret\n"
        ".size spin_nocfi,.-spin_nocfi\n");
/* clang-format on */

static volatile double sink;

static double cpu(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static NOINLINE void handler_burn(void)
{
  double end = cpu() + 1e-3;
  do
    for (int i = 0; i < 200; i++)
      sink += i * 0.5;
  while (cpu() < end);
}

static void on_alarm(int signo)
{
  (void)signo;
  handler_burn();
  __asm__ volatile("" ::: "memory"); /* no tail call */
}

/* every 3 ms of CPU time, for 1 ms */
static void interrupt_often(void)
{
  static char alternate[1 << 16];
  stack_t ss = {.ss_sp = alternate, .ss_size = sizeof alternate};
  struct sigaction sa = {.sa_handler = on_alarm,
                         .sa_flags = SA_ONSTACK | SA_RESTART};
  struct itimerval every = {{0, 3000}, {0, 3000}};
  sigaltstack(&ss, NULL);
  sigaction(SIGPROF, &sa, NULL);
  setitimer(ITIMER_PROF, &every, NULL);
}

static int api_cpu(lua_State *L)
{
  lua_pushnumber(L, cpu());
  return 1;
}

static int api_burn(lua_State *L)
{
  double end = cpu() + lua_tonumber(L, 1);
  while (cpu() < end)
    for (int i = 0; i < 200; i++)
      sink += i * 0.5;
  return 0;
}

static int api_leaf(lua_State *L)
{
  double end = cpu() + lua_tonumber(L, 1);
  while (cpu() < end)
    spin_nocfi(20000);
  return 0;
}

static NOINLINE int call_global(lua_State *L, const char *name)
{
  lua_getglobal(L, name);
  int r = lua_pcall(L, 0, 0, 0);
  __asm__ volatile("" ::: "memory");
  return r;
}

static int api_nested(lua_State *L)
{
  return through_nocfi(call_global, L, lua_tostring(L, 1)) ? lua_error(L) : 0;
}

static const char script[] =
    "local function hot(s)\n"
    "  local stop, n = cpu() + s, 0\n"
    "  repeat for i = 1, 1000 do n = n + i % 7 end until cpu() > stop\n"
    "end\n"
    "function update() hot(2e-3) burn(2e-3) end\n"
    "function draw() hot(1e-3) burn(1e-3) end\n"
    "function leaf() spin(3e-3) end\n"
    "function frame() update() draw() end\n"
    "function nested() through('update') through('draw') end\n"
    "function leaves() leaf() end\n";

static int run(lua_State *L, const char *kind, call *f, double end)
{
  const char *name = strcmp(kind, "nested") == 0 ? "nested"
                     : strcmp(kind, "leaf") == 0 ? "leaves"
                                                 : "frame";
  while (cpu() < end) {
    int r = strcmp(kind, "nocfi") == 0  ? through_nocfi(f, L, name)
            : strcmp(kind, "loop") == 0 ? through_loop(f, L, name)
                                        : f(L, name);
    if (r)
      return r;
  }
  return 0;
}

int main(int argc, char **argv)
{
  lua_State *L = luaL_newstate();
  if (argc < 3 || !L)
    return 2;
  setvbuf(stdout, NULL, _IONBF, 0);
  luaL_openlibs(L);
  lua_register(L, "cpu", api_cpu);
  lua_register(L, "burn", api_burn);
  lua_register(L, "spin", api_leaf);
  lua_register(L, "through", api_nested);
  if (luaL_loadbuffer(L, script, strlen(script), "@native.lua") ||
      lua_pcall(L, 0, 0, 0))
    return 3;
  if (strcmp(argv[1], "signal") == 0)
    interrupt_often();
  puts("ready");
  if (run(L, argv[1], call_global, cpu() + atof(argv[2])))
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_close(L);
  return 0;
}
