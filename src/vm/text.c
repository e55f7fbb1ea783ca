/* SPDX-License-Identifier: MIT
 *
 * Texts of frames.  A frame whose function has no known name yet is printed as
 * MARK serial.image.line MARK, which no other text can start with.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "vm/vm_internal.h"

#define MARK '\001'
#define LINE_NONE UINT32_MAX /* printed as `?` */

/* luaconf.h, LUA_IDSIZE, and lj_debug.c, lj_debug_shortname. */
enum {
  IDSIZE = 60,
  STRING_WHOLE = IDSIZE - 12, /* longer ones are cut ... */
  STRING_CUT = IDSIZE - 15,   /* ... to this */
};

static const char DOTS[] = "...";
enum { DOTS_LEN = sizeof DOTS - 1 };

static void add_head(struct strbuf *out, const char *text, size_t len,
                     size_t limit, bool cut)
{
  cut = cut || len > limit;
  strbuf_add(out, text, cut ? utf8_head(text, len, limit - DOTS_LEN) : len);
  if (cut)
    strbuf_add(out, DOTS, DOTS_LEN);
}

static void add_tail(struct strbuf *out, const char *text, size_t len,
                     size_t limit, bool cut)
{
  cut = cut || len > limit;
  size_t from = cut ? utf8_tail(text, len, limit - DOTS_LEN) : 0;
  if (cut)
    strbuf_add(out, DOTS, DOTS_LEN);
  strbuf_add(out, text + from, len - from);
}

void vm_name_show(struct strbuf *out, const char *name, size_t len, bool cut)
{
  if (len && *name == MARK) {
    strbuf_add(out, "?", 1);
    name++;
    len--;
  }
  add_head(out, name, len, VM_NAME_LIMIT, cut);
}

/* The start of source text, up to its first control character. */
static void add_source(struct strbuf *out, const char *text, size_t len,
                       bool tail)
{
  size_t n = 0;
  while (n < len && n < STRING_WHOLE && (unsigned char)text[n] >= ' ')
    n++;
  bool cut = tail || (n < len && text[n]);
  if (tail) /* its start was not recorded */
    n = 0;
  else if (cut && n > STRING_CUT)
    n = utf8_head(text, len, STRING_CUT);
  strbuf_add(out, text, n);
  if (cut)
    strbuf_add(out, DOTS, DOTS_LEN);
}

void vm_chunk_show(struct strbuf *out, const char *chunk, size_t len,
                   uint32_t firstline, bool tail)
{
  if (firstline == FIRSTLINE_BUILTIN) {
    strbuf_add_str(out, "[builtin:");
    add_source(out, chunk, len, tail);
    strbuf_add_str(out, "]");
  } else if (len && *chunk == '@') {
    if (len == 1)
      strbuf_add_str(out, "@?");
    add_tail(out, chunk + 1, len - 1, VM_CHUNK_LIMIT, tail);
  } else if (len && *chunk == '=') {
    if (len == 1)
      strbuf_add_str(out, "?");
    if (tail)
      add_tail(out, chunk + 1, len - 1, VM_CHUNK_LIMIT, true);
    else
      add_head(out, chunk + 1, len - 1, VM_CHUNK_LIMIT, false);
  } else {
    strbuf_add_str(out, "[string \"");
    add_source(out, chunk, len, tail);
    strbuf_add_str(out, "\"]");
  }
}

/* ---- lines ---- */

static bool has_lines(const struct vm_image *im)
{
  return im->flags & (TECS_PROTO_LINES | TECS_PROTO_LINES_CUT);
}

/* lj_bcread.c: stripped code has neither a first line nor a line table. */
static bool is_stripped(const struct vm_image *im)
{
  return !has_lines(im) && im->firstline != FIRSTLINE_BUILTIN;
}

/* lj_parse.c, lj_parse: a main chunk's function is defined on line 0. */
static bool is_main(const struct vm_image *im)
{
  return im->firstline == 0 && has_lines(im);
}

bool vm_image_needs_name(const struct vm_image *im)
{
  return im->firstline != FIRSTLINE_BUILTIN && has_lines(im) && !is_main(im);
}

static uint32_t table_entry(const struct vm_image *im, uint32_t i)
{
  const uint8_t *p = im->lines + (size_t)i * im->line_width;
  uint32_t v = p[0];
  for (unsigned k = 1; k < im->line_width; k++)
    v |= (uint32_t)p[k] << (8 * k);
  return v;
}

/* lj_debug.c, lj_debug_line.  Instruction 0 is the function's header, which
 * has no entry. */
bool vm_image_line(const struct vm_image *im, uint32_t pc, uint32_t *line)
{
  if (!pc || !has_lines(im) || im->firstline == FIRSTLINE_BUILTIN)
    return false;
  uint32_t index = pc - 1;
  if (index > im->sizebc)
    return false;
  *line = im->firstline;
  if (index == im->sizebc)
    *line += im->numline;
  else if (index > 0) {
    if (!im->lines || index > im->lines_len / im->line_width)
      return false;
    *line += table_entry(im, index - 1);
  }
  return true;
}

/* ---- frames ---- */

static const char *the_only(const struct vm_store *s,
                            const struct vm_names_table *t, uint32_t id)
{
  const struct vm_names *n = &t->names[id];
  if (n->name_id == INTERNER_NONE || n->several)
    return NULL;
  return interner_text(s->texts, n->name_id);
}

/* Best name so far; other images of the same prototype or source may know it,
 * where they agree. */
static const char *name_of(const struct vm_store *s, const struct vm_image *im)
{
  if (im->name_id != INTERNER_NONE)
    return interner_text(s->texts, im->name_id);
  const char *name = the_only(s, &s->places, im->place);
  if (!name)
    name = the_only(s, &s->sources, im->source);
  return name ? name : "anonymous";
}

static void add_line(struct strbuf *out, uint32_t line)
{
  if (line == LINE_NONE)
    strbuf_add_str(out, ":?");
  else
    strbuf_printf(out, ":%" PRIu32, line);
}

/* with_line: a main chunk carries its line too. */
static void add_frame(const struct vm_store *s, const struct vm_image *im,
                      uint32_t line, bool with_line, struct strbuf *out)
{
  const char *chunk = interner_text(s->texts, im->shown_id);
  if (im->firstline == FIRSTLINE_BUILTIN) {
    strbuf_add_str(out, chunk);
    return;
  }
  if (is_main(im))
    strbuf_add_str(out, "main chunk");
  else if (is_stripped(im) && im->name_id == INTERNER_NONE)
    strbuf_printf(out, "anonymous#%08" PRIx32, im->opcode_hash);
  else
    strbuf_add_str(out, name_of(s, im));
  strbuf_add_str(out, " (");
  strbuf_add_str(out, chunk);
  if (!is_main(im) || with_line)
    add_line(out, line);
  strbuf_add_str(out, ")");
}

static bool is_pending(const struct vm_image *im)
{
  return vm_image_needs_name(im) && !(im->flags & TECS_PROTO_NAME_KNOWN);
}

static uint32_t line_at(const struct vm_image *im, uint32_t pc, bool lines)
{
  uint32_t line;
  if (is_stripped(im))
    return LINE_NONE;
  if (!lines)
    return im->firstline;
  return vm_image_line(im, pc, &line) ? line : LINE_NONE;
}

static uint32_t make_text(struct vm_store *s, uint32_t index, uint32_t line,
                          bool lines)
{
  const struct vm_image *im = s->image[index];
  struct strbuf *b = &s->scratch;
  strbuf_clear(b);
  if (is_pending(im))
    strbuf_printf(b, "%c%u.%" PRIu32 ".%" PRIu32 "%c", MARK, s->serial, index,
                  line, MARK);
  else
    add_frame(s, im, line, lines, b);
  return b->failed ? INTERNER_NONE : interner_add(s->texts, b->data, b->len);
}

const char *vm_function_text(struct vm_store *s, uint32_t index, uint32_t pc,
                             bool lines)
{
  uint32_t id;
  if (index >= s->image_count)
    return NULL;
  uint32_t line = line_at(s->image[index], pc, lines);
  uint64_t key = (uint64_t)index << 33 | (uint64_t)lines << 32 | line;
  if (!idmap_get(&s->frame_texts, key, &id)) {
    id = make_text(s, index, line, lines);
    if (id == INTERNER_NONE || !idmap_put(&s->frame_texts, key, id))
      return NULL;
  }
  return interner_text(s->texts, id);
}

bool vm_function_of(const struct vm_store *s, unsigned slot, uint32_t proto_id,
                    uint32_t *function)
{
  return slot < VM_SLOTS && idmap_get(&s->slot[slot].proto, proto_id, function);
}

const char *vm_frame_text(struct vm_store *s, unsigned slot, uint32_t proto_id,
                          uint32_t pc, bool lines)
{
  uint32_t index;
  return vm_function_of(s, slot, proto_id, &index)
             ? vm_function_text(s, index, pc, lines)
             : NULL;
}

uint32_t vm_function_line(const struct vm_store *s, uint32_t function,
                          uint32_t index)
{
  uint32_t line = 0;
  if (function >= s->image_count ||
      !vm_image_line(s->image[function], index + 1, &line))
    return 0;
  return line;
}

void vm_chunk_text(struct strbuf *out, const char *chunk, size_t len,
                   uint32_t firstline)
{
  vm_chunk_show(out, chunk, len, firstline, false);
}

bool vm_frame_place(const struct vm_store *s, unsigned slot, uint32_t proto_id,
                    struct vm_place *out)
{
  uint32_t index;
  if (slot >= VM_SLOTS || !idmap_get(&s->slot[slot].proto, proto_id, &index))
    return false;
  const struct vm_image *im = s->image[index];
  *out = (struct vm_place){.chunk = interner_text(s->texts, im->shown_id),
                           .firstline = im->firstline,
                           .numline = im->numline,
                           .pt = im->addr};
  return true;
}

/* ---- placeholders ---- */

bool vm_text_is_pending(const char *text)
{
  return *text == MARK;
}

bool vm_text_settle(struct vm_store *s, const char *text, struct strbuf *out)
{
  unsigned serial;
  uint32_t index, line;
  int used = 0;
  if (!vm_text_is_pending(text) ||
      sscanf(text + 1, "%u.%" SCNu32 ".%" SCNu32 "\001%n", &serial, &index,
             &line, &used) != 3 ||
      !used || serial != s->serial || index >= s->image_count)
    return false;
  add_frame(s, s->image[index], line, true, out);
  strbuf_add_str(out, text + 1 + used);
  return true;
}
