/* SPDX-License-Identifier: MIT
 *
 * waits SECONDS: threads that sleep in different ways, for known parts of their
 * time, each by itself in a loop:
 *   still   Lua, in one epoll_wait for all of the time
 *   mixed   a coroutine: 30 ms on a CPU, 70 ms in poll
 *   locker  Lua: 40 ms on a condition variable, 60 ms in nanosleep
 *   native  no VM: 20 ms on a CPU, 80 ms in a read with a time-out
 * and the main thread waits for them.  Each measures itself; at the end lines
 * `truth <thread> <what> <part of its time>`, and `eintr <thread> <calls cut
 * short by a signal> <calls>`.  To be compiled without optimisation: its C
 * functions then find their frames by rbp alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct part {
  const char *name;
  double seconds;
};

struct thread {
  const char *name, *code;
  pthread_t id;
  struct part part[3];
  int eintr, calls;
};

static int stop_event;
static double end_time;

static double now(void)
{
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static __thread struct thread *self;

/* Adds the time since `since` to a part of this thread. */
static void note(int part, const char *name, double since)
{
  self->part[part].name = name;
  self->part[part].seconds += now() - since;
}

static void called(long result)
{
  self->calls++;
  self->eintr += result < 0 && errno == EINTR;
}

static void spin_ms(int ms)
{
  volatile unsigned n = 0;
  double end = now() + ms / 1e3;
  while (now() < end)
    for (int i = 0; i < 1000; i++)
      n = n + 1;
}

/* ---- from Lua ---- */

static int running(lua_State *L)
{
  lua_pushboolean(L, now() < end_time);
  return 1;
}

static int spin(lua_State *L)
{
  double since = now();
  spin_ms((int)luaL_checkinteger(L, 1));
  note(0, "spin", since);
  return 0;
}

static int wait_epoll(lua_State *L)
{
  struct epoll_event ev = {.events = EPOLLIN};
  double since = now();
  int fd = epoll_create1(EPOLL_CLOEXEC);
  (void)L;
  epoll_ctl(fd, EPOLL_CTL_ADD, stop_event, &ev);
  called(epoll_wait(fd, &ev, 1, -1));
  close(fd);
  note(0, "wait_epoll", since);
  return 0;
}

static int wait_poll(lua_State *L)
{
  double since = now();
  called(poll(NULL, 0, (int)luaL_checkinteger(L, 1)));
  note(1, "wait_poll", since);
  return 0;
}

static int wait_cond(lua_State *L)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  double since = now();
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  ts.tv_nsec += 1000000 * luaL_checkinteger(L, 1);
  if (ts.tv_nsec >= 1000000000) {
    ts.tv_nsec -= 1000000000;
    ts.tv_sec++;
  }
  pthread_mutex_lock(&lock);
  pthread_cond_timedwait(&never, &lock, &ts);
  pthread_mutex_unlock(&lock);
  note(0, "wait_cond", since);
  return 0;
}

static int wait_sleep(lua_State *L)
{
  double since = now();
  struct timespec ts = {.tv_nsec = 1000000 * luaL_checkinteger(L, 1)};
  called(nanosleep(&ts, NULL));
  note(1, "wait_sleep", since);
  return 0;
}

/* ---- threads ---- */

static void *lua_thread(void *arg)
{
  self = arg;
  pthread_setname_np(pthread_self(), self->name);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_register(L, "running", running);
  lua_register(L, "spin", spin);
  lua_register(L, "wait_epoll", wait_epoll);
  lua_register(L, "wait_poll", wait_poll);
  lua_register(L, "wait_cond", wait_cond);
  lua_register(L, "wait_sleep", wait_sleep);
  if (luaL_loadbuffer(L, self->code, strlen(self->code), "@waits.lua") ||
      lua_pcall(L, 0, 0, 0))
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_close(L);
  return NULL;
}

static void native_read(int fd)
{
  char byte;
  double since = now();
  called(read(fd, &byte, 1));
  note(1, "native_read", since);
}

static void *native_thread(void *arg)
{
  int pair[2];
  struct timeval limit = {.tv_usec = 80000};
  self = arg;
  pthread_setname_np(pthread_self(), self->name);
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  while (now() < end_time) {
    double since = now();
    spin_ms(20);
    note(0, "spin", since);
    native_read(pair[0]);
  }
  return NULL;
}

static struct thread threads[] = {
    {.name = "still",
     .code = "local function still() wait_epoll() return 1 end\n"
             "local r = still()\n"},
    {.name = "mixed",
     .code = "local zone = require('jit.zone')\n"
             "local function frame()\n"
             "  zone('work') spin(30) zone()\n"
             "  zone('rest') wait_poll(70) zone()\n"
             "end\n"
             "local function body()\n"
             "  while running() do frame() coroutine.yield() end\n"
             "end\n"
             "local co = coroutine.wrap(body)\n"
             "while running() do co() end\n"},
    {.name = "locker",
     .code = "local function lock() wait_cond(40) return 1 end\n"
             "local function rest() wait_sleep(60) return 1 end\n"
             "while running() do lock() rest() end\n"},
    {.name = "native"},
};
enum { THREADS = sizeof threads / sizeof threads[0] };

static void print_truth(const struct thread *t)
{
  double sum = 0;
  for (int i = 0; i < 3; i++)
    sum += t->part[i].seconds;
  for (int i = 0; i < 3; i++)
    if (t->part[i].name)
      printf("truth %s %s %.4f\n", t->name, t->part[i].name,
             t->part[i].seconds / sum);
  printf("eintr %s %d %d\n", t->name, t->eintr, t->calls);
}

int main(int argc, char **argv)
{
  stop_event = eventfd(0, EFD_CLOEXEC);
  end_time = now() + (argc > 1 ? atof(argv[1]) : 5);
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i].id, NULL,
                   threads[i].code ? lua_thread : native_thread, &threads[i]);
  printf("ready\n");
  fflush(stdout);
  for (int i = THREADS - 1; i >= 0; i--) {
    if (i == 0)
      eventfd_write(stop_event, 1);
    pthread_join(threads[i].id, NULL);
  }
  for (int i = 0; i < THREADS; i++)
    print_truth(&threads[i]);
  return 0;
}
