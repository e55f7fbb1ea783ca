/* SPDX-License-Identifier: MIT
 *
 * tecs-attach as this process's collector.  Its result and its messages go to
 * anonymous files: unlike pipes they never block anybody.  It is nobody's child
 * that we could wait for (profile_spawn.c), so the last line that it writes
 * says how it ended.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/profile_internal.h"
#include "base/clock.h"

#ifndef TECS_BINDIR
#define TECS_BINDIR "/usr/local/bin"
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#define SYS_pidfd_send_signal 424
#endif
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#endif

#define PROGRAM "tecs-attach"
#define STATUS_LINE PROGRAM ": status "
#define CURE                                                                   \
  "; install it, or set TECS_ATTACH to its path before the program starts"

enum { MESSAGES_MAX = 2048 };

/* ---- finding it ---- */

static bool is_program(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool try_path(char *path, size_t size, const char *folder, size_t len,
                     const char *name)
{
  struct text t = text_in(path, size);
  text_add_bytes(&t, folder, len);
  text_add(&t, name);
  return !t.cut && is_program(path);
}

/* A build tree comes first, so that what was just built is what is used: there
 * the program stands one folder above the library (libtool's .libs). */
static bool near_library(char *path, size_t size)
{
  Dl_info self;
  if (!dladdr((void *)collector_find, &self) || !self.dli_fname)
    return false;
  const char *slash = strrchr(self.dli_fname, '/');
  size_t len = slash ? (size_t)(slash - self.dli_fname) : 0;
  return slash && (try_path(path, size, self.dli_fname, len, "/../" PROGRAM) ||
                   try_path(path, size, self.dli_fname, len, "/" PROGRAM));
}

static bool on_path(char *path, size_t size)
{
  const char *at = getenv("PATH");
  while (at && *at) {
    size_t len = strcspn(at, ":");
    if (len && try_path(path, size, at, len, "/" PROGRAM))
      return true;
    at += len + (at[len] == ':');
  }
  return false;
}

bool collector_find(char *path, size_t size, struct text *why)
{
  const char *set = getenv("TECS_ATTACH");
  if (set && *set) {
    if (try_path(path, size, set, strlen(set), ""))
      return true;
    text_add(why, "TECS_ATTACH: there is no program ");
    text_add(why, set);
    return false;
  }
  if (near_library(path, size) ||
      try_path(path, size, TECS_BINDIR "/", strlen(TECS_BINDIR "/"), PROGRAM) ||
      on_path(path, size))
    return true;
  text_add(why,
           PROGRAM " is not found (not in " TECS_BINDIR ", not in PATH)" CURE);
  return false;
}

/* ---- starting it ---- */

/* Not on the numbers of stdin, stdout and stderr, which a game may have closed
 * and expects to get when it opens them anew. */
static int anonymous_file(const char *name)
{
  int fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC);
  if (fd < 0 || fd > 2)
    return fd;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  close(fd);
  return high;
}

static uint64_t inode_of(int fd)
{
  struct stat st;
  return fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static void close_file(int *fd, uint64_t inode)
{
  if (inode && inode_of(*fd) == inode)
    close(*fd);
  *fd = -1;
}

static bool is_pidfd(int fd)
{
  static const char kind[] = "anon_inode:[pidfd]";
  char path[32], link[sizeof kind];
  struct text t = text_in(path, sizeof path);
  if (fd < 0)
    return false;
  text_add(&t, "/proc/self/fd/");
  text_add_number(&t, (uint64_t)fd, 10);
  return readlink(path, link, sizeof link) == (ssize_t)sizeof kind - 1 &&
         !memcmp(link, kind, sizeof kind - 1);
}

static bool cannot_start(struct collector *c, const char *what, int err,
                         struct text *why)
{
  text_add(why, "cannot start " PROGRAM ": ");
  text_add(why, what);
  text_add(why, strerror(err));
  collector_forget(c);
  return false;
}

bool collector_start(struct collector *c, char *const argv[], bool keep_stderr,
                     struct text *why)
{
  char path[1024];
  *c = (struct collector)COLLECTOR_NONE;
  if (!collector_find(path, sizeof path, why))
    return false;
  c->out = anonymous_file("tecs-profile");
  c->err = keep_stderr ? -1 : anonymous_file("tecs-messages");
  if (c->out < 0 || (c->err < 0 && !keep_stderr))
    return cannot_start(c, "no anonymous file: ", errno, why);
  c->out_inode = inode_of(c->out);
  c->err_inode = inode_of(c->err);
  int fd[2] = {c->out, keep_stderr ? STDERR_FILENO : c->err};
  int err = spawn(path, argv, fd, &c->pid);
  if (err) {
    c->pid = 0;
    return cannot_start(c, "", err, why);
  }
  c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
  return true;
}

/* ---- its end ---- */

bool collector_gone(const struct collector *c)
{
  return !c->pid || collector_wait(c, 0);
}

/* The pidfd, while it is still ours. */
static int pidfd_of(const struct collector *c)
{
  return is_pidfd(c->pidfd) ? c->pidfd : -1;
}

/* Without a pidfd: the number alone.  It may be another process's by now; then
 * the wait is longer than needed. */
static bool gone_by_number(const struct collector *c)
{
  return kill(c->pid, 0) < 0 && errno == ESRCH;
}

bool collector_wait(const struct collector *c, uint64_t timeout_ns)
{
  uint64_t give_up = clock_mono_ns() + timeout_ns;
  int saved = errno, pidfd = pidfd_of(c);
  bool gone = false;
  for (;;) {
    uint64_t now = clock_mono_ns();
    uint64_t left = now < give_up ? give_up - now : 0;
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int ms = (int)(left / 1000000 + (left % 1000000 != 0));
    /* ticks of the profiler interrupt it again and again */
    int n = poll(&p, 1, pidfd >= 0 || ms < 2 ? ms : 2);
    gone = pidfd >= 0 ? n == 1 : gone_by_number(c);
    if (gone || !left)
      break;
  }
  errno = saved;
  return gone;
}

void collector_kill(const struct collector *c)
{
  int pidfd = pidfd_of(c);
  if (pidfd >= 0)
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
  else if (c->pid)
    kill(c->pid, SIGKILL);
}

/* The last line, when it is the one that says how it ended; it is cut off. */
static bool take_status(char *messages, size_t *len, int *status)
{
  size_t n = *len;
  if (!n || messages[n - 1] != '\n')
    return false;
  size_t start = n - 1;
  while (start && messages[start - 1] != '\n')
    start--;
  if (strncmp(messages + start, STATUS_LINE, strlen(STATUS_LINE)))
    return false;
  *status = atoi(messages + start + strlen(STATUS_LINE));
  messages[start] = 0;
  *len = start;
  return true;
}

/* Its lines as one, without its name in front of each. */
static void add_messages(struct text *why, const char *messages)
{
  const char *before = "";
  while (*messages) {
    size_t len = strcspn(messages, "\n");
    const char *next = messages + len + (messages[len] == '\n');
    const size_t name = strlen(PROGRAM ": ");
    if (len > name && !strncmp(messages, PROGRAM ": ", name)) {
      messages += name;
      len -= name;
    }
    text_add(why, before);
    text_add_bytes(why, messages, len);
    before = "; ";
    messages = next;
  }
}

bool collector_verdict(const struct collector *c, struct text *why)
{
  char messages[MESSAGES_MAX];
  int status = 0;
  struct stat st;
  off_t from = 0;
  if (inode_of(c->err) != c->err_inode) {
    text_add(why, "this program has closed the collector's messages");
    return false;
  }
  if (fstat(c->err, &st) == 0 && st.st_size > MESSAGES_MAX - 1)
    from = st.st_size - (MESSAGES_MAX - 1);
  ssize_t n = pread(c->err, messages, sizeof messages - 1, from);
  size_t len = n > 0 ? (size_t)n : 0;
  messages[len] = 0;
  bool said = take_status(messages, &len, &status);
  if (said && !status)
    return true;
  if (!len)
    text_add(why, said ? "it gave no reason" : "it was killed");
  add_messages(why, messages);
  return false;
}

int64_t collector_result_size(const struct collector *c)
{
  struct stat st;
  if (fstat(c->out, &st) || st.st_ino != c->out_inode)
    return -1;
  return st.st_size;
}

void collector_forget(struct collector *c)
{
  int saved = errno;
  /* only in a program that is init, or a subreaper, is it our child */
  if (c->pid > 0)
    waitpid(c->pid, NULL, WNOHANG);
  errno = saved;
  if (is_pidfd(c->pidfd))
    close(c->pidfd);
  c->pidfd = -1;
  close_file(&c->out, c->out_inode);
  close_file(&c->err, c->err_inode);
  c->pid = 0;
}
