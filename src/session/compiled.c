/* SPDX-License-Identifier: MIT
 *
 * The traces of a VM, read while it runs.  LuaJIT frees traces, and uses their
 * numbers and addresses again: what was read of one counts only when it is the
 * same before and afterwards.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/capture.h"
#include "session/session_internal.h"
#include "vmcore/discover.h"
#include "vmcore/layout.h"
#include "vmcore/value.h"
#include "vmcore/walk.h"

enum {
  REF_BASE = 0x8000, /* lj_ir.h */
  TRACES_MAX = 65536,
  NINS_MAX = 65536,
  SZMCODE_MAX = 1 << 26,
  SIZEBC_MAX = 1 << 20, /* of functions that are named */
  TRIES = 8,            /* at what changes */
  LATE_CALLS = 8,       /* at names: half a second at most */
};

/* Of GCtrace (lj_jit.h), not believed; no padding: compared as bytes. */
struct shape {
  uint64_t T, mcode, ir, startpt, startpc;
  uint32_t szmcode, nk, nins, traceno, root, linktype;
  uint32_t base;  /* operands of the first instruction */
  uint32_t proto; /* key of startpt */
};

/* A function in a trace; VM_NO_FUNCTION: it could not be read. */
struct place {
  uint32_t function;
  uint32_t pc; /* a tecs_frame's */
};

struct item {
  struct session_compiled pub;
  struct place start;
  size_t first, count; /* in functions */
};

struct reader {
  struct target *target;
  const struct shm *shm;
  const struct vm_layout *lay;
  uint64_t g;
  struct outside outside;
  struct vm_mem *m;
  struct vm_store *store;
  struct shm images; /* a ring for images of functions */
  struct capture *capture;
  struct capture_host host;
  void *log_buffer;
  struct item *item;
  size_t items, item_cap;
  uint32_t *function; /* of all items */
  size_t functions, function_cap;
};

/* ---- functions ---- */

/* What cannot be read is zero: the key tells afterwards. */
static size_t copy(struct capture *c, void *to, uint64_t from, size_t n)
{
  struct reader *r = c->host->ctx;
  if (target_read(r->target, from, to, n) == RESULT_OK)
    return n;
  memset(to, 0, n);
  return 0;
}

static void keep_images(struct reader *r)
{
  const struct tecs_record *rec;
  uint64_t bad = 0;
  while ((rec = shm_ring_peek(&r->images, 0, &bad))) {
    vm_store_record(r->store, 0, rec);
    shm_ring_consume(&r->images, 0, rec);
  }
}

static bool is_function(struct reader *r, uint64_t pt)
{
  return vm_plausible(pt) && vm_is_proto(r->m, r->lay, pt) &&
         vm_load4(r->m, pt + r->lay->pt_sizebc) <= SIZEBC_MAX;
}

static uint32_t function_at(struct reader *r, uint64_t pt)
{
  uint32_t function, id;
  if (!is_function(r, pt))
    return VM_NO_FUNCTION;
  id = capture_function(r->capture, pt);
  keep_images(r);
  return id && vm_function_of(r->store, 0, id, &function) ? function
                                                          : VM_NO_FUNCTION;
}

/* ---- one trace ---- */

static uint64_t jit_state(const struct reader *r)
{
  return r->g - r->lay->gg_g + r->lay->gg_J;
}

/* 0: no trace has that number, or one that is still being recorded, which is
 * the first part of jit_State (lj_jit.h, jit_State). */
static uint64_t trace_at(struct reader *r, uint32_t traceno)
{
  uint64_t J = jit_state(r), array = vm_load8(r->m, J + r->lay->J_trace);
  if (traceno >= vm_load4(r->m, J + r->lay->J_sizetrace))
    return 0;
  uint64_t T =
      vm_ref(r->m, r->lay, array + vm_ref_size(r->lay) * (uint64_t)traceno);
  return T == J || !vm_plausible(T) ? 0 : T;
}

static bool read_shape(struct reader *r, uint32_t traceno, struct shape *s)
{
  const struct vm_layout *lay = r->lay;
  struct vm_mem *m = r->m;
  uint64_t T = trace_at(r, traceno);
  memset(s, 0, sizeof *s);
  if (!T || vm_load1(m, T + lay->L_gct) != VM_GCT_TRACE)
    return false;
  s->T = T;
  s->mcode = vm_load8(m, T + lay->tr_mcode);
  s->ir = vm_load8(m, T + lay->tr_ir);
  s->startpt = vm_ref(m, lay, T + lay->tr_startpt);
  s->startpc = vm_ref(m, lay, T + lay->tr_startpc);
  s->szmcode = vm_load4(m, T + lay->tr_szmcode);
  s->nk = vm_load4(m, T + lay->tr_nk);
  s->nins = vm_load4(m, T + lay->tr_nins);
  s->traceno = vm_load2(m, T + lay->tr_traceno);
  s->root = vm_load2(m, T + lay->tr_root);
  s->linktype = vm_load1(m, T + lay->tr_linktype);
  s->base = vm_load4(m, s->ir + 8 * (uint64_t)REF_BASE);
  s->proto =
      is_function(r, s->startpt) ? capture_proto_key(m, lay, s->startpt) : 0;
  return s->traceno == traceno && s->mcode && s->szmcode &&
         s->szmcode <= SZMCODE_MAX && s->nk <= REF_BASE && s->nins > REF_BASE &&
         s->nins <= NINS_MAX;
}

/* lib_jit.c, jit_trlinkname. */
static const char *link_text(uint32_t linktype)
{
  static const char *const text[] = {
      "none",           "root",         "loop",
      "tail-recursion", "up-recursion", "down-recursion",
      "interpreter",    "return",       "stitch"};
  return linktype < sizeof text / sizeof *text ? text[linktype] : "?";
}

/* The first instruction has where it was recorded from (lj_record.c,
 * lj_record_setup): the parent and its exit; of a root trace 0 and the trace
 * that it is stitched to (lj_trace.c, lj_trace_stitch), or 0. */
static void describe(struct reader *r, const struct shape *s, struct item *it)
{
  uint64_t bc = s->startpt + r->lay->pt_sizeof;
  uint32_t op1 = s->base & 0xffff, op2 = s->base >> 16;
  it->pub = (struct session_compiled){
      .traceno = s->traceno,
      .root = s->root,
      .parent = s->root ? op1 : 0,
      .exitno = s->root ? op2 : 0,
      .stitched = s->root ? 0 : op2,
      .link = vm_load2(r->m, s->T + r->lay->tr_link),
      .linktype = link_text(s->linktype),
      .mcode = s->mcode,
      .szmcode = s->szmcode,
  };
  it->start.function = function_at(r, s->startpt);
  it->start.pc = s->startpc >= bc ? (uint32_t)((s->startpc - bc) / 4) + 1 : 0;
}

/* ---- what it was recorded through ---- */

/* Is that the prototype that was recorded in?  As room capture asks. */
static bool is_logged(struct reader *r, const struct tecs_log_proto *p)
{
  return is_function(r, p->addr) &&
         vm_load4(r->m, p->addr + r->lay->pt_sizebc) == p->sizebc &&
         vm_load4(r->m, p->addr + r->lay->pt_firstline) == p->firstline;
}

static bool add_function(struct reader *r, uint32_t function)
{
  if (r->functions == r->function_cap) {
    size_t cap = 2 * r->function_cap + 64;
    uint32_t *all = realloc(r->function, cap * sizeof *all);
    if (!all)
      return false;
    r->function = all;
    r->function_cap = cap;
  }
  r->function[r->functions++] = function;
  return true;
}

/* In the order of recording: all but the function that it starts in, and that
 * where it is called within itself. */
static bool add_inlined(struct reader *r, const struct shm_log *log)
{
  bool met[TECS_LOG_PROTOS_MAX] = {false};
  for (uint32_t i = 0; i < log->nevent; i++) {
    const struct tecs_log_event *e = &log->event[i];
    bool start =
        e->proto == log->event[0].proto && e->depth <= log->event[0].depth;
    if (e->proto == TECS_LOG_NO_PROTO || start || met[e->proto])
      continue;
    met[e->proto] = true;
    const struct tecs_log_proto *p = &log->proto[e->proto];
    if (!add_function(r, is_logged(r, p) ? function_at(r, p->addr)
                                         : VM_NO_FUNCTION))
      return false;
  }
  return true;
}

static bool read_log(struct reader *r, struct item *it)
{
  struct shm_log_key key = {r->g, it->pub.mcode, it->pub.szmcode,
                            it->pub.traceno};
  struct shm_log log;
  it->first = r->functions;
  it->pub.log =
      r->shm && shm_log_find(r->shm, &key, r->log_buffer, &log) == RESULT_OK;
  if (it->pub.log && !add_inlined(r, &log))
    return false;
  it->count = r->functions - it->first;
  return true;
}

/* ---- all of them ---- */

static struct item *next_item(struct reader *r)
{
  if (r->items == r->item_cap) {
    size_t cap = 2 * r->item_cap + 64;
    struct item *item = realloc(r->item, cap * sizeof *item);
    if (!item)
      return NULL;
    r->item = item;
    r->item_cap = cap;
  }
  return &r->item[r->items];
}

/* What was read before says nothing of now. */
static void read_anew(struct reader *r)
{
  r->m = outside_open(&r->outside, r->target);
}

/* NOTFOUND: there is none of that number; BUSY: it changed meanwhile. */
static enum result read_trace(struct reader *r, uint32_t traceno)
{
  struct shape before, after;
  struct item *it = next_item(r);
  if (!it)
    return RESULT_NOMEM;
  read_anew(r);
  if (!read_shape(r, traceno, &before))
    return RESULT_NOTFOUND;
  describe(r, &before, it);
  if (!read_log(r, it))
    return RESULT_NOMEM;
  read_anew(r);
  read_shape(r, traceno, &after);
  if (memcmp(&before, &after, sizeof before)) {
    r->functions = it->first;
    return RESULT_BUSY;
  }
  r->items++;
  return RESULT_OK;
}

/* Adds to *changed those that were never twice the same. */
static enum result read_traces(struct reader *r, unsigned *changed)
{
  read_anew(r);
  uint32_t size = vm_load4(r->m, jit_state(r) + r->lay->J_sizetrace);
  enum result res = RESULT_OK;
  for (uint32_t i = 1; i < size && i < TRACES_MAX && res != RESULT_NOMEM; i++) {
    for (unsigned n = 0; n < TRIES && (!n || res == RESULT_BUSY); n++)
      res = read_trace(r, i);
    *changed += res == RESULT_BUSY;
  }
  return res == RESULT_NOMEM ? res : RESULT_OK;
}

/* Names that the agent has kept in its own memory are found again in the
 * functions that are still there. */
static void find_names(struct reader *r)
{
  for (unsigned i = 0; i < LATE_CALLS; i++)
    vm_store_name_late(r->store);
}

static void add_text(struct reader *r, struct strbuf *b, uint32_t function,
                     uint32_t pc)
{
  const char *text = function == VM_NO_FUNCTION
                         ? NULL
                         : vm_function_text(r->store, function, pc, pc != 0);
  if (!text)
    strbuf_add_str(b, "?");
  else if (!vm_text_is_pending(text) || !vm_text_settle(r->store, text, b))
    strbuf_add_str(b, text);
}

static bool give(struct reader *r, struct item *it, session_compiled_fn *fn,
                 void *ctx)
{
  struct strbuf start = STRBUF_INIT, inlined = STRBUF_INIT;
  add_text(r, &start, it->start.function, it->start.pc);
  for (size_t i = 0; i < it->count; i++) {
    strbuf_add_str(&inlined, i ? ", " : "");
    add_text(r, &inlined, r->function[it->first + i], 0);
  }
  it->pub.start = strbuf_text(&start);
  it->pub.inlined = strbuf_text(&inlined);
  bool ok = !start.failed && !inlined.failed;
  if (ok)
    fn(ctx, &it->pub);
  strbuf_free(&start);
  strbuf_free(&inlined);
  return ok;
}

static bool open_reader(struct reader *r)
{
  r->host = (struct capture_host){.copy = copy, .ctx = r};
  r->capture = calloc(1, sizeof *r->capture);
  r->log_buffer = malloc(SHM_LOG_TRACE_MAX);
  if (!r->capture || !r->log_buffer || shm_private(&r->images) != RESULT_OK ||
      vm_store_new(r->target, &r->store) != RESULT_OK)
    return false;
  struct capture *c = r->capture;
  c->host = &r->host;
  c->slot = &r->images.slots[0];
  c->ring = r->images.rings;
  c->lay = r->lay;
  c->g = r->g;
  c->mem = *outside_open(&r->outside, r->target);
  capture_reset(c, 1);
  return true;
}

static void close_reader(struct reader *r)
{
  vm_store_free(r->store);
  if (r->images.base)
    shm_detach(&r->images);
  free(r->capture);
  free(r->log_buffer);
  free(r->item);
  free(r->function);
}

/* A VM that had no trace yet when the agent met it may have been taken for one
 * whose layout differs in traces alone (vmcore/discover.h, vm_trace_fits): what
 * it is now decides.  What is being changed is no VM for a moment. */
static enum result identify(struct reader *r, struct error *e)
{
  uint32_t id = VM_LAYOUT_UNKNOWN;
  for (unsigned i = 0; i < TRIES && id == VM_LAYOUT_UNKNOWN; i++) {
    read_anew(r);
    id = vm_identify_global(r->m, r->g);
  }
  r->lay = vm_layout_get(id);
  if (!r->lay)
    return error_set(e, RESULT_GONE, "there is no VM any more");
  if (!r->lay->hasjit)
    return error_set(e, RESULT_UNSUPPORTED, "it has no JIT compiler");
  return RESULT_OK;
}

static enum result check_vm(struct reader *r, struct error *e)
{
  uint8_t byte;
  int fd = -1;
  enum result res = RESULT_OK;
  if (target_read(r->target, r->g, &byte, 1) != RESULT_OK)
    res = target_image_open(r->target, &fd, e);
  if (fd >= 0)
    close(fd);
  return res == RESULT_OK ? identify(r, e) : res;
}

enum result session_compiled_each(struct target *t, const struct shm *shm,
                                  const struct session_vm *vm,
                                  session_compiled_fn *fn, void *ctx,
                                  unsigned *changed, struct error *e)
{
  struct reader *r = calloc(1, sizeof *r);
  if (!r)
    return error_set(e, RESULT_NOMEM, "no memory");
  r->target = t;
  r->shm = shm;
  r->g = vm->g;
  r->images.fd = -1;
  *changed = 0;
  enum result res = check_vm(r, e);
  if (res == RESULT_OK && (!open_reader(r) || read_traces(r, changed)))
    res = error_set(e, RESULT_NOMEM, "no memory");
  if (res == RESULT_OK)
    find_names(r);
  for (size_t i = 0; res == RESULT_OK && i < r->items; i++)
    if (!give(r, &r->item[i], fn, ctx))
      res = error_set(e, RESULT_NOMEM, "no memory");
  close_reader(r);
  free(r);
  return res;
}
