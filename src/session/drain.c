/* SPDX-License-Identifier: MIT
 *
 * From the rings into the profile.
 */
#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "session/session_internal.h"

#define REFRESH_PAUSE (50 * MS) /* between two looks at the maps */
/* A program that has just been executed maps its libraries one by one. */
#define YOUNG_PART (500 * MS)
#define YOUNG_PAUSE (5 * MS)

/* ---- the VMs ---- */

static void refine(struct session *s, struct vm_info *v)
{
  uint64_t start, end;
  const struct module *mod = modules_find(s->modules, v->asm_pc);
  v->lo = v->table_lo;
  v->hi = v->table_hi;
  /* One entry of the unwind table covers all of the VM's assembly. */
  if (mod && module_function_range(mod, v->asm_pc, &start, &end) &&
      start <= v->table_lo && end >= v->table_hi) {
    v->lo = start;
    v->hi = end;
  }
}

static void take_vm(struct session *s, unsigned i)
{
  struct vm_info *v = &s->vms[i];
  struct tecs_vm vm = s->shm.vms[i];
  if (atomic_acquire(&s->shm.vms[i].state) != TECS_VM_LIVE)
    return; /* closed while it was copied */
  bool same = v->g == vm.g && v->asm_pc == vm.asm_pc &&
              v->table_lo == vm.asm_lo && v->table_hi == vm.asm_hi;
  v->live = true;
  if (same)
    return;
  v->g = vm.g;
  v->asm_pc = vm.asm_pc;
  v->table_lo = vm.asm_lo;
  v->table_hi = vm.asm_hi;
  if (!modules_find(s->modules, vm.asm_pc))
    drain_refresh(s, clock_mono_ns());
  refine(s, v);
}

void drain_vms(struct session *s)
{
  unsigned live = 0, unknown = 0;
  for (unsigned i = 0; i < TECS_VMS; i++) {
    uint32_t state = atomic_acquire(&s->shm.vms[i].state);
    s->vms[i].live = false; /* what is known of it stays: samples of it may
                               wait in a ring */
    if (state == TECS_VM_LIVE) {
      take_vm(s, i);
      live++;
    } else if (state == TECS_VM_UNKNOWN) {
      unknown++;
    }
  }
  if (live > s->acc->vms)
    s->acc->vms = live;
  if (unknown && !s->acc->unknown_vms)
    target_luajit_version(s->t, s->acc->luajit);
  if (unknown > s->acc->unknown_vms)
    s->acc->unknown_vms = unknown;
}

static int find_vm(const struct session *s, uint64_t g)
{
  int found = -1;
  for (int i = 0; i < TECS_VMS; i++)
    if (s->vms[i].g == g && (found < 0 || s->vms[i].live))
      found = i;
  return found;
}

/* What the unwinder is told about each VM in a sample. */
static void describe_vms(struct session *s, const struct sample_view *v)
{
  for (unsigned i = 0; i < v->sample->vm_count; i++) {
    struct unwind_vm *u = &s->unwind_vm[i];
    int known = find_vm(s, v->vm[i].g);
    if (known < 0) { /* found since the table was read */
      drain_vms(s);
      known = find_vm(s, v->vm[i].g);
    }
    u->g = v->vm[i].g;
    u->asm_lo = known < 0 ? 0 : s->vms[known].lo;
    u->asm_hi = known < 0 ? 0 : s->vms[known].hi;
    u->mcode = vm_mcode(s->vm, u->g, &u->mcode_count);
    u->cframe_size = vm_cframe_size(v->vm[i].layout);
  }
}

/* ---- the maps ---- */

/* After an exec the maps are another program's: what is left of the old one
 * must not be named by them. */
bool drain_refresh(struct session *s, uint64_t now)
{
  if (now < s->next_refresh)
    return false;
  s->next_refresh =
      now + (now - s->wait_start < YOUNG_PART ? YOUNG_PAUSE : REFRESH_PAUSE);
  if (!s->engine->same_image(s) || !modules_refresh(s->modules))
    return false;
  /* An exec between the two looks: nothing more is named in this part. */
  s->image_gone = !s->engine->same_image(s);
  unwinder_flush(s->unwinder);
  for (unsigned i = 0; i < TECS_VMS; i++)
    if (s->vms[i].live)
      refine(s, &s->vms[i]);
  return true;
}

static bool in_mcode(const struct session *s, unsigned vms, uint64_t ip)
{
  for (unsigned i = 0; i < vms; i++)
    for (size_t k = 0; k < s->unwind_vm[i].mcode_count; k++)
      if (ip >= s->unwind_vm[i].mcode[k].lo && ip < s->unwind_vm[i].mcode[k].hi)
        return true;
  return false;
}

/* Code that came by dlopen since the maps were read? */
static void look_for_new_code(struct session *s, const struct sample_view *v)
{
  uint64_t ip = v->sample->reg[TECS_REG_RIP];
  if (!modules_find(s->modules, ip) && !in_mcode(s, v->sample->vm_count, ip) &&
      !modules_is_anon_exec(s->modules, ip))
    drain_refresh(s, clock_mono_ns());
}

static void unwind(struct session *s, const struct sample_view *v)
{
  if (!s->o->merge.native) {
    s->stack->count = 0;
    s->stack->end = UNWIND_END_PARTIAL;
    return;
  }
  look_for_new_code(s, v);
  unwind_sample(s->unwinder, v, s->unwind_vm, s->stack);
  if (s->stack->end == UNWIND_END_PARTIAL && drain_refresh(s, clock_mono_ns()))
    unwind_sample(s->unwinder, v, s->unwind_vm, s->stack);
}

/* ---- one sample ---- */

static bool lua_incomplete(const struct sample_view *v)
{
  for (unsigned i = 0; i < v->sample->vm_count; i++)
    if (v->vm[i].error != TECS_WALK_OK && v->vm[i].error != TECS_WALK_DEPTH)
      return true;
  for (unsigned i = 0; i < v->sample->lua_count; i++)
    if (v->lua[i].kind == TECS_FRAME_LOST)
      return true;
  return false;
}

/* The frame that splits by thread and VM; NULL: no split. */
static const char *root(struct session *s, unsigned slot,
                        const struct sample_view *v, char *buf, size_t cap)
{
  char vm[24] = "no VM";
  if (!s->o->by_vm)
    return s->o->by_thread ? s->slot[slot].root : NULL;
  int known = v->sample->vm_count ? find_vm(s, v->vm[0].g) : -1;
  if (known >= 0)
    snprintf(vm, sizeof vm, "VM %d", known + 1);
  if (s->o->by_thread)
    snprintf(buf, cap, "%s %s", s->slot[slot].root, vm);
  else
    snprintf(buf, cap, "%s", vm);
  return buf;
}

/* Whom it may concern: the innermost Lua function of the sample. */
static void tell(struct session *s, unsigned slot, const struct sample_view *v,
                 char state)
{
  struct session_hit hit = {.state = state};
  struct vm_place place;
  unsigned i = 0;
  while (i < v->sample->lua_count && v->lua[i].kind != TECS_FRAME_LUA)
    i++;
  if (i < v->sample->lua_count &&
      vm_frame_place(s->vm, slot, (uint32_t)v->lua[i].value, &place)) {
    hit.chunk = place.chunk;
    hit.firstline = place.firstline;
    hit.numline = place.numline;
    hit.pt = place.pt;
  }
  s->o->hit(s->o->arg, &hit);
}

static void count_asleep(struct session_account *acc,
                         const struct merge_result *res)
{
  if (res->verdict == MERGE_FILTERED)
    acc->asleep_filtered++;
  else
    acc->asleep++;
}

/* A signal reaches a thread when that gets a CPU: until then it has been where
 * the sample finds it. */
static void add_waiting(struct session *s, struct slot *sl)
{
  profile_add_again(s->p, profile_newest(s->p), sl->waiting);
  s->acc->waiting += sl->waiting;
  sl->waiting = 0;
}

static void count_compiled(struct session_account *acc,
                           enum merge_compiled compiled)
{
  acc->of_line += compiled == MERGE_COMPILED_LINE;
  acc->of_function += compiled == MERGE_COMPILED_FUNCTION;
  acc->of_trace += compiled == MERGE_COMPILED_TRACE;
  acc->of_snapshot += compiled == MERGE_COMPILED_SNAPSHOT;
}

static void count(struct session *s, unsigned slot, const struct sample_view *v,
                  const struct merge_result *res)
{
  struct session_account *acc = s->acc;
  if (!s->slot[slot].gave) {
    s->slot[slot].gave = true;
    acc->threads++;
  }
  if (slot == SLOT_WALL) {
    count_asleep(acc, res);
    return;
  }
  if (res->verdict == MERGE_FILTERED) {
    s->slot[slot].waiting = 0;
    acc->filtered++;
    acc->of_zone++;
    return;
  }
  acc->samples++;
  add_waiting(s, &s->slot[slot]);
  count_compiled(acc, res->compiled);
  acc->partial += res->partial;
  acc->lua_partial += lua_incomplete(v);
  if (s->o->hit)
    tell(s, slot, v, res->state);
}

static void sample(struct session *s, unsigned slot,
                   const struct tecs_record *rec)
{
  struct sample_view v;
  struct merge_options o = s->o->merge;
  struct merge_result res = {0};
  char buf[96];
  if (record_sample(rec, &v) != RESULT_OK) {
    s->acc->lost_bad++;
    return;
  }
  o.asleep = slot == SLOT_WALL;
  if (!o.asleep && steer_drops(s, &v))
    return;
  if (!o.asleep)
    costs_add(s->acc, v.sample->cost_ns);
  describe_vms(s, &v);
  unwind(s, &v);
  o.root = root(s, slot, &v, buf, sizeof buf);
  enum result r =
      merge_sample(&o, slot, &v, s->stack, s->modules, s->vm, s->p, &res);
  if (r == RESULT_OK)
    count(s, slot, &v, &res);
  else
    s->failed = error_set(s->e, r, "cannot add a sample to the profile: %s",
                          result_text(r));
}

void drain_record(struct session *s, unsigned slot,
                  const struct tecs_record *rec)
{
  enum result r;
  s->acc->bytes += rec->len;
  switch (rec->type) {
  case TECS_RECORD_SAMPLE:
    sample(s, slot, rec);
    break;
  case TECS_RECORD_PROTO:
  case TECS_RECORD_STRING:
  case TECS_RECORD_MCODE:
  case TECS_RECORD_BYTECODE:
  case TECS_RECORD_TRACE:
    r = vm_store_record(s->vm, slot, rec);
    if (r == RESULT_NOMEM)
      s->failed = error_set(s->e, r, "no memory for names of functions");
    break;
  default: /* of a newer agent */
    break;
  }
}

void drain_slot(struct session *s, unsigned i, uint64_t deadline)
{
  struct tecs_slot *shared = &s->shm.slots[i];
  uint64_t bad = 0;
  /* Not what comes meanwhile: the work of one call has an end. */
  uint64_t head = atomic_acquire(&shared->head);
  const struct tecs_record *rec;
  while (!s->failed && !s->image_gone && atomic_get(&shared->tail) < head &&
         (rec = shm_ring_peek(&s->shm, i, &bad))) {
    if (rec->len > s->slot[i].largest)
      s->slot[i].largest = rec->len;
    drain_record(s, i, rec);
    shm_ring_consume(&s->shm, i, rec);
    if (deadline != UINT64_MAX && clock_mono_ns() > deadline &&
        !slot_presses(s, i))
      break;
  }
  s->acc->lost_bad += bad;
}

void drain_rings(struct session *s, uint64_t deadline)
{
  unsigned first = s->drain_first;
  bool late = false;
  drain_vms(s);
  for (unsigned n = 0; n < TECS_SLOTS; n++) {
    unsigned i = (first + n) % TECS_SLOTS;
    if (!s->slot[i].tid || (late && !slot_presses(s, i)))
      continue;
    drain_slot(s, i, deadline);
    if (!late && clock_mono_ns() > deadline) {
      late = true;
      s->drain_first = (i + 1) % TECS_SLOTS; /* is first next time */
    }
  }
}
