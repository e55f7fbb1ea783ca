/* SPDX-License-Identifier: MIT
 *
 * Makes the lines of traces, on a thread of its own: most take less than a
 * millisecond, few a tenth of a second, in which samples would be lost.  A
 * sample waits for the lines of its trace a little, within a budget.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "lines/lines.h"
#include "merge/compiled.h"
#include "vmcore/layout.h"

_Static_assert(VM_NO_FUNCTION == LINES_NO_PROTO, "numbers of functions");

enum {
  QUEUE_MAX = 1024, /* traces that wait; more are asked for again later */
  SETS_MAX = 3,     /* IR opcode sets that a layout may have */
  TRIED_MAX = 12,   /* traces until one is settled on */
  LAYOUTS_MAX = 16, /* of the VMs of one process */
};
/* Of the time that passes samples may wait for a tenth, at once as long as the
 * rings have room for what comes meanwhile. */
#define CREDIT_MAX UINT64_C(60000000)
#define CREDIT_PART 10

struct memory {
  struct memory *next;
  max_align_t bytes[];
};

struct maker_job {
  struct maker_job *next;
  struct memory *memory;
  const struct vm_layout *lay;
  uint32_t layout;
  struct lines_trace trace;
  struct lines_code code;
  bool running, done, abandoned;
  struct lines_map *map; /* NULL: there is none */
};

/* How well the opcode sets fit the traces of a layout. */
struct sets {
  uint32_t layout;
  unsigned tried;
  float fit[SETS_MAX];
};

struct maker {
  pthread_t thread;
  bool started, failed, quit;
  pthread_mutex_t lock;
  pthread_cond_t work, done;
  struct maker_job *first, *last;
  unsigned waiting;
  uint64_t credit, credited; /* of the thread that merges */
  struct lines_model *model; /* of the own thread, as what follows */
  struct sets sets[LAYOUTS_MAX];
  unsigned nsets;
};

/* ---- a job ---- */

static void *job_alloc(struct maker_job *j, size_t n)
{
  struct memory *m = calloc(1, sizeof *m + n);
  if (!m)
    return NULL;
  m->next = j->memory;
  j->memory = m;
  return m->bytes;
}

static const void *job_copy(struct maker_job *j, const void *from, size_t n)
{
  void *to = job_alloc(j, n);
  return to && n ? memcpy(to, from, n) : to;
}

static void job_free(struct maker_job *j)
{
  if (!j)
    return;
  for (struct memory *m = j->memory, *next; m; m = next) {
    next = m->next;
    free(m);
  }
  lines_map_free(j->map);
  free(j);
}

static bool copy_trace(struct maker_job *j, const struct vm_trace *t)
{
  struct lines_trace *to = &j->trace;
  struct lines_snap *snap = job_alloc(j, t->nsnap * sizeof *snap);
  *to = (struct lines_trace){
      .has_mcofs = j->lay->snap_mcofs != VM_ABSENT16,
      .gc64 = j->lay->gc64,
      .traceno = t->traceno,
      .mcode = job_copy(j, t->code, t->szmcode),
      .szmcode = t->szmcode,
      .ir = job_copy(j, t->ir, 8 * (size_t)(t->nins - t->nk)),
      .nk = t->nk,
      .nins = t->nins,
      .snap = snap,
      .nsnap = t->nsnap,
      .snapmap = job_copy(j, t->snapmap, 4 * (size_t)t->nsnapmap),
      .nsnapmap = t->nsnapmap,
  };
  for (uint32_t i = 0; snap && i < t->nsnap; i++)
    snap[i] = (struct lines_snap){t->snap[i].mapofs, t->snap[i].ref,
                                  t->snap[i].mcofs, t->snap[i].nent};
  return to->mcode && to->ir && snap && to->snapmap;
}

/* The record log, where the trace has one. */
static bool copy_events(struct maker_job *j, struct vm_store *vm,
                        const struct vm_trace *t)
{
  struct lines_event *to = job_alloc(j, t->nevent * sizeof *to);
  for (uint32_t i = 0; to && i < t->nevent; i++) {
    const struct vm_event *e = &t->event[i];
    to[i] =
        (struct lines_event){.ref = e->ref,
                             .depth = e->depth,
                             .proto = e->function,
                             .pc = e->pc,
                             .line = vm_function_line(vm, e->function, e->pc)};
  }
  j->trace.event = to;
  j->trace.nevent = t->nevent;
  return to != NULL;
}

static bool copy_proto(struct maker_job *j, struct vm_store *vm,
                       uint32_t function, const struct vm_code *c,
                       struct lines_proto *to)
{
  uint32_t *line = job_alloc(j, 4 * (size_t)c->nbc);
  *to = (struct lines_proto){.id = function,
                             .addr = c->addr,
                             .bcaddr = c->bcaddr,
                             .bc = job_copy(j, c->bc, 4 * (size_t)c->nbc),
                             .line = line,
                             .nbc = c->nbc,
                             .kn = job_copy(j, c->kn, 8 * (size_t)c->nkn),
                             .kgc = job_copy(j, c->kgc, 8 * (size_t)c->nkgc),
                             .nkn = c->nkn,
                             .nkgc = c->nkgc};
  for (uint32_t i = 0; line && i < c->nbc; i++)
    line[i] = vm_function_line(vm, function, i);
  return line && to->bc && to->kn && to->kgc;
}

/* Index of a function's prototype; false: no memory. */
static bool add_proto(struct maker_job *j, struct vm_store *vm,
                      uint32_t function, struct lines_proto *to, uint32_t *out)
{
  struct vm_code c;
  *out = LINES_NO_PROTO;
  for (uint32_t i = 0; i < j->code.nproto; i++)
    if (to[i].id == function) {
      *out = i;
      return true;
    }
  if (function == VM_NO_FUNCTION || !vm_function_code(vm, function, &c))
    return true;
  *out = j->code.nproto++;
  return copy_proto(j, vm, function, &c, &to[*out]);
}

static bool copy_code(struct maker_job *j, struct vm_store *vm,
                      const struct vm_trace *t)
{
  struct lines_proto *proto = job_alloc(j, t->nobject * sizeof *proto);
  struct lines_func *func = job_alloc(j, t->nobject * sizeof *func);
  uint32_t index;
  j->code = (struct lines_code){.proto = proto, .func = func};
  j->code.bcset = j->lay->bc_max == 93   ? LINES_BC_20
                  : j->lay->bc_max == 97 ? LINES_BC_21
                                         : LINES_BC_21_2026;
  for (uint32_t i = 0; proto && func && i < t->nobject; i++) {
    const struct vm_trace_object *o = &t->object[i];
    if (!add_proto(j, vm, o->function, proto, &index))
      return false;
    if (!o->is_proto && (index != LINES_NO_PROTO || o->ffid))
      func[j->code.nfunc++] = (struct lines_func){o->addr, index};
  }
  return proto && func;
}

static struct maker_job *job_new(struct vm_store *vm, const struct vm_trace *t)
{
  struct maker_job *j = calloc(1, sizeof *j);
  if (!j)
    return NULL;
  j->lay = vm_layout_get(t->layout);
  j->layout = t->layout;
  if (j->lay && copy_trace(j, t) && copy_events(j, vm, t) &&
      copy_code(j, vm, t))
    return j;
  job_free(j);
  return NULL;
}

/* ---- its own thread ---- */

/* Opcodes came without moving a field: where a layout leaves several sets, the
 * one that fits the traces best is right (lines.h, enum lines_irset). */
static unsigned sets_of(const struct vm_layout *lay,
                        enum lines_irset out[SETS_MAX])
{
  if (lay->ir_kpri == 21) {
    out[0] = LINES_IR_20;
    return 1;
  }
  out[0] = LINES_IR_21_NO_TMPREF;
  if (lay->snap_mcofs != VM_ABSENT16) {
    out[1] = LINES_IR_21;
    return 2;
  }
  out[1] = LINES_IR_21_BETA;
  out[2] = LINES_IR_21_NO_ALEN;
  return 3;
}

static struct lines_map *map_with(struct maker *mk, struct maker_job *j,
                                  enum lines_irset set)
{
  struct lines_map *map = NULL;
  struct error e;
  j->trace.irset = set;
  enum result r =
      j->trace.nevent
          ? lines_map_new(mk->model, &j->trace, &map, &e)
          : lines_map_infer(mk->model, &j->trace, &j->code, &map, &e);
  return r == RESULT_OK ? map : NULL;
}

static struct sets *fits_of(struct maker *mk, uint32_t layout)
{
  for (unsigned i = 0; i < mk->nsets; i++)
    if (mk->sets[i].layout == layout)
      return &mk->sets[i];
  if (mk->nsets == LAYOUTS_MAX)
    return NULL;
  mk->sets[mk->nsets] = (struct sets){.layout = layout};
  return &mk->sets[mk->nsets++];
}

static unsigned best(const float *fit, unsigned n)
{
  unsigned b = 0;
  for (unsigned i = 1; i < n; i++)
    if (fit[i] > fit[b])
      b = i;
  return b;
}

static struct lines_map *make(struct maker *mk, struct maker_job *j)
{
  enum lines_irset set[SETS_MAX];
  unsigned n = sets_of(j->lay, set);
  struct sets *s = fits_of(mk, j->layout);
  if (!s)
    return NULL;
  if (n == 1 || s->tried >= TRIED_MAX)
    return map_with(mk, j, set[best(s->fit, n)]);
  struct lines_map *map[SETS_MAX];
  bool any = false;
  for (unsigned i = 0; i < n; i++) {
    map[i] = map_with(mk, j, set[i]);
    s->fit[i] += map[i] ? map[i]->fit : 0;
    any = any || map[i];
  }
  s->tried += any;
  unsigned b = best(s->fit, n);
  for (unsigned i = 0; i < n; i++)
    if (i != b)
      lines_map_free(map[i]);
  return map[b];
}

static struct maker_job *take(struct maker *mk)
{
  while (!mk->first && !mk->quit)
    pthread_cond_wait(&mk->work, &mk->lock);
  if (mk->quit)
    return NULL;
  struct maker_job *j = mk->first;
  mk->first = j->next;
  mk->waiting--;
  j->running = true;
  return j;
}

static void *work(void *arg)
{
  struct maker *mk = arg;
  struct maker_job *j;
  struct error e;
  enum result r = lines_model_new(&mk->model, &e);
  pthread_mutex_lock(&mk->lock);
  while ((j = take(mk))) {
    pthread_mutex_unlock(&mk->lock);
    struct lines_map *map = r == RESULT_OK ? make(mk, j) : NULL;
    pthread_mutex_lock(&mk->lock);
    j->map = map;
    j->done = true;
    if (j->abandoned)
      job_free(j);
    pthread_cond_broadcast(&mk->done);
  }
  pthread_mutex_unlock(&mk->lock);
  lines_model_free(mk->model);
  return NULL;
}

/* ---- the other side ---- */

static void end(void *maker)
{
  struct maker *mk = maker;
  if (mk->started) {
    pthread_mutex_lock(&mk->lock);
    mk->quit = true;
    pthread_cond_signal(&mk->work);
    pthread_mutex_unlock(&mk->lock);
    pthread_join(mk->thread, NULL);
  }
  pthread_cond_destroy(&mk->work);
  pthread_cond_destroy(&mk->done);
  pthread_mutex_destroy(&mk->lock);
  free(mk);
}

/* Signals are for the thread that runs the session. */
static void start(struct maker *mk)
{
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  mk->started = pthread_create(&mk->thread, NULL, work, mk) == 0;
  mk->failed = !mk->started;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

struct maker *maker_of(struct vm_store *vm)
{
  struct maker *mk = vm_store_maker(vm);
  pthread_condattr_t attr;
  if (mk)
    return mk;
  mk = calloc(1, sizeof *mk);
  if (!mk)
    return NULL;
  pthread_mutex_init(&mk->lock, NULL);
  pthread_cond_init(&mk->work, NULL);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&mk->done, &attr);
  pthread_condattr_destroy(&attr);
  mk->credit = CREDIT_MAX;
  mk->credited = clock_mono_ns();
  vm_store_set_maker(vm, mk, end);
  return mk;
}

struct maker_job *maker_ask(struct maker *mk, struct vm_store *vm,
                            const struct vm_trace *t)
{
  if (!mk->started && !mk->failed)
    start(mk);
  if (mk->failed)
    return NULL;
  pthread_mutex_lock(&mk->lock);
  bool full = mk->waiting >= QUEUE_MAX;
  pthread_mutex_unlock(&mk->lock);
  struct maker_job *j = full ? NULL : job_new(vm, t);
  if (!j)
    return NULL;
  pthread_mutex_lock(&mk->lock);
  if (mk->first)
    mk->last->next = j;
  else
    mk->first = j;
  mk->last = j;
  mk->waiting++;
  pthread_cond_signal(&mk->work);
  pthread_mutex_unlock(&mk->lock);
  return j;
}

/* Until it is done or the credit is used up. */
static void wait_for(struct maker *mk, const struct maker_job *j)
{
  uint64_t now = clock_mono_ns();
  mk->credit += (now - mk->credited) / CREDIT_PART;
  if (mk->credit > CREDIT_MAX)
    mk->credit = CREDIT_MAX;
  uint64_t until = now + mk->credit;
  struct timespec at = {(time_t)(until / 1000000000),
                        (long)(until % 1000000000)};
  while (!j->done && pthread_cond_timedwait(&mk->done, &mk->lock, &at) == 0)
    ;
  mk->credited = clock_mono_ns();
  uint64_t spent = mk->credited - now;
  mk->credit -= spent < mk->credit ? spent : mk->credit;
}

bool maker_take(struct maker *mk, struct maker_job *j, struct lines_map **out)
{
  pthread_mutex_lock(&mk->lock);
  if (!j->done)
    wait_for(mk, j);
  bool done = j->done;
  pthread_mutex_unlock(&mk->lock);
  if (!done)
    return false;
  *out = j->map;
  j->map = NULL;
  job_free(j);
  return true;
}

static void unlink_job(struct maker *mk, struct maker_job *j)
{
  struct maker_job **at = &mk->first, *before = NULL;
  while (*at && *at != j) {
    before = *at;
    at = &before->next;
  }
  if (!*at)
    return;
  *at = j->next;
  if (mk->last == j)
    mk->last = before;
  mk->waiting--;
}

void maker_drop(struct maker *mk, struct maker_job *j)
{
  pthread_mutex_lock(&mk->lock);
  if (j->running && !j->done) {
    j->abandoned = true; /* its thread frees it */
    j = NULL;
  } else if (!j->done) {
    unlink_job(mk, j);
  }
  pthread_mutex_unlock(&mk->lock);
  job_free(j);
}
