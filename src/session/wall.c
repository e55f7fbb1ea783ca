/* SPDX-License-Identifier: MIT
 *
 * Threads that sleep (--mode wall): read from outside, without a signal and
 * without a stop, so that nothing that they wait for is disturbed.
 *
 * Of a thread that is not on a CPU, /proc tells the stack pointer and the
 * program counter.  Its stack and its VM are memory that can be read, and are
 * whole as long as the thread has not run: that is what schedstat says before
 * and after.  And as long as that stays the same, so does the sample: a thread
 * is read once for each time that it goes to sleep, however long that is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "capture/capture.h"
#include "session/session_internal.h"

#define NEVER_SCAN UINT32_MAX /* VMs are looked for by others */

struct wall {
  struct shm shm; /* private; its first ring alone is used */
  struct pages *pages;
  struct capture *capture;
  struct capture_host host;
  struct capture_vms vms; /* of the segment */
  struct tecs_control control;
  uint32_t generation;
  uint64_t main_stack_end;
  bool denied; /* reading is not permitted */
};

/* ---- what room capture asks ---- */

static size_t copy(struct capture *c, void *to, uint64_t from, size_t n)
{
  const struct wall *w = c->host->ctx;
  return pages_copy(w->pages, to, from, n);
}

/* Entries come from the segment whole. */
static uint64_t no_table(void *ctx, uint64_t pc)
{
  (void)ctx, (void)pc;
  return 0;
}

/* ---- life ---- */

/* Nothing is known of any function or zone name from here on. */
static void start_afresh(struct session *s)
{
  struct wall *w = s->wall;
  struct tecs_slot *slot = w->shm.slots;
  atomic_set(&slot->tail, atomic_get(&slot->head));
  slot->generation = ++w->generation;
  capture_reset(w->capture, w->generation);
  vm_store_reset_slot(s->vm, SLOT_WALL);
}

static bool make(struct session *s)
{
  struct wall *w = s->wall = calloc(1, sizeof *w);
  if (!w)
    return false;
  w->shm.fd = -1;
  w->pages = pages_new(s->t);
  w->capture = calloc(1, sizeof *w->capture);
  if (!w->pages || !w->capture || shm_private(&w->shm) != RESULT_OK)
    return false;
  w->vms.unwind_table = no_table;
  w->host = (struct capture_host){
      .vms = &w->vms, .control = &w->control, .copy = copy, .ctx = w};
  w->capture->host = &w->host;
  w->capture->slot = w->shm.slots;
  w->capture->ring = w->shm.rings;
  w->main_stack_end = target_stack_end(s->t);
  start_afresh(s);
  return true;
}

enum result wall_open(struct session *s)
{
  if (!s->o->wall)
    return RESULT_OK;
  if (make(s)) {
    if (s->engine->search) /* who only sleeps shows its VM in no other way */
      s->engine->search(s);
    return RESULT_OK;
  }
  return error_set(s->e, RESULT_NOMEM,
                   "no memory for samples of sleeping threads");
}

void wall_close(struct session *s)
{
  struct wall *w = s->wall;
  if (!w)
    return;
  shm_detach(&w->shm);
  pages_free(w->pages);
  free(w->capture);
  free(w);
  s->wall = NULL;
}

/* ---- where a thread sleeps ---- */

enum place {
  PLACE_FOUND,
  PLACE_AWAKE, /* it runs */
  PLACE_GONE,  /* it has ended */
  PLACE_DENIED,
};

/* proc(5), /proc/<pid>/syscall: number, six arguments, stack pointer, program
 * counter; -1 instead of the first seven outside of a system call. */
static enum place find_place(struct session *s, const struct thread *th,
                             struct capture_thread *out)
{
  char text[256];
  int fd = target_thread_file(s->t, th->tid, "syscall");
  if (fd < 0)
    return errno == EACCES || errno == EPERM ? PLACE_DENIED : PLACE_GONE;
  ssize_t n = pread(fd, text, sizeof text - 1, 0);
  int err = errno;
  close(fd);
  if (n <= 0)
    return n < 0 && (err == EPERM || err == EACCES) ? PLACE_DENIED : PLACE_GONE;
  text[n] = '\0';
  unsigned long long sp, pc;
  out->in_syscall = strncmp(text, "-1 ", 3) != 0;
  const char *form = out->in_syscall ? "%*d %*x %*x %*x %*x %*x %*x %llx %llx"
                                     : "%*d %llx %llx";
  if (sscanf(text, form, &sp, &pc) != 2)
    return PLACE_AWAKE;
  if (sp == 0) /* a zombie */
    return PLACE_GONE;
  out->reg[TECS_REG_RSP] = sp;
  out->reg[TECS_REG_RIP] = pc;
  return PLACE_FOUND;
}

/* Its stack ends with the mapping that it lies in: a thread's with its control
 * block, near enough. */
static uint64_t stack_end(struct session *s, struct thread *th, uint64_t sp)
{
  struct target_maps maps;
  if (sp >= th->sleep.stack_lo && sp < th->sleep.stack_hi)
    return th->sleep.stack_hi;
  if (target_maps_read(s->t, &maps, NULL) != RESULT_OK)
    return 0;
  th->sleep.stack_lo = th->sleep.stack_hi = 0;
  for (size_t i = 0; i < maps.count; i++)
    if (sp >= maps.map[i].start && sp < maps.map[i].end) {
      th->sleep.stack_lo = maps.map[i].start;
      th->sleep.stack_hi = maps.map[i].end;
    }
  target_maps_free(&maps);
  return th->sleep.stack_hi;
}

/* ---- one sample ---- */

/* The VMs as the agent has them: no other is looked for from here. */
static void take_vms(struct session *s)
{
  struct wall *w = s->wall;
  for (unsigned i = 0; i < TECS_VMS; i++) {
    struct capture_vm *e = &w->vms.entry[i];
    struct tecs_vm vm = s->shm.vms[i];
    uint32_t state = atomic_acquire(&s->shm.vms[i].state);
    bool live = state == TECS_VM_LIVE && vm_layout_get(vm.layout);
    if (live && e->g != vm.g)
      memset(&e->zone, 0, sizeof e->zone);
    e->state = live ? TECS_VM_LIVE : TECS_VM_FREE;
    e->layout = vm.layout;
    e->g = vm.g;
    e->asm_pc = vm.asm_pc;
    e->asm_lo = vm.asm_lo;
    e->asm_hi = vm.asm_hi;
  }
  w->vms.used = TECS_VMS;
}

/* Has the thread slept all the time since the gate looked at it? */
static bool slept(struct session *s, struct thread *th)
{
  char text[sizeof th->last];
  return thread_schedstat(s->t, th, text) && strcmp(text, th->last) == 0;
}

/* What the ring holds, into the profile. */
static void drain(struct session *s)
{
  struct wall *w = s->wall;
  const struct tecs_record *rec;
  uint64_t bad = 0;
  while (!s->failed && (rec = shm_ring_peek(&w->shm, 0, &bad))) {
    drain_record(s, SLOT_WALL, rec);
    shm_ring_consume(&w->shm, 0, rec);
  }
}

static bool read_sample(struct session *s, struct thread *th,
                        struct capture_thread *at)
{
  struct wall *w = s->wall;
  struct capture *c = w->capture;
  uint64_t sp = at->reg[TECS_REG_RSP];
  at->main_stack_end = w->main_stack_end;
  at->pointer = stack_end(s, th, sp);
  take_vms(s);
  w->control = *s->shm.control;
  pages_begin(w->pages);
  pages_mem(w->pages, &c->mem);
  c->mem.faults = 0;
  c->scan_wait = NEVER_SCAN;
  w->shm.slots->tid = (uint32_t)th->tid;
  if (!at->pointer || !capture_take(c, at))
    return false;
  c->written->flags |= TECS_SAMPLE_ASLEEP;
  c->seq++;
  return true;
}

static void name_slot(struct session *s, struct thread *th)
{
  struct slot *sl = &s->slot[SLOT_WALL];
  sl->tid = th->tid;
  sl->gave = th->gave || (th->slot >= 0 && s->slot[th->slot].gave);
  slot_name_root(s, sl);
}

/* Whether there is a sample now. */
static bool take(struct session *s, struct thread *th,
                 struct capture_thread *at)
{
  uint64_t kept = s->acc->asleep, filtered = s->acc->asleep_filtered;
  if (!read_sample(s, th, at) || !slept(s, th)) {
    start_afresh(s); /* what was read may be anything */
    return false;
  }
  name_slot(s, th);
  drain(s);
  th->gave = true;
  if (th->slot >= 0)
    s->slot[th->slot].gave = true;
  th->sleep.kept = s->acc->asleep != kept;
  th->sleep.stack = profile_newest(s->p);
  th->sleep.vms = s->acc->vms;
  memcpy(th->sleep.since, th->last, sizeof th->last);
  return th->sleep.kept || s->acc->asleep_filtered != filtered;
}

static void again(struct session *s, struct thread *th)
{
  if (th->sleep.ended)
    return;
  s->acc->asleep += th->sleep.kept;
  s->acc->asleep_filtered += !th->sleep.kept;
  if (th->sleep.kept)
    profile_add_again(s->p, th->sleep.stack, 1);
}

void wall_tick(struct session *s, struct thread *th)
{
  struct capture_thread at = {0};
  if (!s->wall || th->no_schedstat) {
    s->acc->asleep_unread += s->wall != NULL;
    return;
  }
  if (th->sleep.since[0] && strcmp(th->sleep.since, th->last) == 0 &&
      (th->sleep.ended || th->sleep.vms == s->acc->vms)) {
    again(s, th);
    return;
  }
  th->sleep.since[0] = '\0';
  th->sleep.ended = false;
  enum place p = s->wall->denied ? PLACE_DENIED : find_place(s, th, &at);
  if (p == PLACE_GONE) { /* a main thread that has ended stays as a zombie */
    th->sleep.ended = true;
    memcpy(th->sleep.since, th->last, sizeof th->last);
    return;
  }
  s->wall->denied = p == PLACE_DENIED;
  s->acc->asleep_denied |= s->wall->denied;
  if (p != PLACE_FOUND || !take(s, th, &at))
    s->acc->asleep_unread++;
}
