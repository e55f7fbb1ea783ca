/* SPDX-License-Identifier: MIT
 *
 * A session on a process without an agent: there is no segment to lock or to
 * steer by.  Its collector listens on an abstract socket that is named after
 * the process: one at a time, gone with its holder whichever way that ends,
 * nothing left in the process or in a file system.  It holds within one network
 * namespace; beyond that ptrace allows one tracer at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "session/session_internal.h"

#define REPLY_WAIT_S 2
#define STOP_LOOK_NS 2000000L
#define CLIENT_LOOKS 20 /* at a caller that says nothing */

/* One byte each way. */
enum order {
  ORDER_LOOK = '?',
  ORDER_PAUSE = 'p',
  ORDER_RESUME = 'r',
  ORDER_STOP = 's',
};
enum reply {
  REPLY_RUNS = 'R',
  REPLY_PAUSED = 'P',
};

/* The start time tells processes apart whose ids are the same, in turn or in
 * several pid namespaces. */
static socklen_t name_of(struct target *t, struct sockaddr_un *name)
{
  *name = (struct sockaddr_un){.sun_family = AF_UNIX};
  int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1,
                   "tecs-attach/%d/%llu",
                   (int)target_thread_ns_tid(t, target_pid(t)),
                   (unsigned long long)target_start_time(t));
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool peer_of(int fd, struct ucred *peer)
{
  socklen_t len = sizeof *peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len) == 0;
}

/* ---- who asks ---- */

/* A connection to the session's collector, -1: there is none.  A stranger that
 * has taken the name is no session. */
static int call(struct target *t, struct ucred *peer)
{
  struct sockaddr_un name;
  struct timeval wait = {.tv_sec = REPLY_WAIT_S};
  socklen_t len = name_of(t, &name);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -1;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  if (connect(fd, (struct sockaddr *)&name, len) == 0 && peer_of(fd, peer) &&
      (peer->uid == 0 || peer->uid == geteuid() || geteuid() == 0))
    return fd;
  close(fd);
  return -1;
}

/* The answer, 0: none. */
static char ask(struct target *t, enum order what, struct ucred *peer)
{
  char order = (char)what, reply = 0;
  int fd = call(t, peer);
  if (fd < 0)
    return 0;
  if (send(fd, &order, 1, MSG_NOSIGNAL) != 1 || recv(fd, &reply, 1, 0) != 1)
    reply = 0;
  close(fd);
  return reply;
}

bool session_outside_look(struct target *t, struct session_seen *seen)
{
  struct ucred peer = {0};
  char reply = ask(t, ORDER_LOOK, &peer);
  *seen = (struct session_seen){.running = reply != 0,
                                .paused = reply == REPLY_PAUSED,
                                .owner = (uint32_t)peer.pid};
  return seen->running;
}

bool session_outside_pause(struct target *t, bool paused)
{
  struct ucred peer;
  return ask(t, paused ? ORDER_PAUSE : ORDER_RESUME, &peer) ==
         (paused ? REPLY_PAUSED : REPLY_RUNS);
}

bool session_outside_stop(struct target *t, uint64_t wait_ns)
{
  const struct timespec nap = {.tv_nsec = STOP_LOOK_NS};
  uint64_t give_up = clock_mono_ns() + wait_ns;
  struct ucred peer;
  if (!ask(t, ORDER_STOP, &peer))
    return false;
  for (;;) {
    int fd = call(t, &peer);
    if (fd < 0)
      return true;
    close(fd);
    if (clock_mono_ns() > give_up)
      return false;
    nanosleep(&nap, NULL);
  }
}

/* ---- who is asked ---- */

static enum result taken(struct target *t, struct error *e)
{
  struct ucred peer = {0};
  int fd = call(t, &peer);
  if (fd < 0) /* gone again, or a stranger's */
    return RESULT_OK;
  close(fd);
  return error_set(e, RESULT_BUSY,
                   "process %d is being sampled already, by process %d: one "
                   "session at a time; stop that one first (tecs-attach stop "
                   "%d)",
                   (int)target_pid(t), (int)peer.pid, (int)target_pid(t));
}

enum result beacon_open(struct beacon *b, struct target *t, struct error *e)
{
  struct sockaddr_un name;
  socklen_t len = name_of(t, &name);
  b->client = -1;
  b->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (b->fd < 0)
    return error_set(e, RESULT_IO, "cannot make a socket: %s", strerror(errno));
  if (bind(b->fd, (struct sockaddr *)&name, len) == 0 && listen(b->fd, 8) == 0)
    return RESULT_OK;
  beacon_close(b);
  return taken(t, e);
}

void beacon_close(struct beacon *b)
{
  if (b->client >= 0)
    close(b->client);
  if (b->fd >= 0)
    close(b->fd);
  b->fd = b->client = -1;
}

static void obey(struct tecs_control *c, char order)
{
  if (order == ORDER_PAUSE)
    atomic_release(&c->paused, 1u);
  else if (order == ORDER_RESUME)
    atomic_release(&c->paused, 0u);
  else if (order == ORDER_STOP)
    atomic_release(&c->stop, 1u);
}

static bool may_steer(int fd)
{
  struct ucred peer;
  return peer_of(fd, &peer) && (peer.uid == 0 || peer.uid == geteuid());
}

/* true: the caller is done with. */
static bool answer(int fd, struct tecs_control *c)
{
  char order, reply;
  if (!may_steer(fd))
    return true;
  ssize_t n = recv(fd, &order, 1, 0);
  if (n < 0 && errno == EAGAIN)
    return false; /* it comes in a moment */
  if (n != 1)
    return true;
  obey(c, order);
  reply = atomic_get(&c->paused) ? REPLY_PAUSED : REPLY_RUNS;
  send(fd, &reply, 1, MSG_NOSIGNAL);
  return true;
}

void beacon_answer(struct beacon *b, struct tecs_control *c)
{
  if (b->client < 0 && b->fd >= 0) {
    b->client = accept4(b->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    b->patience = CLIENT_LOOKS;
  }
  if (b->client < 0 || (!answer(b->client, c) && --b->patience))
    return;
  close(b->client);
  b->client = -1;
}
