/* SPDX-License-Identifier: MIT
 *
 * What sampling from outside is made of: pages of another process, the one
 * session of a process, memory of a program that goes away, a stopped thread
 * as it is recorded.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "session/remote_internal.h"
#include "suite.h"

#define PAGE 4096u
#define PAGES (PAGES_MAX + 64)

/* The child has the same memory at the same place. */
static uint8_t *area;
static volatile sig_atomic_t *flag;

static void setup(void)
{
  area = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  flag = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
              -1, 0);
  ck_assert(area != MAP_FAILED && flag != MAP_FAILED);
  for (size_t i = 0; i < (size_t)PAGES * PAGE; i++)
    area[i] = (uint8_t)(i * 7 + i / PAGE);
  munmap(area + 5 * PAGE, 2 * PAGE); /* a hole */
}

static pid_t start(void (*body)(void))
{
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    alarm(60);
    body();
    for (;;)
      pause();
  }
  return pid;
}

static void end(pid_t pid)
{
  kill(pid, SIGKILL);
  ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static void nothing(void)
{
}

static struct target *open_ok(pid_t pid)
{
  struct target *t = NULL;
  struct error e = {0};
  ck_assert_msg(target_open(pid, &t, &e) == RESULT_OK, "%s", e.text);
  return t;
}

/* ---- pages ---- */

static struct pages *p;
static struct vm_mem mem;
static struct target *target;
static pid_t child;

static void open_pages(void)
{
  child = start(nothing);
  target = open_ok(child);
  p = pages_new(target);
  ck_assert_ptr_nonnull(p);
  mem = (struct vm_mem){0};
  pages_begin(p);
  pages_mem(p, &mem);
}

static void close_pages(void)
{
  pages_free(p);
  target_close(target);
  end(child);
}

static uint64_t at(size_t offset)
{
  return (uintptr_t)area + offset;
}

static uint64_t word(size_t offset, unsigned width)
{
  uint64_t v = 0;
  memcpy(&v, area + offset, width);
  return v;
}

START_TEST(test_loads)
{
  open_pages();
  for (unsigned width = 1; width <= 8; width *= 2)
    for (size_t i = PAGE - 16; i < PAGE + 16; i++)
      ck_assert_uint_eq(mem.load(&mem, at(i), width), word(i, width));
  ck_assert_uint_eq(mem.faults, 0);
  ck_assert_uint_eq(mem.load(&mem, at(5 * PAGE), 8), 0);
  ck_assert_uint_eq(mem.faults, 1);
  ck_assert_uint_eq(mem.load(&mem, at(5 * PAGE - 4), 8), 0); /* into the hole */
  ck_assert_uint_eq(mem.faults, 2);
  ck_assert_uint_eq(mem.load(&mem, 0, 8), 0);
  ck_assert_uint_eq(mem.load(&mem, UINT64_MAX - 3, 8), 0);
  ck_assert_uint_eq(mem.load(&mem, (UINT64_C(1) << 47) - 4, 8), 0);
  ck_assert_uint_eq(mem.faults, 5);
  close_pages();
}
END_TEST

START_TEST(test_copies)
{
  static uint8_t buf[16 * PAGE];
  open_pages();
  ck_assert_uint_eq(pages_copy(p, buf, at(100), 3 * PAGE), 3 * PAGE);
  ck_assert(memcmp(buf, area + 100, 3 * PAGE) == 0);
  /* up to the hole, and behind it */
  ck_assert_uint_eq(pages_copy(p, buf, at(3 * PAGE + 8), 6 * PAGE),
                    2 * PAGE - 8);
  ck_assert(memcmp(buf, area + 3 * PAGE + 8, 2 * PAGE - 8) == 0);
  ck_assert_uint_eq(pages_copy(p, buf, at(6 * PAGE), 8), 0);
  ck_assert_uint_eq(pages_copy(p, buf, at(7 * PAGE), PAGE), PAGE);
  ck_assert(memcmp(buf, area + 7 * PAGE, PAGE) == 0);
  ck_assert_uint_eq(pages_copy(p, buf, UINT64_MAX - 8, 16), 0);
  close_pages();
}
END_TEST

/* Wanted ahead or not, in whatever order: the bytes are the same. */
START_TEST(test_ahead)
{
  static const unsigned order[] = {20, 3, 4, 5, 6, 7, 21, 2, 90, 89, 22, 20};
  open_pages();
  for (size_t i = 0; i < sizeof order / sizeof *order; i++)
    pages_want(p, at(order[i] * PAGE), PAGE);
  pages_want(p, at(30 * PAGE + 1), 70 * PAGE); /* more than one call takes */
  pages_want(p, UINT64_MAX - 100, 200);
  pages_want(p, at(0), 0);
  pages_read(p);
  for (size_t i = 0; i < 101; i++)
    if (i != 5 && i != 6)
      ck_assert_uint_eq(mem.load(&mem, at(i * PAGE + 40), 8),
                        word(i * PAGE + 40, 8));
  ck_assert_uint_eq(mem.faults, 0);
  ck_assert_uint_eq(mem.load(&mem, at(5 * PAGE), 1), 0);
  ck_assert_uint_eq(mem.load(&mem, at(6 * PAGE), 1), 0);
  ck_assert_uint_eq(mem.faults, 2);
  close_pages();
}
END_TEST

/* More than there is room for cannot be read, and says so; the next round has
 * all the room again. */
START_TEST(test_full)
{
  uint64_t number[PAGES_KEPT];
  open_pages();
  for (int round = 0; round < 3; round++) {
    pages_begin(p);
    mem.faults = 0;
    unsigned good = 0;
    for (size_t i = 0; i < PAGES; i++)
      if (i != 5 && i != 6)
        good += mem.load(&mem, at(i * PAGE + 8), 8) == word(i * PAGE + 8, 8);
    ck_assert_uint_eq(good, PAGES_MAX);
    ck_assert_uint_eq(mem.faults, PAGES - 2 - PAGES_MAX);
    ck_assert_uint_eq(pages_used(p, number), PAGES_KEPT);
    ck_assert_uint_eq(number[0], at(0) / PAGE);
    ck_assert_uint_eq(number[5], at(7 * PAGE) / PAGE);
  }
  close_pages();
}
END_TEST

/* What it was asked for in one round is what the next one reads ahead. */
START_TEST(test_used)
{
  uint64_t number[PAGES_KEPT];
  open_pages();
  pages_want(p, at(10 * PAGE), 4 * PAGE);
  pages_read(p);
  ck_assert_uint_eq(pages_used(p, number), 0);
  mem.load(&mem, at(12 * PAGE), 8);
  mem.load(&mem, at(12 * PAGE + 8), 8);
  mem.load(&mem, at(50 * PAGE), 8);
  ck_assert_uint_eq(pages_used(p, number), 2);
  pages_begin(p);
  pages_want_again(p, number, 2);
  pages_read(p);
  kill(child, SIGKILL); /* nothing can be read any more */
  ck_assert_int_eq(waitpid(child, NULL, 0), child);
  ck_assert_uint_eq(mem.load(&mem, at(50 * PAGE), 8), word(50 * PAGE, 8));
  ck_assert_uint_eq(mem.load(&mem, at(51 * PAGE), 8), 0);
  ck_assert_uint_eq(mem.faults, 1);
  pages_free(p);
  target_close(target);
}
END_TEST

/* ---- the memory of a program ---- */

static void exec_when_told(void)
{
  while (!*flag)
    ;
  execl("/bin/sleep", "sleep", "10", (char *)NULL);
}

START_TEST(test_image)
{
  pid_t pid = start(exec_when_told);
  struct target *t = open_ok(pid);
  int fd = -1;
  ck_assert_int_eq(target_image_open(t, &fd, NULL), RESULT_OK);
  ck_assert(target_image_same(fd));
  *flag = 1;
  for (int i = 0; i < 5000 && target_image_same(fd); i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  ck_assert(!target_image_same(fd));
  ck_assert(target_alive(t));
  close(fd);
  ck_assert_int_eq(target_image_open(t, &fd, NULL), RESULT_OK);
  ck_assert(target_image_same(fd));
  end(pid);
  ck_assert(!target_image_same(fd));
  close(fd);
  target_close(t);
}
END_TEST

/* ---- one session ---- */

static struct tecs_control control;

/* A collector that answers until it is stopped. */
static void be_a_session(void)
{
  struct beacon b;
  struct target *t;
  if (target_open(getppid(), &t, NULL) != RESULT_OK ||
      beacon_open(&b, t, NULL) != RESULT_OK)
    _exit(1);
  *flag = 1;
  while (!control.stop) {
    beacon_answer(&b, &control);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  _exit(0);
}

START_TEST(test_beacon)
{
  struct target *t = open_ok(getpid());
  struct session_seen seen;
  struct error e = {0};
  struct beacon b;
  int status;
  ck_assert(!session_outside_look(t, &seen));
  ck_assert(!session_outside_pause(t, true));
  ck_assert(!session_outside_stop(t, 0));
  pid_t pid = start(be_a_session);
  while (!*flag)
    ;
  ck_assert(session_outside_look(t, &seen));
  ck_assert(seen.running && !seen.paused);
  ck_assert_uint_eq(seen.owner, (uint32_t)pid);
  ck_assert_int_eq(beacon_open(&b, t, &e), RESULT_BUSY);
  char owner[32];
  snprintf(owner, sizeof owner, "by process %d:", (int)pid);
  ck_assert_msg(strstr(e.text, owner) != NULL, "%s", e.text);
  ck_assert(session_outside_pause(t, true));
  ck_assert(session_outside_look(t, &seen) && seen.paused);
  ck_assert(session_outside_pause(t, false));
  ck_assert(session_outside_look(t, &seen) && !seen.paused);
  ck_assert(session_outside_stop(t, 5 * SEC));
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(beacon_open(&b, t, &e), RESULT_OK);
  beacon_close(&b);
  target_close(t);
}
END_TEST

/* One that is killed leaves nothing; nor does a caller that says nothing stop
 * others from being heard. */
START_TEST(test_beacon_of_the_dead)
{
  struct target *t = open_ok(getpid());
  struct session_seen seen;
  struct beacon b;
  pid_t pid = start(be_a_session);
  while (!*flag)
    ;
  end(pid);
  ck_assert(!session_outside_look(t, &seen));
  ck_assert_int_eq(beacon_open(&b, t, NULL), RESULT_OK);
  beacon_close(&b);
  target_close(t);
}
END_TEST

/* ---- a stopped thread ---- */

static volatile uint64_t here;

__attribute__((noinline)) static void in_handler(int signo)
{
  (void)signo;
  here = (uintptr_t)__builtin_return_address(0);
  *flag = 2;
  for (;;)
    ;
}

static void handle(void)
{
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGUSR1, in_handler);
  *flag = 1;
  for (;;)
    ;
}

/* In a handler, and with the address that it returns to known. */
START_TEST(test_thread)
{
  pid_t pid = start(handle);
  struct target *t = open_ok(pid);
  struct remote_program program;
  struct capture_thread th;
  struct target_stop s;
  while (!*flag)
    ;
  remote_program_read(t, &program);
  ck_assert_int_eq(target_stop(t, pid, 5 * SEC, &s, NULL), RESULT_OK);
  ck_assert_int_eq(remote_thread_read(&program, &s, &th), RESULT_OK);
  ck_assert(!th.in_handler && !th.in_syscall);
  ck_assert_int_eq(target_stop_end(t, &s, 5 * SEC), RESULT_OK);
  kill(pid, SIGUSR1);
  while (*flag != 2)
    ;
  ck_assert_int_eq(target_stop(t, pid, 5 * SEC, &s, NULL), RESULT_OK);
  ck_assert_int_eq(remote_thread_read(&program, &s, &th), RESULT_OK);
  ck_assert(th.in_handler);
  /* the child has our thread pointer, our stack and our C library */
  ck_assert_uint_eq(th.pointer, (uintptr_t)__builtin_thread_pointer());
  uint64_t sp = th.reg[TECS_REG_RSP], own = (uintptr_t)&sp;
  ck_assert(sp < th.main_stack_end && own < th.main_stack_end);
  uint64_t ret = 0;
  ck_assert_int_eq(target_read(t, (uintptr_t)&here, &ret, sizeof ret),
                   RESULT_OK);
  bool known = false;
  for (unsigned i = 0; i < th.restorers; i++)
    known |= th.restorer[i] == ret;
  ck_assert(known);
  ck_assert_int_eq(target_stop_end(t, &s, 5 * SEC), RESULT_OK);
  target_close(t);
  end(pid);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("remote");
  TCase *tc = tcase_create("remote");
  tcase_add_checked_fixture(tc, setup, NULL);
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, test_loads);
  tcase_add_test(tc, test_copies);
  tcase_add_test(tc, test_ahead);
  tcase_add_test(tc, test_full);
  tcase_add_test(tc, test_used);
  tcase_add_test(tc, test_image);
  tcase_add_test(tc, test_beacon);
  tcase_add_test(tc, test_beacon_of_the_dead);
  tcase_add_test(tc, test_thread);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
