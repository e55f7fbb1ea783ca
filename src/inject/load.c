/* SPDX-License-Identifier: MIT
 *
 * The whole of it: a thread at a safe moment, memory for a stack, the library
 * where the process can see it, dlopen, and back.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/inject_internal.h"

#define STOP_WAIT UINT64_C(200000000) /* for one thread to stop */

enum {
  STACK_SIZE = 512 * 1024, /* the loader and the agent's constructor use 20 */
  ROUND_MAX = 8,           /* threads looked at between two naps */
  ERROR_TEXT = 320,
  MFD_EXECUTABLE = 0x10, /* MFD_EXEC, Linux 6.3 */
  LOADER_NOW = 2,        /* RTLD_NOW, and RTLD_LOCAL */
};

struct load {
  const struct inject_options *o;
  struct inject_account *account;
  struct places at;
  struct remote r;
  uint64_t since;  /* the thread stands still */
  uint64_t memory; /* STACK_SIZE in the process; 0: none */
  uint64_t errno_at;
  int32_t errno_was;
  int64_t file; /* the process's descriptor of the copy; -1: none */
};

static enum result lost(struct load *l, struct error *e)
{
  return error_set(e, RESULT_GONE, "process %d has ended",
                   (int)target_pid(l->at.t));
}

/* ---- a thread at a safe moment ---- */

/* OK: held and safe.  BUSY: not now, *why says so. */
static enum result look(struct load *l, pid_t tid, const char **why,
                        struct error *e)
{
  enum result r = tracee_seize(l->at.t, tid, &l->r.tr, e);
  if (r != RESULT_OK)
    return r == RESULT_GONE ? RESULT_BUSY : r;
  l->since = clock_mono_ns();
  l->account->looks++;
  *why = "not to be stopped";
  if (tracee_stop(&l->r.tr, l->since + STOP_WAIT) &&
      tracee_get(&l->r.tr, &l->r.own)) {
    *why = moment_hindrance(&l->at, tid, &l->r.own);
    if (!*why && remote_begin(&l->r, e) == RESULT_OK)
      return RESULT_OK;
    if (!*why)
      *why = "on a stack without room";
  }
  tracee_release(&l->r.tr);
  return RESULT_BUSY;
}

static enum result look_round(struct load *l, const struct target_tids *tids,
                              size_t *next, const char **why, bool *stopped,
                              struct error *e)
{
  size_t n = tids->count < ROUND_MAX ? tids->count : ROUND_MAX;
  for (size_t i = 0; i < n; i++) {
    pid_t tid = tids->tid[(*next)++ % tids->count];
    char state = target_thread_state(l->at.t, tid);
    *stopped |= state == 'T';
    if (state != 'R' && state != 'S' && state != 't')
      continue;
    enum result r = look(l, tid, why, e);
    if (r != RESULT_BUSY)
      return r;
  }
  return RESULT_BUSY;
}

static enum result no_moment(struct load *l, const char *why, bool stopped,
                             struct error *e)
{
  int pid = (int)target_pid(l->at.t);
  pid_t owner = moment_loader_owner(&l->at);
  if (stopped && !l->account->looks)
    return error_set(e, RESULT_BUSY,
                     "process %d is stopped: let it go on first (kill -CONT "
                     "%d)",
                     pid, pid);
  if (owner)
    return error_set(e, RESULT_BUSY,
                     "the dynamic loader of process %d has been busy all the "
                     "time (its thread %d is loading a library); try again",
                     pid, (int)owner);
  return error_set(e, RESULT_BUSY,
                   "no thread of process %d came to a safe moment (the last "
                   "one was %s); try again",
                   pid, why);
}

/* Not in step with anything that the process does. */
static void nap(unsigned round)
{
  const struct timespec ts = {0, 300000 + (long)(round * 7919 % 2700) * 1000};
  nanosleep(&ts, NULL);
}

/* A program that had just been started may have brought it itself. */
static bool agent_came(const struct load *l)
{
  for (size_t i = 0; i < l->at.maps.count; i++)
    if (!strcmp(l->at.maps.map[i].path, "/memfd:" TECS_SEGMENT_NAME))
      return true;
  return false;
}

/* OK: a thread is held, or the agent is there and none is. */
static enum result find_moment(struct load *l, struct error *e)
{
  uint64_t deadline = clock_mono_ns() + l->o->moment_ns;
  struct target_tids tids = {0};
  const char *why = "not to be found";
  enum result r = RESULT_BUSY;
  size_t next = 0;
  for (unsigned round = 0; r == RESULT_BUSY; round++) {
    bool stopped = false;
    if (!target_alive(l->at.t) || !places_refresh(&l->at) ||
        target_threads(l->at.t, &tids) != RESULT_OK || !tids.count) {
      r = lost(l, e);
      break;
    }
    if (agent_came(l)) {
      r = RESULT_OK;
      break;
    }
    r = look_round(l, &tids, &next, &why, &stopped, e);
    if (r != RESULT_BUSY)
      break;
    if (*l->o->stop)
      r = RESULT_END;
    else if (clock_mono_ns() > deadline || (stopped && !l->account->looks)) {
      no_moment(l, why, stopped, e);
      break;
    }
    nap(round);
  }
  target_tids_free(&tids);
  return r;
}

/* ---- what the thread needs there ---- */

static enum result call_kernel(struct load *l, long number,
                               const uint64_t arg[6], int64_t *ret,
                               const char *what, struct error *e)
{
  enum result r = remote_syscall(&l->r, number, arg, ret, e);
  if (r == RESULT_OK && *ret < 0 && *ret > -4096)
    r = error_set(e, RESULT_IO, "process %d could not %s: %s",
                  (int)target_pid(l->at.t), what, strerror((int)-*ret));
  return r;
}

static enum result get_memory(struct load *l, struct error *e)
{
  const uint64_t arg[6] = {0,
                           STACK_SIZE,
                           PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                           (uint64_t)-1,
                           0};
  int64_t got;
  enum result r =
      call_kernel(l, SYS_mmap, arg, &got, "get memory for a stack", e);
  if (r == RESULT_OK)
    l->memory = (uint64_t)got;
  return r;
}

static enum result keep_errno(struct load *l, struct error *e)
{
  const struct remote_call call = {.function = l->at.errno_location};
  enum result r = remote_call(&l->r, &call, &l->errno_at, e);
  if (r == RESULT_OK && target_read(l->at.t, l->errno_at, &l->errno_was,
                                    sizeof l->errno_was) != RESULT_OK)
    r = lost(l, e);
  return r;
}

static bool put_text(struct load *l, const char *text)
{
  return tracee_poke(&l->r.tr, l->memory, text, strlen(text) + 1);
}

/* ---- the library, as the process can see it ---- */

/* Is the file of our path the one that the process finds there? */
static bool visible(struct load *l)
{
  char path[4400];
  struct stat ours, theirs;
  snprintf(path, sizeof path, "/proc/%d/task/%d/root%s",
           (int)target_pid(l->at.t), (int)l->r.tr.tid, l->o->library);
  return stat(l->o->library, &ours) == 0 && stat(path, &theirs) == 0 &&
         ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

static bool copy(int from, int to)
{
  char piece[65536];
  ssize_t n;
  while ((n = read(from, piece, sizeof piece)) > 0)
    for (ssize_t at = 0, done; at < n; at += done)
      if ((done = write(to, piece + at, (size_t)(n - at))) <= 0)
        return false;
  return n == 0;
}

static enum result fill(struct load *l, struct error *e)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/fd/%d",
           (int)target_pid(l->at.t), (int)l->r.tr.tid, (int)l->file);
  int from = open(l->o->library, O_RDONLY | O_CLOEXEC);
  int to = from < 0 ? -1 : open(path, O_WRONLY | O_CLOEXEC);
  bool ok = to >= 0 && copy(from, to);
  enum result r = RESULT_OK;
  if (!ok)
    r = error_set(e, RESULT_IO, "cannot copy %.200s into process %d: %s",
                  l->o->library, (int)target_pid(l->at.t), strerror(errno));
  if (to >= 0)
    close(to);
  if (from >= 0)
    close(from);
  return r;
}

static enum result make_copy(struct load *l, struct error *e)
{
  uint64_t arg[6] = {l->memory, MFD_CLOEXEC | MFD_EXECUTABLE};
  if (!put_text(l, "libtecs-agent.so"))
    return lost(l, e);
  enum result r = call_kernel(l, SYS_memfd_create, arg, &l->file,
                              "make a file in memory", e);
  if (l->file == -EINVAL) {
    arg[1] = MFD_CLOEXEC;
    r = call_kernel(l, SYS_memfd_create, arg, &l->file, "make a file in memory",
                    e);
  }
  if (r != RESULT_OK)
    l->file = -1;
  l->account->copied = r == RESULT_OK;
  return r == RESULT_OK ? fill(l, e) : r;
}

/* The loader knows libraries by the path that they were loaded with: this one
 * names the file as nobody else would. */
static enum result offer_library(struct load *l, struct error *e)
{
  char path[64];
  if (visible(l) && strlen(l->o->library) < 4096)
    return put_text(l, l->o->library) ? RESULT_OK : lost(l, e);
  enum result r = make_copy(l, e);
  snprintf(path, sizeof path, "/proc/self/fd/./%d", (int)l->file);
  if (r == RESULT_OK && !put_text(l, path))
    r = lost(l, e);
  return r;
}

/* ---- the call ---- */

static void read_text(struct load *l, uint64_t at, char *out, size_t size)
{
  size_t n = 0;
  while (n + 1 < size &&
         target_read(l->at.t, at + n, out + n, 1) == RESULT_OK && out[n])
    n++;
  out[n] = 0;
}

/* What dlerror says; or why there is no agent although it has nothing to say.
 */
static enum result loader_error(struct load *l, struct error *e)
{
  const struct remote_call call = {.function = l->at.dlerror,
                                   .stack_end = l->memory + STACK_SIZE};
  char text[ERROR_TEXT] = "";
  uint64_t at = 0;
  if (l->at.dlerror && remote_call(&l->r, &call, &at, e) == RESULT_OK && at)
    read_text(l, at, text, sizeof text);
  return error_set(e, RESULT_IO, "process %d could not load the agent: %s",
                   (int)target_pid(l->at.t),
                   *text ? text : "its dynamic loader does not say why");
}

/* The loader has not come back.  A thread that waits for its lock and holds
 * none of it has changed nothing yet; any other is left to come back by itself,
 * since the lock would stay locked. */
static enum result overdue(struct load *l, struct error *e)
{
  int pid = (int)target_pid(l->at.t), tid = (int)l->r.tr.tid;
  struct user_regs_struct regs;
  bool still = tracee_stop(&l->r.tr, clock_mono_ns() + STOP_WAIT) &&
               tracee_regs(&l->r.tr, &regs) && regs.orig_rax == SYS_futex &&
               regs.rdi - l->at.loader_data < l->at.loader_data_size;
  if (still &&
      moment_loader_owner(&l->at) != target_thread_ns_tid(l->at.t, tid))
    return error_set(e, RESULT_BUSY,
                     "the dynamic loader of process %d is busy; its thread %d "
                     "was put back where it was",
                     pid, tid);
  l->account->unfinished = true;
  return error_set(e, RESULT_BUSY,
                   "the dynamic loader of process %d has not come back after "
                   "%.1f s.  That cannot be undone: its thread %d goes on with "
                   "its own work when the loader returns, and the agent is "
                   "there then",
                   pid, (double)l->o->call_ns / 1e9, tid);
}

static enum result call_loader(struct load *l, struct error *e)
{
  const struct remote_call call = {.function = l->at.dlopen,
                                   .a = l->memory,
                                   .b = LOADER_NOW,
                                   .stack_end = l->memory + STACK_SIZE,
                                   .deadline_ns =
                                       clock_mono_ns() + l->o->call_ns};
  int segment;
  enum result r = remote_call(&l->r, &call, NULL, e);
  if (r == RESULT_BUSY)
    return overdue(l, e);
  if (r != RESULT_OK)
    return r;
  r = target_segment_open(l->at.t, &segment, e);
  if (r == RESULT_OK)
    close(segment);
  return r == RESULT_NOAGENT ? loader_error(l, e) : r;
}

/* ---- and back ---- */

static void give_back(struct load *l)
{
  const uint64_t file[6] = {(uint64_t)l->file};
  const uint64_t memory[6] = {l->memory, STACK_SIZE};
  int64_t ret;
  if (l->file >= 0)
    remote_syscall(&l->r, SYS_close, file, &ret, NULL);
  if (l->memory)
    remote_syscall(&l->r, SYS_munmap, memory, &ret, NULL);
  if (l->errno_at)
    tracee_poke(&l->r.tr, l->errno_at, &l->errno_was, sizeof l->errno_was);
}

static enum result visit(struct load *l, struct error *e)
{
  enum result r = keep_errno(l, e);
  if (r == RESULT_OK)
    r = get_memory(l, e);
  if (r == RESULT_OK)
    r = offer_library(l, e);
  if (r == RESULT_OK)
    r = call_loader(l, e);
  if (l->account->unfinished) {
    remote_leave(&l->r);
  } else {
    if (r != RESULT_GONE)
      give_back(l);
    remote_end(&l->r);
  }
  l->account->held_ns = clock_mono_ns() - l->since;
  return r;
}

enum result inject_load(struct target *t, const struct inject_options *o,
                        struct inject_account *account, struct error *e)
{
  struct load *l = calloc(1, sizeof *l);
  *account = (struct inject_account){0};
  if (!l)
    return error_set(e, RESULT_NOMEM, "no memory");
  l->o = o;
  l->account = account;
  l->file = -1;
  enum result r = refuse_check(t, e);
  if (r == RESULT_OK)
    r = places_find(t, &l->at, e);
  l->r.at = &l->at;
  if (r == RESULT_OK)
    r = find_moment(l, e);
  if (r == RESULT_OK && l->r.tr.seized) {
    account->tid = l->r.tr.tid;
    r = visit(l, e);
  }
  places_free(&l->at);
  free(l);
  return r;
}

enum result inject_possible(struct target *t, struct error *e)
{
  struct places at = {0};
  enum result r = refuse_check(t, e);
  if (r == RESULT_OK)
    r = places_find(t, &at, e);
  places_free(&at);
  return r;
}
