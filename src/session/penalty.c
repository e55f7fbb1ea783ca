/* SPDX-License-Identifier: MIT
 *
 * What LuaJIT gave up compiling, as far as its memory tells: the penalty cache
 * (the last 64 places where a trace began and was aborted) and the bytecode
 * that it patched to be left alone.
 */
#include <string.h>

#include "base/utf8.h"
#include "session/session_internal.h"
#include "vmcore/discover.h"
#include "vmcore/layout.h"
#include "vmcore/texts.h"
#include "vmcore/value.h"
#include "vmcore/walk.h"

enum {
  PENALTY_MIN = 72,
  PROTO_ILOOP = 0x10,     /* lj_obj.h */
  HEADERS = 6,            /* BC_FUNCF to BC_JFUNCV, lj_bc.h */
  BYTECODE_MAX = 1 << 16, /* instructions of a function that are looked at */
  OBJECTS_MAX = 4 << 20,
  GC_NEXT = 0, /* GCHeader */
  CHUNK_MAX = 512,
};

struct view {
  struct vm_mem *m;
  const struct vm_layout *lay;
  const struct vm_texts *texts;
  struct aborts *into;
  struct strbuf location, reason;
  enum result failed;
};

/* ---- bytecode ---- */

static uint32_t opcode(struct view *v, uint64_t pc)
{
  return vm_load1(v->m, pc);
}

/* Patched by lj_trace.c, blacklist_pc. */
static bool is_patched(struct view *v, uint32_t op)
{
  static const char *const patched[] = {"IFORL", "IITERL", "ILOOP", "IFUNCF",
                                        "IFUNCV"};
  const char *name = op < v->texts->bcnames ? v->texts->bcname[op] : "";
  for (unsigned i = 0; i < sizeof patched / sizeof *patched; i++)
    if (!strcmp(name, patched[i]))
      return true;
  return false;
}

/* The prototype whose bytecode pc is in: its header is the first instruction
 * before pc that begins a function.  0: none. */
static uint64_t proto_of(struct view *v, uint64_t pc, uint32_t *pos)
{
  uint32_t faults = v->m->faults;
  for (uint32_t k = 0; k < BYTECODE_MAX && v->m->faults == faults; k++) {
    uint64_t at = pc - 4 * (uint64_t)k;
    if (opcode(v, at) - v->lay->bc_funcf >= HEADERS)
      continue;
    uint64_t pt = at - v->lay->pt_sizeof;
    if (!vm_plausible(pt) || !vm_is_proto(v->m, v->lay, pt) ||
        vm_load4(v->m, pt + v->lay->pt_sizebc) <= k)
      return 0;
    *pos = k;
    return pt;
  }
  return 0;
}

/* ---- texts: as the agent makes them ---- */

/* A byte that is no UTF-8 becomes U+FFFD, a control character `?`. */
static void add_clean(struct strbuf *out, const char *text, size_t len)
{
  for (size_t i = 0, n; i < len; i += n ? n : 1) {
    uint32_t c = 0;
    n = utf8_decode(text + i, len - i, &c);
    bool plain = (c >= 0x20 && c < 0x7f) || c >= 0xa0 || c == '\t' ||
                 c == '\n' || c == '\r';
    if (!n)
      strbuf_add_str(out, "\xef\xbf\xbd");
    else if (plain)
      strbuf_add(out, text + i, n);
    else
      strbuf_add_str(out, "?");
  }
}

static void add_chunk(struct view *v, uint64_t pt)
{
  uint64_t str = vm_ref(v->m, v->lay, pt + v->lay->pt_chunkname);
  uint32_t len = vm_load4(v->m, str + v->lay->str_len);
  uint32_t n = len < CHUNK_MAX ? len : CHUNK_MAX;
  char chunk[CHUNK_MAX];
  struct strbuf text = STRBUF_INIT;
  for (uint32_t i = 0; i < n; i++)
    chunk[i] = (char)vm_load1(v->m, str + v->lay->str_sizeof + i);
  vm_chunk_text(&text, chunk, n, vm_load4(v->m, pt + v->lay->pt_firstline));
  add_clean(&v->location, strbuf_text(&text), text.len);
  strbuf_free(&text);
}

static void set_location(struct view *v, uint64_t pt, uint32_t pos)
{
  strbuf_clear(&v->location);
  if (!pt) {
    strbuf_add_str(&v->location, "?:0");
    return;
  }
  add_chunk(v, pt);
  strbuf_printf(&v->location, ":%u", vm_proto_line(v->m, v->lay, pt, pos));
}

/* The cache keeps no arguments. */
static void set_reason(struct view *v, const char *text)
{
  size_t len = strcspn(text, "%");
  strbuf_clear(&v->reason);
  strbuf_add(&v->reason, text, len);
  if (text[len])
    strbuf_printf(&v->reason, "?%s", text + len + 2);
}

/* ---- rows ---- */

static void add_row(struct view *v, struct aborts_row row, uint64_t pt)
{
  row.reason = strbuf_text(&v->reason);
  row.location = strbuf_text(&v->location);
  row.zone = "";
  row.pt = pt;
  if (pt) {
    row.firstline = vm_load4(v->m, pt + v->lay->pt_firstline);
    row.numline = vm_load4(v->m, pt + v->lay->pt_numline);
  }
  bool failed = v->location.failed || v->reason.failed;
  enum result r = failed ? RESULT_NOMEM : aborts_add(v->into, &row);
  if (r)
    v->failed = r;
}

/* lj_trace.c, penalty_pc: from PENALTY_MIN on the value doubles with each
 * abort, plus less than 16 times what it has doubled. */
static uint64_t times(uint32_t val)
{
  uint64_t n = 1;
  for (; val >= 2 * PENALTY_MIN; val /= 2)
    n++;
  return n;
}

static void read_slot(struct view *v, uint64_t slot)
{
  uint64_t pc = vm_ref(v->m, v->lay, slot + v->lay->penalty_pc);
  uint32_t val = vm_load2(v->m, slot + v->lay->penalty_val), pos = 0;
  uint32_t reason = vm_load2(v->m, slot + v->lay->penalty_reason);
  if (!pc || val < PENALTY_MIN || reason >= v->texts->traceerrs)
    return;
  uint64_t pt = pc & 3 ? 0 : proto_of(v, pc, &pos);
  struct aborts_row row = {.source = ABORTS_PENALTY,
                           .severity = v->texts->traceerr[reason].severity,
                           .count = times(val)};
  if (pt && is_patched(v, opcode(v, pc)))
    row.severity = TECS_SEVERITY_BLACKLIST;
  set_location(v, pt, pos);
  set_reason(v, v->texts->traceerr[reason].text);
  add_row(v, row, pt);
}

static void read_patched(struct view *v, uint64_t pt)
{
  uint32_t n = vm_load4(v->m, pt + v->lay->pt_sizebc);
  uint64_t bc = pt + v->lay->pt_sizeof;
  bool loops = vm_load1(v->m, pt + v->lay->pt_flags) & PROTO_ILOOP;
  for (uint32_t i = 0; i < n && i < BYTECODE_MAX && (loops || !i); i++) {
    uint32_t op = opcode(v, bc + 4 * (uint64_t)i);
    if (!is_patched(v, op))
      continue;
    set_location(v, pt, i);
    strbuf_clear(&v->reason);
    strbuf_printf(&v->reason, "blacklisted (%s)", v->texts->bcname[op]);
    add_row(v,
            (struct aborts_row){.source = ABORTS_BYTECODE,
                                .severity = TECS_SEVERITY_BLACKLIST},
            pt);
  }
}

/* The list of all objects, while the program goes on: a link that was followed
 * too late leads to something that is no object, and ends it. */
static void read_objects(struct view *v, uint64_t g)
{
  uint64_t at = vm_ref(v->m, v->lay, g + v->lay->g_gc_root);
  for (uint32_t n = 0; n < OBJECTS_MAX && vm_plausible(at) && !v->failed; n++) {
    uint32_t type = vm_load1(v->m, at + v->lay->L_gct);
    if (type < VM_GCT_STR || type > VM_GCT_UDATA)
      return;
    if (type == VM_GCT_PROTO)
      read_patched(v, at);
    at = vm_ref(v->m, v->lay, at + GC_NEXT);
  }
}

enum result penalty_read(struct target *t, const struct session_vm *vm,
                         bool objects, struct aborts *into)
{
  struct outside mem;
  struct view v = {.m = outside_open(&mem, t),
                   .lay = vm_layout_get(vm->layout_id),
                   .texts = vm_texts_get(vm->layout_id),
                   .into = into};
  if (!v.lay || !v.texts || !vm_is_global(v.m, v.lay, vm->g))
    return RESULT_GONE;
  uint64_t cache = vm->g - v.lay->gg_g + v.lay->gg_J + v.lay->J_penalty;
  unsigned slots = v.lay->hasjit ? v.lay->penalty_slots : 0;
  for (unsigned i = 0; i < slots && !v.failed; i++)
    read_slot(&v, cache + (uint64_t)i * v.lay->penalty_sizeof);
  if (objects)
    read_objects(&v, vm->g);
  strbuf_free(&v.location);
  strbuf_free(&v.reason);
  return v.failed;
}
