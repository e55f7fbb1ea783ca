/* SPDX-License-Identifier: MIT
 *
 * storm ROLE SECONDS: a process that notices when somebody disturbs it.  The
 * main thread plays the role, another one runs Lua, and so do, for `malloc`,
 * two more that take the allocator's locks.  Each turn checks itself; the last
 * line is `truth errors N`, and what was wrong stands before it.
 *
 *   malloc   malloc, realloc and free, with the blocks' contents checked
 *   numbers  SSE, AVX and x87 arithmetic whose result is known from turn 1, and
 *            words below the stack pointer (the red zone)
 *   poll     waits in poll, nanosleep and read, which must not be cut short
 *   errno    errno keeps its value
 *   wait     the main thread waits in pthread_join, the others in
 *            pthread_cond_wait
 *   signals  a timer's signal every millisecond, whose handler allocates no
 *            memory but interrupts malloc
 */
#define _GNU_SOURCE
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double deadline;
static volatile int over;
static unsigned long errors, turns;

static double now(void)
{
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void wrong(const char *what, long got)
{
  if (__atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED) < 20)
    printf("wrong: %s (%ld)\n", what, got);
}

/* ---- malloc ---- */

enum { BLOCKS = 64 };

static bool intact(const uint8_t *p, size_t n, uint8_t v)
{
  for (size_t i = 0; i < n; i++)
    if (p[i] != v)
      return false;
  return true;
}

static void *allocate(void *seed)
{
  static __thread uint8_t *block[BLOCKS];
  size_t size[BLOCKS] = {0};
  uint32_t x = (uint32_t)(uintptr_t)seed;
  while (!over) {
    for (int k = 0; k < 1000; k++) {
      x = x * 1664525 + 1013904223;
      unsigned i = x >> 8 & (BLOCKS - 1);
      uint8_t v = (uint8_t)(i * 3 + 1);
      size_t n = (x >> 16 & 0x3ff) + ((x & 255) == 0 ? 200000 : 1);
      if (block[i] && !intact(block[i], size[i], v))
        wrong("a block's content", (long)i);
      if (x >> 31) {
        free(block[i]);
        block[i] = NULL;
        continue;
      }
      block[i] = realloc(block[i], n);
      memset(block[i], v, n);
      size[i] = n;
    }
    turns++;
    if (now() > deadline)
      break;
  }
  return NULL;
}

/* ---- numbers ---- */

typedef double wide __attribute__((vector_size(32)));

__attribute__((noinline, target("avx"))) static double avx_turn(void)
{
  wide a = {1, 2, 3, 4}, b = {0.5, 0.25, 0.125, 1.0 / 3}, c = a, d = b;
  for (int i = 0; i < 20000; i++) {
    a = a * 0.999 + b;
    b = b * 0.75 + d * 0.1;
    c = c + a * 1e-3;
    d = d * 0.5 + a * 1e-2;
  }
  return a[0] + a[3] * 3 + b[1] + c[2] * 7 + d[3];
}

__attribute__((noinline)) static long double x87_turn(void)
{
  long double a = 1, b = 1.0L / 3;
  for (int i = 0; i < 20000; i++) {
    a = a * 0.9999L + b;
    b = b * 0.5L + a * 1e-3L;
  }
  return a + b;
}

/* Words below the stack pointer, as the ABI allows in a leaf. */
__attribute__((noinline)) static long red_zone_turn(void)
{
  long left = 0;
  __asm__ volatile("lea -256(%%rsp), %%rsp\n\t" /* past the compiler's own */
                   "movq $0x1234567, -8(%%rsp)\n\t"
                   "movq $0x89abcde, -120(%%rsp)\n\t"
                   "movl $200000, %%ecx\n"
                   "1:\n\t"
                   "subl $1, %%ecx\n\t"
                   "jnz 1b\n\t"
                   "movq -8(%%rsp), %0\n\t"
                   "subq -120(%%rsp), %0\n\t"
                   "lea 256(%%rsp), %%rsp\n\t"
                   : "=r"(left)
                   :
                   : "rcx", "memory", "cc");
  return left;
}

static void numbers(void)
{
  double avx = avx_turn();
  long double x87 = x87_turn();
  while (now() < deadline) {
    if (avx_turn() != avx)
      wrong("AVX", 0);
    if (x87_turn() != x87)
      wrong("x87", 0);
    if (red_zone_turn() != 0x1234567 - 0x89abcde)
      wrong("red zone", 0);
    turns++;
  }
}

/* ---- waiting ---- */

static void *feed(void *fd)
{
  const struct timespec nap = {0, 3000000};
  while (!over) {
    nanosleep(&nap, NULL);
    if (write((int)(intptr_t)fd, "x", 1) != 1)
      break;
  }
  return NULL;
}

static void wait_for_time(void)
{
  const struct timespec nap = {0, 4000000};
  struct timespec left;
  double begin = now();
  int n = poll(NULL, 0, 5);
  if (n)
    wrong("poll", errno);
  if (now() - begin < 0.0049)
    wrong("poll came back early", n);
  if (nanosleep(&nap, &left))
    wrong("nanosleep", errno);
}

static void waits(void)
{
  int fd[2];
  char c;
  pthread_t feeder;
  if (pipe(fd) || pthread_create(&feeder, NULL, feed, (void *)(intptr_t)fd[1]))
    exit(1);
  while (now() < deadline) {
    wait_for_time();
    if (read(fd[0], &c, 1) != 1)
      wrong("read", errno);
    turns++;
  }
  over = 1;
  pthread_join(feeder, NULL);
}

static void keeps_errno(void)
{
  while (now() < deadline) {
    errno = 4711;
    for (volatile int i = 0; i < 100000; i++)
      ;
    if (errno != 4711)
      wrong("errno", errno);
    turns++;
  }
}

/* ---- others ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;

static void *sleeper(void *arg)
{
  pthread_mutex_lock(&lock);
  while (!over)
    pthread_cond_wait(&bell, &lock);
  pthread_mutex_unlock(&lock);
  return arg;
}

static void *lua(void *quiet)
{
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (luaL_dostring(L, "function turn() local s = 0\n"
                       "for i = 1, 2e4 do s = s + i % 7 end return s end"))
    exit(1);
  double first = 0;
  while (!over && now() < deadline) {
    lua_getglobal(L, "turn");
    lua_call(L, 0, 1);
    double s = lua_tonumber(L, -1);
    lua_settop(L, 0);
    if (first != 0 && s != first)
      wrong("Lua", (long)s);
    first = s;
    if (quiet)
      usleep(500);
  }
  lua_close(L);
  return NULL;
}

static volatile sig_atomic_t ticks;

static void on_tick(int signo)
{
  (void)signo;
  for (volatile int i = 0; i < 20000; i++)
    ;
  ticks++;
}

static void start_timer(void)
{
  struct sigaction sa;
  const struct itimerval every = {{0, 1000}, {0, 1000}};
  memset(&sa, 0, sizeof sa);
  sa.sa_handler = on_tick;
  sa.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &sa, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
}

static void play(const char *role)
{
  pthread_t t[2];
  if (!strcmp(role, "numbers")) {
    numbers();
  } else if (!strcmp(role, "poll")) {
    waits();
  } else if (!strcmp(role, "errno")) {
    keeps_errno();
  } else if (!strcmp(role, "wait")) {
    for (int i = 0; i < 2; i++)
      pthread_create(&t[i], NULL, sleeper, NULL);
  } else {
    for (int i = 0; i < 2; i++)
      pthread_create(&t[i], NULL, allocate, (void *)(intptr_t)(i + 2));
    allocate((void *)1);
  }
}

int main(int argc, char **argv)
{
  pthread_t t;
  if (argc != 3)
    return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  deadline = now() + atof(argv[2]);
  if (!strcmp(argv[1], "signals"))
    start_timer();
  pthread_create(&t, NULL, lua, argv[1]);
  puts("ready");
  play(argv[1]);
  pthread_join(t, NULL);
  over = 1;
  pthread_mutex_lock(&lock);
  pthread_cond_broadcast(&bell);
  pthread_mutex_unlock(&lock);
  printf("turns %lu\ntruth errors %lu\n", turns, errors);
  return errors != 0;
}
