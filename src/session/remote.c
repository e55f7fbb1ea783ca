/* SPDX-License-Identifier: MIT
 *
 * Samples without an agent: the one running thread is stopped by ptrace, and
 * what the agent's handler would have recorded is recorded from here, into a
 * ring in our own memory.  It goes on at once; all that takes time comes
 * afterwards, as with an agent.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "session/remote_internal.h"

/* A runnable thread stands when it gets a CPU for the next time.  One that does
 * not has just gone to sleep where no one wakes it. */
#define STOP_WAIT (100 * MS)
#define RELEASE_WAIT (1 * SEC) /* at the end */
#define PENDING_MAX 8u
#define PENDING_EVERY (1 * MS)
#define NAMES_FIRST (50 * MS) /* then twice as long, until each_second does */
#define NAMES_NEW (250 * MS)  /* after functions that were met later */

struct remote_slot {
  struct capture capture;
  uint64_t page[PAGES_KEPT]; /* what the last sample looked at */
  unsigned pages;
};

struct remote {
  struct beacon beacon;
  int image;
  struct shm segment; /* of an agent that is there all the same */
  struct pages *pages;
  struct remote_program program;
  struct capture_vms vms;
  struct capture_host host;
  uint64_t unplaced; /* an interpreter in a file that is not known yet */
  bool again;        /* it has just been met */
  struct remote_near near;
  uint64_t next_names, names_step;
  size_t named; /* functions when names were looked for */
  struct target_stop pending[PENDING_MAX];
  struct remote_slot *slot[TECS_SLOTS];
};

/* ---- what room capture asks ---- */

static size_t copy(struct capture *c, void *to, uint64_t from, size_t n)
{
  return pages_copy(c->mem.ctx, to, from, n);
}

/* A library that was loaded a moment ago is in no map that was read: once more,
 * with new maps.  Code that is in no file at all is met twice. */
static uint64_t unwind_table(void *session, uint64_t pc)
{
  struct session *s = session;
  uint64_t addr, size;
  const struct module *mod = modules_find(s->modules, pc);
  s->remote->again = !mod && s->remote->unplaced != pc;
  if (!mod)
    s->remote->unplaced = pc;
  return mod && module_eh_frame_hdr(mod, &addr, &size) ? addr : 0;
}

/* ---- opening ---- */

/* An agent's session and ours keep each other out. */
static enum result lock_segment(struct session *s, struct remote *r)
{
  if (session_segment(s->t, &r->segment, NULL) != RESULT_OK)
    return RESULT_OK;
  struct tecs_control *c = r->segment.control;
  uint32_t owner = atomic_get(&c->owner);
  if (segment_lock(&r->segment, SESSION_SAMPLING)) {
    atomic_set(&c->owner, (uint32_t)getpid());
    return RESULT_OK;
  }
  shm_detach(&r->segment);
  return error_set(s->e, RESULT_BUSY,
                   "process %d is being sampled already, by process %u: one "
                   "session at a time; stop that one first (tecs-attach "
                   "stop %d)",
                   (int)target_pid(s->t), owner, (int)target_pid(s->t));
}

static enum result not_traced(struct session *s)
{
  struct target_tids tids = {0};
  enum result r = target_threads(s->t, &tids);
  pid_t tracer = 0;
  for (size_t i = 0; r == RESULT_OK && i < tids.count && !tracer; i++)
    tracer = target_thread_tracer(s->t, tids.tid[i]);
  target_tids_free(&tids);
  return tracer ? target_traced(s->t, tracer, s->e) : RESULT_OK;
}

static enum result prepare(struct session *s, struct remote *r)
{
  r->pages = pages_new(s->t);
  if (!r->pages || shm_private(&s->shm) != RESULT_OK)
    return error_set(s->e, RESULT_NOMEM, "no memory for a session");
  remote_program_read(s->t, &r->program);
  r->vms.published = s->shm.vms;
  r->vms.unwind_table = unwind_table;
  r->vms.ctx = s;
  r->host = (struct capture_host){
      .vms = &r->vms, .control = s->shm.control, .copy = copy};
  return RESULT_OK;
}

static enum result open_remote(struct session *s)
{
  struct remote *r = calloc(1, sizeof *r);
  if (!r)
    return error_set(s->e, RESULT_NOMEM, "no memory for a session");
  s->remote = r;
  r->image = r->beacon.fd = r->beacon.client = r->segment.fd = -1;
  enum result res = beacon_open(&r->beacon, s->t, s->e);
  if (res == RESULT_OK)
    res = lock_segment(s, r);
  if (res == RESULT_OK)
    res = not_traced(s);
  if (res == RESULT_OK)
    res = target_image_open(s->t, &r->image, s->e);
  if (res == RESULT_OK)
    res = prepare(s, r);
  if (res != RESULT_OK)
    return res;
  claim_announce(s);
  s->claimed = true;
  return RESULT_OK;
}

/* ---- threads that have not come to stand ---- */

static bool release(struct session *s, uint64_t timeout_ns)
{
  bool open = false;
  for (unsigned i = 0; i < PENDING_MAX; i++) {
    struct target_stop *p = &s->remote->pending[i];
    if (p->state != TARGET_FREE)
      open |= target_stop_end(s->t, p, timeout_ns) != RESULT_OK;
  }
  return !open;
}

static struct target_stop *free_stop(struct remote *r)
{
  for (unsigned i = 0; i < PENDING_MAX; i++)
    if (r->pending[i].state == TARGET_FREE)
      return &r->pending[i];
  return NULL;
}

static bool is_pending(const struct remote *r, pid_t tid)
{
  for (unsigned i = 0; i < PENDING_MAX; i++)
    if (r->pending[i].state != TARGET_FREE && r->pending[i].tid == tid)
      return true;
  return false;
}

/* ---- one sample ---- */

static struct remote_slot *slot_of(struct session *s, unsigned i)
{
  struct remote *r = s->remote;
  struct tecs_slot *shared = &s->shm.slots[i];
  if (!r->slot[i])
    r->slot[i] = calloc(1, sizeof **r->slot);
  if (!r->slot[i])
    return NULL;
  struct capture *c = &r->slot[i]->capture;
  if (c->slot != shared || c->generation != shared->generation) {
    c->host = &r->host;
    c->slot = shared;
    c->ring = s->shm.rings + (size_t)i * TECS_RING_BYTES;
    pages_mem(r->pages, &c->mem);
    capture_reset(c, shared->generation);
    shared->calls = shared->lost = 0;
    shared->generation_seen = shared->generation;
    r->slot[i]->pages = 0;
  }
  return r->slot[i];
}

/* What will be looked at: the stack, and what the last sample looked at. */
static void read_ahead(struct session *s, struct remote_slot *sl,
                       const struct capture_thread *th)
{
  struct pages *p = s->remote->pages;
  uint64_t sp = th->reg[TECS_REG_RSP];
  uint64_t end = sp < th->pointer ? th->pointer : th->main_stack_end;
  uint64_t max = s->shm.control->stack_max;
  if (end > sp && end - sp < max)
    max = end - sp;
  pages_begin(p);
  pages_want(p, sp, max);
  pages_want_again(p, sl->page, sl->pages);
  pages_read(p);
}

/* While the thread stands still. */
static enum result record(struct session *s, struct remote_slot *sl,
                          const struct target_stop *stop)
{
  struct capture_thread th;
  struct capture *c = &sl->capture;
  enum result res = remote_thread_read(&s->remote->program, stop, &th);
  if (res != RESULT_OK)
    return res;
  read_ahead(s, sl, &th);
  c->mem.faults = 0;
  if (!capture_take(c, &th))
    c->slot->lost++;
  c->slot->fault_count += c->mem.faults;
  c->slot->calls++;
  c->seq++;
  sl->pages = pages_used(s->remote->pages, sl->page);
  return RESULT_OK;
}

static enum result stop_and_record(struct session *s, struct thread *th,
                                   struct remote_slot *sl,
                                   struct target_stop *stop)
{
  struct error e;
  uint64_t start = clock_mono_ns();
  enum result res = target_stop(s->t, th->tid, STOP_WAIT, stop, &e);
  if (res == RESULT_PERM || res == RESULT_IO)
    s->failed = error_set(s->e, res, "%s", e.text);
  if (res != RESULT_OK)
    return res;
  sl->capture.written = NULL;
  res = stop->halted ? RESULT_END : record(s, sl, stop);
  target_stop_end(s->t, stop, 0);
  uint64_t held = clock_mono_ns() - start;
  th->held += held;
  if (res == RESULT_OK && sl->capture.written)
    sl->capture.written->cost_ns = (uint32_t)held;
  return res;
}

static bool same_image(struct session *s)
{
  return target_image_same(s->remote->image);
}

/* What another program's memory said is not to be named by this one's: the
 * sample is taken back, the others are good. */
static void part_is_over(struct session *s, unsigned i, uint64_t head)
{
  s->shm.slots[i].head = head;
  drain_rings(s, UINT64_MAX);
  s->image_gone = true;
}

/* What was read with the interpreter's bounds unknown is taken back. */
static void place_again(struct session *s, unsigned i, uint64_t head,
                        uint64_t now)
{
  struct remote *r = s->remote;
  s->shm.slots[i].head = head;
  capture_reset(&r->slot[i]->capture, r->slot[i]->capture.generation);
  for (unsigned k = 0; k < capture_vm_count(&r->vms); k++)
    if (r->vms.entry[k].state == TECS_VM_LIVE &&
        r->vms.entry[k].asm_pc == r->unplaced)
      capture_vm_remove(&r->vms, r->vms.entry[k].g);
  r->again = false;
  s->next_refresh = now;
  drain_refresh(s, now);
}

static bool sample(struct session *s, struct thread *th, uint64_t now)
{
  unsigned i = (unsigned)th->slot;
  struct slot *sl = &s->slot[i];
  struct remote_slot *own = slot_of(s, i);
  struct target_stop *stop = free_stop(s->remote);
  if (!own)
    s->failed = error_set(s->e, RESULT_NOMEM, "no memory for samples");
  if (!own || !stop || is_pending(s->remote, th->tid))
    return true;
  if (slot_presses(s, i))
    drain_slot(s, i, UINT64_MAX);
  sl->sent_at = now;
  uint64_t head = s->shm.slots[i].head;
  remote_near_begin(&s->remote->near, s->t, th->tid);
  enum result res = stop_and_record(s, th, own, stop);
  remote_near_end(&s->remote->near);
  if (!same_image(s))
    part_is_over(s, i, head);
  else if (s->remote->again)
    return place_again(s, i, head, now), true;
  if (res == RESULT_GONE || res == RESULT_END || s->failed || s->image_gone)
    return res != RESULT_GONE; /* it is as if it had not been asked */
  sl->sent++;
  s->acc->sent++;
  sl->given_up += res != RESULT_OK;
  return true;
}

/* ---- around it ---- */

/* Functions have no names before they are looked for, and a process may end
 * soon: the first looks come early.  So may a VM that came later, or a script:
 * new functions are not left to the look of each second. */
static void look_for_names(struct session *s, uint64_t now)
{
  struct remote *r = s->remote;
  if (r->next_names == UINT64_MAX && vm_store_functions(s->vm) != r->named)
    r->next_names = now + NAMES_NEW;
  if (now < r->next_names || !s->acc->sent)
    return;
  r->named = vm_store_functions(s->vm);
  if (r->names_step && same_image(s))
    vm_store_name_late(s->vm);
  if (r->names_step <= SEC)
    r->names_step = r->names_step ? 2 * r->names_step : NAMES_FIRST;
  r->next_names = r->names_step > SEC ? UINT64_MAX : now + r->names_step;
}

static uint64_t attend(struct session *s, uint64_t now)
{
  beacon_answer(&s->remote->beacon, s->shm.control);
  look_for_names(s, now);
  return release(s, 0) ? UINT64_MAX : now + PENDING_EVERY;
}

static void close_remote(struct session *s)
{
  struct remote *r = s->remote;
  if (!r)
    return;
  release(s, RELEASE_WAIT);
  for (unsigned i = 0; i < TECS_SLOTS; i++)
    free(r->slot[i]);
  pages_free(r->pages);
  if (s->shm.base)
    shm_detach(&s->shm);
  if (r->segment.base) {
    atomic_set(&r->segment.control->owner, 0u);
    shm_detach(&r->segment); /* and with its descriptor the lock */
  }
  if (r->image >= 0)
    close(r->image);
  beacon_close(&r->beacon);
  free(r);
  s->remote = NULL;
  s->claimed = false;
}

/* VMs of threads that do not run: by looking through all of the memory.  What
 * is read may be changing, but is checked before it is believed. */
static void search(struct session *s)
{
  struct remote *r = s->remote;
  struct session_vm vm[TECS_VMS];
  struct vm_mem mem = {0};
  unsigned n = session_find_vms(s->t, vm);
  pages_begin(r->pages);
  pages_mem(r->pages, &mem);
  for (unsigned i = 0; i < n; i++)
    capture_vm_add(&r->vms, &mem, vm[i].layout_id, vm[i].g, TECS_FOUND_SCAN, 0);
}

const struct engine engine_remote = {
    .search = search,
    .open = open_remote,
    .close = close_remote,
    .same_image = same_image,
    .sample = sample,
    .attend = attend,
};
