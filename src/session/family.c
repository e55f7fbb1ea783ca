/* SPDX-License-Identifier: MIT
 *
 * A process and all that come from it, until they can be sampled.
 *
 * Who is new is told by /proc: a look costs one small read while no process
 * was made.  A process is kin when its parent is, or when it was started with
 * the variable that a launched command got: that also holds for daemons, whose
 * parents are gone before anybody sees them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "session/session_internal.h"

/* Not everything that belongs together is seen in one look: a parent may be
 * made behind the reader's back, an environment be empty within exec. */
#define STRANGER_YOUNG (500 * MS)
#define SCAN_EVERY (100 * MS) /* although no new pid was seen */
#define LOOK_SOON (2 * MS)    /* at a process that is starting */
#define LOOK_LATER (250 * MS) /* at one that has been there for long */
#define FILES_SOON (50 * MS)  /* the same for its files: dearer */
#define FILES_LATER (2 * SEC)
#define AGENT_COMES (300 * MS) /* within that, or not at all */

struct kin {
  pid_t pid;
  struct target *t; /* NULL: handed out, or given up for good */
  bool out;         /* handed out */
  uint64_t since, next_look, next_files;
  uint32_t tried; /* cookie of the agent that was handed out last; 0: none */
  bool no_agent;  /* handed out without one */
  bool given_up;  /* nothing is to be had from that one */
};

struct stranger {
  pid_t pid;
  uint64_t since;
};

struct session_family {
  const char *variable; /* NULL: none */
  bool agents;          /* they have some */
  struct kin *kin;
  size_t count, cap;
  struct stranger *known; /* as the last scan found them, ascending */
  size_t known_count;
  struct target_tids pids; /* scratch of the scan */
  pid_t newest;
  uint64_t next_scan;
  unsigned seen; /* kin, of all time */
};

/* ---- who is kin ---- */

static struct kin *find_kin(const struct session_family *f, pid_t pid)
{
  for (size_t i = 0; i < f->count; i++)
    if (f->kin[i].pid == pid)
      return &f->kin[i];
  return NULL;
}

static bool add_kin(struct session_family *f, pid_t pid, uint64_t now)
{
  if (f->count == f->cap) {
    size_t cap = f->cap ? 2 * f->cap : 16;
    struct kin *grown = realloc(f->kin, cap * sizeof *grown);
    if (!grown)
      return false;
    f->kin = grown;
    f->cap = cap;
  }
  struct kin k = {.pid = pid, .since = now, .next_look = now};
  k.next_files = now + FILES_SOON;
  if (target_open(pid, &k.t, NULL) != RESULT_OK)
    return false; /* gone, or another user's */
  f->kin[f->count++] = k;
  f->seen++;
  return true;
}

static void drop_kin(struct session_family *f, size_t i)
{
  target_close(f->kin[i].t);
  f->kin[i] = f->kin[--f->count];
}

static bool is_kin(const struct session_family *f, pid_t pid)
{
  pid_t parent = target_parent(pid);
  return (parent && find_kin(f, parent)) ||
         (f->variable && target_started_with(pid, f->variable));
}

/* ---- the scan ---- */

static int by_number(const void *a, const void *b)
{
  pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
  return (x > y) - (x < y);
}

/* Since when that pid is known, or now.  The cursor walks along. */
static uint64_t known_since(const struct session_family *f, size_t *at,
                            pid_t pid, uint64_t now)
{
  while (*at < f->known_count && f->known[*at].pid < pid)
    (*at)++;
  bool known = *at < f->known_count && f->known[*at].pid == pid;
  return known ? f->known[*at].since : now;
}

/* Takes over the list of processes; the first one knows nobody, so that who
 * was there before is looked at once. */
static bool take_list(struct session_family *f, uint64_t now)
{
  size_t n = f->pids.count, at = 0;
  struct stranger *known = malloc((n ? n : 1) * sizeof *known);
  if (!known)
    return false;
  qsort(f->pids.tid, n, sizeof *f->pids.tid, by_number);
  for (size_t i = 0; i < n; i++)
    known[i] = (struct stranger){f->pids.tid[i],
                                 known_since(f, &at, f->pids.tid[i], now)};
  free(f->known);
  f->known = known;
  f->known_count = n;
  return true;
}

/* A parent may have a higher pid than its child: again until nobody is added.
 */
static void adopt(struct session_family *f, uint64_t now)
{
  bool again = true;
  while (again) {
    again = false;
    for (size_t i = 0; i < f->known_count; i++) {
      const struct stranger *s = &f->known[i];
      if (now - s->since < STRANGER_YOUNG && !find_kin(f, s->pid) &&
          is_kin(f, s->pid))
        again |= add_kin(f, s->pid, now);
    }
  }
}

static void scan(struct session_family *f, uint64_t now)
{
  pid_t newest = target_newest_pid();
  if (newest && newest == f->newest && now < f->next_scan)
    return;
  f->newest = newest;
  f->next_scan = now + SCAN_EVERY;
  if (target_processes(&f->pids) == RESULT_OK && take_list(f, now))
    adopt(f, now);
}

/* ---- what can be sampled ---- */

static uint64_t within(uint64_t v, uint64_t lo, uint64_t hi)
{
  return v < lo ? lo : v > hi ? hi : v;
}

/* A VM that its agent knows of, or LuaJIT in its files (some VMs show
 * themselves in a sample only). */
static bool shows_vm(struct kin *k, const struct shm *shm, uint64_t now)
{
  bool again = k->tried == shm->header->cookie;
  if (again && k->given_up)
    return false;
  for (unsigned i = 0; i < TECS_VMS; i++)
    if (atomic_acquire(&shm->vms[i].state) == TECS_VM_LIVE)
      return true;
  if (again || now < k->next_files)
    return false;
  k->next_files = now + within(now - k->since, FILES_SOON, FILES_LATER);
  return target_has_luajit(k->t) != TARGET_LUAJIT_NO;
}

/* LuaJIT without an agent: it was started by a program that clears its
 * environment, or is linked statically.  A child by vfork looks like that, too,
 * and is left alone. */
static bool lacks_agent(struct kin *k, uint64_t patience, uint64_t now)
{
  pid_t parent = target_parent(k->pid);
  if (k->no_agent || now - k->since < patience ||
      (patience && now < k->next_files) ||
      (parent && target_shares_memory(k->pid, parent)))
    return false;
  k->next_files = now + within(now - k->since, FILES_SOON, FILES_LATER);
  k->no_agent = target_has_luajit(k->t) != TARGET_LUAJIT_NO;
  return k->no_agent;
}

/* A child that has not executed yet may hold its parent's segment: that one is
 * not its own. */
static bool is_ready(const struct session_family *f, struct kin *k,
                     uint64_t now)
{
  struct shm shm;
  k->next_look = now + within((now - k->since) / 4, LOOK_SOON, LOOK_LATER);
  if (!f->agents)
    return lacks_agent(k, 0, now);
  enum result r = session_segment(k->t, &shm, NULL);
  if (r != RESULT_OK)
    return r == RESULT_NOAGENT && lacks_agent(k, AGENT_COMES, now);
  bool ready = atomic_acquire(&shm.header->state) == TECS_STATE_READY &&
               shows_vm(k, &shm, now);
  if (ready) {
    k->tried = shm.header->cookie;
    k->given_up = false;
  }
  shm_detach(&shm);
  return ready;
}

struct target *session_family_next(struct session_family *f, uint64_t now,
                                   bool *agent)
{
  scan(f, now);
  for (size_t i = 0; i < f->count;) {
    struct kin *k = &f->kin[i];
    if (k->out || now < k->next_look) {
      i++;
    } else if (!target_alive(k->t)) {
      drop_kin(f, i);
    } else if (is_ready(f, k, now)) {
      struct target *t = k->t;
      k->t = NULL;
      k->out = true;
      *agent = !k->no_agent;
      return t;
    } else {
      i++;
    }
  }
  return NULL;
}

void session_family_return(struct session_family *f, struct target *t,
                           enum session_fate fate, uint64_t now)
{
  struct kin *k = find_kin(f, target_pid(t));
  if (!k || !target_alive(t)) {
    target_close(t);
    if (k)
      drop_kin(f, (size_t)(k - f->kin));
    return;
  }
  k->t = t;
  k->out = false;
  k->next_look = now;
  k->given_up = fate == SESSION_FATE_GIVEN_UP;
  if (fate == SESSION_FATE_OTHER_PROGRAM) { /* starts afresh */
    k->since = now;
    k->next_files = now + FILES_SOON;
    k->no_agent = false;
  }
}

bool session_family_waits(const struct session_family *f, uint64_t now,
                          uint64_t wait_ns)
{
  for (size_t i = 0; i < f->count; i++)
    if (!f->kin[i].out && !f->kin[i].tried && now - f->kin[i].since < wait_ns)
      return true;
  return false;
}

unsigned session_family_seen(const struct session_family *f)
{
  return f->seen;
}

/* ---- life ---- */

/* Everybody who is there already is looked at as if he were new. */
static enum result begin(struct session_family *f, pid_t root)
{
  uint64_t now = clock_mono_ns();
  if (!add_kin(f, root, now) && !f->variable)
    return RESULT_GONE;
  enum result r = target_processes(&f->pids);
  if (r == RESULT_OK && !take_list(f, now))
    r = RESULT_NOMEM;
  if (r == RESULT_OK)
    adopt(f, now);
  return r;
}

enum result session_family_new(pid_t root, const char *variable, bool agents,
                               struct session_family **out, struct error *e)
{
  struct session_family *f = calloc(1, sizeof *f);
  *out = NULL;
  if (!f)
    return error_set(e, RESULT_NOMEM, "no memory");
  f->variable = variable;
  f->agents = agents;
  enum result r = begin(f, root);
  if (r != RESULT_OK) {
    session_family_free(f);
    return error_set(e, r, "cannot follow process %d: %s", (int)root,
                     result_text(r));
  }
  *out = f;
  return RESULT_OK;
}

void session_family_free(struct session_family *f)
{
  if (!f)
    return;
  while (f->count)
    drop_kin(f, 0);
  free(f->kin);
  free(f->known);
  target_tids_free(&f->pids);
  free(f);
}
