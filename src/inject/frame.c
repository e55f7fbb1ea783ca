/* SPDX-License-Identifier: MIT
 *
 * The signal frame of x86-64 (Linux: arch/x86/include/asm/sigframe.h, struct
 * rt_sigframe; arch/x86/kernel/signal_64.c; fpu/signal.c): what rt_sigreturn
 * takes a thread's registers from.
 */
#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "inject/inject_internal.h"

enum {
  XSTATE_FEATURES_AT = 464, /* in ptrace's area: the features it has */
  XSTATE_BV_AT = 512,       /* of them, those in use */
  XSTATE_MIN = 576,         /* FXSAVE area and header */
  MAGIC2_SIZE = 4,
  UC_FP_XSTATE = 1, /* asm/ucontext.h */
  UC_SIGCONTEXT_SS = 2,
  UC_STRICT_RESTORE_SS = 4,
  NO_ALTSTACK = 0x10, /* stack_t flags that the kernel refuses: then it leaves
                         the alternate stack as it is */
  KERNEL_UC = 304,    /* struct ucontext with the kernel's 8-byte mask */
  USER_CS = 0x33,
  USER_DS = 0x2b,
  RESTARTSYS = 512, /* kernel's include/linux/errno.h */
  RESTARTNOINTR = 513,
  RESTARTNOHAND = 514,
  RESTART_BLOCK = 516,
};
#define MAGIC1 UINT32_C(0x46505853)
#define MAGIC2 UINT32_C(0x46505845)
/* AMX tiles: left out of a thread's signal frames until it asks for them. */
#define AMX (UINT64_C(3) << 17)

/* What the kernel writes into the FXSAVE area's last 48 bytes. */
struct sw_bytes {
  uint32_t magic1;
  uint32_t extended_size;
  uint64_t features;
  uint32_t xstate_size;
  uint32_t padding[7];
};

static uint64_t load8(const uint8_t *p)
{
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

/* Bytes of an XSAVE area with these features, in its standard form. */
static size_t area_size(uint64_t features)
{
  size_t size = XSTATE_MIN;
  for (unsigned i = 2; i < 63; i++) {
    unsigned len, at, c, d;
    if (!(features >> i & 1) || !__get_cpuid_count(0xd, i, &len, &at, &c, &d))
      continue;
    if (at + (size_t)len > size)
      size = at + (size_t)len;
  }
  return size;
}

/* A system call that was broken off starts again, as it does behind a handler
 * that was installed with SA_RESTART (handle_signal). */
static void settle_syscall(struct user_regs_struct *regs)
{
  if ((int64_t)regs->orig_rax < 0)
    return;
  switch (-(int64_t)regs->rax) {
  case RESTARTSYS:
  case RESTARTNOINTR:
  case RESTARTNOHAND:
    regs->rax = regs->orig_rax;
    regs->rip -= 2;
    break;
  case RESTART_BLOCK: /* how long it has waited is known to the kernel alone */
    regs->rax = (uint64_t)-EINTR;
    break;
  }
}

static void put_regs(ucontext_t *uc, const struct user_regs_struct *own)
{
  struct user_regs_struct r = *own;
  greg_t *g = uc->uc_mcontext.gregs;
  settle_syscall(&r);
  const uint64_t value[] = {
      [REG_R8] = r.r8,
      [REG_R9] = r.r9,
      [REG_R10] = r.r10,
      [REG_R11] = r.r11,
      [REG_R12] = r.r12,
      [REG_R13] = r.r13,
      [REG_R14] = r.r14,
      [REG_R15] = r.r15,
      [REG_RDI] = r.rdi,
      [REG_RSI] = r.rsi,
      [REG_RBP] = r.rbp,
      [REG_RBX] = r.rbx,
      [REG_RDX] = r.rdx,
      [REG_RAX] = r.rax,
      [REG_RCX] = r.rcx,
      [REG_RSP] = r.rsp,
      [REG_RIP] = r.rip,
      [REG_EFL] = r.eflags,
      [REG_CSGSFS] = r.cs | r.ss << 48,
  };
  for (size_t i = 0; i < sizeof value / sizeof *value; i++)
    g[i] = (greg_t)value[i];
}

bool frame_build(const struct frame_state *s, uint64_t top, uint64_t sigreturn,
                 struct frame *out)
{
  ucontext_t uc;
  if (s->xstate_len < XSTATE_MIN || s->regs.cs != USER_CS ||
      load8(s->xstate + XSTATE_BV_AT) & AMX)
    return false;
  struct sw_bytes sw = {.magic1 = MAGIC1};
  sw.features = load8(s->xstate + XSTATE_FEATURES_AT) & ~AMX;
  size_t area = area_size(sw.features);
  if (area > s->xstate_len)
    return false;
  sw.xstate_size = (uint32_t)area;
  sw.extended_size = (uint32_t)area + MAGIC2_SIZE;
  uint64_t fp = (top - area - MAGIC2_SIZE) & ~UINT64_C(63);
  out->at = ((fp - sizeof(siginfo_t) - KERNEL_UC - 8) & ~UINT64_C(15)) - 8;
  out->len = (size_t)(fp + area + MAGIC2_SIZE - out->at);

  memset(&uc, 0, sizeof uc);
  uc.uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
  uc.uc_stack.ss_flags = NO_ALTSTACK;
  put_regs(&uc, &s->regs);
  uc.uc_mcontext.fpregs = (fpregset_t)(uintptr_t)fp;
  memcpy(&uc.uc_sigmask, &s->mask, sizeof s->mask);

  const uint32_t magic2 = MAGIC2;
  uint8_t *area_at = out->bytes + (fp - out->at);
  memset(out->bytes, 0, sizeof out->bytes);
  memcpy(out->bytes, &sigreturn, 8);
  memcpy(out->bytes + 8, &uc, KERNEL_UC);
  memcpy(area_at, s->xstate, area);
  memcpy(area_at + XSTATE_FEATURES_AT, &sw, sizeof sw);
  memcpy(area_at + area, &magic2, sizeof magic2);
  return true;
}

bool frame_at(const uint8_t *bytes, size_t n, uint64_t *rip, uint64_t *rsp)
{
  const size_t regs = 8 + offsetof(ucontext_t, uc_mcontext.gregs);
  if (n < 8 + KERNEL_UC)
    return false;
  uint64_t cs = load8(bytes + regs + 8 * REG_CSGSFS);
  if ((cs & 0xffff) != USER_CS || cs >> 48 != USER_DS)
    return false;
  *rip = load8(bytes + regs + 8 * REG_RIP);
  *rsp = load8(bytes + regs + 8 * REG_RSP);
  return true;
}
