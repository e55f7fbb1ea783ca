/* SPDX-License-Identifier: MIT
 *
 * latesig SECONDS: a handler for faults from the start; another, once an agent
 * has come into the running process, put in place past it, which calls the one
 * it found there for what it does not want.  Then real faults.  Prints `truth
 * first N`, `truth second N`, `truth recovered N`: all the same N when every
 * fault went through both, once.
 */
#define _GNU_SOURCE
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FAULTS = 50 };

static sigjmp_buf back;
static struct sigaction before;
static volatile int first, second, recovered;

static void on_first(int signo, siginfo_t *info, void *uc)
{
  (void)signo, (void)info, (void)uc;
  first++;
  siglongjmp(back, 1);
}

static void on_second(int signo, siginfo_t *info, void *uc)
{
  if (++second > FAULTS) {
    printf("wrong: called again and again\n");
    exit(1);
  }
  before.sa_sigaction(signo, info, uc);
}

static void handle(void (*f)(int, siginfo_t *, void *), struct sigaction *old)
{
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  sa.sa_sigaction = f;
  sa.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &sa, old);
}

static bool agent_here(void)
{
  char line[512];
  bool found = false;
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && !found && fgets(line, sizeof line, f))
    found = strstr(line, "/memfd:tecs-agent") != NULL;
  if (f)
    fclose(f);
  return found;
}

static double now(void)
{
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
  double end = now() + (argc > 1 ? atof(argv[1]) : 10);
  bool agent = false;
  lua_State *L = luaL_newstate();
  setvbuf(stdout, NULL, _IOLBF, 0);
  luaL_openlibs(L);
  handle(on_first, NULL);
  puts("ready");
  while (now() < end) {
    if (!agent && (agent = agent_here()))
      handle(on_second, &before);
    if (luaL_dostring(L, "for i = 1, 1e5 do local s = i % 7 end"))
      return 1;
  }
  for (int i = 0; i < FAULTS; i++)
    if (sigsetjmp(back, 1))
      recovered++;
    else
      *(volatile int *)16 = 1;
  printf("agent %d\ntruth first %d\ntruth second %d\ntruth recovered %d\n",
         agent, first, second, recovered);
  return 0;
}
