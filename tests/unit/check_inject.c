/* SPDX-License-Identifier: MIT
 *
 * The room inject, on children that check themselves: what they find wrong they
 * count in shared memory.
 */
#include <check.h>
#include <errno.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/inject_internal.h"
#include "suite.h"

#define SECOND UINT64_C(1000000000)

/* ---- children ---- */

static struct shared {
  volatile uint32_t ready;
  volatile uint32_t turns, errors;
  volatile uint32_t called; /* by a function that was sent there */
  volatile uint64_t address;
} * shared;

static pid_t start(void (*body)(void))
{
  shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
  ck_assert(shared != MAP_FAILED);
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (!pid) {
    alarm(60);
    body();
    _exit(0);
  }
  while (!shared->ready)
    usleep(1000);
  return pid;
}

static void end(pid_t pid)
{
  int status;
  ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0); /* it lives */
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  munmap(shared, 4096);
}

static void turn(bool good)
{
  shared->errors += !good;
  shared->turns++;
  shared->ready = 1;
}

/* Until the child has gone on for a while. */
static void some_turns(unsigned n)
{
  uint32_t from = shared->turns;
  for (int i = 0; i < 10000 && shared->turns - from < n; i++)
    usleep(1000);
  ck_assert_uint_ge(shared->turns - from, n);
}

/* ---- a held thread ---- */

struct bench {
  struct target *t;
  struct places at;
  struct remote r;
  struct error e;
};

static struct bench *bench_open(pid_t pid)
{
  struct bench *b = calloc(1, sizeof *b);
  ck_assert(target_open(pid, &b->t, &b->e) == RESULT_OK);
  ck_assert_msg(places_find(b->t, &b->at, &b->e) == RESULT_OK, "%s", b->e.text);
  b->r.at = &b->at;
  return b;
}

static void bench_close(struct bench *b)
{
  places_free(&b->at);
  target_close(b->t);
  free(b);
}

static void hold(struct bench *b)
{
  ck_assert_msg(tracee_seize(b->t, target_pid(b->t), &b->r.tr, &b->e) ==
                    RESULT_OK,
                "%s", b->e.text);
  ck_assert(tracee_stop(&b->r.tr, clock_mono_ns() + 5 * SECOND));
  ck_assert(tracee_get(&b->r.tr, &b->r.own));
  ck_assert(places_refresh(&b->at));
}

static void begin(struct bench *b)
{
  hold(b);
  ck_assert_msg(remote_begin(&b->r, &b->e) == RESULT_OK, "%s", b->e.text);
}

static enum result call(struct bench *b, void (*f)(void), uint64_t ns)
{
  struct remote_call c = {.function = (uint64_t)(uintptr_t)f,
                          .deadline_ns = clock_mono_ns() + ns};
  return remote_call(&b->r, &c, NULL, &b->e);
}

/* ---- a child that knows what its registers should be ---- */

typedef double wide __attribute__((vector_size(32)));

#define AVX __attribute__((noinline, target("avx")))
AVX static double avx_turn(void)
{
  wide a = {1, 2, 3, 4}, b = {0.5, 0.25, 0.125, 1.0 / 3}, c = a, d = b;
  for (int i = 0; i < 2000; i++) {
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
  for (int i = 0; i < 2000; i++) {
    a = a * 0.9999L + b;
    b = b * 0.5L + a * 1e-3L;
  }
  return a + b;
}

/* Every general register, the flags' direction, and words in the red zone. */
__attribute__((noinline)) static long integers_turn(void)
{
  long bad;
  __asm__ volatile(
      "lea -256(%%rsp), %%rsp\n\t" /* past the compiler's own red zone */
      "push %%rbp\n\t"
      "mov $0x11, %%rax\n\tmov $0x22, %%rbx\n\tmov $0x33, %%rdx\n\t"
      "mov $0x44, %%rsi\n\tmov $0x55, %%rdi\n\tmov $0x66, %%rbp\n\t"
      "mov $0x77, %%r8\n\tmov $0x88, %%r9\n\tmov $0x99, %%r10\n\t"
      "mov $0xaa, %%r11\n\tmov $0xbb, %%r12\n\tmov $0xcc, %%r13\n\t"
      "mov $0xdd, %%r14\n\tmov $0xee, %%r15\n\t"
      "movq $0x1234567, -8(%%rsp)\n\tmovq $0x89abcde, -128(%%rsp)\n\t"
      "std\n\t"
      "mov $20000, %%ecx\n"
      "1:\tsub $1, %%ecx\n\tjnz 1b\n\t"
      "cld\n\t"
      "add %%rbx, %%rax\n\tadd %%rdx, %%rax\n\tadd %%rsi, %%rax\n\t"
      "add %%rdi, %%rax\n\tadd %%rbp, %%rax\n\tadd %%r8, %%rax\n\t"
      "add %%r9, %%rax\n\tadd %%r10, %%rax\n\tadd %%r11, %%rax\n\t"
      "add %%r12, %%rax\n\tadd %%r13, %%rax\n\tadd %%r14, %%rax\n\t"
      "add %%r15, %%rax\n\tsub $0x6f9, %%rax\n\t"
      "mov -8(%%rsp), %%rcx\n\tsub $0x1234567, %%rcx\n\tor %%rcx, %%rax\n\t"
      "mov -128(%%rsp), %%rcx\n\tsub $0x89abcde, %%rcx\n\tor %%rcx, %%rax\n\t"
      "pop %%rbp\n\t"
      "lea 256(%%rsp), %%rsp\n\t"
      : "=&a"(bad)
      :
      : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15", "memory", "cc");
  return bad;
}

static void compute(void)
{
  const bool avx = __builtin_cpu_supports("avx");
  double a = avx ? avx_turn() : 0;
  long double x = x87_turn();
  for (;;) {
    turn(integers_turn() == 0);
    turn(!avx || avx_turn() == a);
    turn(x87_turn() == x);
  }
}

/* What a call does to registers that are not its caller's to keep. */
AVX static void clobber(void)
{
  wide w = {7, 7, 7, 7};
  __asm__ volatile(
      "vmovapd %0, %%ymm0\n\tvmovapd %0, %%ymm1\n\tvmovapd %0, %%ymm2\n\t"
      "vmovapd %0, %%ymm3\n\tvmovapd %0, %%ymm4\n\tvmovapd %0, %%ymm5\n\t"
      "vmovapd %0, %%ymm6\n\tvmovapd %0, %%ymm7\n\tvmovapd %0, %%ymm8\n\t"
      "fninit\n\tmov $0, %%ecx\n\tmov %%rcx, %%r8\n\tmov %%rcx, %%r9\n\t"
      "mov %%rcx, %%r10\n\tmov %%rcx, %%r11\n\tmov %%rcx, %%rdx\n\t"
      "mov %%rcx, %%rsi\n\tmov %%rcx, %%rdi\n\t"
      :
      : "x"(w)
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
        "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
  /* as every function may expect it: the direction flag */
  shared->errors += __builtin_ia32_readeflags_u64() >> 10 & 1;
  shared->called++;
}

enum { VISITS = 200 };

START_TEST(a_visit_leaves_all_registers)
{
  pid_t pid = start(compute);
  struct bench *b = bench_open(pid);
  for (int i = 0; i < VISITS; i++) {
    begin(b);
    ck_assert_msg(call(b, clobber, SECOND) == RESULT_OK, "%s", b->e.text);
    remote_end(&b->r);
    some_turns(1);
  }
  some_turns(50);
  ck_assert_uint_eq(shared->called, VISITS);
  ck_assert_uint_eq(shared->errors, 0);
  bench_close(b);
  end(pid);
}
END_TEST

static void clobber_slowly(void)
{
  usleep(20000);
  clobber();
}

/* As when this process is killed: nobody is there when the call returns. */
START_TEST(a_thread_comes_back_by_itself)
{
  pid_t pid = start(compute);
  struct bench *b = bench_open(pid);
  for (unsigned i = 0; i < VISITS / 4; i++) {
    begin(b);
    ck_assert_int_eq(call(b, clobber_slowly, 1000000), RESULT_BUSY);
    remote_leave(&b->r);
    some_turns(3);
    ck_assert_uint_eq(shared->called, i + 1);
  }
  some_turns(50);
  ck_assert_uint_eq(shared->errors, 0);
  bench_close(b);
  end(pid);
}
END_TEST

static uint64_t blocked(pid_t pid)
{
  struct target *t;
  uint64_t mask = 1;
  ck_assert(target_open(pid, &t, NULL) == RESULT_OK);
  ck_assert(target_thread_number(t, pid, "SigBlk", 16, &mask));
  target_close(t);
  return mask;
}

/* Let go at every stage of a visit. */
START_TEST(left_at_any_point_it_comes_back)
{
  static const uint64_t no[6];
  pid_t pid = start(compute);
  struct bench *b = bench_open(pid);
  struct remote_call where = {.function = b->at.errno_location};
  for (int stage = 0; stage < 4; stage++) {
    int64_t ret;
    uint64_t at;
    begin(b);
    if (stage > 0)
      ck_assert(remote_syscall(&b->r, SYS_getpid, no, &ret, &b->e) ==
                RESULT_OK);
    if (stage > 1)
      ck_assert(remote_call(&b->r, &where, &at, &b->e) == RESULT_OK);
    if (stage > 2)
      ck_assert(call(b, clobber, SECOND) == RESULT_OK);
    remote_leave(&b->r);
    some_turns(20);
    ck_assert_uint_eq(blocked(pid), 0);
  }
  ck_assert_uint_eq(shared->errors, 0);
  bench_close(b);
  end(pid);
}
END_TEST

/* ---- what the thread waits in ---- */

static double now(void)
{
  return (double)clock_mono_ns() * 1e-9;
}

static volatile sig_atomic_t alarms;
static void on_usr1(int signo)
{
  (void)signo;
  alarms++;
}

static void wait_for_time(void)
{
  const struct timespec t = {0, 30000000};
  signal(SIGUSR1, on_usr1);
  for (;;) {
    double a = now();
    turn(poll(NULL, 0, 30) == 0 && now() - a > 0.0299);
    double b = now();
    turn(nanosleep(&t, NULL) == 0 && now() - b > 0.0299);
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    turn(ppoll(NULL, 0, &t, &usr1) == 0);
  }
}

START_TEST(what_it_waits_in_goes_on)
{
  pid_t pid = start(wait_for_time);
  struct bench *b = bench_open(pid);
  for (int i = 0; i < 40; i++) {
    usleep(13000);
    begin(b);
    ck_assert_msg(call(b, clobber, SECOND) == RESULT_OK, "%s", b->e.text);
    remote_end(&b->r);
  }
  some_turns(6);
  ck_assert_uint_eq(shared->errors, 0);
  /* nothing but what ppoll blocks while it waits */
  ck_assert_uint_eq(blocked(pid) & ~(UINT64_C(1) << (SIGUSR1 - 1)), 0);
  bench_close(b);
  end(pid);
}
END_TEST

START_TEST(system_calls_and_pointers_come_back)
{
  pid_t pid = start(compute);
  struct bench *b = bench_open(pid);
  static const uint64_t no[6], bad[6] = {(uint64_t)-1};
  struct remote_call where = {.function = b->at.errno_location};
  int64_t ret;
  uint64_t at = 0;
  begin(b);
  ck_assert(remote_syscall(&b->r, SYS_getpid, no, &ret, &b->e) == RESULT_OK);
  ck_assert_int_eq(ret, pid);
  ck_assert(remote_syscall(&b->r, SYS_close, bad, &ret, &b->e) == RESULT_OK);
  ck_assert_int_eq(ret, -EBADF);
  ck_assert(remote_call(&b->r, &where, &at, &b->e) == RESULT_OK);
  /* a child by fork has its parent's addresses */
  ck_assert_uint_eq(at, (uint64_t)(uintptr_t)&errno);
  remote_end(&b->r);
  some_turns(20);
  ck_assert_uint_eq(shared->errors, 0);
  bench_close(b);
  end(pid);
}
END_TEST

static void forever(void)
{
  for (;;)
    poll(NULL, 0, 1000);
}

START_TEST(a_call_that_does_not_return_is_given_up)
{
  pid_t pid = start(compute);
  struct bench *b = bench_open(pid);
  begin(b);
  ck_assert_int_eq(call(b, forever, SECOND / 10), RESULT_BUSY);
  remote_end(&b->r);
  some_turns(20);
  ck_assert_uint_eq(shared->errors, 0);
  ck_assert_uint_eq(blocked(pid), 0);
  bench_close(b);
  end(pid);
}
END_TEST

static void on_fault(int signo)
{
  (void)signo;
  shared->errors++;
  _exit(1);
}

static void compute_with_handler(void)
{
  signal(SIGSEGV, on_fault);
  compute();
}

START_TEST(a_fault_is_not_the_programs)
{
  pid_t pid = start(compute_with_handler);
  struct bench *b = bench_open(pid);
  struct remote_call nowhere = {.function = 8};
  uint64_t caught = 0;
  begin(b);
  ck_assert_int_eq(remote_call(&b->r, &nowhere, NULL, &b->e), RESULT_IO);
  ck_assert_ptr_nonnull(strstr(b->e.text, "signal 11 at 0x8"));
  remote_end(&b->r);
  some_turns(20);
  ck_assert(target_thread_number(b->t, pid, "SigCgt", 16, &caught));
  ck_assert(caught >> (SIGSEGV - 1) & 1);
  ck_assert_uint_eq(shared->errors, 0);
  bench_close(b);
  end(pid);
}
END_TEST

static void stop_own_process(void)
{
  kill(getpid(), SIGSTOP);
  shared->called++;
}

/* Job control goes on as it does: the call waits with the process. */
START_TEST(a_stop_meanwhile_is_honoured)
{
  pid_t pid = start(compute);
  struct bench *b = bench_open(pid);
  begin(b);
  ck_assert_int_eq(call(b, stop_own_process, SECOND / 5), RESULT_BUSY);
  ck_assert_int_eq(target_thread_state(b->t, pid), 't');
  remote_leave(&b->r);
  usleep(50000);
  ck_assert_int_eq(target_thread_state(b->t, pid), 'T');
  kill(pid, SIGCONT);
  some_turns(20);
  ck_assert_uint_eq(shared->called, 1);
  ck_assert_uint_eq(shared->errors, 0);
  bench_close(b);
  end(pid);
}
END_TEST

static void leave(void)
{
  _exit(0);
}

START_TEST(a_process_may_end_meanwhile)
{
  pid_t pid = start(compute);
  struct bench *b = bench_open(pid);
  begin(b);
  ck_assert_int_eq(call(b, leave, 5 * SECOND), RESULT_GONE);
  ck_assert_ptr_nonnull(strstr(b->e.text, "ended"));
  remote_end(&b->r);
  ck_assert(!b->r.tr.seized);
  bench_close(b);
  waitpid(pid, NULL, 0); /* its tracer may have seen it already */
  munmap(shared, 4096);
}
END_TEST

/* ---- the frame, byte by byte ---- */

static uint64_t word(const uint8_t *p)
{
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static struct frame_state *made_state(uint64_t features, uint64_t in_use)
{
  struct frame_state *s = calloc(1, sizeof *s);
  s->regs.rip = 0x401000, s->regs.rsp = 0x7ffd00001238, s->regs.cs = 0x33;
  s->regs.ss = 0x2b, s->regs.eflags = 0x246, s->regs.rax = 5, s->regs.rdi = 6;
  s->regs.orig_rax = (uint64_t)-1;
  s->mask = 0x4001;
  s->xstate_len = 11008;
  memset(s->xstate, 0x5a, 464);
  memcpy(s->xstate + 464, &features, 8);
  memcpy(s->xstate + 512, &in_use, 8);
  return s;
}

START_TEST(the_frame_is_as_the_kernel_writes_it)
{
  struct frame_state *s = made_state(3, 3);
  struct frame *f = calloc(1, sizeof *f);
  ck_assert(frame_build(s, 0x7ffd000011b8, 0x7f0000002000, f));
  ck_assert_uint_eq(f->at % 16, 8);
  ck_assert_uint_le(f->at + f->len, 0x7ffd000011b8);
  ck_assert_uint_eq(word(f->bytes), 0x7f0000002000);  /* pretcode */
  ck_assert_uint_eq(word(f->bytes + 8), 7);           /* uc_flags */
  ck_assert_uint_eq(word(f->bytes + 48 + 8 * 8), 6);  /* rdi */
  ck_assert_uint_eq(word(f->bytes + 48 + 13 * 8), 5); /* rax */
  ck_assert_uint_eq(word(f->bytes + 48 + 15 * 8), 0x7ffd00001238);
  ck_assert_uint_eq(word(f->bytes + 48 + 16 * 8), 0x401000);
  ck_assert_uint_eq(word(f->bytes + 48 + 18 * 8), 0x002b000000000033);
  uint64_t fp = word(f->bytes + 48 + 23 * 8);
  ck_assert_uint_eq(fp % 64, 0);
  ck_assert_uint_eq(word(f->bytes + 304), 0x4001); /* uc_sigmask */
  const uint8_t *area = f->bytes + (fp - f->at);
  ck_assert_uint_eq(area[0], 0x5a);
  ck_assert_uint_eq(word(area + 464), 0 + (0x46505853 | UINT64_C(580) << 32));
  ck_assert_uint_eq(word(area + 472), 3);
  ck_assert_uint_eq(word(area + 480) & 0xffffffff, 576);
  ck_assert_uint_eq(word(area + 576) & 0xffffffff, 0x46505845);
  free(f);
  free(s);
}
END_TEST

START_TEST(a_frame_cannot_hold_everything)
{
  struct frame *f = calloc(1, sizeof *f);
  struct frame_state *amx = made_state(3 | 3 << 17, 3 | 2 << 17);
  ck_assert(!frame_build(amx, 0x7ffd000011b8, 1, f));
  struct frame_state *idle = made_state(3 | 3 << 17, 3);
  ck_assert(frame_build(idle, 0x7ffd000011b8, 1, f));
  ck_assert_uint_lt(f->len, 1200); /* without the tiles */
  struct frame_state *compat = made_state(3, 3);
  compat->regs.cs = 0x23;
  ck_assert(!frame_build(compat, 0x7ffd000011b8, 1, f));
  struct frame_state *cut = made_state(3, 3);
  cut->xstate_len = 512;
  ck_assert(!frame_build(cut, 0x7ffd000011b8, 1, f));
  free(amx), free(idle), free(compat), free(cut), free(f);
}
END_TEST

START_TEST(a_broken_off_call_starts_again)
{
  static const struct {
    int64_t rax;
    uint64_t want_rax, want_rip;
  } row[] = {
      {-512, 7, 0x400ffe},                /* ERESTARTSYS */
      {-513, 7, 0x400ffe},                /* ERESTARTNOINTR */
      {-514, 7, 0x400ffe},                /* ERESTARTNOHAND */
      {-516, (uint64_t)-EINTR, 0x401000}, /* ERESTART_RESTARTBLOCK */
      {-EAGAIN, (uint64_t)-EAGAIN, 0x401000},
      {3, 3, 0x401000},
  };
  struct frame *f = calloc(1, sizeof *f);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    struct frame_state *s = made_state(3, 3);
    s->regs.orig_rax = 7;
    s->regs.rax = (uint64_t)row[i].rax;
    ck_assert(frame_build(s, 0x7ffd000011b8, 1, f));
    ck_assert_uint_eq(word(f->bytes + 48 + 13 * 8), row[i].want_rax);
    ck_assert_uint_eq(word(f->bytes + 48 + 16 * 8), row[i].want_rip);
    free(s);
  }
  free(f);
}
END_TEST

/* ---- moments ---- */

static const char *hindrance(struct bench *b)
{
  hold(b);
  const char *why = moment_hindrance(&b->at, target_pid(b->t), &b->r.own);
  remote_end(&b->r);
  return why;
}

static void spin(void)
{
  shared->ready = 1;
  for (;;)
    shared->turns++;
}

static void in_poll(void)
{
  shared->ready = 1;
  for (;;)
    poll(NULL, 0, 60000);
}

static void in_join(void)
{
  pthread_t t;
  pthread_create(&t, NULL, (void *(*)(void *))(void (*)(void))in_poll, NULL);
  pthread_join(t, NULL);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void in_condition(void)
{
  pthread_cond_t c = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&lock);
  shared->ready = 1;
  for (;;)
    pthread_cond_wait(&c, &lock);
}

static int compare(const void *a, const void *b)
{
  spin();
  return a < b;
}

static void in_callback(void)
{
  char c[] = "cba";
  qsort(c, 3, 1, compare);
}

static void spin_handler(int signo)
{
  (void)signo;
  spin();
}

static void in_handler(void)
{
  signal(SIGUSR1, spin_handler);
  raise(SIGUSR1);
}

static void in_handler_elsewhere(void)
{
  static char stack[65536];
  stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction sa = {.sa_handler = spin_handler, .sa_flags = SA_ONSTACK};
  sigaltstack(&ss, NULL);
  sigaction(SIGUSR1, &sa, NULL);
  raise(SIGUSR1);
}

static int spin_object(struct dl_phdr_info *i, size_t n, void *arg)
{
  (void)i, (void)n, (void)arg;
  spin();
  return 1;
}

static void in_loader_callback(void)
{
  dl_iterate_phdr(spin_object, NULL);
}

/* stdio holds its lock and has malloc'ed data in the making: no list of what
 * may be called there. */
static void in_stdio(void)
{
  int p[2];
  char line[80];
  if (pipe(p))
    _exit(1);
  FILE *f = fdopen(p[0], "r");
  shared->ready = 1;
  if (f && !fgets(line, sizeof line, f))
    _exit(1);
}

static void in_borrowed_thread(void)
{
  static char stack[65536] __attribute__((aligned(16)));
  /* a raw clone in a process of its own: it has its parent's thread pointer,
   * and another number */
  if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0) == 0) {
    shared->address = (uint64_t)syscall(SYS_getpid);
    spin();
  }
  (void)stack;
  in_poll();
}

static const struct scene {
  void (*body)(void);
  const char *want; /* NULL: safe */
} scenes[] = {
    {spin, NULL},
    {in_poll, NULL},
    {in_join, NULL},
    {in_condition, NULL},
    {in_callback, NULL},
    {in_handler, "in a signal handler"},
    {in_handler_elsewhere, "in a signal handler"},
    {in_loader_callback, "waiting for the dynamic loader, which is busy"},
    {in_stdio, "in the C library"},
};

START_TEST(moments_are_told_apart)
{
  const struct scene *s = &scenes[_i];
  pid_t pid = start(s->body);
  usleep(50000);
  struct bench *b = bench_open(pid);
  const char *why = hindrance(b);
  ck_assert_msg(s->want ? why && !strcmp(why, s->want) : !why, "%d: %s", _i,
                why ? why : "safe");
  if (s->want && strstr(s->want, "loader"))
    ck_assert_int_eq(moment_loader_owner(&b->at), pid);
  else
    ck_assert_int_eq(moment_loader_owner(&b->at), 0);
  bench_close(b);
  end(pid);
}
END_TEST

START_TEST(a_borrowed_thread_is_left_alone)
{
  pid_t pid = start(in_borrowed_thread);
  while (!shared->address)
    usleep(1000);
  pid_t inner = (pid_t)shared->address;
  struct bench *b = bench_open(inner);
  const char *why = hindrance(b);
  ck_assert_ptr_nonnull(why);
  ck_assert_str_eq(why, "a thread that the C library did not make");
  bench_close(b);
  kill(inner, SIGKILL);
  end(pid);
}
END_TEST

/* Of a thread that mallocs all the time, no moment inside malloc is taken for
 * safe: the stack pointer says where it is, since its frames are below that of
 * the function that calls malloc. */
__attribute__((noinline)) static void *make(size_t n)
{
  void *p = malloc(n);
  __asm__ volatile("" : : "r"(p) : "memory");
  return p;
}

static void in_malloc(void)
{
  void *block[64] = {NULL};
  for (unsigned i = 1;; i++) {
    uint32_t x = i * 2654435761u;
    free(block[x & 63]);
    block[x & 63] = make((x >> 16 & 0xfff) + ((x & 511) == 0 ? 300000 : 0));
    turn(true);
  }
}

START_TEST(malloc_is_no_safe_moment)
{
  pid_t pid = start(in_malloc);
  struct bench *b = bench_open(pid);
  unsigned safe = 0, inside = 0;
  const struct module *libc = b->at.libc[0];
  for (int i = 0; i < 500; i++) {
    usleep(100 + i % 7 * 30);
    hold(b);
    const char *why = moment_hindrance(&b->at, pid, &b->r.own);
    bool in_libc = modules_find(b->at.modules, b->r.own.regs.rip) == libc;
    remote_end(&b->r);
    ck_assert(!in_libc || why);
    inside += in_libc;
    safe += !why;
  }
  ck_assert_uint_gt(inside, 50);
  ck_assert_uint_gt(safe, 5);
  bench_close(b);
  end(pid);
}
END_TEST

/* ---- processes that are refused ---- */

static void strict(void)
{
  int p[2];
  char c;
  if (pipe(p))
    _exit(1);
  shared->ready = 1;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
    syscall(SYS_exit, 1);
  for (;;)
    (void)!read(p[0], &c, 1);
}

static void filtered(void)
{
  struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog prog = {1, all};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
    _exit(1);
  in_poll();
}

static void refused(void (*body)(void), const char *text)
{
  pid_t pid = start(body);
  struct target *t;
  struct error e = {0};
  usleep(50000);
  ck_assert(target_open(pid, &t, &e) == RESULT_OK);
  ck_assert_int_eq(inject_possible(t, &e), RESULT_UNSUPPORTED);
  ck_assert_msg(strstr(e.text, text) != NULL, "%s", e.text);
  target_close(t);
  end(pid);
}

START_TEST(seccomp_is_refused)
{
  refused(strict, "strict mode");
  refused(filtered, "seccomp filter");
}
END_TEST

START_TEST(a_traced_thread_is_refused)
{
  pid_t pid = start(in_poll), tracer = fork();
  if (!tracer) {
    struct target *t;
    struct tracee tr;
    if (target_open(pid, &t, NULL) || tracee_seize(t, pid, &tr, NULL))
      _exit(1);
    shared->called = 1;
    for (;;)
      pause();
  }
  while (!shared->called)
    usleep(1000);
  struct target *t;
  struct tracee tr;
  struct error e = {0};
  char want[64];
  ck_assert(target_open(pid, &t, &e) == RESULT_OK);
  ck_assert_int_eq(tracee_seize(t, pid, &tr, &e), RESULT_PERM);
  snprintf(want, sizeof want, "by process %d", (int)tracer);
  ck_assert_msg(strstr(e.text, want) != NULL, "%s", e.text);
  target_close(t);
  kill(tracer, SIGKILL);
  waitpid(tracer, NULL, 0);
  end(pid);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("inject");
  TCase *c = tcase_create("remote");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, a_visit_leaves_all_registers);
  tcase_add_test(c, a_thread_comes_back_by_itself);
  tcase_add_test(c, left_at_any_point_it_comes_back);
  tcase_add_test(c, what_it_waits_in_goes_on);
  tcase_add_test(c, system_calls_and_pointers_come_back);
  tcase_add_test(c, a_call_that_does_not_return_is_given_up);
  tcase_add_test(c, a_fault_is_not_the_programs);
  tcase_add_test(c, a_stop_meanwhile_is_honoured);
  tcase_add_test(c, a_process_may_end_meanwhile);
  suite_add_tcase(s, c);
  c = tcase_create("frame");
  tcase_add_test(c, the_frame_is_as_the_kernel_writes_it);
  tcase_add_test(c, a_frame_cannot_hold_everything);
  tcase_add_test(c, a_broken_off_call_starts_again);
  suite_add_tcase(s, c);
  c = tcase_create("moment");
  tcase_set_timeout(c, 60);
#ifndef __SANITIZE_ADDRESS__ /* its library stands between program and libc */
  tcase_add_loop_test(c, moments_are_told_apart, 0,
                      (int)(sizeof scenes / sizeof *scenes));
  tcase_add_test(c, malloc_is_no_safe_moment);
#endif
  tcase_add_test(c, a_borrowed_thread_is_left_alone);
  suite_add_tcase(s, c);
  c = tcase_create("refuse");
  tcase_add_test(c, seccomp_is_refused);
  tcase_add_test(c, a_traced_thread_is_refused);
  suite_add_tcase(s, c);
  return suite_run(s);
}
