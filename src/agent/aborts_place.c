/* SPDX-License-Identifier: MIT
 *
 * Where: file and line of the function that was being recorded, and the zones
 * that were open.
 */
#include <stdio.h>
#include <string.h>

#include "agent/aborts_internal.h"
#include "base/utf8.h"
#include "vmcore/discover.h"
#include "vmcore/value.h"
#include "vmcore/walk.h"

enum {
  CHUNK_MAX = 512, /* bytes of a chunk name that are looked at */
  ZONE_LOOK = 224, /* of a zone's name: more than a row has */
  LINE_MAX = 11,   /* `:` and ten digits */
  /* luaconf.h, LUA_IDSIZE, and lj_debug.c, lj_debug_shortname */
  IDSIZE = 60,
  STRING_WHOLE = IDSIZE - 12,
  STRING_CUT = IDSIZE - 15,
};
#define FIRSTLINE_BUILTIN UINT32_MAX
_Static_assert(ZONE_LOOK > sizeof((struct tecs_abort *)0)->zone, "cut");

/* The start of source text, up to its first control character, as LuaJIT
 * shortens it. */
static void add_source(struct abort_text *t, const char *text, size_t len)
{
  size_t n = 0;
  while (n < len && n < STRING_WHOLE && (unsigned char)text[n] >= ' ')
    n++;
  bool cut = n < len && text[n];
  if (cut && n > STRING_CUT)
    n = utf8_head(text, len, STRING_CUT);
  abort_text_add(t, text, n);
  if (cut)
    abort_text_add_str(t, "...");
}

/* A path that is too long keeps its end. */
static void add_path(struct abort_text *t, const char *text, size_t len,
                     bool cut)
{
  char clean[3 * CHUNK_MAX]; /* a byte may become U+FFFD */
  struct abort_text c = {.to = clean, .max = sizeof clean};
  abort_text_add(&c, text, len);
  size_t from = 0;
  if (cut || c.len > t->max) {
    from = utf8_tail(clean, c.len, t->max - 3);
    abort_text_add_str(t, "...");
  }
  abort_text_add(t, clean + from, c.len - from);
}

static void add_chunk(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t pt, struct abort_text *t)
{
  char name[CHUNK_MAX];
  uint32_t full;
  uint64_t str = vm_ref(m, lay, pt + lay->pt_chunkname);
  char first = (char)vm_load1(m, str + lay->str_sizeof);
  size_t len = abort_text_load(m, lay, str,
                               first == '@' ? ABORT_TEXT_TAIL : ABORT_TEXT_HEAD,
                               name, sizeof name, &full);
  if (vm_load4(m, pt + lay->pt_firstline) == FIRSTLINE_BUILTIN) {
    abort_text_add_str(t, "[builtin:");
    add_source(t, name, len);
    abort_text_add_str(t, "]");
  } else if (len && first == '@') {
    size_t at = full > len ? 0 : 1;
    add_path(t, name + at, len - at, full > len);
  } else if (len && first == '=') {
    abort_text_add(t, name + 1, len - 1);
  } else {
    abort_text_add_str(t, "[string \"");
    add_source(t, name, len);
    abort_text_add_str(t, "\"]");
  }
}

uint64_t aborts_proto(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t func)
{
  uint64_t fn = vm_value_as(lay, func, VM_GCT_FUNC);
  return fn ? vm_func_proto(m, lay, fn) : 0;
}

void aborts_location(struct vm_mem *m, const struct vm_layout *lay, uint64_t pt,
                     uint32_t pos, struct tecs_abort *row)
{
  struct abort_text t = {.to = row->location,
                         .max = sizeof row->location - LINE_MAX};
  uint32_t line = 0;
  row->pt = pt;
  row->firstline = row->numline = 0;
  if (pt) {
    row->firstline = vm_load4(m, pt + lay->pt_firstline);
    row->numline = vm_load4(m, pt + lay->pt_numline);
    line = vm_proto_line(m, lay, pt, pos);
    add_chunk(m, lay, pt, &t);
  }
  if (!t.len)
    abort_text_add_str(&t, "?");
  t.len = abort_text_end(&t);
  t.cut = false;
  t.max = sizeof row->location;
  abort_text_add_str(&t, ":");
  abort_text_add_number(&t, line);
  row->location_len = (uint16_t)t.len;
}

/* ---- zones ---- */

static void add_value(struct vm_mem *m, const struct vm_layout *lay,
                      uint64_t tv, struct abort_text *t)
{
  char name[ZONE_LOOK];
  uint32_t full, tag = vm_value_type(lay, tv);
  uint64_t str = vm_value_as(lay, tv, VM_GCT_STR);
  if (vm_plausible(str)) {
    abort_text_add(t, name,
                   abort_text_load(m, lay, str, ABORT_TEXT_HEAD, name,
                                   sizeof name, &full));
  } else if (tag > VM_TYPE_INT) {
    double d;
    memcpy(&d, &tv, sizeof d);
    /* lj_strfmt_num.c, STRFMT_G14; it prints no sign of a nan */
    int n = d != d ? snprintf(name, sizeof name, "nan")
                   : snprintf(name, sizeof name, "%.14g", d);
    abort_text_add(t, name, n > 0 ? (size_t)n : 0);
  } else {
    abort_text_add_str(t, vm_type_text(tag));
  }
}

static void next_zone(struct abort_text *t, bool *first)
{
  if (!*first)
    abort_text_add_str(t, "/");
  *first = false;
}

static void add_native(struct vm_mem *m, const char *name, struct abort_text *t)
{
  char bytes[ZONE_LOOK];
  size_t n = 0;
  uint32_t c;
  while (name && n < sizeof bytes && (c = vm_load1(m, (uint64_t)name + n)))
    bytes[n++] = (char)c;
  if (name)
    abort_text_add(t, bytes, n);
  else
    abort_text_add_str(t, "[nil]");
}

static void add_gap(uint32_t left_out, struct abort_text *t, bool *first)
{
  if (!left_out)
    return;
  next_zone(t, first);
  abort_text_add_str(t, "[zones left out]");
}

void aborts_zone(struct vm_mem *m, const struct vm_layout *lay,
                 const struct abort_zones *z, struct tecs_abort *row)
{
  struct abort_text t = {.to = row->zone, .max = sizeof row->zone};
  bool first = true;
  for (uint32_t i = 0; i < z->natives && !t.cut; i++) {
    next_zone(&t, &first);
    add_native(m, z->native[i], &t);
  }
  add_gap(z->natives_left_out, &t, &first);
  for (uint32_t i = 0; i < z->values && !t.cut; i++) {
    if (i == z->values / 2)
      add_gap(z->values_left_out, &t, &first);
    next_zone(&t, &first);
    add_value(m, lay, z->value[i], &t);
  }
  row->zone_len = (uint16_t)abort_text_end(&t);
}
