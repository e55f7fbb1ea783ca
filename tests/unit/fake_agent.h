/* SPDX-License-Identifier: MIT
 *
 * A child that plays the agent: it makes a segment and answers ticks with
 * records of its own, so that what was sent and what came back is known on both
 * sides.
 */
#ifndef UNIT_FAKE_AGENT_H
#define UNIT_FAKE_AGENT_H

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "session/session_internal.h"

/* ---- the child ---- */

enum answer {
  ANSWER_SAMPLE,
  ANSWER_FULL_ODD, /* every second tick meets a full ring */
  ANSWER_BAD_ODD,  /* every second record makes no sense */
  ANSWER_NOTHING,  /* takes the signal and does not count it */
};

struct role {
  enum answer answer;
  uint32_t vm_state; /* of the first VM */
  uint16_t major;    /* 0: the right one */
  uint32_t state;    /* of the agent, 0: READY */
  bool blocks;       /* the signal */
  bool sleeps;       /* uses no CPU */
  unsigned lives_ms; /* 0: until killed */
  unsigned vm_after_ms;
  void (*each)(unsigned ms); /* called again and again; NULL: not */
};

/* Shared with the test, so that both sides' sums can be compared. */
struct truth {
  uint64_t written; /* good samples */
  uint64_t full;
  uint64_t bad;
  uint64_t ignored;
  uint64_t ready;
  uint64_t in_pause; /* of the written */
};

static struct truth *truth;
static struct role role;
static struct shm own;

static inline void put_sample(struct tecs_slot *slot, uint8_t *ring, bool bad)
{
  const uint32_t len = sizeof(struct tecs_sample);
  struct tecs_sample *s = shm_ring_reserve(slot, ring, len);
  if (!s) {
    truth->full++;
    atomic_set(&slot->lost, slot->lost + 1);
    return;
  }
  memset(s, 0, len);
  s->rec.len = len;
  s->rec.type = TECS_RECORD_SAMPLE;
  s->native_form = TECS_NATIVE_NONE;
  s->lua_count = bad ? 9 : 0; /* that are not there */
  if (atomic_get(&own.control->paused)) {
    s->flags = TECS_SAMPLE_PAUSED;
    truth->in_pause++;
  }
  shm_ring_commit(slot, len);
  if (bad)
    truth->bad++;
  else
    truth->written++;
}

static inline void on_tick(int signo, siginfo_t *info, void *ctx)
{
  (void)signo, (void)ctx;
  uint64_t value = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
  unsigned i = value & 0xffff;
  struct tecs_slot *slot = &own.slots[i];
  uint8_t *ring = own.rings + (size_t)i * TECS_RING_BYTES;
  bool odd = slot->calls & 1;
  if (info->si_code != SI_QUEUE || value >> 32 != own.header->cookie ||
      !own.control->session ||
      (slot->generation & 0xffff) != (value >> 16 & 0xffff) ||
      slot->tid != (uint32_t)syscall(SYS_gettid) ||
      i >= own.control->rings_backed || role.answer == ANSWER_NOTHING) {
    truth->ignored++;
    return;
  }
  if (slot->generation_seen != slot->generation) {
    slot->calls = slot->lost = 0;
    slot->generation_seen = slot->generation;
  }
  if (role.answer == ANSWER_FULL_ODD && odd) {
    truth->full++;
    atomic_set(&slot->lost, slot->lost + 1);
  } else {
    put_sample(slot, ring, role.answer == ANSWER_BAD_ODD && odd);
  }
  atomic_release(&slot->calls, slot->calls + 1);
}

static inline void play_agent(void)
{
  struct sigaction sa = {.sa_sigaction = on_tick,
                         .sa_flags = SA_SIGINFO | SA_RESTART};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGURG);
  if (shm_create(&own, "test", 0x1234abcd) != RESULT_OK ||
      sigaction(SIGURG, &sa, NULL) != 0)
    _exit(9);
  if (role.blocks)
    sigprocmask(SIG_BLOCK, &set, NULL);
  if (role.major)
    own.header->major = own.header->oldest = role.major;
  if (!role.vm_after_ms)
    own.vms[0].state = role.vm_state;
  shm_publish(&own, role.state ? role.state : TECS_STATE_READY,
              TECS_REASON_SIGNAL_TAKEN);
}

static inline void work(void)
{
  uint64_t start = clock_mono_ns();
  for (volatile uint64_t n = 0;; n++) {
    uint64_t ms = (clock_mono_ns() - start) / MS;
    if (role.vm_after_ms && ms >= role.vm_after_ms)
      atomic_release(&own.vms[0].state, role.vm_state);
    if (role.each)
      role.each((unsigned)ms);
    if (role.lives_ms && ms >= role.lives_ms)
      _exit(0);
    if (role.sleeps)
      usleep(20000);
  }
}

static inline pid_t spawn(void (*body)(void))
{
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    alarm(30); /* does not outlive a failed test by much */
    body();
    _exit(0);
  }
  return pid;
}

static inline void agent_body(void)
{
  play_agent();
  atomic_release(&truth->ready, UINT64_C(1));
  work();
}

static inline void wait_ready(uint64_t n)
{
  for (int i = 0; i < 5000 && atomic_acquire(&truth->ready) < n; i++)
    usleep(1000);
  ck_assert_uint_ge(atomic_acquire(&truth->ready), n);
}

static inline pid_t start(struct role r)
{
  role = r;
  pid_t pid = spawn(agent_body);
  wait_ready(1);
  return pid;
}

static inline void stop_child(pid_t pid)
{
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

static inline void setup(void)
{
  truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(truth, MAP_FAILED);
}

static struct target *open_target(pid_t pid)
{
  struct target *t;
  struct error e;
  ck_assert_msg(target_open(pid, &t, &e) == RESULT_OK, "%s", e.text);
  return t;
}

/* ---- a session on it ---- */

struct outcome {
  enum result r;
  struct session_account acc;
  enum session_end end;
  struct error e;
  uint64_t weight; /* sum of the profile's counts */
  uint64_t took_ns;
};

static volatile sig_atomic_t stop_flag;

static inline struct session_options options(uint64_t interval,
                                             uint64_t duration)
{
  struct session_options o = {
      .interval_ns = interval, .duration_ns = duration, .vm_wait_ns = 300 * MS};
  o.merge.native = o.merge.lua = o.merge.zones = o.merge.state = true;
  o.merge.depth = 64;
  return o;
}

static inline struct outcome run_session(pid_t pid,
                                         const struct session_options *o)
{
  struct outcome out = {0};
  struct target *t = open_target(pid);
  struct profile *p = profile_new();
  ck_assert_ptr_nonnull(p);
  uint64_t start_ns = clock_mono_ns();
  out.r = session_run(t, o, &stop_flag, p, &out.acc, &out.end, &out.e);
  out.took_ns = clock_mono_ns() - start_ns;
  out.weight = profile_weight(p);
  profile_free(p);
  target_close(t);
  return out;
}

static inline void check_closes(const struct outcome *out)
{
  const struct session_account *a = &out->acc;
  ck_assert_uint_eq(a->sent, a->samples + a->filtered + a->lost);
  ck_assert_uint_eq(a->samples, out->weight);
}

#endif
