/* SPDX-License-Identifier: MIT
 *
 * A trace session: the agent counts aborts into the table of the segment while
 * trace_session is set; this side holds the claim, follows the process and
 * takes the rows over when a part or the session ends.  A part is one program
 * image, as in a sampling session.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "session/session_internal.h"

#define LOOK_EVERY (100 * MS) /* is the target there, which VMs has it */
#define LOOK_EARLY (2 * MS)   /* a VM of a command of ours waits for us */
#define EXEC_WAIT (1 * SEC)   /* for the next image's agent */
#define READ_EVERY (1 * SEC)  /* what the memory of VMs tells */

struct session_trace {
  struct target *t;
  bool from_start;
  const volatile sig_atomic_t *stop;
  struct aborts *into;
  struct shm shm; /* fd -1: between two parts, or after the last */
  uint32_t number;
  uint64_t start, ended, next_look, part_ended;
  uint64_t no_vm; /* when there was none yet */
  bool paused;
  uint64_t paused_since, paused_ns;
  struct session_trace_account past; /* sums of ended parts; of VMs, what was
                                        seen last */
  bool outside; /* there is no agent: memory is all there is */
  struct session_vm vm[TECS_VMS];
  unsigned vms;
  struct aborts *read; /* from the memory of VMs that are not heard */
  uint64_t next_read;
  enum session_trace_state state;
  enum result failed;
};

/* ---- a part ---- */

static enum result busy(struct session_trace *s, struct error *e)
{
  uint32_t owner = atomic_get(&s->shm.control->trace_owner);
  int pid = (int)target_pid(s->t);
  if (owner == s->shm.header->pid)
    return error_set(e, RESULT_BUSY,
                     "the program in process %d records its trace aborts "
                     "itself (tecs.utils.profile): one session at a time; "
                     "the program has to end that one (session:stop)",
                     pid);
  return error_set(e, RESULT_BUSY,
                   "the trace aborts of process %d are being recorded already, "
                   "by process %u: one session at a time; stop that one first "
                   "(tecs-attach stop %d)",
                   pid, owner, pid);
}

static enum result back_table(struct session_trace *s, struct error *e)
{
  enum result r = shm_back_aborts(&s->shm);
  int pid = (int)target_pid(s->t);
  if (r == RESULT_UNSUPPORTED)
    return error_set(e, RESULT_VERSION,
                     "the agent in process %d is older than this tecs-attach "
                     "and counts no trace aborts; start the program with the "
                     "libtecs-agent.so that belongs to this tecs-attach",
                     pid);
  if (r)
    return error_set(e, RESULT_NOMEM,
                     "no memory for the trace aborts of process %d: %zu KB of "
                     "shared memory are needed; free memory or raise the "
                     "limit of its container",
                     pid, SHM_ABORT_STEP * sizeof(struct tecs_abort) / 1024);
  return RESULT_OK;
}

/* The agent of a child of ours has begun it already. */
static bool begun(struct session_trace *s)
{
  const struct tecs_control *c = s->shm.control;
  s->number = atomic_acquire(&c->trace_session);
  return s->from_start && s->number &&
         atomic_get(&c->trace_owner) == (uint32_t)getpid();
}

/* The agent listens to traces only while a session is on.  Any thread will do:
 * best one that runs, since a signal can end a system call of one that waits.
 */
static void tell_agent(struct session_trace *s)
{
  struct target_tids tids = {0};
  pid_t chosen = 0;
  if (target_threads(s->t, &tids) != RESULT_OK)
    return;
  for (size_t i = 0; i < tids.count; i++) {
    char state = target_thread_state(s->t, tids.tid[i]);
    if (!state || state == 'Z' || state == 'X' ||
        target_thread_blocks(s->t, tids.tid[i], SIGURG))
      continue;
    if (!chosen || state == 'R')
      chosen = tids.tid[i];
    if (state == 'R')
      break;
  }
  if (chosen)
    tick_send(s->t, s->shm.header->cookie, chosen, TECS_TICK_TRACE);
  target_tids_free(&tids);
}

static void announce(struct session_trace *s)
{
  struct tecs_control *c = s->shm.control;
  if (begun(s))
    return;
  uint32_t number = (uint32_t)clock_mono_ns() ^ (uint32_t)getpid() << 16;
  while (!number || number == atomic_get(&c->trace_session) ||
         number == atomic_get(&s->shm.aborts->session))
    number++;
  s->number = number;
  atomic_set(&c->trace_paused, 0u);
  atomic_set(&c->trace_stop, 0u);
  atomic_set(&c->trace_owner, (uint32_t)getpid());
  atomic_release(&c->trace_session, number);
  tell_agent(s);
}

static enum result open_part(struct session_trace *s, struct error *e)
{
  enum result r = session_segment(s->t, &s->shm, e);
  if (r)
    return r;
  r = segment_wait_ready(s->t, &s->shm, s->stop, e);
  if (!r && !segment_lock(&s->shm, SESSION_TRACE))
    r = busy(s, e);
  if (!r)
    r = back_table(s, e);
  if (r)
    shm_detach(&s->shm);
  else
    announce(s);
  return r;
}

/* ---- its numbers ---- */

/* Rows that lie within the file: what is beyond would be a SIGBUS. */
static uint32_t rows_backed(const struct shm *shm)
{
  struct stat st;
  uint64_t first = (uint64_t)((uint8_t *)shm->abort_rows - shm->base);
  if (fstat(shm->fd, &st) || (uint64_t)st.st_size < first)
    return 0;
  uint64_t rows = ((uint64_t)st.st_size - first) / sizeof *shm->abort_rows;
  return rows < TECS_ABORT_ROWS ? (uint32_t)rows : TECS_ABORT_ROWS;
}

/* Nothing has happened in this session while the table is another's. */
static bool totals(const struct session_trace *s, struct tecs_aborts *out)
{
  if (s->shm.fd < 0 || atomic_acquire(&s->shm.aborts->session) != s->number)
    return false;
  *out = *s->shm.aborts;
  uint32_t backed = rows_backed(&s->shm);
  if (out->rows > backed)
    out->rows = backed;
  return true;
}

static bool row_ready(const struct tecs_abort *row)
{
  return atomic_acquire(&row->state) == 2;
}

static void add_rows(const struct session_trace *s, uint32_t rows,
                     struct session_trace_account *acc)
{
  for (uint32_t i = 0; i < rows; i++) {
    const struct tecs_abort *row = &s->shm.abort_rows[i];
    if (!row_ready(row))
      continue;
    if (atomic_get(&row->severity) == TECS_SEVERITY_INFO) {
      acc->benign += atomic_get(&row->count);
      acc->benign_sites++;
    } else {
      acc->sites++;
    }
  }
}

static uint64_t elapsed(const struct session_trace *s)
{
  uint64_t now = s->ended ? s->ended : clock_mono_ns();
  uint64_t out = s->paused_ns + (s->paused ? now - s->paused_since : 0);
  return now - s->start > out ? now - s->start - out : 0;
}

void session_trace_sums(struct session_trace *s,
                        struct session_trace_account *acc)
{
  struct tecs_aborts t;
  *acc = s->past;
  acc->elapsed_ns = elapsed(s);
  if (!totals(s, &t))
    return;
  acc->starts += t.starts;
  acc->stops += t.stops;
  acc->aborts += t.aborts;
  acc->blacklists += t.blacklists;
  acc->flushes += t.flushes;
  acc->overflow += t.overflow;
  add_rows(s, t.rows, acc);
}

/* ---- its rows ---- */

/* The bytes of a text, NUL-terminated; the game's process may write what it
 * likes. */
static bool take_text(char *to, size_t cap, const char *text, uint16_t len)
{
  if (len > cap)
    return false;
  for (size_t i = 0; i < len; i++)
    to[i] = text[i] ? text[i] : '?';
  to[len] = 0;
  return true;
}

static enum result take_row(struct aborts *into,
                            const struct tecs_abort *shared)
{
  const struct tecs_abort row = *shared; /* checked and used once */
  char reason[sizeof row.reason + 1], location[sizeof row.location + 1],
      zone[sizeof row.zone + 1];
  if (row.severity < TECS_SEVERITY_INFO ||
      row.severity > TECS_SEVERITY_BLACKLIST ||
      !take_text(reason, sizeof row.reason, row.reason, row.reason_len) ||
      !take_text(location, sizeof row.location, row.location,
                 row.location_len) ||
      !take_text(zone, sizeof row.zone, row.zone, row.zone_len))
    return RESULT_CORRUPT;
  struct aborts_row out = {.severity = row.severity,
                           .count = row.count,
                           .reason = reason,
                           .location = location,
                           .zone = zone,
                           .pt = row.pt,
                           .firstline = row.firstline,
                           .numline = row.numline};
  return aborts_add(into, &out);
}

static void take_rows(struct session_trace *s)
{
  struct tecs_aborts t;
  if (!totals(s, &t))
    return;
  for (uint32_t i = 0; i < t.rows; i++) {
    const struct tecs_abort *row = &s->shm.abort_rows[i];
    enum result r = row_ready(row) ? take_row(s->into, row) : RESULT_CORRUPT;
    if (r && !s->failed)
      s->failed = r;
  }
}

/* ---- its VMs ---- */

static void count_vm(struct session_trace_account *acc,
                     const struct session_vm *vm)
{
  acc->jit_off += !vm->jit;
  if (vm->events & TECS_VM_LISTENING)
    return; /* also when the program's own listener is in front */
  acc->deaf++;
  acc->withdrawn += (vm->events & TECS_VM_WITHDRAWN) != 0;
  acc->waiting += (vm->events & TECS_VM_WAITING) != 0;
  if (!(vm->events & TECS_VM_REPLACED))
    return;
  acc->replaced++;
  if (!acc->replaced_ns || vm->replaced_ns < acc->replaced_ns)
    acc->replaced_ns = vm->replaced_ns;
}

static void look_at_vms(struct session_trace *s)
{
  struct session_trace_account *acc = &s->past;
  unsigned known = 0;
  if (!s->outside)
    s->vms = session_vms(s->t, &s->shm, s->vm);
  else if (!s->vms)
    s->vms = session_find_vms(s->t, s->vm);
  acc->deaf = acc->replaced = acc->withdrawn = acc->waiting = 0;
  acc->jit_off = acc->unknown = 0;
  for (unsigned i = 0; i < s->vms; i++) {
    bool is_known = s->vm[i].layout != NULL;
    known += is_known;
    acc->unknown += !is_known;
    if (is_known)
      count_vm(acc, &s->vm[i]);
  }
  if (known > acc->vms)
    acc->vms = known;
}

/* Of VMs that are not heard: what their memory says now replaces what it said
 * before. */
static void read_memory(struct session_trace *s, bool objects)
{
  struct aborts *read = aborts_new();
  unsigned done = 0;
  for (unsigned i = 0; read && i < s->vms; i++)
    if (s->vm[i].layout && !(s->vm[i].events & TECS_VM_LISTENING))
      done += penalty_read(s->t, &s->vm[i], objects, read) == RESULT_OK;
  if (!done) {
    aborts_free(read);
    return;
  }
  aborts_free(s->read);
  s->read = read;
}

static void take_memory(struct session_trace *s)
{
  const struct aborts_row *row;
  size_t count = 0;
  enum result r = s->read ? aborts_sorted(s->read, false, &row, &count) : 0;
  for (size_t i = 0; i < count && !r; i++)
    r = aborts_add(s->into, &row[i]);
  if (r)
    s->failed = r;
  s->past.outside_sites += (unsigned)count;
  aborts_free(s->read);
  s->read = NULL;
}

/* VMs that came and went between two looks: those that were never closed, or
 * one, when there were events. */
static unsigned vms_of_the_dead(const struct session_trace *s)
{
  const struct session_trace_account *acc = &s->past;
  unsigned n = 0;
  for (unsigned i = 0; i < TECS_VMS; i++)
    n += atomic_acquire(&s->shm.vms[i].state) == TECS_VM_LIVE;
  return n ? n : acc->starts + acc->aborts + acc->flushes > 0;
}

/* What it counted stays; of its VMs, what was seen last. */
static void close_part(struct session_trace *s)
{
  struct tecs_control *c = s->shm.control;
  if (s->past.deaf)
    read_memory(s, true);
  take_memory(s);
  if (s->shm.fd < 0)
    return;
  atomic_release(&c->trace_paused, 1u); /* rows and sums of one moment */
  session_trace_sums(s, &s->past);
  if (!s->past.vms)
    s->past.vms = vms_of_the_dead(s);
  take_rows(s);
  atomic_release(&c->trace_session, 0u);
  atomic_set(&c->trace_owner, 0u);
  atomic_set(&c->trace_paused, 0u);
  tell_agent(s);
  shm_detach(&s->shm); /* and with its descriptor the lock */
}

/* ---- following the process ---- */

/* true: goes on in the next image, or may soon. */
static bool next_image(struct session_trace *s, uint64_t now)
{
  if (s->shm.fd >= 0) {
    close_part(s);
    s->part_ended = now;
  }
  if (!target_alive(s->t))
    return false;
  if (open_part(s, NULL) != RESULT_OK)
    return now - s->part_ended < EXEC_WAIT;
  s->past.execs++;
  return true;
}

static void follow_pause(struct session_trace *s, uint64_t now)
{
  bool paused = atomic_get(&s->shm.control->trace_paused) != 0;
  if (paused && !s->paused)
    s->paused_since = now;
  else if (!paused && s->paused)
    s->paused_ns += now - s->paused_since;
  s->paused = paused;
}

/* A VM that was just made has no library yet, that of jit neither. */
static void look(struct session_trace *s, uint64_t now)
{
  look_at_vms(s);
  if (!s->past.vms)
    s->no_vm = now;
  if (s->from_start && now - s->no_vm < LOOK_EVERY)
    s->past.jit_off = 0;
  if (!s->past.deaf || now < s->next_read)
    return;
  s->next_read = now + READ_EVERY;
  read_memory(s, false);
}

static bool present(struct session_trace *s)
{
  if (!target_alive(s->t))
    return false;
  return s->outside || target_segment_mapped(s->t, s->shm.fd);
}

static enum session_trace_state follow(struct session_trace *s, uint64_t now)
{
  if (s->shm.fd >= 0) {
    follow_pause(s, now);
    if (atomic_get(&s->shm.control->trace_stop))
      return SESSION_TRACE_STOPPED;
  }
  if (now < s->next_look)
    return SESSION_TRACE_RUNS;
  s->next_look =
      now + (s->from_start && !s->past.vms ? LOOK_EARLY : LOOK_EVERY);
  if ((s->shm.fd >= 0 || s->outside) && present(s))
    look(s, now);
  else if (s->outside || !next_image(s, now))
    return SESSION_TRACE_TARGET;
  return SESSION_TRACE_RUNS;
}

enum session_trace_state session_trace_poll(struct session_trace *s,
                                            uint64_t now)
{
  if (s->state == SESSION_TRACE_RUNS)
    s->state = follow(s, now);
  if (s->state != SESSION_TRACE_RUNS && !s->ended) {
    s->ended = now;
    close_part(s); /* nothing more is counted, and the place is free */
  }
  return s->state;
}

/* ---- the session ---- */

static enum result open_patiently(struct session_trace *s, struct error *e)
{
  uint64_t give_up = clock_mono_ns() + segment_patience(s->t);
  enum result r;
  do
    r = open_part(s, e);
  while (segment_is_early(s->t, r, give_up) && !*s->stop);
  return r;
}

/* Takes s over. */
static enum result begin(struct session_trace *s, struct session_trace **out,
                         struct error *e)
{
  *out = NULL;
  s->shm.fd = -1;
  enum result r = s->outside ? RESULT_OK : open_patiently(s, e);
  if (r) {
    free(s);
    return r;
  }
  s->start = s->no_vm = clock_mono_ns();
  look(s, s->start);
  *out = s;
  return RESULT_OK;
}

static enum result no_memory(struct error *e)
{
  return error_set(e, RESULT_NOMEM, "no memory for a session");
}

enum result session_trace_begin(struct target *t, bool from_start,
                                const volatile sig_atomic_t *stop,
                                struct aborts *into, struct session_trace **out,
                                struct error *e)
{
  struct session_trace *s = calloc(1, sizeof *s);
  if (!s)
    return no_memory(e);
  s->t = t;
  s->from_start = from_start;
  s->stop = stop;
  s->into = into;
  return begin(s, out, e);
}

enum result session_trace_outside(struct target *t, struct aborts *into,
                                  struct session_trace **out, struct error *e)
{
  struct session_trace *s = calloc(1, sizeof *s);
  if (!s)
    return no_memory(e);
  s->t = t;
  s->into = into;
  s->outside = true;
  return begin(s, out, e);
}

enum result session_trace_end(struct session_trace *s,
                              struct session_trace_account *acc)
{
  if (!s->ended) {
    session_trace_poll(s, clock_mono_ns());
    s->ended = clock_mono_ns();
  }
  close_part(s);
  session_trace_sums(s, acc);
  enum result r = s->failed;
  free(s);
  return r;
}
