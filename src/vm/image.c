/* SPDX-License-Identifier: MIT
 *
 * Images and their names.  The same prototype, and other loads of the same
 * source, share what is known about the name, so that a function has one name
 * in all samples of a run.
 */
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"
#include "vm/vm_internal.h"

bool vm_names_init(struct vm_names_table *t)
{
  t->keys = interner_new();
  return t->keys != NULL;
}

void vm_names_free(struct vm_names_table *t)
{
  interner_free(t->keys);
  free(t->names);
}

uint32_t vm_names_id(struct vm_names_table *t, const void *key, size_t len)
{
  uint32_t id = interner_add(t->keys, key, len);
  if (id == INTERNER_NONE || id < t->cap)
    return id;
  size_t cap = (size_t)id * 2 + 64;
  struct vm_names *names = realloc(t->names, cap * sizeof *names);
  if (!names)
    return INTERNER_NONE;
  for (size_t i = t->cap; i < cap; i++)
    names[i] = (struct vm_names){INTERNER_NONE, false};
  t->names = names;
  t->cap = cap;
  return id;
}

void vm_names_met(struct vm_names_table *t, uint32_t id, uint32_t name_id)
{
  struct vm_names *n = &t->names[id];
  if (n->name_id == INTERNER_NONE)
    n->name_id = name_id;
  else if (n->name_id != name_id)
    n->several = true;
}

/* Names of the image's own place and source, as parts of keys. */
struct source_key {
  uint32_t chunk_id, firstline, numline, sizebc, opcode_hash, lines_hash;
};
struct place_key {
  uint64_t g, addr;
  uint64_t source;
};
struct image_key {
  struct place_key place;
  uint32_t name_id, flags;
};

static void set_name(struct vm_store *s, struct vm_image *im, uint32_t name_id)
{
  im->name_id = name_id;
  vm_names_met(&s->places, im->place, name_id);
  vm_names_met(&s->sources, im->source, name_id);
}

static struct vm_image *append(struct vm_store *s)
{
  if (s->image_count == s->image_cap) {
    size_t cap = s->image_cap * 2 + 64;
    struct vm_image **image = realloc(s->image, cap * sizeof *image);
    if (!image)
      return NULL;
    s->image = image;
    s->image_cap = cap;
  }
  struct vm_image *im = calloc(1, sizeof *im);
  if (im)
    s->image[s->image_count++] = im;
  return im;
}

static bool show_chunk(struct vm_store *s, struct vm_image *im,
                       const struct proto_view *v)
{
  struct strbuf b = STRBUF_INIT;
  vm_chunk_show(&b, v->chunk, v->proto->chunk_len, im->firstline,
                im->flags & TECS_PROTO_CHUNK_TAIL);
  im->shown_id =
      b.failed ? INTERNER_NONE : vm_intern_bytes(s, strbuf_text(&b), b.len);
  strbuf_free(&b);
  return im->shown_id != INTERNER_NONE;
}

static bool copy_lines(struct vm_image *im, const struct proto_view *v)
{
  if (!v->proto->lines_len)
    return true;
  im->lines = malloc(v->proto->lines_len);
  if (!im->lines)
    return false;
  memcpy(im->lines, v->lines, v->proto->lines_len);
  im->lines_len = v->proto->lines_len;
  im->line_width = v->proto->line_width;
  return true;
}

static enum result make_image(struct vm_store *s, const struct proto_view *v,
                              const struct vm_image *known)
{
  struct vm_image *im = append(s);
  if (!im)
    return RESULT_NOMEM;
  uint32_t name_id = known->name_id;
  *im = *known;
  im->name_id = INTERNER_NONE;
  im->shown_id = INTERNER_NONE;
  if (name_id != INTERNER_NONE)
    set_name(s, im, name_id);
  return show_chunk(s, im, v) && copy_lines(im, v) ? RESULT_OK : RESULT_NOMEM;
}

static uint32_t name_of(struct vm_store *s, const char *name, size_t len)
{
  if (!len)
    return interner_add_str(s->texts, "anonymous");
  struct strbuf b = STRBUF_INIT;
  vm_name_show(&b, name, len, false);
  uint32_t id =
      b.failed ? INTERNER_NONE : vm_intern_bytes(s, strbuf_text(&b), b.len);
  strbuf_free(&b);
  return id;
}

/* Fills the identity of an image.  false: no memory. */
static bool identify(struct vm_store *s, const struct proto_view *v,
                     struct vm_image *im)
{
  const struct tecs_proto *p = v->proto;
  bool known = p->flags & TECS_PROTO_NAME_KNOWN;
  *im = (struct vm_image){.addr = p->addr,
                          .g = p->g,
                          .firstline = p->firstline,
                          .numline = p->numline,
                          .sizebc = p->sizebc,
                          .opcode_hash = p->opcode_hash,
                          .flags = p->flags,
                          .name_id = INTERNER_NONE};
  im->chunk_id = vm_intern_bytes(s, v->chunk, p->chunk_len);
  if (known)
    im->name_id = name_of(s, v->name, p->name_len);
  struct source_key sk = {im->chunk_id,    im->firstline,
                          im->numline,     im->sizebc,
                          im->opcode_hash, hash_bytes(v->lines, p->lines_len)};
  im->source = vm_names_id(&s->sources, &sk, sizeof sk);
  struct place_key pk = {im->g, im->addr, im->source};
  im->place = vm_names_id(&s->places, &pk, sizeof pk);
  return im->chunk_id != INTERNER_NONE && im->source != INTERNER_NONE &&
         im->place != INTERNER_NONE && (!known || im->name_id != INTERNER_NONE);
}

enum result vm_image_record(struct vm_store *s, const struct proto_view *v,
                            uint32_t *index)
{
  struct vm_image im;
  if (!identify(s, v, &im))
    return RESULT_NOMEM;
  struct image_key key = {{im.g, im.addr, im.source}, im.name_id, im.flags};
  *index = interner_add(s->image_keys, (const char *)&key, sizeof key);
  if (*index == INTERNER_NONE)
    return RESULT_NOMEM;
  if (*index < s->image_count)
    return RESULT_OK;
  if (*index != s->image_count) /* after an image that found no memory */
    return RESULT_NOMEM;
  return make_image(s, v, &im);
}

/* ---- late names ---- */

struct vm_image *vm_image_next_unnamed(struct vm_store *s, size_t *cursor)
{
  while (*cursor < s->image_count) {
    struct vm_image *im = s->image[(*cursor)++];
    if (im->name_id == INTERNER_NONE && vm_image_needs_name(im))
      return im;
  }
  return NULL;
}

size_t vm_store_functions(const struct vm_store *s)
{
  return s->image_count;
}

const char *vm_image_chunk(const struct vm_store *s, const struct vm_image *im)
{
  return interner_text(s->texts, im->chunk_id);
}

bool vm_image_set_name(struct vm_store *s, struct vm_image *im,
                       const char *name, size_t len)
{
  uint32_t id = name_of(s, name, len);
  if (id == INTERNER_NONE)
    return false;
  set_name(s, im, id);
  return true;
}
