/* SPDX-License-Identifier: MIT
 *
 * A regular file is written under another name in the same folder and renamed
 * when it is complete.  That name exists only while output_file_finish runs:
 * opening makes one and removes it, to see that it can be made.
 */
#define _GNU_SOURCE /* O_PATH */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "output/output.h"

#define TEMP_TRIES 100
#define NUMBERS_MAX 10000

struct output_file {
  char *path; /* for messages */
  char *base; /* name in the folder; NULL: written directly */
  char temp[64];
  int dir;
  int fd;      /* written directly, or the temporary file; -1: none */
  mode_t mode; /* of the file that is replaced; 0: there is none */
  uint64_t keep_since_ns; /* 0: whatever is there is replaced */
};

static bool stdout_was_closed;

void output_guard_standard_fds(void)
{
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) >= 0)
      continue;
    if (fd == STDOUT_FILENO)
      stdout_was_closed = true;
    /* The lowest free number is this one.  It can only fail where nothing
     * could be opened at all. */
    (void)!open("/dev/null", O_RDWR);
  }
}

static enum result cannot(struct error *e, const char *path, int err)
{
  return error_set(e, RESULT_IO, "cannot write %s: %s", path, strerror(err));
}

static void free_file(struct output_file *f)
{
  if (!f)
    return;
  if (f->fd >= 0)
    close(f->fd);
  if (f->dir >= 0)
    close(f->dir);
  free(f->path);
  free(f->base);
  free(f);
}

static struct output_file *new_file(const char *path)
{
  struct output_file *f = calloc(1, sizeof *f);
  if (!f)
    return NULL;
  f->fd = f->dir = -1;
  f->path = strdup(path);
  if (!f->path) {
    free_file(f);
    return NULL;
  }
  return f;
}

/* ---- written directly ---- */

static enum result open_stdout(struct output_file *f, struct error *e)
{
  /* A duplicate: closing it shows what closing stdout would show. */
  if (!stdout_was_closed)
    f->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (f->fd >= 0)
    return RESULT_OK;
  return error_set(e, RESULT_IO,
                   "cannot write to stdout: it is closed; give a file with -o");
}

/* The numbers of open files by their names: another open() of such a name would
 * start at the beginning of a file that others are writing. */
static int named_fd(const char *path)
{
  static const char *const folder[] = {"/dev/fd/", "/proc/self/fd/"};
  if (!strcmp(path, "/dev/stdout"))
    return STDOUT_FILENO;
  if (!strcmp(path, "/dev/stderr"))
    return STDERR_FILENO;
  for (size_t i = 0; i < sizeof folder / sizeof *folder; i++) {
    size_t n = strlen(folder[i]);
    char *end;
    if (strncmp(path, folder[i], n) || path[n] < '0' || path[n] > '9')
      continue;
    long fd = strtol(path + n, &end, 10);
    if (!*end && fd <= INT_MAX)
      return (int)fd;
  }
  return -1;
}

static enum result open_direct(struct output_file *f, int named,
                               struct error *e)
{
  if (named == STDOUT_FILENO)
    return open_stdout(f, e);
  f->fd = named >= 0 ? fcntl(named, F_DUPFD_CLOEXEC, 3)
                     : open(f->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  return f->fd >= 0 ? RESULT_OK : cannot(e, f->path, errno);
}

/* ---- a regular file ---- */

static int create_temp(struct output_file *f)
{
  for (unsigned i = 0; i < TEMP_TRIES; i++) {
    snprintf(f->temp, sizeof f->temp, ".tecs-attach.%ld.%u", (long)getpid(), i);
    f->fd =
        openat(f->dir, f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd >= 0 || errno != EEXIST)
      break;
  }
  return f->fd >= 0 ? 0 : errno;
}

static void remove_temp(struct output_file *f)
{
  unlinkat(f->dir, f->temp, 0);
  if (f->fd >= 0)
    close(f->fd);
  f->fd = -1;
}

/* Folder and name of the file itself, behind symbolic links. */
static enum result locate(struct output_file *f, bool exists, struct error *e)
{
  char *real = exists ? realpath(f->path, NULL) : strdup(f->path);
  if (!real)
    return cannot(e, f->path, errno);
  char *slash = strrchr(real, '/');
  const char *base = slash ? slash + 1 : real;
  enum result r = RESULT_OK;
  int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  f->base = strdup(base);
  if (!f->base)
    r = error_set(e, RESULT_NOMEM, "no memory");
  else if (!*base)
    r = cannot(e, f->path, EISDIR);
  if (r == RESULT_OK) {
    if (slash)
      slash[slash == real] = '\0';
    f->dir = open(slash ? real : ".", flags);
    if (f->dir < 0)
      r = cannot(e, f->path, errno);
  }
  free(real);
  return r;
}

static enum result open_regular(struct output_file *f, bool exists,
                                struct error *e)
{
  if (exists && access(f->path, W_OK))
    return cannot(e, f->path, errno);
  enum result r = locate(f, exists, e);
  if (r != RESULT_OK)
    return r;
  int err = create_temp(f);
  if (err)
    return error_set(e, RESULT_IO,
                     "cannot write %s: no file can be made in its folder: %s",
                     f->path, strerror(err));
  remove_temp(f);
  return RESULT_OK;
}

enum result output_file_open(const char *path, struct output_file **out,
                             struct error *e)
{
  bool is_stdout = !path || !strcmp(path, "-");
  struct stat st = {0};
  enum result r;
  *out = NULL;
  struct output_file *f = new_file(is_stdout ? "stdout" : path);
  if (!f)
    return error_set(e, RESULT_NOMEM, "no memory");
  int named = is_stdout ? STDOUT_FILENO : named_fd(path);
  bool exists = named < 0 && stat(path, &st) == 0;
  if (named < 0 && !exists && errno != ENOENT)
    r = cannot(e, path, errno);
  else if (exists && S_ISDIR(st.st_mode))
    r = cannot(e, path, EISDIR);
  else if (named >= 0 || (exists && !S_ISREG(st.st_mode)))
    r = open_direct(f, named, e);
  else
    r = open_regular(f, exists, e);
  if (r != RESULT_OK) {
    free_file(f);
    return r;
  }
  f->mode = exists ? st.st_mode & 0777 : 0;
  *out = f;
  return RESULT_OK;
}

void output_file_keep_since(struct output_file *f, uint64_t since_ns)
{
  f->keep_since_ns = since_ns;
}

bool output_file_reader_gone(const struct output_file *f)
{
  struct pollfd p = {.fd = f->fd, .events = POLLOUT};
  return f->fd >= 0 && poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

/* ---- writing ---- */

/* 0 or an errno. */
static int write_all(int fd, const char *p, size_t len)
{
  while (len) {
    ssize_t n = write(fd, p, len);
    if (n >= 0) {
      p += n;
      len -= (size_t)n;
    } else if (errno == EAGAIN) { /* someone made this pipe non-blocking */
      struct pollfd wait = {.fd = fd, .events = POLLOUT};
      if (poll(&wait, 1, -1) < 0 && errno != EINTR)
        return errno;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

static int write_and_close(struct output_file *f, const struct strbuf *b)
{
  int err = write_all(f->fd, strbuf_text(b), b->len);
  int fd = f->fd;
  f->fd = -1;
  if (close(fd) && !err && errno != EINTR)
    err = errno;
  return err;
}

static int keep_mode(const struct output_file *f)
{
  struct stat st;
  if (!f->mode)
    return 0;
  if (fstat(f->fd, &st))
    return errno;
  if ((st.st_mode & 0777) == f->mode) /* some file systems know no chmod */
    return 0;
  return fchmod(f->fd, f->mode) ? errno : 0;
}

/* The nth name: `1.folded`, `1.2.folded`, `1.3.folded`.  false: too long. */
static bool numbered(const struct output_file *f, unsigned n, char *name,
                     size_t size)
{
  const char *dot = strrchr(f->base, '.');
  size_t stem =
      dot && dot != f->base ? (size_t)(dot - f->base) : strlen(f->base);
  int len = n == 1 ? snprintf(name, size, "%s", f->base)
                   : snprintf(name, size, "%.*s.%u%s", (int)stem, f->base, n,
                              f->base + stem);
  return len >= 0 && (size_t)len < size;
}

/* RENAME_NOREPLACE (renameat2(2)), which not all file systems know. */
static int rename_to_free(const struct output_file *f, const char *name)
{
  enum { NOREPLACE = 1 };
  if (!syscall(SYS_renameat2, f->dir, f->temp, f->dir, name, NOREPLACE))
    return 0;
  if (errno != EINVAL && errno != ENOSYS)
    return errno;
  return renameat(f->dir, f->temp, f->dir, name) ? errno : 0;
}

static bool is_older(const struct stat *st, uint64_t ns)
{
  return (uint64_t)st->st_mtim.tv_sec * 1000000000u +
             (uint64_t)st->st_mtim.tv_nsec <
         ns;
}

static int put_in_place(const struct output_file *f)
{
  char name[NAME_MAX + 1];
  struct stat st;
  int err = EEXIST;
  if (!f->keep_since_ns)
    return renameat(f->dir, f->temp, f->dir, f->base) ? errno : 0;
  for (unsigned n = 1; n <= NUMBERS_MAX && err == EEXIST; n++) {
    if (!numbered(f, n, name, sizeof name))
      err = ENAMETOOLONG;
    else if (fstatat(f->dir, name, &st, AT_SYMLINK_NOFOLLOW))
      err = errno == ENOENT ? rename_to_free(f, name) : errno;
    else if (S_ISREG(st.st_mode) && is_older(&st, f->keep_since_ns))
      err = renameat(f->dir, f->temp, f->dir, name) ? errno : 0;
  }
  return err;
}

static int write_regular(struct output_file *f, const struct strbuf *b)
{
  int err = create_temp(f);
  if (err)
    return err;
  err = keep_mode(f);
  if (!err)
    err = write_and_close(f, b);
  if (!err)
    err = put_in_place(f);
  if (err)
    remove_temp(f);
  return err;
}

enum result output_file_finish(struct output_file *f, const struct strbuf *b,
                               struct error *e)
{
  struct sigaction ignore = {.sa_handler = SIG_IGN}, pipe_before, xfsz_before;
  enum result r;
  if (b->failed) {
    r = error_set(e, RESULT_NOMEM, "no memory for the result; %s is unchanged",
                  f->path);
    free_file(f);
    return r;
  }
  sigaction(SIGPIPE, &ignore, &pipe_before);
  sigaction(SIGXFSZ, &ignore, &xfsz_before);
  int err = f->base ? write_regular(f, b) : write_and_close(f, b);
  sigaction(SIGXFSZ, &xfsz_before, NULL);
  sigaction(SIGPIPE, &pipe_before, NULL);
  if (err == EPIPE)
    r = error_set(e, RESULT_END, "nobody reads %s any more", f->path);
  else
    r = err ? cannot(e, f->path, err) : RESULT_OK;
  free_file(f);
  return r;
}

void output_file_abandon(struct output_file *f)
{
  free_file(f);
}
