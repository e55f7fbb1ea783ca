/* SPDX-License-Identifier: MIT
 *
 * Images of traces, and the bytecode of the functions that they run through.
 * An image is kept while a slot's samples may refer to it, and as long after
 * that as there is room.
 */
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"
#include "vm/vm_internal.h"

/* What is made of a trace is reckoned with as so many bytes for each of its
 * machine code. */
enum { MADE = 10 };

struct trace {
  struct vm_trace pub;
  uint64_t hash;
  uint64_t log;                         /* position of its record log */
  uint64_t slots[(VM_SLOTS + 63) / 64]; /* bits: whose samples mean it */
  size_t bytes;
  size_t same;      /* of what, behind this, tells traces apart */
  uint64_t block[]; /* IR, snapshots, map, objects; then the machine code */
};

static size_t pad8(size_t n)
{
  return (n + 7) & ~(size_t)7;
}

/* ---- bytecode ---- */

enum result vm_record_bytecode(struct vm_store *s, struct vm_slot *slot,
                               const struct tecs_record *rec)
{
  struct bytecode_view v;
  uint32_t index;
  enum result r = record_bytecode(rec, &v);
  if (r != RESULT_OK)
    return r;
  if (!idmap_get(&slot->proto, v.head->proto, &index))
    return RESULT_CORRUPT;
  size_t n = pad8(4 * (size_t)v.head->nbc) / 8, nkn = v.head->nkn,
         nkgc = v.head->nkgc;
  uint64_t *all = malloc((n + nkn + nkgc + 1) * sizeof *all);
  if (!all)
    return RESULT_NOMEM;
  memcpy(all, v.bc, 4 * (size_t)v.head->nbc);
  memcpy(all + n, v.kn, 8 * nkn);
  memcpy(all + n + nkn, v.kgc, 8 * nkgc);
  struct vm_image *im = s->image[index];
  free(im->bytecode);
  im->bytecode = all;
  im->code = (struct vm_code){.addr = im->addr,
                              .bcaddr = v.head->bcaddr,
                              .bc = (const uint32_t *)all,
                              .kn = all + n,
                              .kgc = all + n + nkn,
                              .nbc = v.head->nbc,
                              .nkn = v.head->nkn,
                              .nkgc = v.head->nkgc};
  return RESULT_OK;
}

bool vm_function_code(const struct vm_store *s, uint32_t function,
                      struct vm_code *out)
{
  if (function >= s->image_count || !s->image[function]->bytecode)
    return false;
  *out = s->image[function]->code;
  return true;
}

/* ---- making an image ---- */

/* Every id of a record is replaced by the function, which slots share. */
static bool function_of(const struct vm_slot *slot, uint32_t proto,
                        uint32_t *out)
{
  *out = VM_NO_FUNCTION;
  return !proto || idmap_get(&slot->proto, proto, out);
}

static bool put_objects(const struct vm_slot *slot, const struct trace_view *v,
                        struct vm_trace_object *to)
{
  for (uint32_t i = 0; i < v->trace->nobject; i++) {
    to[i].addr = v->object[i].addr; /* the rest, padding too, is 0 */
    if (!function_of(slot, v->object[i].proto, &to[i].function))
      return false;
    to[i].is_proto = v->object[i].kind == TECS_TRACE_PROTO;
    to[i].ffid = v->object[i].ffid;
  }
  return true;
}

static void describe(struct trace *t, const struct tecs_trace *h)
{
  t->pub.g = h->g;
  t->pub.mcode = h->mcode;
  t->pub.layout = h->layout;
  t->pub.szmcode = h->szmcode;
  t->pub.nk = h->nk;
  t->pub.nins = h->nins;
  t->pub.nsnap = h->nsnap;
  t->pub.nsnapmap = h->nsnapmap;
  t->pub.nobject = h->nobject;
  t->pub.startindex = h->startindex;
  t->pub.traceno = h->traceno;
  t->pub.link = h->link;
  t->pub.root = h->root;
  t->pub.linktype = h->linktype;
  t->log = h->log;
}

/* Exits of the machine code are patched to side traces as those come, so that
 * it does not tell traces apart. */
static uint64_t hash_of(const struct trace *t)
{
  uint64_t head[] = {t->pub.g,
                     t->pub.mcode,
                     (uint64_t)t->pub.traceno << 32 | t->pub.szmcode,
                     (uint64_t)t->pub.nk << 32 | t->pub.nins,
                     (uint64_t)t->pub.start << 32 | t->pub.startindex,
                     t->log};
  return hash_bytes(head, sizeof head) * UINT64_C(0x9e3779b97f4a7c15) ^
         hash_bytes(t->block, t->same);
}

/* NULL: no memory, or an id that was not met. */
static struct trace *make(const struct vm_slot *slot,
                          const struct trace_view *v)
{
  const struct tecs_trace *h = v->trace;
  size_t ir = 8 * (size_t)(h->nins - h->nk),
         snap = pad8(h->nsnap * sizeof *v->snap),
         map = pad8(4 * (size_t)h->nsnapmap),
         object = h->nobject * sizeof(struct vm_trace_object);
  size_t same = ir + snap + map + object;
  size_t bytes = sizeof(struct trace) + same + h->szmcode;
  struct trace *t = calloc(1, bytes);
  if (!t)
    return NULL;
  uint8_t *at = (uint8_t *)t->block;
  describe(t, h);
  t->bytes = bytes + MADE * (size_t)h->szmcode;
  t->same = same;
  t->pub.ir = memcpy(at, v->ir, ir);
  t->pub.snap = memcpy(at + ir, v->snap, h->nsnap * sizeof *v->snap);
  t->pub.snapmap = memcpy(at + ir + snap, v->snapmap, 4 * (size_t)h->nsnapmap);
  struct vm_trace_object *to = (void *)(at + ir + snap + map);
  t->pub.object = to;
  t->pub.code = memcpy(at + same, v->mcode, h->szmcode);
  if (!put_objects(slot, v, to) ||
      !function_of(slot, h->startproto, &t->pub.start)) {
    free(t);
    return NULL;
  }
  t->hash = hash_of(t);
  return t;
}

static bool is_same(const struct trace *a, const struct trace *b)
{
  return a->pub.g == b->pub.g && a->pub.mcode == b->pub.mcode &&
         a->pub.traceno == b->pub.traceno && a->pub.szmcode == b->pub.szmcode &&
         a->pub.nk == b->pub.nk && a->log == b->log &&
         a->pub.nins == b->pub.nins && a->pub.start == b->pub.start &&
         a->pub.startindex == b->pub.startindex && a->same == b->same &&
         !memcmp(a->block, b->block, a->same);
}

/* ---- record logs ---- */

/* The function of a prototype that was recorded in: one of the trace's. */
static uint32_t logged_function(const struct vm_store *s,
                                const struct vm_trace *t,
                                const struct tecs_log_proto *p)
{
  for (uint32_t i = 0; i < t->nobject; i++) {
    uint32_t f = t->object[i].function;
    if (f != VM_NO_FUNCTION && s->image[f]->addr == p->addr &&
        s->image[f]->sizebc == p->sizebc &&
        s->image[f]->firstline == p->firstline)
      return f;
  }
  return VM_NO_FUNCTION;
}

/* false: something in it is not known, so that it is of no use. */
static bool translate(const struct vm_store *s, const struct vm_trace *t,
                      const struct shm_log *log, struct vm_event *to)
{
  for (uint32_t i = 0; i < log->nevent; i++) {
    const struct tecs_log_event *e = &log->event[i];
    to[i] = (struct vm_event){e->ref, e->depth, VM_NO_FUNCTION, e->pc};
    if (e->proto == TECS_LOG_NO_PROTO)
      continue;
    const struct tecs_log_proto *p = &log->proto[e->proto];
    to[i].function = logged_function(s, t, p);
    if (to[i].function == VM_NO_FUNCTION || e->pc >= p->sizebc)
      return false;
  }
  return true;
}

/* The image names the log, as the thread that made both had them: another one
 * of the same trace number will not do. */
static void add_log(struct vm_store *s, struct trace *t)
{
  struct shm_log_key key = {t->pub.g, t->pub.mcode, t->pub.szmcode,
                            t->pub.traceno};
  struct shm_log log;
  if (!t->log || !s->logs)
    return;
  if (!s->log_buffer)
    s->log_buffer = malloc(SHM_LOG_TRACE_MAX);
  if (!s->log_buffer ||
      shm_log_find(s->logs, &key, s->log_buffer, &log) != RESULT_OK ||
      log.position != t->log || !log.nevent)
    return;
  struct vm_event *event = malloc(log.nevent * sizeof *event);
  if (!event || !translate(s, &t->pub, &log, event)) {
    free(event);
    return;
  }
  t->pub.event = event;
  t->pub.nevent = log.nevent;
  t->bytes += log.nevent * 2 * sizeof *event;
}

/* ---- keeping them ---- */

static void discard(struct vm_store *s, size_t i)
{
  struct trace *t = s->trace[i];
  if (!t)
    return;
  if (t->pub.made)
    t->pub.made_end(t->pub.made);
  s->trace_bytes -= t->bytes;
  free((void *)t->pub.event);
  free(t);
  s->trace[i] = NULL;
}

void vm_traces_free(struct vm_store *s)
{
  for (size_t i = 0; i < s->trace_count; i++)
    discard(s, i);
  free(s->trace);
  free(s->log_buffer);
  idmap_free(&s->trace_of_hash);
  for (unsigned i = 0; i < VM_SLOTS; i++)
    idmap_free(&s->slot[i].trace);
}

static bool is_meant(const struct trace *t)
{
  for (size_t i = 0; i < sizeof t->slots / sizeof t->slots[0]; i++)
    if (t->slots[i])
      return true;
  return false;
}

/* Those that no sample to come can mean. */
static void sweep(struct vm_store *s)
{
  for (size_t i = 0; i < s->trace_count; i++)
    if (s->trace[i] && !is_meant(s->trace[i]))
      discard(s, i);
  idmap_clear(&s->trace_of_hash);
  for (size_t i = 0; i < s->trace_count; i++)
    if (s->trace[i]) /* where there is no memory it is met as a new one */
      idmap_put(&s->trace_of_hash, s->trace[i]->hash, (uint32_t)i);
}

static void forget(struct vm_store *s, unsigned slot, size_t i)
{
  if (i < s->trace_count && s->trace[i])
    s->trace[i]->slots[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

void vm_traces_reset_slot(struct vm_store *s, unsigned slot)
{
  for (size_t i = 0; i < s->trace_count; i++)
    forget(s, slot, i);
  idmap_clear(&s->slot[slot].trace);
}

/* A free place; SIZE_MAX: no memory. */
static size_t place_for(struct vm_store *s)
{
  for (; s->trace_free < s->trace_count; s->trace_free++)
    if (!s->trace[s->trace_free])
      return s->trace_free;
  if (s->trace_count == s->trace_cap) {
    size_t cap = s->trace_cap * 2 + 64;
    struct trace **trace = realloc(s->trace, cap * sizeof(struct trace *));
    if (!trace)
      return SIZE_MAX;
    s->trace = trace;
    s->trace_cap = cap;
  }
  s->trace[s->trace_count] = NULL;
  return s->trace_count++;
}

/* Index of the image that is the same, or of t; SIZE_MAX: there is no room. */
static size_t keep(struct vm_store *s, struct trace *t)
{
  uint32_t known;
  if (idmap_get(&s->trace_of_hash, t->hash, &known) && s->trace[known] &&
      is_same(s->trace[known], t)) {
    free(t);
    return known;
  }
  add_log(s, t);
  if (s->trace_bytes + t->bytes > VM_TRACES_BYTES) {
    sweep(s);
    s->trace_free = 0;
  }
  size_t i =
      s->trace_bytes + t->bytes > VM_TRACES_BYTES ? SIZE_MAX : place_for(s);
  if (i == SIZE_MAX || !idmap_put(&s->trace_of_hash, t->hash, (uint32_t)i)) {
    free((void *)t->pub.event);
    free(t);
    return SIZE_MAX;
  }
  s->trace[i] = t;
  s->trace_bytes += t->bytes;
  return i;
}

static uint64_t trace_key(uint64_t g, uint32_t traceno)
{
  return (g << 16) ^ traceno; /* addresses have 47 bits */
}

enum result vm_record_trace(struct vm_store *s, unsigned slot,
                            const struct tecs_record *rec)
{
  struct trace_view v;
  uint32_t old;
  enum result r = record_trace(rec, &v);
  if (r != RESULT_OK)
    return r;
  struct vm_slot *sl = &s->slot[slot];
  uint64_t key = trace_key(v.trace->g, v.trace->traceno);
  if (idmap_get(&sl->trace, key, &old))
    forget(s, slot, old);
  struct trace *t = make(sl, &v);
  size_t i = t ? keep(s, t) : SIZE_MAX;
  if (i != SIZE_MAX)
    s->trace[i]->slots[slot / 64] |= UINT64_C(1) << slot % 64;
  return idmap_put(&sl->trace, key, i == SIZE_MAX ? UINT32_MAX : (uint32_t)i)
             ? RESULT_OK
             : RESULT_NOMEM;
}

struct vm_trace *vm_trace_of(const struct vm_store *s, unsigned slot,
                             const struct tecs_sample_vm *vm)
{
  uint32_t i;
  if (slot >= VM_SLOTS || !(vm->flags & TECS_SAMPLE_VM_TRACE) ||
      !idmap_get(&s->slot[slot].trace, trace_key(vm->g, vm->trace), &i) ||
      i >= s->trace_count || !s->trace[i])
    return NULL;
  struct vm_trace *t = &s->trace[i]->pub;
  return vm->mcode_pc >= t->mcode && vm->mcode_pc - t->mcode < t->szmcode
             ? t
             : NULL;
}

void vm_store_set_logs(struct vm_store *s, const struct shm *shm)
{
  s->logs = shm;
}
