/* SPDX-License-Identifier: MIT
 *
 * Images of traces, for the samples that are in one: its machine code, IR and
 * snapshots, and the bytecode that it may have been recorded from.  The thread
 * that runs the trace stands still meanwhile, so nothing changes under the
 * copy; that is checked all the same.  Traces are freed and their numbers and
 * addresses used again: an image counts only while the key is the same.
 */
#include <string.h>

#include "capture/capture_internal.h"
#include "vmcore/discover.h"
#include "vmcore/value.h"

enum {
  REF_BIAS = 0x8000, /* lj_ir.h: constants lie below */
  BYTECODE_MAX = 16384,
  CONSTANTS_MAX = 4096,
  IR_MAX = 16384,
  MCODE_BYTES_MAX = 65536,
  KEY_WORDS = 8, /* of IR that belong to the key */
};
#define IMAGE_MAX (TECS_RING_BYTES / 2)
#define MIX UINT64_C(0x9e3779b97f4a7c15)

/* What the fields of a GCtrace say, not believed. */
struct shape {
  uint64_t T, mcode, ir, snap, snapmap, startpt, startpc;
  uint32_t szmcode, nk, nins, nsnap, nsnapmap;
};

static uint32_t pad8(uint32_t n)
{
  return (n + 7) & ~7u;
}

static uint64_t trace_of(struct capture *c, uint32_t number)
{
  uint64_t J = c->g - c->lay->gg_g + c->lay->gg_J;
  uint64_t trace = vm_load8(&c->mem, J + c->lay->J_trace);
  if (!number || number >= vm_load4(&c->mem, J + c->lay->J_sizetrace))
    return 0;
  return vm_ref(&c->mem, c->lay,
                trace + vm_ref_size(c->lay) * (uint64_t)number);
}

static void read_shape(struct capture *c, uint64_t T, struct shape *s)
{
  const struct vm_layout *lay = c->lay;
  struct vm_mem *m = &c->mem;
  *s = (struct shape){
      .T = T,
      .mcode = vm_load8(m, T + lay->tr_mcode),
      .ir = vm_load8(m, T + lay->tr_ir),
      .snap = vm_load8(m, T + lay->tr_snap),
      .snapmap = vm_load8(m, T + lay->tr_snapmap),
      .startpt = vm_ref(m, lay, T + lay->tr_startpt),
      .startpc = vm_ref(m, lay, T + lay->tr_startpc),
      .szmcode = vm_load4(m, T + lay->tr_szmcode),
      .nk = vm_load4(m, T + lay->tr_nk),
      .nins = vm_load4(m, T + lay->tr_nins),
      .nsnap = vm_load2(m, T + lay->tr_nsnap),
      /* once 16 bits wide, beside nsnap */
      .nsnapmap = lay->tr_nsnapmap == lay->tr_nsnap + 2
                      ? vm_load2(m, T + lay->tr_nsnapmap)
                      : vm_load4(m, T + lay->tr_nsnapmap),
  };
}

static bool makes_sense(const struct shape *s)
{
  return s->nk <= REF_BIAS && s->nins > REF_BIAS && s->nins - s->nk <= IR_MAX &&
         s->szmcode && s->szmcode <= MCODE_BYTES_MAX && s->nsnap &&
         s->nsnapmap <= IMAGE_MAX;
}

/* Another trace in the same place is recognised by its parts. */
static uint32_t key_of(struct capture *c, const struct shape *s,
                       uint32_t number)
{
  uint64_t h = number;
  h = h * MIX + s->mcode;
  h = h * MIX + s->szmcode;
  h = h * MIX + s->ir;
  h = h * MIX + s->snap;
  h = h * MIX + s->startpt;
  h = h * MIX + s->startpc;
  h = h * MIX + s->nk;
  h = h * MIX + s->nins;
  h = h * MIX + s->nsnap;
  h = h * MIX + s->nsnapmap;
  for (unsigned i = 0; i < KEY_WORDS; i++) {
    uint64_t ref = s->nk + (uint64_t)(s->nins - s->nk) * i / KEY_WORDS;
    h = h * MIX + vm_load8(&c->mem, s->ir + 8 * ref);
  }
  return (uint32_t)((h * MIX) >> 32) | 1; /* never 0 */
}

/* ---- bytecode ---- */

/* A loop's instruction gives way to the number of its trace (lj_trace.c,
 * trace_stop), which keeps it. */
static void unpatch(struct capture *c, uint32_t *bc, uint32_t n)
{
  const struct vm_layout *lay = c->lay;
  for (uint32_t i = 0; i < n; i++) {
    unsigned op = bc[i] & 255;
    if (op != lay->bc_forl + 2u && op != lay->bc_iterl + 2u &&
        op != lay->bc_loop + 2u)
      continue;
    uint64_t T = trace_of(c, bc[i] >> 16);
    if (vm_plausible(T) && vm_load1(&c->mem, T + lay->L_gct) == VM_GCT_TRACE)
      bc[i] = vm_load4(&c->mem, T + lay->tr_startins);
  }
}

/* lj_obj.h: proto_knumtv; proto_kgc of ~i. */
static void put_constants(struct capture *c, uint64_t *to, uint64_t k,
                          const struct tecs_bytecode *head)
{
  for (uint32_t i = 0; i < head->nkn; i++)
    *to++ = vm_load8(&c->mem, k + 8 * (uint64_t)i);
  for (uint32_t i = 0; i < head->nkgc; i++)
    *to++ =
        vm_ref(&c->mem, c->lay, k - vm_ref_size(c->lay) * ((uint64_t)i + 1));
}

static bool send_bytecode(struct capture *c, uint64_t pt, uint32_t id)
{
  const struct vm_layout *lay = c->lay;
  struct tecs_bytecode head = {.proto = id,
                               .nbc = vm_load4(&c->mem, pt + lay->pt_sizebc),
                               .bcaddr = pt + lay->pt_sizeof,
                               .nkn = vm_load4(&c->mem, pt + lay->pt_sizekn),
                               .nkgc = vm_load4(&c->mem, pt + lay->pt_sizekgc)};
  if (head.nbc > BYTECODE_MAX || head.nkn > CONSTANTS_MAX ||
      head.nkgc > CONSTANTS_MAX)
    return true; /* the trace goes without it */
  head.rec.type = TECS_RECORD_BYTECODE;
  head.rec.len =
      (uint32_t)sizeof head + pad8(4 * head.nbc) + 8 * (head.nkn + head.nkgc);
  uint8_t *to = shm_ring_reserve(c->slot, c->ring, head.rec.len);
  if (!to)
    return false;
  uint32_t *bc = (uint32_t *)(void *)(to + sizeof head);
  memset(bc, 0, pad8(4 * head.nbc));
  if (c->host->copy(c, bc, head.bcaddr, 4 * head.nbc) != 4 * head.nbc)
    return false;
  unpatch(c, bc, head.nbc);
  put_constants(c, (uint64_t *)(void *)((uint8_t *)bc + pad8(4 * head.nbc)),
                vm_ref(&c->mem, lay, pt + lay->pt_k), &head);
  memcpy(to, &head, sizeof head);
  shm_ring_commit(c->slot, head.rec.len);
  return true;
}

/* Id of a prototype whose bytecode is known, too; 0: no room. */
static uint32_t proto_with_code(struct capture *c, uint64_t pt)
{
  uint32_t id = intern_proto(c, pt);
  if (id && !intern_met(c, pt | 1, id) && !send_bytecode(c, pt, id))
    return 0;
  if (id)
    intern_meet(c, pt | 1, id);
  return id;
}

/* ---- objects ---- */

/* false: no room for an image. */
static bool add_object(struct capture *c, uint64_t addr, uint64_t pt,
                       enum tecs_trace_object_kind kind)
{
  uint32_t id = pt ? proto_with_code(c, pt) : 0;
  if (pt && !id)
    return false;
  for (unsigned i = 0; i < c->object_count; i++)
    if (c->object[i].addr == addr)
      return true;
  if (c->object_count < CAPTURE_OBJECTS)
    c->object[c->object_count++] = (struct tecs_trace_object){
        .addr = addr,
        .proto = id,
        .kind = (uint8_t)kind,
        .ffid = pt ? 0 : (uint8_t)vm_load1(&c->mem, addr + c->lay->fn_ffid)};
  return true;
}

static bool starts_function(struct capture *c, uint64_t bc)
{
  unsigned op = vm_load1(&c->mem, bc);
  return op >= c->lay->bc_funcf && op < c->lay->bc_funcc;
}

/* Constants that name functions: what is called is guarded by the function
 * (lj_record.c, rec_call_specialize), its prototype, or its bytecode. */
static bool add_constant(struct capture *c, unsigned op, uint64_t v)
{
  const struct vm_layout *lay = c->lay;
  if (!vm_plausible(v & ~UINT64_C(7)))
    return true;
  if (op == lay->ir_kgc) {
    unsigned gct = vm_load1(&c->mem, v + lay->L_gct);
    if (gct == VM_GCT_FUNC)
      return add_object(c, v, vm_func_proto(&c->mem, lay, v), TECS_TRACE_FUNC);
    if (gct == VM_GCT_PROTO && vm_is_proto(&c->mem, lay, v))
      return add_object(c, v, v, TECS_TRACE_PROTO);
  } else if (op == lay->ir_kptr && !(v & 3)) {
    uint64_t pt = v - lay->pt_sizeof;
    if (vm_is_proto(&c->mem, lay, pt) && starts_function(c, v))
      return add_object(c, pt, pt, TECS_TRACE_PROTO);
  }
  return true;
}

/* With LJ_GC64 objects and pointers take two instructions (lj_ir.h, IRIns). */
static bool add_constants(struct capture *c, const struct shape *s)
{
  const struct vm_layout *lay = c->lay;
  for (uint32_t ref = s->nk; ref < REF_BIAS; ref++) {
    uint64_t ir = s->ir + 8 * (uint64_t)ref, v;
    unsigned op = vm_load1(&c->mem, ir + 5);
    bool two = op == lay->ir_knum || op == lay->ir_kint64;
    if (op == lay->ir_kgc || op == lay->ir_kptr || op == lay->ir_kkptr) {
      two = lay->gc64;
      v = two ? vm_load8(&c->mem, ir + 8) : vm_load4(&c->mem, ir);
      if (!add_constant(c, op, v))
        return false;
    }
    ref += two;
  }
  return true;
}

/* The function on whose frame the trace runs, which only its parents name. */
static bool add_base(struct capture *c)
{
  uint64_t base = vm_ref(&c->mem, c->lay, c->g + c->lay->g_jit_base);
  uint64_t fn = base ? vm_base_func(&c->mem, c->lay, base) : 0;
  uint64_t pt = vm_func_proto(&c->mem, c->lay, fn);
  return !pt || add_object(c, fn, pt, TECS_TRACE_FUNC);
}

/* Those that were recorded in, as far as they live. */
static bool add_logged(struct capture *c, const struct shm_log *log)
{
  const struct vm_layout *lay = c->lay;
  for (uint32_t i = 0; i < log->nproto; i++) {
    struct tecs_log_proto p = log->proto[i];
    if (vm_plausible(p.addr) && vm_is_proto(&c->mem, lay, p.addr) &&
        vm_load4(&c->mem, p.addr + lay->pt_sizebc) == p.sizebc &&
        vm_load4(&c->mem, p.addr + lay->pt_firstline) == p.firstline &&
        !add_object(c, p.addr, p.addr, TECS_TRACE_PROTO))
      return false;
  }
  return true;
}

static bool add_objects(struct capture *c, const struct shape *s,
                        const struct shm_log *log)
{
  c->object_count = 0;
  return add_object(c, s->startpt, s->startpt, TECS_TRACE_PROTO) &&
         add_base(c) && add_constants(c, s) && add_logged(c, log);
}

static void find_log(struct capture *c, const struct shape *s, uint32_t number,
                     struct shm_log *log)
{
  struct shm_log_key key = {c->g, s->mcode, s->szmcode, number};
  if (!c->host->log || !c->host->log(c, &key, log))
    *log = (struct shm_log){0};
}

/* ---- the image ---- */

static bool put(struct capture *c, uint8_t **at, uint64_t from, uint32_t n)
{
  if (pad8(n) > n)
    memset(*at + n, 0, pad8(n) - n);
  bool ok = c->host->copy(c, *at, from, n) == n;
  *at += pad8(n);
  return ok;
}

static void put_snaps(struct capture *c, uint8_t **at, const struct shape *s)
{
  const struct vm_layout *lay = c->lay;
  struct vm_mem *m = &c->mem;
  struct tecs_snap *to = (struct tecs_snap *)(void *)*at;
  uint32_t bytes = (uint32_t)sizeof *to * s->nsnap;
  memset(to, 0, pad8(bytes));
  for (uint32_t i = 0; i < s->nsnap; i++) {
    uint64_t snap = s->snap + (uint64_t)i * lay->snap_sizeof;
    to[i].mapofs = lay->snap_sizeof == 8 ? vm_load2(m, snap + lay->snap_mapofs)
                                         : vm_load4(m, snap + lay->snap_mapofs);
    to[i].ref = (uint16_t)vm_load2(m, snap + lay->snap_ref);
    if (lay->snap_mcofs != VM_ABSENT16)
      to[i].mcofs = (uint16_t)vm_load2(m, snap + lay->snap_mcofs);
    to[i].nent = (uint8_t)vm_load1(m, snap + lay->snap_nent);
  }
  *at += pad8(bytes);
}

static void describe(struct capture *c, const struct shape *s, uint32_t number,
                     uint64_t log, struct tecs_trace *t)
{
  const struct vm_layout *lay = c->lay;
  struct vm_mem *m = &c->mem;
  uint64_t bc = s->startpt + lay->pt_sizeof;
  *t = (struct tecs_trace){
      .g = c->g,
      .mcode = s->mcode,
      .szmcode = s->szmcode,
      .layout = c->walk.vm.layout,
      .nk = s->nk,
      .nins = s->nins,
      .nsnap = s->nsnap,
      .nsnapmap = s->nsnapmap,
      .nobject = c->object_count,
      .startproto = c->object[0].proto,
      .startindex = s->startpc > bc ? (uint32_t)((s->startpc - bc) / 4) : 0,
      .traceno = (uint16_t)number,
      .link = (uint16_t)vm_load2(m, s->T + lay->tr_link),
      .root = (uint16_t)vm_load2(m, s->T + lay->tr_root),
      .linktype = (uint8_t)vm_load1(m, s->T + lay->tr_linktype),
      .log = log,
  };
  t->rec.type = TECS_RECORD_TRACE;
}

static bool send_trace(struct capture *c, const struct shape *s,
                       uint32_t number, uint32_t key, uint64_t log)
{
  struct tecs_trace head;
  uint32_t ir = 8 * (s->nins - s->nk);
  uint32_t objects = (uint32_t)sizeof c->object[0] * c->object_count;
  uint64_t len = sizeof head + pad8(s->szmcode) + ir +
                 pad8((uint32_t)sizeof(struct tecs_snap) * s->nsnap) +
                 pad8(4 * s->nsnapmap) + objects;
  if (len > IMAGE_MAX)
    return false;
  uint8_t *to = shm_ring_reserve(c->slot, c->ring, (uint32_t)len);
  if (!to)
    return false;
  uint32_t faults = c->mem.faults;
  uint8_t *at = to + sizeof head;
  describe(c, s, number, log, &head);
  head.rec.len = (uint32_t)len;
  bool ok = put(c, &at, s->mcode, s->szmcode) &&
            put(c, &at, s->ir + 8 * (uint64_t)s->nk, ir);
  put_snaps(c, &at, s);
  ok = ok && put(c, &at, s->snapmap, 4 * s->nsnapmap);
  memcpy(at, c->object, objects);
  memcpy(to, &head, sizeof head);
  struct shape after;
  read_shape(c, s->T, &after);
  if (!ok || c->mem.faults != faults || key_of(c, &after, number) != key)
    return false; /* what was reserved is not committed */
  shm_ring_commit(c->slot, head.rec.len);
  return true;
}

bool intern_trace(struct capture *c)
{
  const struct tecs_sample_vm *vm = &c->walk.vm;
  struct shape s;
  struct shm_log log;
  uint64_t T = trace_of(c, vm->trace);
  if (!vm_plausible(T))
    return false;
  read_shape(c, T, &s);
  if (!makes_sense(&s) || vm->mcode_pc < s.mcode ||
      vm->mcode_pc - s.mcode >= s.szmcode)
    return false;
  uint32_t key = key_of(c, &s, vm->trace);
  if (intern_met(c, T, key))
    return true;
  find_log(c, &s, vm->trace, &log);
  if (!vm_is_proto(&c->mem, c->lay, s.startpt) || !add_objects(c, &s, &log) ||
      !send_trace(c, &s, vm->trace, key, log.position))
    return false;
  intern_meet(c, T, key);
  return true;
}
