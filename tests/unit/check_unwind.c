/* SPDX-License-Identifier: MIT
 *
 * The unwinder over samples of this very program: a trap in a known chain of
 * calls, so that every expected frame is the address of a function here.
 */
#include <alloca.h>
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "suite.h"
#include "unwind/unwind.h"

#define STACK_MAX (256u << 10)

/* ---- taking a sample ---- */

static struct tecs_sample sample;
static _Alignas(8) uint8_t stack[STACK_MAX];
static struct tecs_frame lua[16];
static struct tecs_sample_vm sample_vm[2];
static struct unwind_vm vm[2];
static struct unwind_stack result;
static uint64_t stack_end; /* of the trapping thread */
static uint64_t copy_from; /* copy the stack from here; 0: from rsp */
static uint64_t below_rsp; /* bytes below it that are copied, too */

static struct target *target;
static struct modules *modules;
static struct unwinder *unwinder;

/* ucontext's names of the DWARF registers 0 to 16 */
static const int greg[TECS_REGS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI,
                                    REG_RDI, REG_RBP, REG_RSP, REG_R8,  REG_R9,
                                    REG_R10, REG_R11, REG_R12, REG_R13, REG_R14,
                                    REG_R15, REG_RIP};

/* The stack as it is, redzones of sanitizers included. */
__attribute__((no_sanitize("address"))) static void copy_stack(uint64_t from,
                                                               size_t len)
{
  const volatile uint64_t *p = (const uint64_t *)(uintptr_t)from;

  for (size_t i = 0; i < len / 8; i++)
    ((volatile uint64_t *)stack)[i] = p[i];
}

static void on_trap(int signo, siginfo_t *info, void *context)
{
  const ucontext_t *uc = context;
  uint64_t rsp = (uint64_t)uc->uc_mcontext.gregs[REG_RSP] & ~UINT64_C(7);
  uint64_t sp = copy_from != 0 ? copy_from : rsp - below_rsp;
  uint64_t len = stack_end - sp;

  (void)signo;
  (void)info;
  memset(&sample, 0, sizeof sample);
  for (int i = 0; i < TECS_REGS; i++)
    sample.reg[i] = (uint64_t)uc->uc_mcontext.gregs[greg[i]];
  sample.native_form = TECS_NATIVE_STACK;
  sample.stack_base = sp;
  sample.stack_len = (uint32_t)(len > STACK_MAX ? STACK_MAX : len);
  copy_stack(sp, sample.stack_len);
}

/* Traps; the instruction behind it is the sample's address. */
__attribute__((noinline)) static int trap(void)
{
  __asm__ volatile("int3\n\tnop" ::: "memory");
  return 1;
}

static uint64_t own_stack_end(void)
{
  pthread_attr_t attr;
  void *addr;
  size_t size;

  pthread_getattr_np(pthread_self(), &attr);
  pthread_attr_getstack(&attr, &addr, &size);
  pthread_attr_destroy(&attr);
  return (uint64_t)(uintptr_t)addr + size;
}

static void setup(void)
{
  struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  struct error e;

  sigaction(SIGTRAP, &sa, NULL);
  stack_end = own_stack_end();
  ck_assert_msg(target_open(getpid(), &target, &e) == RESULT_OK, "%s", e.text);
  ck_assert_msg(modules_new(target, &modules, &e) == RESULT_OK, "%s", e.text);
  ck_assert_msg(unwinder_new(modules, &unwinder, &e) == RESULT_OK, "%s",
                e.text);
}

static void teardown(void)
{
  unwinder_free(unwinder);
  modules_free(modules);
  target_close(target);
}

static void unwind(void)
{
  struct sample_view view = {
      .sample = &sample, .vm = sample_vm, .lua = lua, .stack = stack};

  memset(&result, 0xa5, sizeof result);
  unwind_sample(unwinder, &view, vm, &result);
  ck_assert_uint_le(result.count, UNWIND_MAX);
}

/* ---- what is expected ---- */

static uint64_t function_at(uint64_t ip)
{
  const struct module *mod = modules_find(modules, ip);
  uint64_t start, end;

  return mod != NULL && module_function_range(mod, ip, &start, &end) ? start
                                                                     : 0;
}

#define FN(f) ((uint64_t)(uintptr_t)(f))

static void expect_function(size_t i, uint64_t fn)
{
  ck_assert_uint_lt(i, result.count);
  ck_assert_int_eq(result.frame[i].kind, UNWIND_NATIVE);
  ck_assert_msg(function_at(result.frame[i].ip) == fn,
                "frame %zu is in %lx, not %lx", i,
                function_at(result.frame[i].ip), fn);
  ck_assert_ptr_eq(result.frame[i].mod,
                   modules_find(modules, result.frame[i].ip));
}

static void expect_vm(size_t i, uint64_t cframe)
{
  ck_assert_uint_lt(i, result.count);
  ck_assert_int_eq(result.frame[i].kind, UNWIND_VM);
  ck_assert_uint_eq(result.frame[i].cframe, cframe);
}

/* From frame i on: main at some point, then the C library's start, then the
 * entry; sp ascends from frame to frame. */
static void expect_rooted(size_t i)
{
  extern int main(void);
  const struct module *self = modules_find(modules, FN(trap));
  size_t mains = 0;

  ck_assert_int_eq(result.end, UNWIND_END_ENTRY);
  for (size_t k = i; k < result.count; k++) {
    mains += function_at(result.frame[k].ip) == FN(main);
    ck_assert(k == i || result.frame[k].kind == UNWIND_GAP ||
              result.frame[k].sp > result.frame[k - 1].sp);
  }
  ck_assert_uint_eq(mains, 1);
  ck_assert_uint_eq(function_at(result.frame[result.count - 1].ip),
                    module_entry(self));
}

/* ---- plain calls ---- */

/* Arithmetic behind the call keeps it from becoming a jump. */
__attribute__((noinline)) static int level_c(int n)
{
  return trap() + n;
}

/* Its frame is found through rbp alone: alloca. */
__attribute__((noinline)) static int level_b(int n)
{
  volatile char *p = alloca((size_t)n * 32);

  p[0] = 1;
  return level_c(n) + p[0];
}

__attribute__((noinline)) static int level_a(int n)
{
  return level_b(n) * 3;
}

static void expect_levels(size_t i)
{
  expect_function(i, FN(trap));
  expect_function(i + 1, FN(level_c));
  expect_function(i + 2, FN(level_b));
  expect_function(i + 3, FN(level_a));
}

START_TEST(test_chain_to_entry)
{
  ck_assert_int_eq(level_a(5), 21);
  unwind();
  expect_levels(0);
  expect_function(4, FN(test_chain_to_entry_fn));
  expect_rooted(0);
  ck_assert_uint_eq(result.frame[0].ip, sample.reg[TECS_REG_RIP]);
  ck_assert_uint_eq(result.frame[0].sp, sample.reg[TECS_REG_RSP]);
}
END_TEST

START_TEST(test_same_result_from_the_cache)
{
  static struct unwind_stack first;

  level_a(5);
  unwind();
  first = result;
  unwind();
  ck_assert_mem_eq(&first, &result, offsetof(struct unwind_stack, frame));
  ck_assert_uint_eq(first.count, result.count);
  for (size_t i = 0; i < first.count; i++)
    ck_assert_uint_eq(first.frame[i].ip, result.frame[i].ip);
  unwinder_flush(unwinder);
  unwind();
  ck_assert_uint_eq(first.count, result.count);
  expect_rooted(0);
}
END_TEST

/* Calls fn, its frame `room` bytes large.  No register is at a distance from
 * the frame that the code tells: its address stands where rsp points
 * (DW_CFA_def_cfa_expression: DW_OP_breg7 0, DW_OP_deref). */
int by_expression(int (*fn)(void), uint64_t room);
__asm__(".pushsection .text\n"
        ".globl by_expression\n"
        ".type by_expression, @function\n"
        "by_expression:\n"
        ".cfi_startproc\n"
        "lea 8(%rsp), %rax\n"
        "sub %rsi, %rsp\n"
        "mov %rax, (%rsp)\n"
        ".cfi_escape 0x0f, 0x03, 0x77, 0x00, 0x06\n"
        "call *%rdi\n"
        "mov (%rsp), %rcx\n"
        "lea -8(%rcx), %rsp\n"
        ".cfi_def_cfa %rsp, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size by_expression, . - by_expression\n"
        ".popsection\n");

START_TEST(test_frame_by_expression)
{
  for (uint64_t room = 24; room < 1024; room += 112) {
    ck_assert_int_eq(by_expression(trap, room), 1);
    unwind();
    expect_function(0, FN(trap));
    expect_function(1, FN(by_expression));
    expect_function(2, FN(test_frame_by_expression_fn));
    expect_rooted(0);
  }
}
END_TEST

/* The same call out of a frame of another size. */
START_TEST(test_a_frame_of_another_size)
{
  for (int n = 1; n < 20; n++) {
    level_a(n);
    unwind();
    expect_levels(0);
    expect_rooted(0);
  }
}
END_TEST

START_TEST(test_more_code_than_is_remembered)
{
  level_a(5);
  uint64_t rip = sample.reg[TECS_REG_RIP];

  for (uint64_t i = 0; i < 20000; i++) {
    sample.reg[TECS_REG_RIP] = rip + 0x10000000 + i;
    unwind();
    ck_assert_uint_eq(result.frame[0].ip, sample.reg[TECS_REG_RIP]);
  }
  sample.reg[TECS_REG_RIP] = rip;
  unwind();
  expect_levels(0);
  expect_rooted(0);
}
END_TEST

/* Maps this program's code once more, at p. */
static void map_code_at(void *p, size_t room)
{
  struct target_maps maps;
  uint64_t code = FN(trap);
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

  ck_assert_int_eq(target_maps_read(target, &maps, NULL), RESULT_OK);
  for (size_t i = 0; i < maps.count; i++) {
    const struct target_map *m = &maps.map[i];
    size_t len = m->end - m->start < room ? m->end - m->start : room;
    if (code < m->start || code >= m->end)
      continue;
    ck_assert_ptr_eq(mmap(p, len, PROT_READ | PROT_EXEC,
                          MAP_PRIVATE | MAP_FIXED, fd, (off_t)m->offset),
                     p);
  }
  target_maps_free(&maps);
  close(fd);
}

START_TEST(test_code_that_came_later)
{
  size_t room = 4 << 20;
  void *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  level_a(5);
  sample.reg[TECS_REG_RIP] = FN(p) + 64;
  unwind();
  ck_assert_ptr_null(result.frame[0].mod);
  map_code_at(p, room);
  ck_assert(modules_refresh(modules));
  unwinder_flush(unwinder);
  unwind();
  ck_assert_ptr_nonnull(result.frame[0].mod);
  ck_assert_ptr_eq(result.frame[0].mod, modules_find(modules, FN(p) + 64));
  munmap(p, room);
}
END_TEST

/* ---- of a sleeping thread: rsp and rip alone are known ---- */

static void forget_registers(void)
{
  sample.flags = TECS_SAMPLE_ASLEEP;
  for (int i = 0; i < TECS_REGS; i++)
    if (i != TECS_REG_RSP && i != TECS_REG_RIP)
      sample.reg[i] = stack_end - 64 * (uint64_t)i; /* plausible, and wrong */
}

START_TEST(test_unknown_frame_pointer)
{
  level_a(5);
  forget_registers();
  unwind();
  expect_levels(0);
  expect_rooted(0);
}
END_TEST

/* Leaves a frame of level_b, and what that called, further down. */
__attribute__((noinline)) static int leaves_frames(int n)
{
  volatile char room[256];

  room[0] = 1;
  return level_b(n) + room[0];
}

/* Found through rbp alone, with old frames of others in its room. */
__attribute__((noinline)) static int roomy(int n)
{
  volatile char *p = alloca((size_t)n * 256);

  p[0] = 1;
  return level_c(n) + p[0];
}

START_TEST(test_unknown_frame_pointer_among_old_frames)
{
  leaves_frames(5);
  roomy(8);
  forget_registers();
  unwind();
  expect_function(0, FN(trap));
  expect_function(1, FN(level_c));
  expect_function(2, FN(roomy));
  expect_function(3, FN(test_unknown_frame_pointer_among_old_frames_fn));
  expect_rooted(0);
}
END_TEST

/* As the linker makes them for ifuncs, without a table. */
__asm__(".text\n"
        ".globl fake_plt, fake_plt_cet\n"
        "fake_plt_cet: endbr64\n"
        "fake_plt: jmp *fake_got(%rip)\n"
        ".data\n"
        "fake_got: .quad 0\n"
        ".text\n");
extern const char fake_plt[], fake_plt_cet[];

START_TEST(test_a_jump_to_a_function_before_it_pushed_anything)
{
  const uint64_t at[] = {(uint64_t)fake_plt, (uint64_t)fake_plt_cet};
  for (unsigned i = 0; i < 2; i++) {
    level_a(5);
    unwind();
    sample.reg[TECS_REG_RIP] = at[i]; /* instead of trap, called alike */
    sample.reg[TECS_REG_RSP] = result.frame[1].sp - 8;
    unwind();
    ck_assert_uint_eq(result.frame[0].ip, at[i]);
    expect_function(1, FN(level_c));
    expect_function(2, FN(level_b));
    expect_rooted(0);
    sample.reg[TECS_REG_RSP] -= 8; /* no return address there */
    unwind();
    ck_assert_int_eq(result.end, UNWIND_END_PARTIAL);
  }
}
END_TEST

/* As _Unwind_RaiseException leaves it for its caller, having found who catches:
 * that frame's rbp. */
START_TEST(test_another_frames_frame_pointer)
{
  leaves_frames(5);
  roomy(8);
  sample.reg[6] = 24; /* rbp */
  unwind();
  expect_function(0, FN(trap));
  expect_function(1, FN(level_c));
  expect_function(2, FN(roomy));
  expect_function(3, FN(test_another_frames_frame_pointer_fn));
  expect_rooted(0);
}
END_TEST

/* Nothing proves where it is when the stack does not lead to its end. */
START_TEST(test_unknown_frame_pointer_without_an_end)
{
  level_a(5);
  unwind();
  expect_levels(0);
  uint64_t caller = result.frame[4].sp; /* level_a's frame ends there */
  forget_registers();
  sample.stack_len = (uint32_t)(caller - sample.stack_base);
  unwind();
  ck_assert_int_eq(result.end, UNWIND_END_PARTIAL);
  /* how far it comes depends on who keeps a frame pointer (sanitizers do) */
  ck_assert_uint_ge(result.count, 2);
  ck_assert_uint_le(result.count, 3);
  expect_function(1, FN(level_c));
  if (result.count == 3)
    expect_function(2, FN(level_b));
}
END_TEST

static int recursive(int n);
static int (*volatile recursive_again)(int) = recursive;

__attribute__((noinline)) static int recursive(int n)
{
  /* through a pointer: a compiler makes a loop of plain recursion */
  return (n == 0 ? level_a(1) : recursive_again(n - 1)) + 1;
}

START_TEST(test_recursion_is_kept)
{
  recursive(40);
  unwind();
  expect_levels(0);
  for (size_t i = 4; i < 4 + 41; i++)
    expect_function(i, FN(recursive));
  expect_function(45, FN(test_recursion_is_kept_fn));
  expect_rooted(0);
}
END_TEST

START_TEST(test_too_deep)
{
  recursive(UNWIND_MAX + 10);
  unwind();
  ck_assert_int_eq(result.end, UNWIND_END_FULL);
  ck_assert_uint_eq(result.count, UNWIND_MAX);
  expect_function(UNWIND_MAX - 1, FN(recursive));
}
END_TEST

START_TEST(test_stack_cut)
{
  static struct unwind_stack whole;

  recursive(40);
  unwind();
  whole = result;
  /* whatever is left of the stack: the same frames, only fewer */
  for (uint32_t len = 0; len < sample.stack_len; len += 104) {
    uint32_t full = sample.stack_len;
    sample.stack_len = len & ~7u;
    unwind();
    sample.stack_len = full;
    ck_assert_uint_ge(result.count, 1);
    ck_assert_uint_le(result.count, whole.count);
    if (result.count < whole.count)
      ck_assert_int_eq(result.end, UNWIND_END_PARTIAL);
    for (size_t i = 0; i < result.count; i++)
      ck_assert_uint_eq(result.frame[i].ip, whole.frame[i].ip);
  }
}
END_TEST

START_TEST(test_no_native_part)
{
  level_a(5);
  sample.native_form = TECS_NATIVE_NONE;
  unwind();
  ck_assert_uint_eq(result.count, 0);
  ck_assert_int_eq(result.end, UNWIND_END_PARTIAL);
}
END_TEST

static void *thread_main(void *arg)
{
  stack_end = own_stack_end();
  return (char *)arg + level_a(5);
}

START_TEST(test_thread_ends)
{
  pthread_t t;

  ck_assert_int_eq(pthread_create(&t, NULL, thread_main, NULL), 0);
  pthread_join(t, NULL);
  unwind();
  expect_levels(0);
  expect_function(4, FN(thread_main));
  ck_assert_int_eq(result.end, UNWIND_END_THREAD);
  ck_assert_uint_gt(result.count, 5);
  ck_assert_uint_lt(result.count, 9);
}
END_TEST

/* ---- signals ---- */

static volatile sig_atomic_t handled;

__attribute__((noinline)) static void on_usr1(int signo)
{
  (void)signo;
  handled = level_a(5);
}

__attribute__((noinline)) static int interrupted(void)
{
  raise(SIGUSR1);
  return handled;
}

static void expect_signal(uint64_t test)
{
  size_t i = 5;

  expect_levels(0);
  expect_function(4, FN(on_usr1));
  ck_assert_int_eq(result.frame[i].kind, UNWIND_SIGNAL);
  while (i < result.count && function_at(result.frame[i].ip) != FN(interrupted))
    i++;
  expect_function(i, FN(interrupted));
  expect_function(i + 1, test);
  expect_rooted(i);
}

START_TEST(test_inside_handler)
{
  struct sigaction sa = {.sa_handler = on_usr1};

  sigaction(SIGUSR1, &sa, NULL);
  ck_assert_int_eq(interrupted(), 21);
  unwind();
  expect_signal(FN(test_inside_handler_fn));
}
END_TEST

/* The alternate stack lies further out on the same stack: sp goes down. */
START_TEST(test_inside_handler_on_alternate_stack)
{
  char buf[65536];
  stack_t ss = {.ss_sp = buf, .ss_size = sizeof buf},
          off = {.ss_flags = SS_DISABLE};
  struct sigaction sa = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};

  copy_from = (uint64_t)(uintptr_t)buf - 8192; /* and what called raise() */
  sigaltstack(&ss, NULL);
  sigaction(SIGUSR1, &sa, NULL);
  ck_assert_int_eq(interrupted(), 21);
  sigaltstack(&off, NULL);
  unwind();
  ck_assert_uint_lt(result.frame[6].sp, result.frame[5].sp);
  expect_signal(FN(test_inside_handler_on_alternate_stack_fn));
}
END_TEST

/* ---- the VM's rule, with a stand-in for its machine code ---- */

int fake_vm(int (*fn)(void *), void *arg);
int fake_trace(int (*fn)(void *), void *arg);
void lands(void);
int lands_call(int (*fn)(void *), void *arg);
void pops(void);
void needs_rbx(void);
int nocfi_call(int (*fn)(void *), void *arg);
int loop_call(int (*fn)(void *), void *arg);
int climb_call(int (*fn)(void *), void *arg);
extern char fake_vm_lo[], fake_vm_hi[], fake_trace_lo[], fake_trace_hi[];
uint64_t fake_cframe[8]; /* outermost first */
uint64_t fake_depth;

/* clang-format off */
#define SAVEREGS "push %rbp\npush %rbx\npush %r15\npush %r14\nsub $40,%rsp\n"
#define RESTOREREGS "add $40,%rsp\npop %r14\npop %r15\npop %rbx\npop %rbp\nret\n"
#define RECORD "mov fake_depth(%rip),%rax\nlea fake_cframe(%rip),%rcx\n" \
               "mov %rsp,(%rcx,%rax,8)\nincq fake_depth(%rip)\n"
#define GARBAGE "mov $0x1111,%ebx\nmov $0x2222,%ebp\nmov $0x3333,%r14d\n" \
                "mov $0x4444,%r15d\n"
__asm__(".text\n"
        ".globl fake_vm_lo\nfake_vm_lo:\n"
        ".globl fake_vm\n.type fake_vm,@function\nfake_vm:\n" SAVEREGS RECORD
        GARBAGE "mov %rdi,%rax\nmov %rsi,%rdi\ncall *%rax\n" RESTOREREGS
        ".size fake_vm,.-fake_vm\n"
        ".globl fake_vm_hi\nfake_vm_hi:\n nop\n"
        /* the C frame of the interpreter, then what a trace adds */
        ".globl fake_trace_lo\nfake_trace_lo:\n"
        ".globl fake_trace\n.type fake_trace,@function\nfake_trace:\n"
        SAVEREGS RECORD GARBAGE
        "sub $16,%rsp\nmov %r12,16(%rsp)\nmov %r13,8(%rsp)\nsub $64,%rsp\n"
        "mov $0x5555,%r12d\nmov $0x6666,%r13d\n"
        "mov %rdi,%rax\nmov %rsi,%rdi\ncall *%rax\n"
        "add $64,%rsp\nmov 16(%rsp),%r12\nmov 8(%rsp),%r13\nadd $16,%rsp\n"
        RESTOREREGS
        ".size fake_trace,.-fake_trace\n"
        ".globl fake_trace_hi\nfake_trace_hi:\n nop\n"
        /* the last instructions of __builtin_eh_return: the stack pointer is
         * the catching frame's, the way there is in a register */
        ".globl lands\n.type lands,@function\nlands:\n"
        ".cfi_startproc\npop %rcx\n.cfi_def_cfa rsp,0\n"
        ".cfi_register rip,rcx\nint3\njmp *%rcx\n"
        ".cfi_endproc\n.size lands,.-lands\n"
        /* the same of a frame that called: no one may go on from there */
        ".globl lands_call\n.type lands_call,@function\nlands_call:\n"
        ".cfi_startproc\npush %r12\nmov 8(%rsp),%r12\n"
        ".cfi_def_cfa rsp,0\n.cfi_register rip,r12\n"
        "mov %rdi,%rax\nmov %rsi,%rdi\ncall *%rax\npop %r12\nret\n"
        ".cfi_endproc\n.size lands_call,.-lands_call\n"
        /* an epilogue as GCC describes it: what was popped is said to be where
         * it was pushed, below the stack pointer; and who needs that */
        ".globl pops\n.type pops,@function\npops:\n"
        ".cfi_startproc\npush %rbx\n.cfi_def_cfa_offset 16\n"
        ".cfi_offset rbx,-16\nmov $0x1234,%ebx\npop %rbx\n"
        ".cfi_def_cfa_offset 8\nint3\nret\n"
        ".cfi_endproc\n.size pops,.-pops\n"
        ".globl needs_rbx\n.type needs_rbx,@function\nneeds_rbx:\n"
        ".cfi_startproc\npush %rbx\n.cfi_def_cfa_offset 16\n"
        ".cfi_offset rbx,-16\nmov %rsp,%rbx\n.cfi_def_cfa_register rbx\n"
        "sub $32,%rsp\ncall pops\nmov %rbx,%rsp\n"
        ".cfi_def_cfa_register rsp\npop %rbx\n.cfi_def_cfa_offset 8\nret\n"
        ".cfi_endproc\n.size needs_rbx,.-needs_rbx\n"
        /* code without unwind information */
        ".globl nocfi_call\n.type nocfi_call,@function\nnocfi_call:\n"
        "push %rbp\npush %rbx\nsub $0x128,%rsp\nmov $0x1234,%ebp\n"
        "mov %rdi,%rax\nmov %rsi,%rdi\ncall *%rax\n"
        "add $0x128,%rsp\npop %rbx\npop %rbp\nret\n"
        ".size nocfi_call,.-nocfi_call\n"
        /* unwind information that names itself as its caller */
        ".globl loop_call\n.type loop_call,@function\nloop_call:\n"
        ".cfi_startproc\nsub $0x18,%rsp\n.cfi_def_cfa rsp,0\n"
        ".cfi_same_value rip\n"
        "mov %rdi,%rax\nmov %rsi,%rdi\ncall *%rax\nadd $0x18,%rsp\nret\n"
        ".cfi_endproc\n.size loop_call,.-loop_call\n"
        /* the same, climbing up the stack */
        ".globl climb_call\n.type climb_call,@function\nclimb_call:\n"
        ".cfi_startproc\nsub $0x18,%rsp\n.cfi_def_cfa rsp,8\n"
        ".cfi_same_value rip\n"
        "mov %rdi,%rax\nmov %rsi,%rdi\ncall *%rax\nadd $0x18,%rsp\nret\n"
        ".cfi_endproc\n.size climb_call,.-climb_call\n");
/* clang-format on */

static const struct tecs_range fake_mcode[] = {
    {(uint64_t)(uintptr_t)fake_trace_lo, (uint64_t)(uintptr_t)fake_trace_hi}};

/* One VM whose recorded C frames are those that the stand-ins noted. */
static void with_vm(void)
{
  sample.vm_count = 1;
  sample.lua_count = (uint16_t)fake_depth;
  memset(sample_vm, 0, sizeof sample_vm);
  for (size_t i = 0; i < fake_depth; i++)
    lua[i] = (struct tecs_frame){.value = fake_cframe[fake_depth - 1 - i],
                                 .kind = TECS_FRAME_CFRAME};
  vm[0] = (struct unwind_vm){.g = 1,
                             .asm_lo = FN(fake_vm_lo),
                             .asm_hi = FN(fake_vm_hi),
                             .mcode = fake_mcode,
                             .mcode_count = 1,
                             .cframe_size = 80};
}

__attribute__((noinline)) static int called(void *arg)
{
  (void)arg;
  return level_a(5) + 1;
}

/* Needs rbp of its callee's caller: alloca, and callee-saved registers. */
__attribute__((noinline)) static int host(int (*via)(int (*)(void *), void *),
                                          int (*fn)(void *), void *arg)
{
  volatile char *p = alloca((size_t)(fake_depth + 1) * 48);

  p[0] = 2;
  return via(fn, arg) + p[0];
}

static void expect_called(void)
{
  expect_levels(0);
  expect_function(4, FN(called));
}

START_TEST(test_vm_frame)
{
  ck_assert_int_eq(host(fake_vm, called, NULL), 24);
  with_vm();
  unwind();
  expect_called();
  expect_vm(5, fake_cframe[0]);
  ck_assert_uint_eq(result.frame[5].sp, fake_cframe[0]);
  expect_function(6, FN(host));
  expect_function(7, FN(test_vm_frame_fn));
  expect_rooted(0);
}
END_TEST

START_TEST(test_trace_frame)
{
  ck_assert_int_eq(host(fake_trace, called, NULL), 24);
  with_vm();
  unwind();
  expect_called();
  expect_vm(5, fake_cframe[0]);
  ck_assert_uint_eq(result.frame[5].sp, fake_cframe[0] - 80);
  expect_function(6, FN(host));
  expect_function(7, FN(test_trace_frame_fn));
  expect_rooted(0);
}
END_TEST

/* The area of the trace is not known yet: the handler's word for it. */
START_TEST(test_trace_frame_by_sample)
{
  host(fake_trace, called, NULL);
  with_vm();
  unwind();
  uint64_t ip = result.frame[5].ip;
  for (uint64_t add = 0; add < 2; add++) {
    vm[0].mcode_count = 0;
    sample_vm[0].mcode_pc = ip + add;
    unwind();
    expect_vm(5, fake_cframe[0]);
    expect_function(6, FN(host));
    expect_rooted(0);
  }
}
END_TEST

static int host_called(void *arg)
{
  (void)arg;
  return host(fake_trace, called, NULL) + 1;
}

START_TEST(test_nested_vm_frames)
{
  host(fake_vm, host_called, NULL);
  with_vm();
  unwind();
  expect_called();
  expect_vm(5, fake_cframe[1]);
  expect_function(6, FN(host));
  expect_function(7, FN(host_called));
  expect_vm(8, fake_cframe[0]);
  expect_function(9, FN(host));
  expect_function(10, FN(test_nested_vm_frames_fn));
  expect_rooted(0);
}
END_TEST

/* A resumed coroutine: the caller of its C frame is the VM itself. */
START_TEST(test_vm_called_by_vm)
{
  static int (*const inner)(int (*)(void *), void *) = fake_vm;

  host(fake_vm, (int (*)(void *))(void *)inner, (void *)called);
  /* fake_vm(fake_vm, called): the inner one is called with rdi = called */
  with_vm();
  unwind();
  expect_called();
  expect_vm(5, fake_cframe[1]);
  expect_vm(6, fake_cframe[0]);
  expect_function(7, FN(host));
  expect_rooted(0);
}
END_TEST

/* The leaf is in the VM's code and rsp is anywhere below the C frame. */
START_TEST(test_leaf_in_vm)
{
  host(fake_vm, called, NULL);
  with_vm();
  for (uint64_t below = 0; below < 256; below += 8) {
    memset(stack, 0x77, fake_cframe[0] - sample.stack_base); /* no pointers */
    sample.reg[TECS_REG_RIP] = FN(fake_vm) + sizeof "push" * 4;
    sample.reg[TECS_REG_RSP] = fake_cframe[0] - below;
    sample.reg[12] = 7;
    unwind();
    expect_vm(0, fake_cframe[0]);
    expect_function(1, FN(host));
    expect_function(2, FN(test_leaf_in_vm_fn));
    expect_rooted(0);
  }
}
END_TEST

/* The frame is complete but not recorded (any more): its caller is found, and
 * the recorded one further out is not mistaken for it. */
START_TEST(test_unrecorded_frame)
{
  host(fake_vm, host_called, NULL);
  fake_depth = 1;
  with_vm();
  vm[0].mcode_count = 0;
  vm[0].asm_hi = FN(fake_trace_hi);
  sample.reg[TECS_REG_RIP] = FN(fake_trace) + 12;
  sample.reg[TECS_REG_RSP] = fake_cframe[1];
  unwind();
  expect_vm(0, 0);
  expect_function(1, FN(host));
  expect_function(2, FN(host_called));
  expect_vm(3, fake_cframe[0]);
  expect_function(4, FN(host));
  expect_rooted(0);
}
END_TEST

static uint64_t word_at(uint64_t addr)
{
  uint64_t v;

  ck_assert_uint_ge(addr, sample.stack_base);
  memcpy(&v, stack + (addr - sample.stack_base), 8);
  return v;
}

/* At every instruction of saveregs and restoreregs: pushed words are taken
 * from the stack, the others are still in their registers. */
START_TEST(test_half_saved_registers)
{
  static const unsigned order[] = {6, 3, 15, 14}; /* rbp rbx r15 r14 */
  static const struct {
    unsigned from_start, from_end, words;
  } at[] = {{0, 0, 0}, {1, 0, 1}, {2, 0, 2}, {4, 0, 3}, {6, 0, 4},
            {0, 7, 4}, {0, 5, 3}, {0, 3, 2}, {0, 2, 1}, {0, 1, 0}};

  host(fake_vm, host_called, NULL);
  fake_depth = 1;
  with_vm();
  /* fake_trace's own frame is the one that is being made */
  vm[0].mcode_count = 0;
  vm[0].asm_hi = FN(fake_trace_hi);
  uint64_t cfa = fake_cframe[1] + 80;
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    for (unsigned k = 0; k < 4; k++) {
      uint64_t saved = word_at(cfa - 16 - 8 * k);
      sample.reg[order[k]] = k < at[i].words ? 0xbad : saved;
    }
    sample.reg[TECS_REG_RSP] = cfa - 8 - 8 * at[i].words;
    sample.reg[TECS_REG_RIP] = at[i].from_end > 0
                                   ? FN(fake_trace_hi) - at[i].from_end
                                   : FN(fake_trace) + at[i].from_start;
    unwind();
    expect_vm(0, 0);
    expect_function(1, FN(host));
    expect_function(2, FN(host_called));
    expect_vm(3, fake_cframe[0]);
    expect_function(4, FN(host));
    expect_rooted(0);
  }
}
END_TEST

/* ---- code that can't be unwound ---- */

static int nocfi_called(void *arg)
{
  (void)arg;
  return nocfi_call(called, NULL) + 1;
}

START_TEST(test_gap_to_the_next_vm_frame)
{
  host(fake_vm, nocfi_called, NULL);
  with_vm();
  unwind();
  expect_called();
  ck_assert_int_eq(result.frame[5].kind, UNWIND_NATIVE); /* nocfi_call */
  ck_assert_uint_ge(result.frame[5].ip, FN(nocfi_call));
  ck_assert_int_eq(result.frame[6].kind, UNWIND_GAP);
  expect_vm(7, fake_cframe[0]);
  expect_function(8, FN(host));
  expect_function(9, FN(test_gap_to_the_next_vm_frame_fn));
  expect_rooted(0);
}
END_TEST

START_TEST(test_gap_without_a_vm_frame)
{
  host(nocfi_call, called, NULL);
  unwind();
  expect_called();
  ck_assert_uint_eq(result.count, 6);
  ck_assert_uint_gt(result.frame[5].ip, FN(nocfi_call));
  ck_assert_uint_lt(result.frame[5].ip, FN(loop_call));
  ck_assert_int_eq(result.end, UNWIND_END_PARTIAL);
}
END_TEST

START_TEST(test_own_caller_for_ever)
{
  host(loop_call, called, NULL);
  unwind();
  expect_called();
  expect_function(5, FN(loop_call));
  ck_assert_uint_eq(result.count, 6);
  ck_assert_int_eq(result.end, UNWIND_END_PARTIAL);

  host(climb_call, called, NULL);
  unwind();
  expect_called();
  expect_function(5, FN(climb_call));
  ck_assert_uint_eq(result.count, 6);
  ck_assert_int_eq(result.end, UNWIND_END_PARTIAL);
}
END_TEST

/* ---- a function's last instructions ---- */

__attribute__((noinline)) static int lands_here(int n)
{
  lands();
  return n + 1;
}

/* _Unwind_RaiseException is about to jump into the frame that catches: its
 * caller's frame begins where its own ends. */
START_TEST(test_a_jump_to_who_catches)
{
  ck_assert_int_eq(lands_here(5), 6);
  unwind();
  expect_function(0, FN(lands));
  expect_function(1, FN(lands_here));
  ck_assert_uint_eq(result.frame[1].sp, result.frame[0].sp);
  expect_function(2, FN(test_a_jump_to_who_catches_fn));
  expect_rooted(1);
}
END_TEST

/* A frame that has called something has its caller further up. */
START_TEST(test_only_the_innermost_frame_may_be_empty)
{
  host(lands_call, called, NULL);
  unwind();
  expect_called();
  expect_function(5, FN(lands_call));
  ck_assert_uint_eq(result.count, 6);
  ck_assert_int_eq(result.end, UNWIND_END_PARTIAL);
}
END_TEST

START_TEST(test_popped_registers_are_in_the_red_zone)
{
  below_rsp = 128;
  needs_rbx();
  unwind();
  expect_function(0, FN(pops));
  expect_function(1, FN(needs_rbx));
  expect_function(2, FN(test_popped_registers_are_in_the_red_zone_fn));
  expect_rooted(0);
  ck_assert_uint_eq(result.frame[0].sp, sample.reg[TECS_REG_RSP]);
  ck_assert_uint_eq(sample.stack_base, sample.reg[TECS_REG_RSP] - 128);
}
END_TEST

START_TEST(test_anonymous_code)
{
  static const uint8_t code[] = {0x48, 0x83, 0xec, 0x38, /* sub $56,%rsp */
                                 0x48, 0x89, 0xf8,       /* mov %rdi,%rax */
                                 0xff, 0xd0,             /* call *%rax */
                                 0x48, 0x83, 0xc4, 0x38, 0xc3};
  int (*fn)(void *);
  void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  ck_assert(p != MAP_FAILED);
  memcpy(p, code, sizeof code);
  ck_assert_int_eq(mprotect(p, 4096, PROT_READ | PROT_EXEC), 0);
  memcpy(&fn, &p, sizeof fn);
  host(fake_vm, fn, (void *)called);
  with_vm();
  unwind();
  expect_called();
  ck_assert_uint_eq(result.frame[5].ip, (uint64_t)(uintptr_t)p + 8);
  ck_assert_ptr_null(result.frame[5].mod);
  ck_assert_int_eq(result.frame[6].kind, UNWIND_GAP);
  expect_vm(7, fake_cframe[0]);
  expect_rooted(0);
  munmap(p, 4096);
}
END_TEST

/* ---- bad input ---- */

static uint64_t random_state;

static uint64_t next_random(void)
{
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

static uint64_t odd_value(void)
{
  switch (next_random() % 6) {
  case 0:
    return next_random();
  case 1:
    return UINT64_MAX - next_random() % 64;
  case 2:
    return next_random() % 64;
  case 3:
    return sample.stack_base + next_random() % sample.stack_len;
  case 4:
    return FN(fake_vm_lo) + next_random() % 512;
  default:
    return word_at(sample.stack_base + next_random() % 512 * 8);
  }
}

static void expect_sane(void)
{
  size_t down = 0;

  for (size_t i = 1; i < result.count; i++)
    down += result.frame[i].sp < result.frame[i - 1].sp;
  ck_assert_uint_le(down, 10);
  ck_assert(result.end >= UNWIND_END_ENTRY && result.end <= UNWIND_END_FULL);
}

START_TEST(test_random_damage)
{
  static struct tecs_sample good;
  static uint8_t good_stack[STACK_MAX];

  host(fake_vm, host_called, NULL);
  with_vm();
  good = sample;
  memcpy(good_stack, stack, sizeof stack);
  random_state = 20240501;
  for (int round = 0; round < 20000; round++) {
    uint64_t used = fake_cframe[0] + 512 - good.stack_base;
    sample = good;
    memcpy(stack, good_stack, used);
    for (int k = 0; k < 6; k++) {
      uint64_t v = odd_value();
      memcpy(stack + next_random() % (used / 8) * 8, &v, 8);
    }
    if (round % 4 == 1)
      sample.reg[next_random() % TECS_REGS] = odd_value();
    if (round % 4 == 2)
      sample.stack_len = (uint32_t)(next_random() % good.stack_len) & ~7u;
    if (round % 4 == 3)
      lua[next_random() % 2].value = odd_value();
    if (round % 512 == 5)
      sample.stack_base = UINT64_MAX - next_random() % 4096;
    unwind();
    expect_sane();
    with_vm();
  }
}
END_TEST

int main(void)
{
  Suite *s = suite_create("unwind");
  TCase *t = tcase_create("unwind");

  tcase_add_checked_fixture(t, setup, teardown);
  tcase_set_timeout(t, 60);
  tcase_add_test(t, test_chain_to_entry);
  tcase_add_test(t, test_same_result_from_the_cache);
  tcase_add_test(t, test_frame_by_expression);
  tcase_add_test(t, test_a_frame_of_another_size);
  tcase_add_test(t, test_more_code_than_is_remembered);
  tcase_add_test(t, test_code_that_came_later);
  tcase_add_test(t, test_recursion_is_kept);
  tcase_add_test(t, test_unknown_frame_pointer);
  tcase_add_test(t, test_unknown_frame_pointer_among_old_frames);
  tcase_add_test(t, test_a_jump_to_a_function_before_it_pushed_anything);
  tcase_add_test(t, test_another_frames_frame_pointer);
  tcase_add_test(t, test_unknown_frame_pointer_without_an_end);
  tcase_add_test(t, test_too_deep);
  tcase_add_test(t, test_stack_cut);
  tcase_add_test(t, test_no_native_part);
  tcase_add_test(t, test_thread_ends);
  tcase_add_test(t, test_inside_handler);
  tcase_add_test(t, test_inside_handler_on_alternate_stack);
  tcase_add_test(t, test_vm_frame);
  tcase_add_test(t, test_trace_frame);
  tcase_add_test(t, test_trace_frame_by_sample);
  tcase_add_test(t, test_nested_vm_frames);
  tcase_add_test(t, test_vm_called_by_vm);
  tcase_add_test(t, test_leaf_in_vm);
  tcase_add_test(t, test_unrecorded_frame);
  tcase_add_test(t, test_half_saved_registers);
  tcase_add_test(t, test_gap_to_the_next_vm_frame);
  tcase_add_test(t, test_gap_without_a_vm_frame);
  tcase_add_test(t, test_own_caller_for_ever);
  tcase_add_test(t, test_a_jump_to_who_catches);
  tcase_add_test(t, test_only_the_innermost_frame_may_be_empty);
  tcase_add_test(t, test_popped_registers_are_in_the_red_zone);
  tcase_add_test(t, test_anonymous_code);
  tcase_add_test(t, test_random_damage);
  suite_add_tcase(s, t);
  return suite_run(s);
}
