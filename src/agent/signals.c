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
struct adopted {
  int signo;
  volatile uint32_t adopted;
  struct sigaction action[2]; /* two copies: a reader sees a whole one */
  volatile uint32_t which;
};
static struct adopted table[] = {
    {.signo = SIGURG}, {.signo = SIGSEGV}, {.signo = SIGBUS}};

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
  store(a, program);
  atomic_release(&a->adopted, 1u);
}

static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);
static handler_fn *(*real_signal)(int, handler_fn *);
static handler_fn *(*real_sigset)(int, handler_fn *);

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

bool signals_install(void)
{
  struct sigaction sa, old;
  if (signals_sigaction(SIGURG, NULL, &old))
    return false;
  signals_adopt(SIGURG, &old);
  memset(&sa, 0, sizeof sa);
  sa.sa_sigaction = handler_tick;
  sa.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  return signals_sigaction(SIGURG, &sa, NULL) == 0;
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

void signals_chain(int signo, siginfo_t *info, void *uc)
{
  struct adopted *a = adopted_entry(signo);
  if (!a)
    return;
  struct sigaction sa = fetch(a);
  bool plain = !(sa.sa_flags & SA_SIGINFO);
  if (plain && sa.sa_handler == SIG_DFL)
    default_action(signo, info);
  else if (plain && sa.sa_handler == SIG_IGN) {
    if (info->si_code > 0) /* a real fault can't be ignored */
      default_action(signo, info);
  } else
    call_program(a, &sa, signo, info, uc);
}

/* ---- what the program calls ---- */

static struct adopted *ours(int signo)
{
  struct adopted *a = adopted_entry(signo);
  return a && atomic_acquire(&a->adopted) ? a : NULL;
}

__attribute__((visibility("default"))) int
sigaction(int signo, const struct sigaction *act, struct sigaction *old)
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

static handler_fn *replace(struct adopted *a, handler_fn *fn, int flags)
{
  struct sigaction before = fetch(a), now;
  memset(&now, 0, sizeof now);
  now.sa_handler = fn;
  now.sa_flags = flags;
  store(a, &now);
  return before.sa_handler;
}

__attribute__((visibility("default"))) handler_fn *signal(int signo,
                                                          handler_fn *fn)
{
  struct adopted *a = ours(signo);
  if (a)
    return replace(a, fn, SA_RESTART);
  if (!real_signal)
    *(void **)&real_signal = dlsym(RTLD_NEXT, "signal");
  return real_signal ? real_signal(signo, fn) : SIG_ERR;
}

__attribute__((visibility("default"))) handler_fn *sigset(int signo,
                                                          handler_fn *fn)
{
  struct adopted *a = ours(signo);
  if (a && fn != (handler_fn *)2) /* SIG_HOLD changes the mask only */
    return replace(a, fn, 0);
  if (!real_sigset)
    *(void **)&real_sigset = dlsym(RTLD_NEXT, "sigset");
  return real_sigset ? real_sigset(signo, fn) : SIG_ERR;
}
