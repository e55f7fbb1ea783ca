/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "vm/vm_internal.h"

#define MCODE_VMS_MAX 4096u /* VMs whose areas are remembered */

enum result vm_store_new(struct target *t, struct vm_store **out)
{
  static unsigned serial;
  struct vm_store *s = calloc(1, sizeof *s);
  *out = NULL;
  if (!s)
    return RESULT_NOMEM;
  s->target = t;
  s->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
  s->texts = interner_new();
  s->image_keys = interner_new();
  if (!s->texts || !s->image_keys || !vm_names_init(&s->places) ||
      !vm_names_init(&s->sources)) {
    vm_store_free(s);
    return RESULT_NOMEM;
  }
  *out = s;
  return RESULT_OK;
}

void vm_store_free(struct vm_store *s)
{
  if (!s)
    return;
  if (s->late && s->late_end)
    s->late_end(s->late);
  vm_traces_free(s);
  if (s->maker)
    s->maker_end(s->maker);
  for (unsigned i = 0; i < VM_SLOTS; i++) {
    idmap_free(&s->slot[i].proto);
    idmap_free(&s->slot[i].string);
  }
  for (size_t i = 0; i < s->image_count; i++) {
    free(s->image[i]->bytecode);
    free(s->image[i]->lines);
    free(s->image[i]);
  }
  for (size_t i = 0; i < s->mcode_count; i++)
    free(s->mcode[i].range);
  free(s->image);
  free(s->builtins);
  free(s->mcode);
  vm_names_free(&s->places);
  vm_names_free(&s->sources);
  idmap_free(&s->frame_texts);
  strbuf_free(&s->scratch);
  interner_free(s->image_keys);
  interner_free(s->texts);
  free(s);
}

uint32_t vm_intern_bytes(struct vm_store *s, const char *bytes, size_t len)
{
  if (!len || !memchr(bytes, '\0', len))
    return interner_add(s->texts, bytes, len);
  strbuf_clear(&s->scratch);
  for (size_t i = 0; i < len; i++)
    strbuf_add(&s->scratch, bytes[i] ? &bytes[i] : "?", 1);
  if (s->scratch.failed)
    return INTERNER_NONE;
  return interner_add(s->texts, s->scratch.data, s->scratch.len);
}

static enum result record_image(struct vm_store *s, struct vm_slot *slot,
                                const struct tecs_record *rec)
{
  struct proto_view v;
  uint32_t index;
  enum result r = record_proto(rec, &v);
  if (r != RESULT_OK)
    return r;
  r = vm_image_record(s, &v, &index);
  if (r == RESULT_OK && !idmap_put(&slot->proto, v.proto->id, index))
    r = RESULT_NOMEM;
  return r;
}

static enum result record_text(struct vm_store *s, struct vm_slot *slot,
                               const struct tecs_record *rec)
{
  const struct tecs_string *str;
  const char *bytes;
  enum result r = record_string(rec, &str, &bytes);
  if (r != RESULT_OK)
    return r;
  struct strbuf b = STRBUF_INIT;
  vm_name_show(&b, bytes, str->len, str->full_len > str->len);
  uint32_t id =
      b.failed ? INTERNER_NONE : vm_intern_bytes(s, strbuf_text(&b), b.len);
  strbuf_free(&b);
  if (id == INTERNER_NONE || !idmap_put(&slot->string, str->id, id))
    return RESULT_NOMEM;
  return RESULT_OK;
}

static struct vm_mcode_areas *areas_of(struct vm_store *s, uint64_t g)
{
  for (size_t i = 0; i < s->mcode_count; i++)
    if (s->mcode[i].g == g)
      return &s->mcode[i];
  if (s->mcode_count >= MCODE_VMS_MAX)
    return NULL;
  struct vm_mcode_areas *mcode =
      realloc(s->mcode, (s->mcode_count + 1) * sizeof *mcode);
  if (!mcode)
    return NULL;
  s->mcode = mcode;
  mcode[s->mcode_count] = (struct vm_mcode_areas){.g = g};
  return &mcode[s->mcode_count++];
}

static enum result record_areas(struct vm_store *s,
                                const struct tecs_record *rec)
{
  const struct tecs_mcode *m;
  const struct tecs_range *range;
  enum result r = record_mcode(rec, &m, &range);
  if (r != RESULT_OK)
    return r;
  struct vm_mcode_areas *a = areas_of(s, m->g);
  if (!a)
    return RESULT_NOMEM;
  struct tecs_range *copy = malloc((m->count + (size_t)1) * sizeof *copy);
  if (!copy)
    return RESULT_NOMEM;
  if (m->count)
    memcpy(copy, range, m->count * sizeof *copy);
  free(a->range);
  a->range = copy;
  a->count = m->count;
  return RESULT_OK;
}

enum result vm_store_record(struct vm_store *s, unsigned slot,
                            const struct tecs_record *rec)
{
  if (slot >= VM_SLOTS)
    return RESULT_CORRUPT;
  switch (rec->type) {
  case TECS_RECORD_PROTO:
    return record_image(s, &s->slot[slot], rec);
  case TECS_RECORD_STRING:
    return record_text(s, &s->slot[slot], rec);
  case TECS_RECORD_MCODE:
    return record_areas(s, rec);
  case TECS_RECORD_BYTECODE:
    return vm_record_bytecode(s, &s->slot[slot], rec);
  case TECS_RECORD_TRACE:
    return vm_record_trace(s, slot, rec);
  default:
    return RESULT_OK;
  }
}

void vm_store_reset_slot(struct vm_store *s, unsigned slot)
{
  if (slot >= VM_SLOTS)
    return;
  idmap_clear(&s->slot[slot].proto);
  idmap_clear(&s->slot[slot].string);
  vm_traces_reset_slot(s, slot);
}

const struct tecs_range *vm_mcode(const struct vm_store *s, uint64_t g,
                                  size_t *count)
{
  *count = 0;
  for (size_t i = 0; i < s->mcode_count; i++) {
    if (s->mcode[i].g != g)
      continue;
    *count = s->mcode[i].count;
    return s->mcode[i].range;
  }
  return NULL;
}

bool vm_is_mcode(const struct vm_store *s, uint64_t addr)
{
  for (size_t i = 0; i < s->mcode_count; i++)
    for (size_t k = 0; k < s->mcode[i].count; k++)
      if (addr >= s->mcode[i].range[k].lo && addr < s->mcode[i].range[k].hi)
        return true;
  return false;
}

void vm_store_set_maker(struct vm_store *s, void *maker, void (*end)(void *))
{
  s->maker = maker;
  s->maker_end = end;
}

void *vm_store_maker(const struct vm_store *s)
{
  return s->maker;
}
