/* SPDX-License-Identifier: MIT
 *
 * Steering, and trace sessions, on a child that plays the agent.
 */
#include <check.h>
#include <stdio.h>
#include <sys/stat.h>

#include "fake_agent.h"
#include "suite.h"

#define G UINT64_C(0x12345678)

static void within(uint64_t ns, unsigned ms, unsigned tolerance)
{
  uint64_t got = ns / MS;
  ck_assert_msg(got + tolerance >= ms && got <= ms + tolerance,
                "%llu ms, want %u +-%u", (unsigned long long)got, ms,
                tolerance);
}

/* ---- sampling sessions ---- */

static void pauses(unsigned ms)
{
  atomic_set(&own.control->paused, ms >= 300 && ms < 600 ? 1u : 0u);
}

/* A pause gives nothing, and the account says what was on its way. */
START_TEST(test_pause)
{
  struct session_options o = options(MS, 1 * SEC);
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE, .each = pauses});
  struct outcome out = run_session(pid, &o);
  stop_child(pid);
  ck_assert_int_eq(out.r, RESULT_OK);
  check_closes(&out);
  ck_assert_uint_eq(out.acc.filtered, out.acc.of_pause);
  ck_assert_uint_eq(out.acc.of_pause, truth->in_pause);
  ck_assert_uint_le(out.acc.of_pause, 2); /* sent before, answered after */
  ck_assert_uint_eq(out.acc.samples, truth->written - truth->in_pause);
  ck_assert_uint_gt(out.acc.samples, 100);
  ck_assert_uint_le(out.acc.paused_ns, 400 * MS);
  ck_assert_uint_ge(out.acc.paused_ns, 150 * MS);
  within(out.acc.elapsed_ns + out.acc.paused_ns, 1000, 300);
}
END_TEST

static void stops(unsigned ms)
{
  if (ms >= 200)
    atomic_set(&own.control->stop, 1u);
}

START_TEST(test_stop)
{
  struct session_options o = options(MS, 0);
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE, .each = stops});
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_OK);
  ck_assert_int_eq(out.end, SESSION_END_STOPPED);
  ck_assert_uint_lt(out.took_ns, 2 * SEC);
  check_closes(&out);
  ck_assert_uint_gt(out.acc.samples, 0);
  stop_child(pid);
}
END_TEST

static void open_segment(pid_t pid, struct shm *shm)
{
  struct target *t = open_target(pid);
  struct error e;
  ck_assert_msg(session_segment(t, shm, &e) == RESULT_OK, "%s", e.text);
  target_close(t);
}

static uint32_t cookie_of(pid_t pid)
{
  struct shm shm;
  open_segment(pid, &shm);
  uint32_t cookie = shm.header->cookie;
  shm_detach(&shm);
  return cookie;
}

static void preset(pid_t pid, uint32_t paused, uint32_t stop, uint64_t vm)
{
  struct shm shm;
  open_segment(pid, &shm);
  shm.control->paused = paused;
  shm.control->stop = stop;
  shm.control->vm = vm;
  shm_detach(&shm);
}

/* What steered the session before does not steer this one. */
START_TEST(test_starts_anew)
{
  struct session_options o = options(MS, 300 * MS);
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE});
  preset(pid, 1, 1, G);
  struct outcome out = run_session(pid, &o);
  ck_assert_uint_gt(out.acc.samples, 20);
  ck_assert_uint_eq(out.acc.paused_ns, 0);
  ck_assert_uint_eq(out.acc.filtered, 0);
  stop_child(pid);
}
END_TEST

/* Unless the program itself started it and has paused it since. */
START_TEST(test_from_inside)
{
  struct session_options o = options(MS, 300 * MS);
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE});
  o.from_inside = true;
  o.cookie = cookie_of(pid);
  preset(pid, 1, 0, 0);
  struct outcome out = run_session(pid, &o);
  ck_assert_uint_eq(out.acc.samples, 0);
  ck_assert_uint_eq(out.acc.sent, 0);
  ck_assert_uint_lt(out.acc.elapsed_ns, 100 * MS);
  preset(pid, 0, 1, 0);
  out = run_session(pid, &o);
  ck_assert_uint_lt(out.took_ns, 200 * MS);
  ck_assert_int_eq(out.end, SESSION_END_STOPPED);
  stop_child(pid);
}
END_TEST

/* The program has become another one while its collector was starting. */
START_TEST(test_from_inside_of_another_image)
{
  struct session_options o = options(MS, 300 * MS);
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE});
  o.from_inside = true;
  o.cookie = cookie_of(pid) + 1;
  struct outcome out = run_session(pid, &o);
  ck_assert_int_eq(out.r, RESULT_GONE);
  ck_assert_uint_eq(out.acc.sent, 0);
  ck_assert_msg(strstr(out.e.text, "another program") != NULL, "%s",
                out.e.text);
  stop_child(pid);
}
END_TEST

START_TEST(test_other_vms)
{
  struct session_options o = options(MS, 300 * MS);
  pid_t pid = start((struct role){.vm_state = TECS_VM_LIVE});
  o.vm = G; /* the child's samples have no VM at all */
  struct outcome out = run_session(pid, &o);
  check_closes(&out);
  ck_assert_uint_eq(out.acc.samples, 0);
  ck_assert_uint_gt(out.acc.of_vm, 20);
  ck_assert_uint_eq(out.acc.filtered, out.acc.of_vm);
  stop_child(pid);
}
END_TEST

/* ---- from another process ---- */

static pid_t game;

static void owner_body(void)
{
  struct session_options o = options(2 * MS, 0);
  run_session(game, &o);
}

static pid_t start_owner(void)
{
  game = start((struct role){.vm_state = TECS_VM_LIVE});
  pid_t owner = spawn(owner_body);
  for (int i = 0; i < 5000 && !atomic_acquire(&truth->written); i++)
    usleep(1000);
  return owner;
}

START_TEST(test_verbs)
{
  struct shm shm;
  struct session_seen seen;
  pid_t owner = start_owner();
  open_segment(game, &shm);
  session_look(&shm, SESSION_TRACE, &seen);
  ck_assert(!seen.running);
  session_look(&shm, SESSION_SAMPLING, &seen);
  ck_assert(seen.running && !seen.paused);
  ck_assert_uint_eq(seen.owner, owner);
  session_pause(&shm, SESSION_SAMPLING, true);
  session_look(&shm, SESSION_SAMPLING, &seen);
  ck_assert(seen.running && seen.paused);
  session_pause(&shm, SESSION_SAMPLING, false);
  session_look(&shm, SESSION_SAMPLING, &seen);
  ck_assert(!seen.paused);
  ck_assert(session_stop(&shm, SESSION_SAMPLING, &seen, 2 * SEC));
  session_look(&shm, SESSION_SAMPLING, &seen);
  ck_assert(!seen.running);
  waitpid(owner, NULL, 0);
  shm_detach(&shm);
  stop_child(game);
}
END_TEST

START_TEST(test_owner_killed)
{
  struct shm shm;
  struct session_seen seen;
  pid_t owner = start_owner();
  open_segment(game, &shm);
  stop_child(owner);
  session_look(&shm, SESSION_SAMPLING, &seen);
  ck_assert(!seen.running);
  ck_assert_uint_ne(seen.number, 0); /* which nobody has taken back */
  shm_detach(&shm);
  stop_child(game);
}
END_TEST

/* A collector that is stopped does not answer. */
START_TEST(test_stop_in_vain)
{
  struct shm shm;
  struct session_seen seen;
  pid_t owner = start_owner();
  open_segment(game, &shm);
  kill(owner, SIGSTOP);
  session_look(&shm, SESSION_SAMPLING, &seen);
  ck_assert(!session_stop(&shm, SESSION_SAMPLING, &seen, 100 * MS));
  kill(owner, SIGCONT);
  ck_assert(session_stop(&shm, SESSION_SAMPLING, &seen, 2 * SEC));
  waitpid(owner, NULL, 0);
  shm_detach(&shm);
  stop_child(game);
}
END_TEST

/* ---- trace sessions ---- */

static void put_text(char *to, uint16_t *len, const char *text)
{
  *len = (uint16_t)strlen(text);
  memcpy(to, text, *len);
}

static void put_row(unsigned i, uint32_t severity, uint64_t count,
                    const char *location)
{
  struct tecs_abort *r = &own.abort_rows[i];
  r->severity = severity;
  r->count = count;
  put_text(r->reason, &r->reason_len, "NYI: bytecode FNEW");
  put_text(r->location, &r->location_len, location);
  put_text(r->zone, &r->zone_len, "z");
  r->pt = 0x7000;
  r->firstline = 3;
  r->numline = 4;
  atomic_release(&r->state, 2u);
}

static uint32_t rows_claimed = 3;
static bool bad_row;

/* The agent's part of a session: three rows at its first event. */
static void counts(unsigned ms)
{
  uint32_t session = atomic_acquire(&own.control->trace_session);
  (void)ms;
  if (!session || session == own.aborts->session)
    return;
  put_row(0, TECS_SEVERITY_WARN, 7, "a.lua:5");
  put_row(1, TECS_SEVERITY_INFO, 30, "a.lua:9");
  put_row(2, TECS_SEVERITY_BLACKLIST, 2, "b.lua:1");
  if (bad_row)
    own.abort_rows[1].reason_len = 129;
  own.aborts->rows = rows_claimed;
  own.aborts->starts = 50;
  own.aborts->stops = 11;
  own.aborts->aborts = 39;
  own.aborts->blacklists = 2;
  atomic_release(&own.aborts->session, session);
}

static void aborts_body(void)
{
  play_agent();
  if (shm_back_aborts(&own) != RESULT_OK)
    _exit(9);
  own.vms[0].events = TECS_VM_LISTENING;
  atomic_release(&truth->ready, UINT64_C(1));
  work();
}

static pid_t start_aborts(void)
{
  role =
      (struct role){.vm_state = TECS_VM_LIVE, .sleeps = true, .each = counts};
  pid_t pid = spawn(aborts_body);
  wait_ready(1);
  return pid;
}

static struct session_trace *begin(struct target *t, struct aborts *into)
{
  struct session_trace *s;
  struct error e;
  ck_assert_msg(session_trace_begin(t, false, &stop_flag, into, &s, &e) ==
                    RESULT_OK,
                "%s", e.text);
  return s;
}

static void wait_for_rows(struct session_trace *s,
                          struct session_trace_account *acc)
{
  for (int i = 0; i < 2000; i++) {
    ck_assert_int_eq(session_trace_poll(s, clock_mono_ns()),
                     SESSION_TRACE_RUNS);
    session_trace_sums(s, acc);
    if (acc->aborts)
      return;
    usleep(1000);
  }
  ck_abort_msg("no rows");
}

static void check_sums(const struct session_trace_account *acc)
{
  ck_assert_uint_eq(acc->starts, 50);
  ck_assert_uint_eq(acc->stops, 11);
  ck_assert_uint_eq(acc->aborts, 39);
  ck_assert_uint_eq(acc->blacklists, 2);
  ck_assert_uint_eq(acc->sites, 2);
  ck_assert_uint_eq(acc->benign_sites, 1);
  ck_assert_uint_eq(acc->benign, 30);
}

START_TEST(test_trace)
{
  struct session_trace_account acc;
  const struct aborts_row *row;
  size_t count;
  pid_t pid = start_aborts();
  struct target *t = open_target(pid);
  struct aborts *table = aborts_new();
  struct session_trace *s = begin(t, table);
  wait_for_rows(s, &acc);
  check_sums(&acc);
  ck_assert_int_eq(session_trace_end(s, &acc), RESULT_OK);
  check_sums(&acc);
  ck_assert_uint_eq(acc.vms, 1);
  ck_assert_uint_gt(acc.elapsed_ns, 0);
  ck_assert_int_eq(aborts_sorted(table, false, &row, &count), RESULT_OK);
  ck_assert_uint_eq(count, 3);
  ck_assert_str_eq(row[0].location, "b.lua:1");
  ck_assert_uint_eq(row[0].severity, TECS_SEVERITY_BLACKLIST);
  ck_assert_uint_eq(row[1].count, 7);
  ck_assert_str_eq(row[1].reason, "NYI: bytecode FNEW");
  ck_assert_str_eq(row[1].zone, "z");
  ck_assert_uint_eq(row[1].pt, 0x7000);
  ck_assert_uint_eq(row[1].firstline, 3);
  ck_assert_uint_eq(row[2].severity, TECS_SEVERITY_INFO);

  struct shm shm;
  open_segment(pid, &shm);
  ck_assert_uint_eq(shm.control->trace_session, 0);
  ck_assert_uint_eq(shm.control->trace_owner, 0);
  ck_assert_uint_eq(shm.control->trace_paused, 0);
  shm_detach(&shm);
  aborts_free(table);
  target_close(t);
  stop_child(pid);
}
END_TEST

/* The rows are had also when the target has ended meanwhile. */
START_TEST(test_trace_target_ends)
{
  struct session_trace_account acc;
  pid_t pid = start_aborts();
  struct target *t = open_target(pid);
  struct aborts *table = aborts_new();
  struct session_trace *s = begin(t, table);
  wait_for_rows(s, &acc);
  stop_child(pid);
  for (int i = 0;
       i < 1000 && session_trace_poll(s, clock_mono_ns()) == SESSION_TRACE_RUNS;
       i++)
    usleep(1000);
  ck_assert_int_eq(session_trace_poll(s, clock_mono_ns()),
                   SESSION_TRACE_TARGET);
  ck_assert_int_eq(session_trace_end(s, &acc), RESULT_OK);
  check_sums(&acc);
  aborts_free(table);
  target_close(t);
}
END_TEST

START_TEST(test_trace_one_at_a_time)
{
  char text[64];
  struct session_trace_account acc;
  struct session_trace *second;
  struct error e;
  pid_t pid = start_aborts();
  struct target *t = open_target(pid);
  struct aborts *table = aborts_new();
  struct session_trace *s = begin(t, table);
  ck_assert_int_eq(
      session_trace_begin(t, false, &stop_flag, table, &second, &e),
      RESULT_BUSY);
  snprintf(text, sizeof text, "by process %d:", (int)getpid());
  ck_assert_msg(strstr(e.text, text) != NULL, "%s", e.text);
  session_trace_end(s, &acc);
  s = begin(t, table);
  session_trace_end(s, &acc);
  aborts_free(table);
  target_close(t);
  stop_child(pid);
}
END_TEST

START_TEST(test_trace_is_steered)
{
  struct shm shm;
  struct session_trace_account acc;
  pid_t pid = start_aborts();
  struct target *t = open_target(pid);
  struct aborts *table = aborts_new();
  struct session_trace *s = begin(t, table);
  open_segment(pid, &shm);
  session_pause(&shm, SESSION_TRACE, true);
  for (int i = 0; i < 20; i++, usleep(10000))
    session_trace_poll(s, clock_mono_ns());
  session_trace_sums(s, &acc);
  ck_assert_uint_lt(acc.elapsed_ns, 100 * MS);
  session_pause(&shm, SESSION_TRACE, false);
  atomic_set(&shm.control->trace_stop, 1u);
  ck_assert_int_eq(session_trace_poll(s, clock_mono_ns()),
                   SESSION_TRACE_STOPPED);
  struct session_seen seen; /* its place is free before it is ended */
  session_look(&shm, SESSION_TRACE, &seen);
  ck_assert(!seen.running);
  ck_assert_int_eq(session_trace_end(s, &acc), RESULT_OK);
  shm_detach(&shm);
  aborts_free(table);
  target_close(t);
  stop_child(pid);
}
END_TEST

/* Lengths and counts come from the other side. */
START_TEST(test_trace_bad_numbers)
{
  struct session_trace_account acc;
  const struct aborts_row *row;
  size_t count;
  rows_claimed = UINT32_MAX;
  bad_row = true;
  pid_t pid = start_aborts();
  struct target *t = open_target(pid);
  struct aborts *table = aborts_new();
  struct session_trace *s = begin(t, table);
  wait_for_rows(s, &acc);
  ck_assert_int_eq(session_trace_end(s, &acc), RESULT_CORRUPT);
  ck_assert_int_eq(aborts_sorted(table, false, &row, &count), RESULT_OK);
  ck_assert_uint_eq(count, 2);
  rows_claimed = 3;
  bad_row = false;
  aborts_free(table);
  target_close(t);
  stop_child(pid);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("steer");
  TCase *tc = tcase_create("steering");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, setup, NULL);
  tcase_add_test(tc, test_pause);
  tcase_add_test(tc, test_stop);
  tcase_add_test(tc, test_starts_anew);
  tcase_add_test(tc, test_from_inside);
  tcase_add_test(tc, test_from_inside_of_another_image);
  tcase_add_test(tc, test_other_vms);
  tcase_add_test(tc, test_verbs);
  tcase_add_test(tc, test_owner_killed);
  tcase_add_test(tc, test_stop_in_vain);
  suite_add_tcase(suite, tc);
  tc = tcase_create("trace");
  tcase_set_timeout(tc, 60);
  tcase_add_checked_fixture(tc, setup, NULL);
  tcase_add_test(tc, test_trace);
  tcase_add_test(tc, test_trace_target_ends);
  tcase_add_test(tc, test_trace_one_at_a_time);
  tcase_add_test(tc, test_trace_is_steered);
  tcase_add_test(tc, test_trace_bad_numbers);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
