/* SPDX-License-Identifier: MIT
 *
 * A program that does what games do with signals, forks and descriptors, and
 * says `good` when everything behaved as it does without the agent.
 *   guest NAME [vm]    runs that check, with a LuaJIT VM in the process
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t seen, seen_code;
static void *volatile seen_addr;

static void plain(int signo)
{
  seen = signo;
}

static void with_info(int signo, siginfo_t *info, void *uc)
{
  (void)uc;
  seen = signo;
  seen_code = info->si_code;
  seen_addr = info->si_addr;
}

static int fail(const char *what)
{
  printf("bad: %s\n", what);
  return 1;
}

/* ---- SIGURG stays the program's ---- */

static int urgent(void)
{
  struct sigaction sa = {.sa_handler = plain}, old;
  if (sigaction(SIGURG, NULL, &old) || old.sa_handler != SIG_DFL)
    return fail("SIGURG is not the default at first");
  kill(getpid(), SIGURG); /* ignored by default */
  if (sigaction(SIGURG, &sa, NULL))
    return fail("sigaction");
  raise(SIGURG);
  if (seen != SIGURG)
    return fail("handler not called");
  if (sigaction(SIGURG, NULL, &old) || old.sa_handler != plain)
    return fail("handler not reported back");
  if (signal(SIGURG, SIG_IGN) != plain)
    return fail("signal() does not return the old handler");
  seen = 0;
  raise(SIGURG);
  if (seen)
    return fail("ignored signal was delivered");
  sa.sa_handler = NULL;
  sa.sa_sigaction = with_info;
  sa.sa_flags = SA_SIGINFO | SA_RESETHAND;
  sigaction(SIGURG, &sa, NULL);
  union sigval value = {.sival_int = 5};
  sigqueue(getpid(), SIGURG, value); /* SI_QUEUE like a tick, no cookie */
  if (seen != SIGURG || seen_code != SI_QUEUE)
    return fail("queued signal not delivered");
  sigaction(SIGURG, NULL, &old);
  return old.sa_handler == SIG_DFL ? 0 : fail("SA_RESETHAND");
}

/* ---- faults stay the program's ---- */

static char *page;

static void repair(int signo, siginfo_t *info, void *uc)
{
  with_info(signo, info, uc);
  mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static int faults(void)
{
  struct sigaction sa = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO}, old;
  page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (sigaction(SIGSEGV, &sa, NULL))
    return fail("sigaction");
  page[8] = 1; /* faults, is repaired, runs again */
  if (seen != SIGSEGV || seen_addr != page + 8)
    return fail("SIGSEGV handler");
  if (sigaction(SIGSEGV, NULL, &old) || old.sa_sigaction != repair)
    return fail("SIGSEGV handler not reported back");
  return 0;
}

/* Dies as it would without us: the parent reads the status. */
static int segfault(void)
{
  *(volatile int *)8 = 1;
  return fail("survived");
}

static int sent_segfault(void)
{
  kill(getpid(), SIGSEGV);
  pause();
  return fail("survived");
}

/* ---- forks ---- */

static int own_segments(bool *inherited)
{
  char path[64], link[128];
  int n = 0;
  *inherited = false;
  for (int fd = 0; fd < 256; fd++) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(path, link, sizeof link - 1);
    if (len <= 0 || (link[len] = 0, !strstr(link, "memfd:tecs-agent")))
      continue;
    n++;
    *inherited |= !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
  return n;
}

static bool one_segment(void)
{
  bool inherited;
  return own_segments(&inherited) == 1;
}

static int forks(void)
{
  if (!one_segment())
    return fail("not one segment");
  pid_t child = fork();
  if (!child) {
    pid_t grandchild = fork();
    if (!grandchild)
      _exit(one_segment() ? 0 : 3);
    int st = 0;
    waitpid(grandchild, &st, 0);
    _exit(one_segment() && st == 0 ? 0 : 4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status)
    return fail("child has not one segment of its own");
  if (!(child = vfork()))
    _exit(0);
  waitpid(child, &status, 0);
  return one_segment() ? 0 : fail("after vfork");
}

/* A daemon closes everything, and the number may be given away. */
static int closes(void)
{
  for (int fd = 3; fd < 64; fd++)
    close(fd);
  int mine = open("/dev/null", O_RDONLY);
  pid_t child = fork();
  if (!child)
    _exit(fcntl(mine, F_GETFD) >= 0 ? 0 : 5);
  int status = 0;
  waitpid(child, &status, 0);
  return status ? fail("the program's descriptor was closed") : 0;
}

static int quiet_fds(void)
{
  bool inherited;
  return own_segments(&inherited) == 1 && !inherited
             ? 0
             : fail("a descriptor would be inherited over exec");
}

static int environment(void)
{
  setenv("GUEST_X", "value", 1);
  if (!getenv("GUEST_X") || strcmp(getenv("GUEST_X"), "value"))
    return fail("getenv");
  return getenv("GUEST_NOT_SET") ? fail("getenv of nothing") : 0;
}

static void *library(void)
{
  return dlopen("libluajit-5.1.so.2", RTLD_NOW | RTLD_LOCAL);
}

static int make_vm(void)
{
  void *h = library();
  void *(*newstate)(void) = h ? dlsym(h, "luaL_newstate") : NULL;
  void (*openlibs)(void *) = h ? dlsym(h, "luaL_openlibs") : NULL;
  void *L = newstate ? newstate() : NULL;
  if (!L || !openlibs)
    return fail("no VM");
  openlibs(L);
  return 0;
}

/* A child that runs no fork handler, and makes a VM of its own. */
static int raw_child(void)
{
  pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (!child)
    _exit(make_vm());
  int status = 0;
  waitpid(child, &status, 0);
  return status ? fail("the child died") : 0;
}

/* What signal() is in a strict X/Open program. */
extern void (*__sysv_signal(int, void (*)(int)))(int);

static void crash(int signo)
{
  (void)signo;
  _exit(66);
}

static void spin(void)
{
  void *h = library();
  void *(*newstate)(void) = dlsym(h, "luaL_newstate");
  int (*loadstring)(void *, const char *) = dlsym(h, "luaL_loadstring");
  int (*pcall)(void *, int, int, int) = dlsym(h, "lua_pcall");
  void (*openlibs)(void *) = dlsym(h, "luaL_openlibs");
  void (*close_vm)(void *) = dlsym(h, "lua_close");
  for (int i = 0; i < 200; i++) { /* VMs that go make faults for the guard */
    void *L = newstate();
    openlibs(L);
    loadstring(L, "local function deep(n) if n > 0 then return 1 + deep(n - 1)"
                  " end return 0 end "
                  "for i = 1, 40 do coroutine.wrap(deep)(2000) end");
    pcall(L, 0, 0, 0);
    close_vm(L);
  }
}

static int old_signal(void)
{
  __sysv_signal(SIGSEGV, crash);
  spin();
  return 0;
}

/* Crash handlers have alternate stacks of a few KB. */
static int small_altstack(void)
{
  static char stack[4096];
  stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack};
  if (sigaltstack(&ss, NULL))
    return fail("sigaltstack");
  spin();
  return sigaltstack(NULL, &ss) || ss.ss_sp != stack || ss.ss_flags
             ? fail("the alternate stack is gone")
             : 0;
}

static const struct {
  const char *name;
  int (*run)(void);
} checks[] = {
    {"raw-child", raw_child},
    {"old-signal", old_signal},
    {"small-altstack", small_altstack},
    {"urgent", urgent},
    {"faults", faults},
    {"segfault", segfault},
    {"sent-segfault", sent_segfault},
    {"forks", forks},
    {"closes", closes},
    {"quiet-fds", quiet_fds},
    {"environment", environment},
};

int main(int argc, char **argv)
{
  if (argc > 2 && make_vm())
    return 1;
  for (size_t i = 0; argc > 1 && i < sizeof checks / sizeof checks[0]; i++)
    if (!strcmp(argv[1], checks[i].name)) {
      int status = checks[i].run();
      if (!status)
        puts("good");
      return status;
    }
  return 2;
}
