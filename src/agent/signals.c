/* SPDX-License-Identifier: MIT
 *
 * The three signals that the agent handles (SIGURG, SIGSEGV, SIGBUS) stay the
 * program's as far as the program can tell: what it installs for them is kept
 * here, reported back, and called for every signal that is not ours.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent_internal.h"
#include "base/atomics.h"

typedef void handler_fn(int);

/* One writer at a time is enough: a program that installs handlers for one
 * signal from two threads at once has no order to lose. */
enum { OLDER_MAX = 4, SIGNALS = 3 };
struct adopted {
  int signo;
  volatile uint32_t adopted;
  struct sigaction action[2]; /* two copies: a reader sees a whole one */
  volatile uint32_t which;
  /* What the program had when it put another in our place, past us: to its eyes
   * that was ours, and its handler may call ours for what it does not want.
   * Oldest first. */
  struct sigaction older[OLDER_MAX];
  volatile uint32_t older_count;
};
static struct adopted table[SIGNALS] = {
    {.signo = SIGURG}, {.signo = SIGSEGV}, {.signo = SIGBUS}};

/* How many of the program's handlers for it this thread is in. */
AGENT_TLS volatile uint32_t inside[SIGNALS];
/* Where the kernel makes handlers return to; NULL: not known. */
static const void *volatile restorer;

static struct adopted *adopted_entry(int signo)
{
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (table[i].signo == signo)
      return &table[i];
  return NULL;
}

static void store(struct adopted *a, const struct sigaction *sa)
{
  uint32_t next = !atomic_get(&a->which);
  a->action[next] = *sa;
  atomic_release(&a->which, next);
}

static struct sigaction fetch(struct adopted *a)
{
  return a->action[atomic_acquire(&a->which)];
}

void signals_adopt(int signo, const struct sigaction *program)
{
  struct adopted *a = adopted_entry(signo);
  if (!a)
    return;
  uint32_t n = atomic_get(&a->older_count);
  if (atomic_get(&a->adopted) && n < OLDER_MAX) {
    a->older[n] = fetch(a);
    atomic_release(&a->older_count, n + 1);
  }
  store(a, program);
  atomic_release(&a->adopted, 1u);
}

static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);

enum real { REAL_SIGNAL, REAL_SYSV_SIGNAL, REAL_SIGSET, REALS };
static struct {
  const char *name;
  handler_fn *(*fn)(int, handler_fn *);
} reals[REALS] = {{"signal", NULL}, {"__sysv_signal", NULL}, {"sigset", NULL}};

/* Not in a handler, from where programs may call signal(): at the start. */
static void find_real(enum real which)
{
  *(void **)&reals[which].fn = dlsym(RTLD_NEXT, reals[which].name);
}

int signals_sigaction(int signo, const struct sigaction *act,
                      struct sigaction *old)
{
  if (!real_sigaction)
    *(void **)&real_sigaction = dlsym(RTLD_NEXT, "sigaction");
  if (!real_sigaction) {
    errno = ENOSYS;
    return -1;
  }
  return real_sigaction(signo, act, old);
}

static const void *own_restorer(int signo)
{
  struct { /* the kernel's struct sigaction, asm/signal.h */
    void *handler;
    unsigned long flags;
    const void *restorer;
    uint64_t mask;
  } now = {0};
  if (syscall(SYS_rt_sigaction, signo, NULL, &now, sizeof now.mask))
    return NULL;
  return now.restorer;
}

bool signals_install(void)
{
  struct sigaction sa, old;
  for (int i = 0; i < REALS; i++)
    find_real((enum real)i);
  if (signals_sigaction(SIGURG, NULL, &old))
    return false;
  signals_adopt(SIGURG, &old);
  memset(&sa, 0, sizeof sa);
  sa.sa_sigaction = handler_tick;
  /* Not SA_ONSTACK: alternate stacks are made for crash handlers, often of
   * 8 KB (Rust's std gives every thread one), and one signal frame alone is
   * 3.5 KB with AVX-512. */
  sa.sa_flags = SA_SIGINFO | SA_RESTART;
  if (signals_sigaction(SIGURG, &sa, NULL))
    return false;
  restorer = own_restorer(SIGURG);
  return true;
}

/* ---- passing on ---- */

/* The system's default for a fault is death with the right status: hand the
 * signal back and let it happen again.  One that was sent does not come again
 * by itself. */
static void default_action(int signo, siginfo_t *info)
{
  if (signo == SIGURG) /* ignored by default */
    return;
  struct sigaction dfl;
  memset(&dfl, 0, sizeof dfl);
  dfl.sa_handler = SIG_DFL;
  signals_sigaction(signo, &dfl, NULL);
  if (info->si_code <= 0)
    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signo, info);
}

static void call_program(struct adopted *a, const struct sigaction *sa,
                         int signo, siginfo_t *info, void *uc)
{
  sigset_t mask = sa->sa_mask, old;
  if (!(sa->sa_flags & SA_NODEFER))
    sigaddset(&mask, signo);
  if (sa->sa_flags & SA_RESETHAND) {
    struct sigaction dfl;
    memset(&dfl, 0, sizeof dfl);
    dfl.sa_handler = SIG_DFL;
    store(a, &dfl);
  }
  sigprocmask(SIG_BLOCK, &mask, &old);
  if (sa->sa_flags & SA_SIGINFO)
    sa->sa_sigaction(signo, info, uc);
  else
    sa->sa_handler(signo);
  sigprocmask(SIG_SETMASK, &old, NULL);
}

static void act(struct adopted *a, struct sigaction sa, int signo,
                siginfo_t *info, void *uc)
{
  bool plain = !(sa.sa_flags & SA_SIGINFO);
  if (plain && sa.sa_handler == SIG_DFL)
    default_action(signo, info);
  else if (plain && sa.sa_handler == SIG_IGN) {
    if (info->si_code > 0) /* a real fault can't be ignored */
      default_action(signo, info);
  } else
    call_program(a, &sa, signo, info, uc);
}

/* A handler of the program that calls ours gets what the program had before it,
 * and so on.  Entered by the kernel, it starts anew: a handler may have left by
 * longjmp. */
void signals_chain(int signo, siginfo_t *info, void *uc, const void *caller)
{
  struct adopted *a = adopted_entry(signo);
  if (!a)
    return;
  volatile uint32_t *in = &inside[a - table];
  uint32_t level = caller == restorer || !restorer ? 0 : *in;
  uint32_t older = atomic_acquire(&a->older_count);
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  sa.sa_handler = SIG_DFL;
  if (!level)
    sa = fetch(a);
  else if (level <= older)
    sa = a->older[older - level];
  *in = level + 1;
  act(a, sa, signo, info, uc);
  *in = level;
}

/* ---- what the program calls ---- */

static struct adopted *ours(int signo)
{
  struct adopted *a = adopted_entry(signo);
  return a && atomic_acquire(&a->adopted) ? a : NULL;
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int sigaction(int signo, const struct sigaction *act,
                     struct sigaction *old)
{
  struct adopted *a = ours(signo);
  if (!a)
    return signals_sigaction(signo, act, old);
  struct sigaction before = fetch(a);
  if (act)
    store(a, act);
  if (old)
    *old = before;
  return 0;
}

EXPORT int __sigaction(int signo, const struct sigaction *act,
                       struct sigaction *old);
EXPORT int __sigaction(int signo, const struct sigaction *act,
                       struct sigaction *old)
{
  return sigaction(signo, act, old);
}

static handler_fn *replace(struct adopted *a, handler_fn *fn, int flags)
{
  struct sigaction before = fetch(a), now;
  memset(&now, 0, sizeof now);
  now.sa_handler = fn;
  now.sa_flags = flags;
  store(a, &now);
  return before.sa_handler;
}

/* The real function; each has its own semantics. */
static handler_fn *pass_on(enum real which, int signo, handler_fn *fn)
{
  if (!reals[which].fn) /* called before our constructor */
    find_real(which);
  return reals[which].fn ? reals[which].fn(signo, fn) : SIG_ERR;
}

EXPORT handler_fn *signal(int signo, handler_fn *fn)
{
  struct adopted *a = ours(signo);
  return a ? replace(a, fn, SA_RESTART) : pass_on(REAL_SIGNAL, signo, fn);
}

/* BSD's name for the same, and what <signal.h> makes of signal() in a strict
 * C or X/Open program. */
EXPORT handler_fn *bsd_signal(int signo, handler_fn *fn)
{
  return signal(signo, fn);
}

EXPORT handler_fn *ssignal(int signo, handler_fn *fn)
{
  return signal(signo, fn);
}

EXPORT handler_fn *__sysv_signal(int signo, handler_fn *fn)
{
  struct adopted *a = ours(signo);
  return a ? replace(a, fn, SA_RESETHAND | SA_NODEFER)
           : pass_on(REAL_SYSV_SIGNAL, signo, fn);
}

EXPORT handler_fn *sysv_signal(int signo, handler_fn *fn);
handler_fn *sysv_signal(int signo, handler_fn *fn)
{
  return __sysv_signal(signo, fn);
}

EXPORT handler_fn *sigset(int signo, handler_fn *fn)
{
  struct adopted *a = ours(signo);
  if (a && fn != (handler_fn *)2) /* SIG_HOLD changes the mask only */
    return replace(a, fn, 0);
  return pass_on(REAL_SIGSET, signo, fn);
}

EXPORT int sigignore(int signo)
{
  struct sigaction ignore;
  memset(&ignore, 0, sizeof ignore);
  ignore.sa_handler = SIG_IGN;
  return sigaction(signo, &ignore, NULL);
}

/* A program may have gone past us with a system call of its own. */
bool signals_still_ours(int signo, void (*handler)(int, siginfo_t *, void *))
{
  struct sigaction now;
  return !signals_sigaction(signo, NULL, &now) && (now.sa_flags & SA_SIGINFO) &&
         now.sa_sigaction == handler;
}
