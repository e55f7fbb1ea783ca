/* SPDX-License-Identifier: MIT
 *
 * Sampling sessions on a child that plays the agent.
 */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "fake_agent.h"
#include "suite.h"

/* Nothing of the session is left in the segment. */
static void check_left_alone(pid_t pid)
{
  struct target *t = open_target(pid);
  struct shm shm;
  struct shm_attach_info info;
  int fd;
  ck_assert_int_eq(target_segment_open(t, &fd, NULL), RESULT_OK);
  ck_assert_int_eq(shm_attach(&shm, fd, &info), RESULT_OK);
  ck_assert_uint_eq(shm.control->session, 0);
  ck_assert_uint_eq(shm.control->owner, 0);
  ck_assert_uint_eq(shm.control->rings_backed, 0);
  for (unsigned i = 0; i < TECS_SLOTS; i++)
    ck_assert_uint_eq(shm.slots[i].tid, 0);
  shm_detach(&shm);
  target_close(t);
}

START_TEST(test_samples)
{
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE});
  struct session_options o = options(2 * MS, 500 * MS);
  struct outcome out = run_session(pid, &o);
  ck_assert_msg(out.r == RESULT_OK, "%s", out.e.text);
  ck_assert_int_eq(out.end, SESSION_END_STOPPED);
  check_closes(&out);
  ck_assert_uint_gt(out.acc.samples, 25); /* 250 on an idle machine */
  ck_assert_uint_eq(out.acc.samples, truth->written);
  ck_assert_uint_eq(out.acc.lost, out.acc.undelivered);
  ck_assert_uint_eq(out.acc.bytes, truth->written * sizeof(struct tecs_sample));
  ck_assert_uint_eq(out.acc.vms, 1);
  ck_assert_uint_eq(out.acc.threads, 1);
  ck_assert_uint_eq(out.acc.filtered, 0);
  ck_assert_uint_ge(out.acc.elapsed_ns, 500 * MS);
  ck_assert_uint_gt(out.acc.cpu_ns, 0);
  check_left_alone(pid);

  /* And again: the next session starts from a clean slate. */
  uint64_t before = truth->written;
  out = run_session(pid, &o);
  ck_assert_msg(out.r == RESULT_OK, "%s", out.e.text);
  check_closes(&out);
  ck_assert_uint_eq(out.acc.samples, truth->written - before);
  check_left_alone(pid);
  stop_child(pid);
}
END_TEST

START_TEST(test_ring_full)
{
  pid_t pid =
      start((struct role){.vm_state = TECS_VM_LIVE, .answer = ANSWER_FULL_ODD});
  struct session_options o = options(2 * MS, 400 * MS);
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_OK);
  check_closes(&out);
  ck_assert_uint_gt(truth->full, 5);
  ck_assert_uint_eq(out.acc.lost_full, truth->full);
  ck_assert_uint_eq(out.acc.samples, truth->written);
  ck_assert_uint_eq(out.acc.lost, truth->full + out.acc.undelivered);
  stop_child(pid);
}
END_TEST

START_TEST(test_bad_records)
{
  pid_t pid =
      start((struct role){.vm_state = TECS_VM_LIVE, .answer = ANSWER_BAD_ODD});
  struct session_options o = options(2 * MS, 400 * MS);
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_OK);
  check_closes(&out);
  ck_assert_uint_gt(truth->bad, 5);
  ck_assert_uint_eq(out.acc.lost_bad, truth->bad);
  ck_assert_uint_eq(out.acc.samples, truth->written);
  ck_assert_uint_eq(out.acc.lost, truth->bad + out.acc.undelivered);
  stop_child(pid);
}
END_TEST

/* The program takes the signals: each is given up after its time-out. */
START_TEST(test_undelivered)
{
  pid_t pid =
      start((struct role){.vm_state = TECS_VM_LIVE, .answer = ANSWER_NOTHING});
  struct session_options o = options(5 * MS, 1000 * MS);
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_OK);
  check_closes(&out);
  ck_assert_uint_eq(out.acc.samples, 0);
  ck_assert_uint_ge(out.acc.sent, 2);
  ck_assert_uint_le(out.acc.sent, 11); /* one each 100 ms */
  ck_assert_uint_eq(out.acc.undelivered, out.acc.sent);
  ck_assert_uint_eq(truth->ignored, out.acc.sent);
  stop_child(pid);
}
END_TEST

START_TEST(test_blocked)
{
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE, .blocks = true});
  struct session_options o = options(5 * MS, 600 * MS);
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_OK);
  ck_assert_uint_eq(out.acc.sent, 0);
  ck_assert_uint_eq(out.acc.blocked_threads, 1);
  check_closes(&out);
  stop_child(pid);
}
END_TEST

START_TEST(test_idle)
{
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE, .sleeps = true});
  struct session_options o = options(2 * MS, 400 * MS);
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_OK);
  /* It wakes 20 times for some microseconds each. */
  ck_assert_uint_le(out.acc.sent, 10);
  ck_assert_uint_gt(out.acc.ticks, 20);
  check_closes(&out);
  stop_child(pid);
}
END_TEST

START_TEST(test_filtered)
{
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE});
  struct session_options o = options(2 * MS, 300 * MS);
  o.merge.zone_prefix = "no such zone";
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_OK);
  ck_assert_uint_eq(out.acc.samples, 0);
  ck_assert_uint_eq(out.acc.filtered, truth->written);
  check_closes(&out);
  stop_child(pid);
}
END_TEST

/* ---- ends ---- */

START_TEST(test_target_ends)
{
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE, .lives_ms = 400});
  struct session_options o = options(2 * MS, 20 * SEC);
  struct outcome out = run_session(pid, &o);
  ck_assert_msg(out.r == RESULT_OK, "%s", out.e.text);
  ck_assert_int_eq(out.end, SESSION_END_TARGET);
  ck_assert_uint_lt(out.took_ns, 400 * MS + SEC);
  ck_assert_uint_eq(out.acc.samples, truth->written);
  check_closes(&out);
  waitpid(pid, NULL, 0);
}
END_TEST

static void raise_stop(int signo)
{
  (void)signo;
  stop_flag = 1;
}

START_TEST(test_stop_flag)
{
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE});
  struct session_options o = options(SEC, 0); /* ticks far apart */
  struct itimerval in = {.it_value = {.tv_usec = 300000}};
  signal(SIGALRM, raise_stop);
  setitimer(ITIMER_REAL, &in, NULL);
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_OK);
  ck_assert_int_eq(out.end, SESSION_END_STOPPED);
  ck_assert_uint_lt(out.took_ns, 300 * MS + 500 * MS);
  check_left_alone(pid);
  stop_child(pid);
}
END_TEST

/* ---- no VM ---- */

START_TEST(test_no_vm)
{
  pid_t pid = start((struct role){.vm_state = TECS_VM_FREE});
  struct session_options o = options(5 * MS, 20 * SEC);
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_NOVM);
  ck_assert_ptr_nonnull(strstr(out.e.text, "no LuaJIT VM"));
  ck_assert_uint_ge(out.took_ns, 300 * MS);
  ck_assert_uint_lt(out.took_ns, 300 * MS + SEC);
  check_closes(&out);
  check_left_alone(pid);
  stop_child(pid);
}
END_TEST

START_TEST(test_unknown_vm)
{
  pid_t pid = start((struct role){.vm_state = TECS_VM_UNKNOWN});
  struct session_options o = options(5 * MS, 300 * MS);
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_OK); /* its native stacks are worth having */
  ck_assert_uint_eq(out.acc.vms, 0);
  ck_assert_uint_eq(out.acc.unknown_vms, 1);
  ck_assert_str_eq(out.acc.luajit, ""); /* no such text is in this program */
  stop_child(pid);
}
END_TEST

START_TEST(test_late_vm)
{
  pid_t pid =
      start((struct role){.vm_state = TECS_VM_LIVE, .vm_after_ms = 400});
  struct session_options o = options(5 * MS, 800 * MS);
  o.vm_wait_ns = 5 * SEC;
  struct outcome out = run_session(pid, &o);
  ck_assert_msg(out.r == RESULT_OK, "%s", out.e.text);
  ck_assert_uint_eq(out.acc.vms, 1);
  check_closes(&out);
  stop_child(pid);
}
END_TEST

/* A launcher with the agent and no VM; its child has one. */
static void launcher_body(void)
{
  pid_t child = fork();
  if (child == 0) {
    alarm(30);
    role.vm_state = TECS_VM_LIVE;
    role.sleeps = true;
    play_agent();
    atomic_add(&truth->ready, UINT64_C(1));
    work();
  }
  atomic_set(&truth->written, (uint64_t)child);
  role.vm_state = TECS_VM_FREE;
  play_agent();
  atomic_add(&truth->ready, UINT64_C(1));
  for (;;)
    pause();
}

START_TEST(test_child_has_vm)
{
  pid_t pid = spawn(launcher_body);
  char cure[64];
  wait_ready(2);
  struct session_options o = options(5 * MS, 20 * SEC);
  o.vm_wait_ns = 10 * SEC;
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_NOVM);
  ck_assert_uint_lt(out.took_ns, 2 * SEC);
  snprintf(cure, sizeof cure, "tecs-attach %d", (int)truth->written);
  ck_assert_msg(strstr(out.e.text, cure), "%s", out.e.text);
  check_left_alone(pid);
  kill((pid_t)truth->written, SIGKILL);
  stop_child(pid);
}
END_TEST

/* ---- refusals ---- */

static void plain_body(void)
{
  atomic_release(&truth->ready, UINT64_C(1));
  for (;;)
    pause();
}

START_TEST(test_no_agent)
{
  pid_t pid = spawn(plain_body);
  wait_ready(1);
  struct session_options o = options(5 * MS, 20 * SEC);
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_NOAGENT);
  ck_assert_uint_lt(out.took_ns, 2 * SEC);
  ck_assert_ptr_nonnull(strstr(out.e.text, "LD_PRELOAD"));
  stop_child(pid);
}
END_TEST

START_TEST(test_other_version)
{
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE, .major = 77});
  struct session_options o = options(5 * MS, 20 * SEC);
  struct outcome out = run_session(pid, &o);
  char own_version[32];
  snprintf(own_version, sizeof own_version, "version %d", TECS_ABI_MAJOR);
  ck_assert_int_eq(out.r, RESULT_VERSION);
  ck_assert_ptr_nonnull(strstr(out.e.text, "version 77"));
  ck_assert_ptr_nonnull(strstr(out.e.text, own_version));
  stop_child(pid);
}
END_TEST

START_TEST(test_agent_off)
{
  pid_t pid =
      start((struct role){.vm_state = TECS_VM_LIVE, .state = TECS_STATE_OFF});
  struct session_options o = options(5 * MS, 20 * SEC);
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_NOAGENT);
  ck_assert_ptr_nonnull(strstr(out.e.text, "signal handler"));
  stop_child(pid);
}
END_TEST

static pid_t game;

static void owner_body(void)
{
  struct session_options o = options(2 * MS, 0);
  struct target *t = open_target(game);
  struct profile *p = profile_new();
  struct session_account acc;
  enum session_end end;
  session_run(t, &o, &stop_flag, p, &acc, &end, NULL);
}

/* A session that is killed leaves the game running and the place free. */
START_TEST(test_busy_and_taken_over)
{
  char owner_text[32];
  game = start((struct role){.vm_state = TECS_VM_LIVE});
  pid_t owner = spawn(owner_body);
  struct session_options o = options(2 * MS, 300 * MS);
  for (int i = 0; i < 5000 && !atomic_acquire(&truth->written); i++)
    usleep(1000);
  struct outcome out = run_session(game, &o);
  ck_assert_int_eq(out.r, RESULT_BUSY);
  snprintf(owner_text, sizeof owner_text, "process %d:", (int)owner);
  ck_assert_msg(strstr(out.e.text, owner_text), "%s", out.e.text);

  stop_child(owner);
  uint64_t before = truth->written;
  out = run_session(game, &o);
  ck_assert_msg(out.r == RESULT_OK, "%s", out.e.text);
  check_closes(&out);
  ck_assert_uint_gt(out.acc.samples, 5);
  ck_assert_uint_le(out.acc.samples, truth->written - before);
  check_left_alone(game);
  stop_child(game);
}
END_TEST

/* ---- parts ---- */

static void spin_body(void)
{
  atomic_release(&truth->ready, UINT64_C(1));
  while (!atomic_acquire(&truth->full))
    ;
  for (;;)
    pause();
}

static unsigned gate_times(struct target *t, struct thread *th, enum gate want)
{
  unsigned n = 0;
  for (int i = 0; i < 20; i++) {
    n += thread_gate(t, th, clock_mono_ns()) == want;
    usleep(2000);
  }
  return n;
}

START_TEST(test_gate)
{
  pid_t pid = spawn(spin_body);
  wait_ready(1);
  struct target *t = open_target(pid);
  struct thread th;
  thread_init(&th, pid, clock_mono_ns());
  ck_assert_uint_eq(gate_times(t, &th, GATE_RUN), 20);
  ck_assert(th.running);
  atomic_release(&truth->full, UINT64_C(1));
  usleep(50000);
  gate_times(t, &th, GATE_IDLE); /* the first look may see it changed */
  ck_assert_uint_eq(gate_times(t, &th, GATE_IDLE), 20);
  ck_assert(!thread_is_idle(&th, th.active));
  ck_assert(thread_is_idle(&th, th.active + SEC));
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  ck_assert_int_eq(thread_gate(t, &th, clock_mono_ns()), GATE_GONE);
  thread_close(&th);
  target_close(t);
}
END_TEST

START_TEST(test_idle_divisor)
{
  ck_assert_uint_eq(threads_idle_divisor(0, MS), 1);
  ck_assert_uint_eq(threads_idle_divisor(16, MS), 1);
  ck_assert_uint_eq(threads_idle_divisor(17, MS), 2);
  ck_assert_uint_eq(threads_idle_divisor(65, MS), 4);
  ck_assert_uint_eq(threads_idle_divisor(65, 2 * MS), 2);
  ck_assert_uint_eq(threads_idle_divisor(65, 10 * MS), 1);
}
END_TEST

/* Two threads, whose samples hold one for 3 and the other for 5: the clock
 * stands for 3, and 2 a tick are saved up. */
START_TEST(test_held)
{
  struct session_account acc = {0};
  struct session_options o = {.interval_ns = 10};
  struct thread th[3] = {{.running = true}, {.running = true}, {.held = 1}};
  struct session s = {.o = &o, .acc = &acc, .threads = {.v = th, .count = 3}};
  for (uint64_t k = 1; k <= 5; k++) {
    ck_assert(!ticks_are_held(&s, &th[0]) && !ticks_are_held(&s, &th[1]));
    th[0].held += 3;
    th[1].held += 5;
    ticks_leave_out_held(&s);
    ck_assert_uint_eq(s.tick_grid, 3 * k);
    ck_assert_uint_eq(th[0].held, 0);
    ck_assert_uint_eq(th[1].held, 2 * k);
  }
  ck_assert_uint_eq(acc.held_ns, 15);
  ck_assert(!ticks_are_held(&s, &th[0]) && ticks_are_held(&s, &th[1]));
  ck_assert_uint_eq(th[1].held, 0);
  ck_assert_uint_eq(th[2].held, 1); /* it did not run */
}
END_TEST

/* The grid stays, each tick at most half an interval behind its point. */
START_TEST(test_schedule)
{
  struct session_account acc = {0};
  struct session_options o = {.interval_ns = 1000};
  struct session s = {.o = &o, .acc = &acc, .random = 1, .tick_grid = 5000};
  uint64_t sum = 0;
  for (uint64_t k = 1; k <= 1000; k++) {
    uint64_t grid = 5000 + k * 1000;
    ticks_schedule(&s, grid - 400);
    ck_assert_uint_eq(s.tick_grid, grid);
    ck_assert_uint_ge(s.next_tick, grid);
    ck_assert_uint_lt(s.next_tick, grid + 500);
    sum += s.next_tick - grid;
  }
  ck_assert_uint_eq(acc.skipped, 0);
  ck_assert_uint_gt(sum, 220 * 1000); /* 250 on the average */
  ck_assert_uint_lt(sum, 280 * 1000);

  s.tick_grid = 5000;
  ticks_schedule(&s, 6900); /* 6000 is due, late by less than one */
  ck_assert_uint_eq(s.tick_grid, 6000);
  ck_assert_uint_eq(acc.skipped, 0);
  ticks_schedule(&s, 10500); /* 7000, 8000 and 9000 are left out */
  ck_assert_uint_eq(s.tick_grid, 10000);
  ck_assert_uint_eq(acc.skipped, 3);
}
END_TEST

/* Every value is counted where its bucket's end is at most an eighth above. */
START_TEST(test_cost_buckets)
{
  for (uint64_t ns = 0; ns <= UINT32_MAX; ns += ns / 37 + 1) {
    struct session_account acc = {0};
    costs_add(&acc, (uint32_t)ns);
    uint64_t end = session_cost_ns(&acc, 1);
    ck_assert_uint_ge(end, ns);
    ck_assert_uint_le(end, ns < 16 ? ns : ns + ns / 8);
  }
  struct session_account last = {0};
  costs_add(&last, UINT32_MAX);
  ck_assert_uint_eq(session_cost_ns(&last, 1), UINT32_MAX);
}
END_TEST

START_TEST(test_cost_parts)
{
  struct session_account acc = {0};
  ck_assert_uint_eq(session_cost_ns(&acc, 0.5), 0);
  for (int i = 0; i < 98; i++)
    costs_add(&acc, 100); /* 96 to 103 */
  costs_add(&acc, 5000);  /* 4608 to 5119 */
  costs_add(&acc, 5000);
  ck_assert_uint_eq(session_cost_ns(&acc, 0), 103);
  ck_assert_uint_eq(session_cost_ns(&acc, 0.5), 103);
  ck_assert_uint_eq(session_cost_ns(&acc, 0.98), 103);
  ck_assert_uint_eq(session_cost_ns(&acc, 0.99), 5119);
  ck_assert_uint_eq(session_cost_ns(&acc, 1), 5119);
}
END_TEST

static void *short_lived(void *arg)
{
  for (volatile int i = 0; i < 3000000; i++)
    ;
  return arg;
}

static void threads_body(void)
{
  pthread_t th[3];
  play_agent();
  atomic_release(&truth->ready, UINT64_C(1));
  for (;;) {
    for (int i = 0; i < 3; i++)
      pthread_create(&th[i], NULL, short_lived, NULL);
    for (int i = 0; i < 3; i++)
      pthread_join(th[i], NULL);
  }
}

/* Slots come and go with threads; nothing is counted twice or dropped. */
START_TEST(test_short_threads)
{
  role = (struct role){.vm_state = TECS_VM_LIVE};
  pid_t pid = spawn(threads_body);
  wait_ready(1);
  struct session_options o = options(MS, 600 * MS);
  o.by_thread = true;
  struct outcome out = run_session(pid, &o);
  ck_assert_msg(out.r == RESULT_OK, "%s", out.e.text);
  check_closes(&out);
  ck_assert_uint_gt(out.acc.threads, 3);
  ck_assert_uint_eq(out.acc.lost, out.acc.undelivered + out.acc.lost_full);
  check_left_alone(pid);
  stop_child(pid);
}
END_TEST

static Suite *session_suite(void)
{
  Suite *s = suite_create("session");
  TCase *tc = tcase_create("session");
  tcase_set_timeout(tc, 30);
  tcase_add_checked_fixture(tc, setup, NULL);
  tcase_add_test(tc, test_samples);
  tcase_add_test(tc, test_ring_full);
  tcase_add_test(tc, test_bad_records);
  tcase_add_test(tc, test_undelivered);
  tcase_add_test(tc, test_blocked);
  tcase_add_test(tc, test_idle);
  tcase_add_test(tc, test_filtered);
  tcase_add_test(tc, test_target_ends);
  tcase_add_test(tc, test_stop_flag);
  tcase_add_test(tc, test_no_vm);
  tcase_add_test(tc, test_unknown_vm);
  tcase_add_test(tc, test_late_vm);
  tcase_add_test(tc, test_child_has_vm);
  tcase_add_test(tc, test_no_agent);
  tcase_add_test(tc, test_other_version);
  tcase_add_test(tc, test_agent_off);
  tcase_add_test(tc, test_busy_and_taken_over);
  tcase_add_test(tc, test_gate);
  tcase_add_test(tc, test_idle_divisor);
  tcase_add_test(tc, test_held);
  tcase_add_test(tc, test_schedule);
  tcase_add_test(tc, test_cost_buckets);
  tcase_add_test(tc, test_cost_parts);
  tcase_add_test(tc, test_short_threads);
  suite_add_tcase(s, tc);
  return s;
}

int main(void)
{
  return suite_run(session_suite());
}
