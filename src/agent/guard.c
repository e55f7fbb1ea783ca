/* SPDX-License-Identifier: MIT
 *
 * Guarded loads.  The handler does meet freed memory: the old Lua stack while
 * it grows, a global_State after lua_close.  A load that faults is skipped by
 * the SIGSEGV handler: its result register still holds the 0 put there before.
 * 0.3 us for a whole walk, where a check by system call costs that per word.
 */
#include <errno.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "agent/events.h"
#include "base/atomics.h"

struct fixup {
  int32_t load; /* places relative to this field and the next */
  int32_t after;
};
extern const struct fixup __start_tecs_fixups[]
    __attribute__((visibility("hidden")));
extern const struct fixup __stop_tecs_fixups[]
    __attribute__((visibility("hidden")));

#define FIXUP                                                                  \
  "\n2:\n .pushsection tecs_fixups,\"a\",@progbits\n .balign 4\n"              \
  " .long 1b-., 2b-.\n .popsection"

AGENT_TLS struct vm_mem *current;

static uint64_t guarded_load(struct vm_mem *m, uint64_t addr, unsigned width)
{
  uint64_t v = 0;
  (void)m;
  switch (width) {
  case 8:
    __asm__ volatile("1: movq (%1), %0" FIXUP : "+r"(v) : "r"(addr) : "memory");
    break;
  case 4:
    __asm__ volatile("1: movl (%1), %k0" FIXUP
                     : "+r"(v)
                     : "r"(addr)
                     : "memory");
    break;
  case 2:
    __asm__ volatile("1: movzwl (%1), %k0" FIXUP
                     : "+r"(v)
                     : "r"(addr)
                     : "memory");
    break;
  default:
    __asm__ volatile("1: movzbl (%1), %k0" FIXUP
                     : "+r"(v)
                     : "r"(addr)
                     : "memory");
    break;
  }
  return v;
}

size_t guard_copy(void *to, uint64_t from, size_t n)
{
  size_t left = n;
  __asm__ volatile("1: rep movsb" FIXUP
                   : "+D"(to), "+S"(from), "+c"(left)
                   :
                   : "memory");
  return n - left;
}

void guard_store1(uint64_t addr, uint8_t value)
{
  __asm__ volatile("1: movb %b0, (%1)" FIXUP
                   :
                   : "q"(value), "r"(addr)
                   : "memory");
}

struct vm_mem *guard_enter(struct vm_mem *m)
{
  struct vm_mem *previous = current;
  m->load = guarded_load;
  m->faults = 0;
  current = m;
  return previous;
}

void guard_leave(struct vm_mem *previous)
{
  current = previous;
}

static bool skip_load(ucontext_t *uc)
{
  uint64_t ip = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
  for (const struct fixup *f = __start_tecs_fixups; f < __stop_tecs_fixups;
       f++) {
    if ((uint64_t)&f->load + (uint64_t)(int64_t)f->load != ip)
      continue;
    uc->uc_mcontext.gregs[REG_RIP] =
        (greg_t)((uint64_t)&f->after + (uint64_t)(int64_t)f->after);
    if (current)
      current->faults++;
    return true;
  }
  return false;
}

static void on_fault(int signo, siginfo_t *info, void *uc)
{
  if (!skip_load(uc) && !(signo == SIGSEGV && events_fault(uc)))
    signals_chain(signo, info, uc, __builtin_return_address(0));
}

/* Also again, when the program has put its own in place behind our back. */
static void take_over(int signo)
{
  struct sigaction sa, old;
  memset(&sa, 0, sizeof sa);
  sa.sa_sigaction = on_fault;
  sa.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  if (signals_sigaction(signo, NULL, &old))
    return;
  signals_adopt(signo, &old); /* before the first fault can come */
  signals_sigaction(signo, &sa, NULL);
}

void guard_install(void)
{
  static volatile uint32_t installed;
  if (atomic_get(&installed) ||
      __atomic_exchange_n(&installed, 1u, __ATOMIC_ACQ_REL))
    return;
  guard_check();
}

void guard_check(void)
{
  int saved = errno;
  if (!signals_still_ours(SIGSEGV, on_fault))
    take_over(SIGSEGV);
  if (!signals_still_ours(SIGBUS, on_fault))
    take_over(SIGBUS);
  errno = saved;
}
