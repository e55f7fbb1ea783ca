/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "output/output.h"
#include "replay.h"

struct merge_options replay_defaults(void)
{
  return (struct merge_options){
      .native = true, .lua = true, .zones = true, .state = true, .depth = 256};
}

/* ---- opening ---- */

static bool read_part(const char *recording, const char *name,
                      struct bytes *out)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", recording, name);
  return bytes_read(path, out);
}

static bool open_segment(struct replay *r)
{
  struct shm_attach_info info;
  if (shm_create(&r->agent, "replay", 1) != RESULT_OK)
    return false;
  shm_publish(&r->agent, TECS_STATE_READY, TECS_REASON_NONE);
  return shm_attach(&r->shm, dup(r->agent.fd), &info) == RESULT_OK &&
         shm_back_rings(&r->shm, TECS_SLOTS) == RESULT_OK;
}

static bool open_rooms(struct replay *r, struct error *e)
{
  return target_open_recorded(r->dir, &r->target, e) == RESULT_OK &&
         modules_new(r->target, &r->modules, e) == RESULT_OK &&
         unwinder_new(r->modules, &r->unwinder, e) == RESULT_OK;
}

bool replay_open(struct replay *r, const char *recording, char *text,
                 size_t cap)
{
  const char *tmp = getenv("TMPDIR");
  struct error e = {.text = ""};
  memset(r, 0, sizeof *r);
  r->agent.fd = r->shm.fd = -1;
  snprintf(r->dir, sizeof r->dir, "%s/tecs-replay.XXXXXX",
           tmp && strlen(tmp) < 40 ? tmp : "/tmp");
  bool made = mkdtemp(r->dir) != NULL;
  if (!made)
    r->dir[0] = '\0';
  r->stack = malloc(sizeof *r->stack);
  bool ok = made && r->stack && read_part(recording, "stream", &r->stream) &&
            read_part(recording, "vms", &r->vms) &&
            recording_unpack(recording, r->dir) && open_segment(r) &&
            open_rooms(r, &e);
  if (!ok) {
    snprintf(text, cap, "cannot replay %s: %s", recording, e.text);
    replay_close(r);
  }
  return ok;
}

static void forget_run(struct replay *r)
{
  profile_free(r->profile);
  vm_store_free(r->vm);
  r->profile = NULL;
  r->vm = NULL;
}

void replay_close(struct replay *r)
{
  forget_run(r);
  unwinder_free(r->unwinder);
  modules_free(r->modules);
  if (r->target)
    target_close(r->target);
  if (r->shm.base)
    shm_detach(&r->shm);
  if (r->agent.base)
    shm_destroy(&r->agent);
  free(r->stack);
  bytes_free(&r->stream);
  bytes_free(&r->vms);
  if (r->dir[0])
    recording_remove(r->dir);
  memset(r, 0, sizeof *r);
}

/* ---- a sample ---- */

static const struct tecs_vm *find_vm(const struct replay *r, uint64_t g)
{
  const struct tecs_vm *vm = (const struct tecs_vm *)r->vms.data;
  for (size_t i = 0; i < r->vms.len / sizeof *vm; i++)
    if (vm[i].g == g)
      return &vm[i];
  return NULL;
}

/* As session/drain.c: one entry of the unwind table covers all of the VM's
 * assembly. */
static void describe_vm(struct replay *r, const struct tecs_sample_vm *v,
                        struct unwind_vm *u)
{
  const struct tecs_vm *vm = find_vm(r, v->g);
  const struct module *mod = vm ? modules_find(r->modules, vm->asm_pc) : NULL;
  uint64_t start, end;
  u->g = v->g;
  u->asm_lo = vm ? vm->asm_lo : 0;
  u->asm_hi = vm ? vm->asm_hi : 0;
  if (mod && module_function_range(mod, vm->asm_pc, &start, &end) &&
      start <= u->asm_lo && end >= u->asm_hi) {
    u->asm_lo = start;
    u->asm_hi = end;
  }
  u->mcode = vm_mcode(r->vm, u->g, &u->mcode_count);
  u->cframe_size = vm_cframe_size(v->layout);
}

static enum result take_sample(struct replay *r, const struct merge_options *o,
                               unsigned slot, const struct tecs_record *rec)
{
  struct sample_view v;
  struct merge_result res;
  if (record_sample(rec, &v) != RESULT_OK) {
    r->bad++;
    return RESULT_OK;
  }
  r->samples++;
  for (unsigned i = 0; i < v.sample->vm_count; i++)
    describe_vm(r, &v.vm[i], &r->unwind_vm[i]);
  r->stack->count = 0;
  r->stack->end = UNWIND_END_PARTIAL;
  if (o->native)
    unwind_sample(r->unwinder, &v, r->unwind_vm, r->stack);
  enum result e =
      merge_sample(o, slot, &v, r->stack, r->modules, r->vm, r->profile, &res);
  r->kept += e == RESULT_OK && res.verdict == MERGE_KEPT;
  r->partial += e == RESULT_OK && res.partial;
  return e;
}

static enum result take_record(struct replay *r, const struct merge_options *o,
                               unsigned slot, const struct tecs_record *rec)
{
  if (rec->type == TECS_RECORD_SAMPLE)
    return take_sample(r, o, slot, rec);
  enum result e = vm_store_record(r->vm, slot, rec);
  r->bad += e == RESULT_CORRUPT;
  return e == RESULT_NOMEM ? e : RESULT_OK;
}

/* ---- the ring ---- */

static enum result drain(struct replay *r, const struct merge_options *o,
                         unsigned slot)
{
  const struct tecs_record *rec;
  enum result e = RESULT_OK;
  while (e == RESULT_OK && (rec = shm_ring_peek(&r->shm, slot, &r->bad))) {
    /* a copy that ends where it ends: sanitizers see what reads on */
    struct tecs_record *own = malloc(rec->len);
    if (!own)
      return RESULT_NOMEM;
    memcpy(own, rec, rec->len);
    e = take_record(r, o, slot, own);
    shm_ring_consume(&r->shm, slot, own);
    free(own);
  }
  return e;
}

/* What the agent would have written; the collector alone judges it. */
static void write_ring(struct replay *r, unsigned slot, const uint8_t *bytes,
                       uint32_t len)
{
  struct tecs_slot *s = &r->agent.slots[slot];
  uint8_t *ring = r->agent.rings + (size_t)slot * TECS_RING_BYTES;
  uint8_t *at = shm_ring_reserve(s, ring, (len + 7) & ~7u);
  if (!at)
    return;
  memset(at, 0, (len + 7) & ~7u);
  memcpy(at, bytes, len);
  shm_ring_commit(s, (len + 7) & ~7u);
}

static bool begin(struct replay *r)
{
  forget_run(r);
  r->samples = r->kept = r->partial = r->bad = 0;
  for (unsigned i = 0; i < TECS_SLOTS; i++)
    r->agent.slots[i].head = r->agent.slots[i].tail = 0;
  r->profile = profile_new();
  return r->profile && vm_store_new(NULL, &r->vm) == RESULT_OK;
}

enum result replay_run(struct replay *r, const struct merge_options *o,
                       const uint8_t *stream, size_t len, struct strbuf *out)
{
  struct frame_head h;
  enum result e = begin(r) ? RESULT_OK : RESULT_NOMEM;
  while (e == RESULT_OK && len >= sizeof h) {
    memcpy(&h, stream, sizeof h);
    stream += sizeof h;
    len -= sizeof h;
    uint32_t n = h.len < len ? h.len : (uint32_t)len;
    n = n < TECS_RING_BYTES ? n : TECS_RING_BYTES - 8;
    unsigned slot = h.slot % TECS_SLOTS;
    write_ring(r, slot, stream, n);
    e = drain(r, o, slot);
    stream += n;
    len -= n;
  }
  if (e == RESULT_OK)
    e = merge_finish(r->profile, r->vm);
  return e == RESULT_OK ? output_collapsed(r->profile, out) : e;
}
