/* SPDX-License-Identifier: MIT
 *
 * An SVG, drawn by inferno-flamegraph: collapsed stacks go into its standard
 * input while its standard output is read.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/attach_internal.h"

#define DRAWER "inferno-flamegraph"
#define HOW                                                                    \
  "cargo install inferno --locked (cargo 1.74 or later), or write -f html, "   \
  "which needs nothing"

extern char **environ;

/* As execvp would find it; false: it would not. */
static bool on_path(void)
{
  const char *path = getenv("PATH");
  bool found = false;
  struct strbuf file = STRBUF_INIT;
  while (path && *path && !found) {
    size_t len = strcspn(path, ":");
    strbuf_clear(&file);
    strbuf_add(&file, len ? path : ".", len ? len : 1);
    strbuf_add_str(&file, "/" DRAWER);
    found = !file.failed && !access(strbuf_text(&file), X_OK);
    path += len + (path[len] == ':');
  }
  strbuf_free(&file);
  return found;
}

enum result picture_check(struct error *e)
{
  if (on_path())
    return RESULT_OK;
  return error_set(e, RESULT_NOTFOUND,
                   "an SVG is drawn by " DRAWER ", which is not on PATH: " HOW);
}

struct drawing {
  pid_t pid;
  int in, out; /* our ends; -1: closed */
  const char *text;
  size_t left;
};

static void shut(int *fd)
{
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

static int spawn_between(pid_t *pid, int in, int out, const char *title)
{
  char *argv[] = {DRAWER, "--deterministic", "--title", (char *)title, NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attr;
  sigset_t defaults, none;
  sigemptyset(&none);
  signals_defaults(&defaults);
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawnattr_init(&attr);
  posix_spawnattr_setsigdefault(&attr, &defaults);
  posix_spawnattr_setsigmask(&attr, &none);
  posix_spawnattr_setflags(&attr,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  int err = posix_spawnp(pid, DRAWER, &files, &attr, argv, environ);
  posix_spawnattr_destroy(&attr);
  posix_spawn_file_actions_destroy(&files);
  return err;
}

static int start(struct drawing *d, const char *title)
{
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC))
    return errno;
  if (pipe2(out, O_CLOEXEC)) {
    int err = errno;
    close(in[0]);
    close(in[1]);
    return err;
  }
  int err = spawn_between(&d->pid, in[0], out[1], title);
  close(in[0]);
  close(out[1]);
  d->in = in[1];
  d->out = out[0];
  fcntl(d->in, F_SETFL, O_NONBLOCK);
  return err;
}

static void feed(struct drawing *d)
{
  ssize_t n = write(d->in, d->text, d->left);
  if (n > 0) {
    d->text += n;
    d->left -= (size_t)n;
  }
  if (!d->left || (n < 0 && errno != EAGAIN && errno != EINTR))
    shut(&d->in);
}

static void take(struct drawing *d, struct strbuf *svg)
{
  char bytes[16384];
  ssize_t n = read(d->out, bytes, sizeof bytes);
  if (n > 0)
    strbuf_add(svg, bytes, (size_t)n);
  else if (!n || errno != EINTR)
    shut(&d->out);
}

static void converse(struct drawing *d, struct strbuf *svg)
{
  if (!d->left)
    shut(&d->in);
  while (d->out >= 0) {
    struct pollfd p[2] = {{.fd = d->out, .events = POLLIN},
                          {.fd = d->in, .events = POLLOUT}};
    if (poll(p, 2, -1) < 0 && errno != EINTR)
      break;
    if (p[1].revents)
      feed(d);
    if (p[0].revents)
      take(d, svg);
  }
  shut(&d->in);
  shut(&d->out);
}

enum result picture_draw(const struct strbuf *collapsed, const char *title,
                         struct strbuf *svg, struct error *e)
{
  struct drawing d = {.in = -1,
                      .out = -1,
                      .text = strbuf_text(collapsed),
                      .left = collapsed->len};
  int status = 0;
  if (!collapsed->len)
    return error_set(e, RESULT_IO, "no stacks: there is nothing to draw");
  int err = start(&d, title);
  if (err) {
    shut(&d.in);
    shut(&d.out);
    return error_set(e, RESULT_IO, "cannot start " DRAWER ": %s: " HOW,
                     strerror(err));
  }
  converse(&d, svg);
  while (waitpid(d.pid, &status, 0) < 0 && errno == EINTR)
    ;
  if (svg->failed)
    return error_set(e, RESULT_NOMEM, "no memory for the picture");
  if (!status && svg->len)
    return RESULT_OK;
  return error_set(e, RESULT_IO, DRAWER " failed (status %d)",
                   verdict_of_wait(status));
}
