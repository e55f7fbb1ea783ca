/* SPDX-License-Identifier: MIT
 *
 * A result into a file, as the collector's room output does it: under another
 * name in the same folder, renamed when it is complete.  What is no regular
 * file (a device, a pipe) is written directly.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/profile_internal.h"

enum { TEMP_TRIES = 100, WAIT_MS = 1000 };

static int write_all(int fd, const char *p, size_t len)
{
  while (len) {
    ssize_t n = write(fd, p, len);
    if (n >= 0) {
      p += n;
      len -= (size_t)n;
    } else if (errno == EAGAIN) {
      struct pollfd wait = {.fd = fd, .events = POLLOUT};
      int ready = poll(&wait, 1, WAIT_MS);
      if (ready == 0)
        return EAGAIN;
      if (ready < 0 && errno != EINTR)
        return errno;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

static int write_and_close(int fd, const void *data, size_t len)
{
  int err = write_all(fd, data, len);
  if (close(fd) && !err && errno != EINTR)
    err = errno;
  return err;
}

/* A pipe whose reader has gone must not end the game. */
static int write_direct(const char *path, const void *data, size_t len)
{
  static const struct timespec now;
  sigset_t pipe, old, pending;
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0)
    return errno;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &old);
  sigpending(&pending);
  int err = write_and_close(fd, data, len);
  if (err == EPIPE && !sigismember(&pending, SIGPIPE))
    sigtimedwait(&pipe, NULL, &now);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return err;
}

static int create_temp(int dir, char *name, size_t size, int *fd)
{
  *fd = -1;
  for (unsigned i = 0; i < TEMP_TRIES; i++) {
    struct text t = text_in(name, size);
    text_add(&t, ".tecs-agent.");
    text_add_number(&t, (uint64_t)getpid(), 10);
    text_add(&t, ".");
    text_add_number(&t, i, 10);
    *fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (*fd >= 0 || errno != EEXIST)
      break;
  }
  return *fd >= 0 ? 0 : errno;
}

static int replace(int dir, const char *base, mode_t mode, const void *data,
                   size_t len)
{
  char temp[64];
  int fd, err = create_temp(dir, temp, sizeof temp, &fd);
  if (err)
    return err;
  if (mode)
    (void)!fchmod(fd, mode); /* some file systems know none */
  err = write_and_close(fd, data, len);
  if (!err && renameat(dir, temp, dir, base))
    err = errno;
  if (err)
    unlinkat(dir, temp, 0);
  return err;
}

/* path: of the file itself, behind symbolic links. */
static int write_regular(char *path, mode_t mode, const void *data, size_t len)
{
  char *slash = strrchr(path, '/');
  const char *base = slash ? slash + 1 : path;
  if (!*base)
    return *path ? EISDIR : ENOENT;
  if (slash)
    *slash = 0;
  const char *folder = !slash ? "." : slash == path ? "/" : path;
  int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0)
    return errno;
  int err = replace(dir, base, mode, data, len);
  close(dir);
  return err;
}

int file_write(const char *path, const void *data, size_t len)
{
  char real[PATH_MAX + 1];
  struct stat st;
  if (stat(path, &st)) {
    struct text t = text_in(real, sizeof real);
    if (errno != ENOENT)
      return errno;
    text_add(&t, path);
    return t.cut ? ENAMETOOLONG : write_regular(real, 0, data, len);
  }
  if (S_ISDIR(st.st_mode))
    return EISDIR;
  if (!S_ISREG(st.st_mode))
    return write_direct(path, data, len);
  if (access(path, W_OK) || !realpath(path, real))
    return errno;
  return write_regular(real, st.st_mode & 0777, data, len);
}
