/* SPDX-License-Identifier: MIT
 *
 * A process that the game does not notice: no SIGCHLD, nothing for its own
 * wait() to find.
 *
 * A child without an exit signal would be enough, were it not that execve sets
 * it to SIGCHLD again (execve(2)).  So the program is loaded in a grandchild,
 * whose parent, the child without an exit signal, ends at once; from then on it
 * belongs to init, or to the nearest subreaper above the game.  (In a program
 * that is itself one of these, it becomes its child.)
 *
 * Both share the game's memory until the program is loaded, so that a big game
 * is not copied: they run on stacks of their own, call nothing that locks or
 * allocates, and all signals are blocked in them, as no handler of the game may
 * run there.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/profile_internal.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

extern char **environ;

enum { STACK = 32768, SIGNALS = 64, FILES_FALLBACK = 65536 };

struct birth {
  const char *path;
  char *const *argv;
  char **envp;
  int fd[2];
  uint8_t *stack[2];
  volatile pid_t pid;
  volatile int error;
};

/* struct sigaction as the kernel has it: all zero is SIG_DFL. */
struct kernel_sigaction {
  uint64_t handler, flags, restorer, mask;
};

static void set_mask(const uint64_t *set, uint64_t *old)
{
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, set, old, sizeof *set);
}

/* Handlers fall to their default by themselves, ignored signals do not. */
static void default_signals(void)
{
  static const struct kernel_sigaction dfl;
  static const uint64_t none;
  for (int s = 1; s <= SIGNALS; s++)
    syscall(SYS_rt_sigaction, s, &dfl, NULL, sizeof dfl.mask);
  set_mask(&none, NULL);
}

static void close_all_from(unsigned first)
{
  if (syscall(SYS_close_range, first, ~0u, 0) == 0)
    return;
  for (unsigned fd = first; fd < FILES_FALLBACK; fd++)
    syscall(SYS_close, fd);
}

/* 0 to 2 may be taken by what is to go elsewhere. */
static bool take_fds(const struct birth *b)
{
  int null = open("/dev/null", O_RDONLY);
  int out = fcntl(b->fd[0], F_DUPFD, 3), err = fcntl(b->fd[1], F_DUPFD, 3);
  return null >= 0 && out >= 0 && err >= 0 && dup2(null, 0) == 0 &&
         dup2(out, 1) == 1 && dup2(err, 2) == 2;
}

/* A game that runs its threads on chosen CPUs, or at a real-time priority, did
 * not mean this program. */
static void ordinary_scheduling(void)
{
  static const struct sched_param zero;
  cpu_set_t all;
  memset(&all, 0xff, sizeof all);
  sched_setaffinity(0, sizeof all, &all);
  sched_setscheduler(0, SCHED_OTHER, &zero);
}

static int grandchild(void *arg)
{
  struct birth *b = arg;
  setsid(); /* Ctrl-C in the game's terminal is the game's */
  ordinary_scheduling();
  if (take_fds(b)) {
    close_all_from(3);
    default_signals();
    execve(b->path, b->argv, b->envp);
  }
  b->error = errno ? errno : EIO;
  return 127;
}

static int child(void *arg)
{
  struct birth *b = arg;
  pid_t pid = clone(grandchild, b->stack[1] + STACK,
                    CLONE_VM | CLONE_VFORK | SIGCHLD, b);
  if (pid < 0)
    b->error = errno;
  b->pid = pid;
  return 0;
}

static bool unwanted(const char *entry)
{
  static const char *const names[] = {"LD_PRELOAD=", "TECS_AGENT="};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (!strncmp(entry, names[i], strlen(names[i])))
      return true;
  return false;
}

static void copy_environment(char **to, size_t room)
{
  size_t n = 0;
  for (char **e = environ; e && *e && n + 1 < room; e++)
    if (!unwanted(*e))
      to[n++] = *e;
  to[n] = NULL;
}

static void bear(struct birth *b)
{
  const uint64_t all = ~UINT64_C(0);
  uint64_t old = 0;
  set_mask(&all, &old);
  pid_t pid = clone(child, b->stack[0] + STACK, CLONE_VM | CLONE_VFORK, b);
  if (pid < 0)
    b->error = errno;
  else
    while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
      ;
  set_mask(&old, NULL);
}

int spawn(const char *path, char *const argv[], const int fd[2], pid_t *pid)
{
  int saved = errno;
  size_t entries = 2;
  for (char **e = environ; e && *e; e++)
    entries++;
  size_t size = 2 * STACK + entries * sizeof(char *);
  uint8_t *block = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (block == MAP_FAILED)
    return ENOMEM;
  struct birth b = {.path = path,
                    .argv = argv,
                    .envp = (char **)(block + 2 * STACK),
                    .fd = {fd[0], fd[1]},
                    .stack = {block, block + STACK}};
  copy_environment(b.envp, entries);
  bear(&b);
  munmap(block, size);
  *pid = b.pid;
  errno = saved;
  return b.error;
}
