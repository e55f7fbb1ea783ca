/* SPDX-License-Identifier: MIT
 *
 * Stopping single threads: what the process notices of it, and who else does.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "suite.h"
#include "target/target.h"

#define MS UINT64_C(1000000)
#define LONG (5000 * MS)

/* What processes of a test tell each other. */
struct board {
  volatile uint64_t count;   /* grows while the target works */
  volatile uint64_t handled; /* signals */
  volatile int tid;          /* of the thread in question */
  volatile int go;
  volatile int status;
};
static struct board *board;

static void setup(void)
{
  board = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
               -1, 0);
  ck_assert(board != MAP_FAILED);
}

static void nap(uint64_t ns)
{
  struct timespec ts = {.tv_nsec = (long)ns};
  nanosleep(&ts, NULL);
}

static void wait_until(volatile int *what)
{
  for (int i = 0; i < 5000 && !*what; i++)
    nap(MS);
  ck_assert(*what);
}

static pid_t start(void (*body)(void))
{
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    alarm(60); /* never outlives a failed test by much */
    board->tid = getpid();
    body();
    _exit(0);
  }
  wait_until(&board->tid);
  return pid;
}

static void end(pid_t pid)
{
  kill(pid, SIGKILL);
  ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static struct target *open_ok(pid_t pid)
{
  struct target *t = NULL;
  struct error e = {0};
  ck_assert_msg(target_open(pid, &t, &e) == RESULT_OK, "%s", e.text);
  return t;
}

static void stop_ok(struct target *t, pid_t tid, struct target_stop *s)
{
  struct error e = {0};
  enum result r = target_stop(t, tid, LONG, s, &e);
  ck_assert_msg(r == RESULT_OK, "%d: %s", r, e.text);
}

static void end_ok(struct target *t, struct target_stop *s)
{
  ck_assert_int_eq(target_stop_end(t, s, LONG), RESULT_OK);
  ck_assert_int_eq(s->state, TARGET_FREE);
}

static void goes_on(void)
{
  uint64_t was = board->count;
  for (int i = 0; i < 5000 && board->count == was; i++)
    nap(MS);
  ck_assert_uint_ne(board->count, was);
}

static void count_up(void)
{
  for (;;)
    board->count++;
}

START_TEST(test_stands_still)
{
  pid_t pid = start(count_up);
  struct target *t = open_ok(pid);
  struct target_stop s;
  struct user_regs_struct regs;
  for (int i = 0; i < 100; i++) {
    stop_ok(t, pid, &s);
    ck_assert(!s.halted);
    uint64_t was = board->count;
    ck_assert_int_eq(target_stop_regs(&s, &regs), RESULT_OK);
    ck_assert_int_eq(target_thread_tracer(t, pid), getpid());
    nap(MS / 10);
    ck_assert_uint_eq(board->count, was);
    end_ok(t, &s);
    ck_assert_int_eq(target_thread_tracer(t, pid), 0);
  }
  goes_on();
  target_close(t);
  end(pid);
}
END_TEST

/* ---- signals ---- */

static void on_signal(int signo)
{
  (void)signo;
  board->handled++;
}

static void count_signals(void)
{
  signal(SIGRTMIN, on_signal);
  board->go = 1;
  count_up();
}

/* Real-time signals queue: not one may be lost or doubled. */
START_TEST(test_signals_arrive)
{
  enum { SIGNALS = 1000 };
  pid_t pid = start(count_signals);
  struct target *t = open_ok(pid);
  struct target_stop s;
  wait_until(&board->go);
  for (int i = 0; i < SIGNALS; i++) {
    if (i % 2)
      sigqueue(pid, SIGRTMIN, (union sigval){0});
    stop_ok(t, pid, &s);
    if (i % 2 == 0)
      sigqueue(pid, SIGRTMIN, (union sigval){0});
    end_ok(t, &s);
  }
  for (int i = 0; i < 5000 && board->handled < SIGNALS; i++)
    nap(MS);
  goes_on();
  ck_assert_uint_eq(board->handled, SIGNALS);
  target_close(t);
  end(pid);
}
END_TEST

START_TEST(test_job_control)
{
  pid_t pid = start(count_up);
  struct target *t = open_ok(pid);
  struct target_stop s;
  int status;
  kill(pid, SIGSTOP);
  ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
  stop_ok(t, pid, &s);
  ck_assert(s.halted);
  end_ok(t, &s);
  for (int i = 0; i < 1000 && target_thread_state(t, pid) != 'T'; i++)
    nap(MS);
  ck_assert_int_eq(target_thread_state(t, pid), 'T');
  uint64_t was = board->count;
  nap(20 * MS);
  ck_assert_uint_eq(board->count, was);
  kill(pid, SIGCONT);
  goes_on();
  target_close(t);
  end(pid);
}
END_TEST

/* SIGSTOP and SIGCONT at any moment of a stop. */
START_TEST(test_job_control_storm)
{
  pid_t pid = start(count_up);
  struct target *t = open_ok(pid);
  struct target_stop s;
  for (int i = 0; i < 300; i++) {
    kill(pid, i % 2 ? SIGCONT : SIGSTOP);
    stop_ok(t, pid, &s);
    if (i % 3 == 0)
      kill(pid, i % 4 ? SIGCONT : SIGSTOP);
    end_ok(t, &s);
  }
  kill(pid, SIGCONT);
  goes_on();
  target_close(t);
  end(pid);
}
END_TEST

/* ---- ends ---- */

START_TEST(test_killed_in_a_stop)
{
  pid_t pid = start(count_up);
  struct target *t = open_ok(pid);
  struct target_stop s;
  int status = 0;
  stop_ok(t, pid, &s);
  kill(pid, SIGKILL);
  for (int i = 0; target_stop_end(t, &s, MS) != RESULT_OK && i < 5000; i++)
    ;
  ck_assert_int_eq(s.state, TARGET_FREE);
  /* our own child: its status is still there */
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  struct error e = {0};
  ck_assert_int_eq(target_stop(t, pid, LONG, &s, &e), RESULT_GONE);
  target_close(t);
}
END_TEST

static void be_a_parent(void)
{
  int status = 0;
  pid_t pid = fork();
  if (pid == 0)
    count_up();
  board->tid = pid;
  board->go = 1;
  waitpid(pid, &status, 0);
  board->status = WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

/* The parent of the process learns of its end at once. */
START_TEST(test_parent_is_told)
{
  pid_t parent = start(be_a_parent);
  wait_until(&board->go);
  pid_t pid = board->tid;
  struct target *t = open_ok(pid);
  struct target_stop s;
  stop_ok(t, pid, &s);
  kill(pid, SIGKILL);
  for (int i = 0; target_stop_end(t, &s, MS) != RESULT_OK && i < 5000; i++)
    ;
  target_alive(t);
  wait_until(&board->status);
  ck_assert_int_eq(board->status, SIGKILL);
  target_close(t);
  ck_assert_int_eq(waitpid(parent, NULL, 0), parent);
}
END_TEST

static void *count_and_end(void *arg)
{
  board->tid = (int)syscall(SYS_gettid);
  for (int i = 0; i < 300000; i++)
    board->count++;
  return arg;
}

static void make_threads(void)
{
  for (;;) {
    pthread_t th;
    pthread_create(&th, NULL, count_and_end, NULL);
    pthread_join(th, NULL);
  }
}

/* Threads that end at any moment: the others go on, and are joined. */
START_TEST(test_threads_end)
{
  pid_t pid = start(make_threads);
  struct target *t = open_ok(pid);
  unsigned stopped = 0;
  for (int i = 0; i < 10000000 && stopped < 200; i++) {
    struct target_stop s;
    struct error e = {0};
    enum result r = target_stop(t, board->tid, LONG, &s, &e);
    ck_assert_msg(r == RESULT_OK || r == RESULT_GONE, "%d %s", r, e.text);
    stopped += r == RESULT_OK;
    if (r == RESULT_OK)
      end_ok(t, &s);
  }
  ck_assert_uint_eq(stopped, 200);
  goes_on();
  target_close(t);
  end(pid);
}
END_TEST

/* ---- a thread that does not answer ---- */

static void vfork_slowly(void)
{
  for (;;) {
    pid_t pid = vfork();
    if (pid == 0) {
      board->go = 1;
      for (int i = 0; i < 200; i++)
        nap(MS);
      _exit(0);
    }
    board->go = 0;
    board->count++;
    waitpid(pid, NULL, 0);
  }
}

START_TEST(test_stuck_in_vfork)
{
  pid_t pid = start(vfork_slowly);
  struct target *t = open_ok(pid);
  struct target_stop s;
  struct error e = {0};
  wait_until(&board->go);
  ck_assert_int_eq(target_stop(t, pid, 20 * MS, &s, &e), RESULT_TIMEOUT);
  ck_assert_int_eq(s.state, TARGET_PENDING);
  ck_assert_int_eq(target_stop_end(t, &s, MS), RESULT_TIMEOUT);
  ck_assert_int_eq(target_stop_end(t, &s, LONG), RESULT_OK);
  goes_on();
  target_close(t);
  end(pid);
}
END_TEST

/* ---- exec ---- */

static void *exec_again(void *arg)
{
  char *again[] = {arg, "exec", NULL};
  board->tid = (int)syscall(SYS_gettid);
  board->go = 1;
  while (board->go != 2)
    board->count++;
  execv("/bin/sleep", (char *[]){"sleep", "0.2", NULL});
  (void)again;
  _exit(3);
}

static void exec_in_a_thread(void)
{
  pthread_t th;
  pthread_create(&th, NULL, exec_again, NULL);
  for (;;)
    pause();
}

/* The thread that is stopped becomes its process's first one by an exec: it
 * must be let go under its new id. */
START_TEST(test_exec_in_a_thread)
{
  for (int round = 0; round < 10; round++) {
    int status = 0;
    memset(board, 0, sizeof *board);
    pid_t pid = start(exec_in_a_thread);
    wait_until(&board->go);
    struct target *t = open_ok(pid);
    struct target_stop s;
    board->go = 2;
    for (int i = 0; i < 400; i++) {
      struct error e = {0};
      enum result r = target_stop(t, board->tid, LONG, &s, &e);
      if (r == RESULT_GONE)
        break;
      ck_assert_msg(r == RESULT_OK, "%s", e.text);
      end_ok(t, &s);
    }
    /* it ends by itself, if nothing holds it */
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    target_close(t);
  }
}
END_TEST

/* ---- other tracers, and our own end ---- */

static void trace_the_count(void)
{
  struct target *t;
  struct target_stop s;
  if (target_open(board->status, &t, NULL) != RESULT_OK ||
      target_stop(t, board->status, LONG, &s, NULL) != RESULT_OK)
    _exit(1);
  board->go = 1;
  for (;;)
    pause();
}

START_TEST(test_another_tracer)
{
  pid_t pid = start(count_up);
  board->status = pid;
  board->tid = 0;
  pid_t other = start(trace_the_count);
  wait_until(&board->go);
  struct target *t = open_ok(pid);
  struct target_stop s;
  struct error e = {0};
  char name[32];
  ck_assert_int_eq(target_stop(t, pid, LONG, &s, &e), RESULT_BUSY);
  ck_assert_int_eq(s.state, TARGET_FREE);
  snprintf(name, sizeof name, "process %d (", (int)other);
  ck_assert_msg(strstr(e.text, name) != NULL, "%s", e.text);
  ck_assert_int_eq(target_thread_tracer(t, pid), other);
  /* a tracer that is killed in mid-stop leaves nothing behind */
  uint64_t was = board->count;
  nap(20 * MS);
  ck_assert_uint_eq(board->count, was);
  end(other);
  goes_on();
  stop_ok(t, pid, &s);
  end_ok(t, &s);
  target_close(t);
  end(pid);
}
END_TEST

/* ---- its mask ---- */

static void block_and_count(void)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGRTMAX);
  sigprocmask(SIG_SETMASK, &set, NULL);
  count_up();
}

START_TEST(test_blocked)
{
  pid_t pid = start(block_and_count);
  struct target *t = open_ok(pid);
  struct target_stop s;
  uint64_t mask = 0;
  goes_on();
  stop_ok(t, pid, &s);
  ck_assert_int_eq(target_stop_blocked(&s, &mask), RESULT_OK);
  ck_assert_uint_eq(mask, UINT64_C(1) << 63 | 1);
  end_ok(t, &s);
  goes_on();
  target_close(t);
  end(pid);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("stop");
  TCase *tc = tcase_create("stop");
  tcase_add_checked_fixture(tc, setup, NULL);
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, test_stands_still);
  tcase_add_test(tc, test_signals_arrive);
  tcase_add_test(tc, test_job_control);
  tcase_add_test(tc, test_job_control_storm);
  tcase_add_test(tc, test_killed_in_a_stop);
  tcase_add_test(tc, test_parent_is_told);
  tcase_add_test(tc, test_threads_end);
  tcase_add_test(tc, test_stuck_in_vfork);
  tcase_add_test(tc, test_exec_in_a_thread);
  tcase_add_test(tc, test_another_tracer);
  tcase_add_test(tc, test_blocked);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
