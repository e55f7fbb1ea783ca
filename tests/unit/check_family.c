/* SPDX-License-Identifier: MIT
 *
 * A process and all that come from it: who is handed out, and when.
 */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "fake_agent.h"
#include "suite.h"

#define PATIENCE (3 * SEC)
#define QUIET (400 * MS)

static volatile pid_t *told; /* by the processes: their pids */

static void family_setup(void)
{
  setup();
  told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
              -1, 0);
  ck_assert_ptr_ne((void *)told, MAP_FAILED);
}

static void wait_forever(void)
{
  for (;;)
    pause();
}

static void agent_child(void)
{
  told[0] = getpid();
  agent_body();
}

/* A root without an agent, whose child has one. */
static void body_parent(void)
{
  if (fork() == 0) {
    alarm(30);
    agent_child();
  }
  wait_forever();
}

/* A root with an agent; its forked child has only what it inherited. */
static void body_raw_child(void)
{
  play_agent();
  if (fork() == 0) {
    alarm(30);
    told[0] = getpid();
    atomic_release(&truth->ready, UINT64_C(1));
    wait_forever();
  }
  wait_forever();
}

static struct session_family *family_of(pid_t root, const char *variable)
{
  struct session_family *f;
  struct error e;
  ck_assert_msg(session_family_new(root, variable, true, &f, &e) == RESULT_OK,
                "%s", e.text);
  return f;
}

/* Who comes next within that time; NULL: nobody. */
static struct target *next_within(struct session_family *f, uint64_t ns)
{
  uint64_t end = clock_mono_ns() + ns, now;
  struct target *t = NULL;
  bool agent;
  while (!t && (now = clock_mono_ns()) < end) {
    t = session_family_next(f, now, &agent);
    usleep(2000);
  }
  return t;
}

static void expect_next(struct session_family *f, pid_t pid,
                        enum session_fate fate)
{
  struct target *t = next_within(f, PATIENCE);
  ck_assert_ptr_nonnull(t);
  ck_assert_int_eq(target_pid(t), pid);
  bool agent; /* not twice: */
  ck_assert_ptr_null(session_family_next(f, clock_mono_ns(), &agent));
  session_family_return(f, t, fate, clock_mono_ns());
}

START_TEST(test_child)
{
  role = (struct role){.vm_state = TECS_VM_LIVE, .sleeps = true};
  pid_t root = spawn(body_parent);
  struct session_family *f = family_of(root, NULL);
  wait_ready(1);
  expect_next(f, told[0], SESSION_FATE_NO_VM); /* its VM is there, still */
  expect_next(f, told[0], SESSION_FATE_GIVEN_UP);
  ck_assert_ptr_null(next_within(f, QUIET));
  ck_assert_uint_eq(session_family_seen(f), 2);
  session_family_free(f);
  kill(told[0], SIGKILL);
  stop_child(root);
}
END_TEST

START_TEST(test_there_before)
{
  role = (struct role){.vm_state = TECS_VM_LIVE, .sleeps = true};
  pid_t root = spawn(body_parent);
  wait_ready(1);
  usleep(700000); /* no longer young */
  struct session_family *f = family_of(root, NULL);
  expect_next(f, told[0], SESSION_FATE_GIVEN_UP);
  session_family_free(f);
  kill(told[0], SIGKILL);
  stop_child(root);
}
END_TEST

START_TEST(test_late_vm)
{
  role = (struct role){
      .vm_state = TECS_VM_LIVE, .vm_after_ms = 600, .sleeps = true};
  pid_t root = spawn(agent_child);
  wait_ready(1);
  struct session_family *f = family_of(root, NULL);
  ck_assert_ptr_null(next_within(f, 300 * MS));
  ck_assert(session_family_waits(f, clock_mono_ns(), PATIENCE));
  expect_next(f, root, SESSION_FATE_GIVEN_UP);
  ck_assert(!session_family_waits(f, clock_mono_ns(), PATIENCE));
  session_family_free(f);
  stop_child(root);
}
END_TEST

START_TEST(test_inherited_segment)
{
  role = (struct role){.vm_state = TECS_VM_LIVE};
  pid_t root = spawn(body_raw_child);
  wait_ready(1);
  struct session_family *f = family_of(root, NULL);
  expect_next(f, root, SESSION_FATE_GIVEN_UP);
  ck_assert_ptr_null(next_within(f, QUIET));
  ck_assert_uint_eq(session_family_seen(f), 2);
  session_family_free(f);
  kill(told[0], SIGKILL);
  stop_child(root);
}
END_TEST

START_TEST(test_ends)
{
  role = (struct role){.lives_ms = 200, .sleeps = true};
  pid_t root = spawn(agent_child);
  wait_ready(1);
  struct session_family *f = family_of(root, NULL);
  ck_assert_ptr_null(next_within(f, 600 * MS));
  ck_assert(!session_family_waits(f, clock_mono_ns(), PATIENCE));
  session_family_free(f);
  waitpid(root, NULL, 0);
}
END_TEST

/* ---- the variable ---- */

static void run_sleep(const char *variable)
{
  char *env[] = {(char *)(uintptr_t)variable, NULL};
  char *argv[] = {"sleep", "20", NULL};
  if (fork() == 0) {
    told[1] = getpid();
    execve("/bin/sleep", argv, env);
  }
}

static void body_orphan(void)
{
  run_sleep("TECS_FOLLOW=1.5");
}

static void body_stranger(void)
{
  run_sleep("TECS_FOLLOW=2.55");
}

static unsigned seen_of(void (*body)(void), const char *variable)
{
  pid_t root = spawn(wait_forever);
  struct session_family *f = family_of(root, variable);
  pid_t parent = spawn(body);
  waitpid(parent, NULL, 0); /* the child has lost it, and it was none of ours */
  next_within(f, QUIET);
  unsigned seen = session_family_seen(f);
  session_family_free(f);
  kill(told[1], SIGKILL);
  stop_child(root);
  return seen;
}

START_TEST(test_variable)
{
  ck_assert_uint_eq(seen_of(body_orphan, "TECS_FOLLOW=1.5"), 2);
  ck_assert_uint_eq(seen_of(body_stranger, "TECS_FOLLOW=2.5"), 1);
}
END_TEST

START_TEST(test_no_root)
{
  struct session_family *f;
  struct error e;
  ck_assert_int_eq(session_family_new(INT32_MAX, NULL, true, &f, &e),
                   RESULT_GONE);
  ck_assert_ptr_null(f);
  f = family_of(INT32_MAX, "TECS_FOLLOW=1.5"); /* its kin may live on */
  ck_assert_uint_eq(session_family_seen(f), 0);
  session_family_free(f);
}
END_TEST

/* ---- accounts ---- */

START_TEST(test_accounts)
{
  struct session_account a = {.ticks = 1,
                              .sent = 5,
                              .samples = 3,
                              .lost = 2,
                              .vms = 2,
                              .threads = 3,
                              .execs = 1},
                         b = {.ticks = 10,
                              .sent = 7,
                              .samples = 7,
                              .vms = 1,
                              .threads = 4,
                              .bytes = 9},
                         same = a;
  a.cost[3] = 1;
  b.cost[3] = 2;
  b.cost[SESSION_COSTS - 1] = 5;
  session_account_add(&same, &b, true);
  session_account_add(&a, &b, false);
  ck_assert_uint_eq(a.ticks, 11);
  ck_assert_uint_eq(a.sent, 12);
  ck_assert_uint_eq(a.samples, 10);
  ck_assert_uint_eq(a.lost, 2);
  ck_assert_uint_eq(a.bytes, 9);
  ck_assert_uint_eq(a.cost[3], 3);
  ck_assert_uint_eq(a.cost[SESSION_COSTS - 1], 5);
  ck_assert_uint_eq(a.execs, 1);
  ck_assert_uint_eq(a.vms, 3);
  ck_assert_uint_eq(a.threads, 7);
  ck_assert_uint_eq(same.sent, 12);
  ck_assert_uint_eq(same.vms, 2);
  ck_assert_uint_eq(same.threads, 4);
}
END_TEST

static Suite *family_suite(void)
{
  Suite *s = suite_create("family");
  TCase *tc = tcase_create("family");
  tcase_set_timeout(tc, 30);
  tcase_add_checked_fixture(tc, family_setup, NULL);
  tcase_add_test(tc, test_child);
  tcase_add_test(tc, test_there_before);
  tcase_add_test(tc, test_late_vm);
  tcase_add_test(tc, test_inherited_segment);
  tcase_add_test(tc, test_ends);
  tcase_add_test(tc, test_variable);
  tcase_add_test(tc, test_no_root);
  tcase_add_test(tc, test_accounts);
  suite_add_tcase(s, tc);
  return s;
}

int main(void)
{
  return suite_run(family_suite());
}
