/* SPDX-License-Identifier: MIT
 *
 * Records of the stream, checked before a pointer into them is handed out.
 */
#include "shm/shm.h"

#include <stddef.h>

/* A cursor over one record; `left` goes to 0 and `ok` to false at the first
 * part that does not fit. */
struct cursor {
  const uint8_t *at;
  uint64_t left;
  bool ok;
};

static struct cursor cursor_start(const struct tecs_record *rec, size_t head)
{
  struct cursor c = {(const uint8_t *)rec, rec->len, rec->len >= head};
  if (c.ok) {
    c.at += head;
    c.left -= head;
  }
  return c;
}

static const void *take(struct cursor *c, uint64_t bytes)
{
  uint64_t padded = (bytes + 7) & ~UINT64_C(7);
  if (!c->ok || padded < bytes || padded > c->left) {
    c->ok = false;
    return NULL;
  }
  const void *p = c->at;
  c->at += padded;
  c->left -= padded;
  return p;
}

enum result record_sample(const struct tecs_record *rec, struct sample_view *v)
{
  struct cursor c = cursor_start(rec, sizeof(struct tecs_sample));
  if (rec->type != TECS_RECORD_SAMPLE || !c.ok)
    return RESULT_CORRUPT;
  const struct tecs_sample *s = (const struct tecs_sample *)rec;
  v->sample = s;
  v->vm = take(&c, (uint64_t)s->vm_count * sizeof *v->vm);
  v->lua = take(&c, (uint64_t)s->lua_count * sizeof *v->lua);
  v->zone = take(&c, (uint64_t)s->zone_count * sizeof *v->zone);
  bool addrs = s->native_form == TECS_NATIVE_ADDRS;
  bool stack = s->native_form == TECS_NATIVE_STACK;
  if ((s->native_count && !addrs) ||
      ((s->stack_len || s->outer_len) && !stack) || (s->stack_len & 7) ||
      (s->outer_len & 7))
    return RESULT_CORRUPT;
  v->native = take(&c, (uint64_t)s->native_count * sizeof *v->native);
  v->stack = take(&c, s->stack_len);
  v->outer = take(&c, s->outer_len);
  for (unsigned i = 0; c.ok && i < s->lua_count; i++)
    c.ok = v->lua[i].vm < s->vm_count;
  for (unsigned i = 0; c.ok && i < s->zone_count; i++)
    c.ok = v->zone[i].vm < s->vm_count || v->zone[i].vm == TECS_ZONE_NATIVE;
  return c.ok ? RESULT_OK : RESULT_CORRUPT;
}

enum result record_proto(const struct tecs_record *rec, struct proto_view *v)
{
  struct cursor c = cursor_start(rec, sizeof(struct tecs_proto));
  if (rec->type != TECS_RECORD_PROTO || !c.ok)
    return RESULT_CORRUPT;
  const struct tecs_proto *p = (const struct tecs_proto *)rec;
  v->proto = p;
  v->chunk = take(&c, p->chunk_len);
  v->name = take(&c, p->name_len);
  v->lines = take(&c, p->lines_len);
  bool width_ok =
      p->line_width == 1 || p->line_width == 2 || p->line_width == 4;
  if (!c.ok || (p->lines_len && !width_ok))
    return RESULT_CORRUPT;
  return RESULT_OK;
}

enum result record_string(const struct tecs_record *rec,
                          const struct tecs_string **s, const char **bytes)
{
  struct cursor c = cursor_start(rec, sizeof(struct tecs_string));
  if (rec->type != TECS_RECORD_STRING || !c.ok)
    return RESULT_CORRUPT;
  *s = (const struct tecs_string *)rec;
  *bytes = take(&c, (*s)->len);
  return c.ok ? RESULT_OK : RESULT_CORRUPT;
}

enum result record_mcode(const struct tecs_record *rec,
                         const struct tecs_mcode **m,
                         const struct tecs_range **ranges)
{
  struct cursor c = cursor_start(rec, sizeof(struct tecs_mcode));
  if (rec->type != TECS_RECORD_MCODE || !c.ok)
    return RESULT_CORRUPT;
  *m = (const struct tecs_mcode *)rec;
  *ranges = take(&c, (uint64_t)(*m)->count * sizeof **ranges);
  return c.ok ? RESULT_OK : RESULT_CORRUPT;
}

enum result record_bytecode(const struct tecs_record *rec,
                            struct bytecode_view *v)
{
  struct cursor c = cursor_start(rec, sizeof(struct tecs_bytecode));
  if (rec->type != TECS_RECORD_BYTECODE || !c.ok)
    return RESULT_CORRUPT;
  const struct tecs_bytecode *b = (const struct tecs_bytecode *)rec;
  v->head = b;
  v->bc = take(&c, (uint64_t)b->nbc * sizeof *v->bc);
  v->kn = take(&c, (uint64_t)b->nkn * sizeof *v->kn);
  v->kgc = take(&c, (uint64_t)b->nkgc * sizeof *v->kgc);
  return c.ok ? RESULT_OK : RESULT_CORRUPT;
}

enum result record_trace(const struct tecs_record *rec, struct trace_view *v)
{
  struct cursor c = cursor_start(rec, sizeof(struct tecs_trace));
  if (rec->type != TECS_RECORD_TRACE || !c.ok)
    return RESULT_CORRUPT;
  const struct tecs_trace *t = (const struct tecs_trace *)rec;
  if (t->nins < t->nk)
    return RESULT_CORRUPT;
  v->trace = t;
  v->mcode = take(&c, t->szmcode);
  v->ir = take(&c, (uint64_t)(t->nins - t->nk) * 8);
  v->snap = take(&c, (uint64_t)t->nsnap * sizeof *v->snap);
  v->snapmap = take(&c, (uint64_t)t->nsnapmap * sizeof *v->snapmap);
  v->object = take(&c, (uint64_t)t->nobject * sizeof *v->object);
  return c.ok ? RESULT_OK : RESULT_CORRUPT;
}
