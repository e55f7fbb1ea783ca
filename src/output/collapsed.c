/* SPDX-License-Identifier: MIT
 *
 * Two passes: first every frame gets its printed text, then stacks are
 * collected once more by those texts, since different frames may print alike.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "output/output.h"
#include "output/output_internal.h"
#include "util/hash.h"
#include "util/idmap.h"

/* A frame of the profile, without its VM state. */
struct original {
  const char *text;
  size_t len;
};

/* A sanitised text, and whether different originals led to it. */
struct clean {
  struct original from;
  bool ambiguous;
};

struct printer {
  struct profile *in, *out;
  struct interner *clean_texts;
  struct clean *clean; /* by id in clean_texts */
  size_t clean_cap;
  struct idmap clean_of; /* frame of `in` to id in clean_texts */
  struct idmap
      frame_of; /* frame of `in` (times 2, + 1: last) to one of `out` */
  struct strbuf text;
  uint32_t *stack; /* frames of `out` */
  size_t stack_cap;
};

static struct original original_of(const struct printer *pr, uint32_t frame)
{
  const char *text = profile_frame_text(pr->in, frame);
  return (struct original){text, output_without_state(text, strlen(text))};
}

static bool differ(struct original a, struct original b)
{
  return a.len != b.len || memcmp(a.text, b.text, a.len) != 0;
}

static bool grow_clean(struct printer *pr, uint32_t id)
{
  if (id < pr->clean_cap)
    return true;
  size_t cap = (size_t)id * 2 + 64;
  struct clean *clean = realloc(pr->clean, cap * sizeof *clean);
  if (!clean)
    return false;
  memset(clean + pr->clean_cap, 0, (cap - pr->clean_cap) * sizeof *clean);
  pr->clean = clean;
  pr->clean_cap = cap;
  return true;
}

static enum result clean_frame(struct printer *pr, uint32_t frame)
{
  uint32_t id;
  if (idmap_get(&pr->clean_of, frame, &id))
    return RESULT_OK;
  struct original o = original_of(pr, frame);
  strbuf_clear(&pr->text);
  output_sanitise(&pr->text, o.text, o.len);
  if (pr->text.failed)
    return RESULT_NOMEM;
  id = interner_add(pr->clean_texts, pr->text.data, pr->text.len);
  if (id == INTERNER_NONE || !grow_clean(pr, id) ||
      !idmap_put(&pr->clean_of, frame, id))
    return RESULT_NOMEM;
  struct clean *c = &pr->clean[id];
  if (!c->from.text)
    c->from = o;
  else if (differ(c->from, o))
    c->ambiguous = true;
  return RESULT_OK;
}

static enum result clean_all(struct printer *pr,
                             const struct profile_stack *stack, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < stack[i].count; k++) {
      enum result r = clean_frame(pr, stack[i].frame[k]);
      if (r != RESULT_OK)
        return r;
    }
  }
  return RESULT_OK;
}

/* Readers take the last number of a line for its count, and inferno a number
 * before it for a second count. */
static void hide_trailing_number(char *text, size_t len)
{
  size_t i = len;
  while (i > 0 && strchr("0123456789.", text[i - 1]))
    i--;
  if (i > 0 && i < len && text[i - 1] == ' ')
    text[i - 1] = '_';
}

static enum result print_frame(struct printer *pr, uint32_t frame, bool last,
                               uint32_t *out)
{
  uint64_t key = (uint64_t)frame * 2 + last;
  if (idmap_get(&pr->frame_of, key, out))
    return RESULT_OK;
  uint32_t id = 0;
  idmap_get(&pr->clean_of, frame, &id);
  struct original o = original_of(pr, frame);
  const char *clean = interner_text(pr->clean_texts, id);
  strbuf_clear(&pr->text);
  strbuf_add_str(&pr->text, clean);
  if (pr->clean[id].ambiguous &&
      differ(o, (struct original){clean, strlen(clean)}))
    strbuf_printf(&pr->text, "#%08" PRIx32, hash_bytes(o.text, o.len));
  strbuf_add_str(&pr->text, o.text + o.len); /* the state */
  if (pr->text.failed)
    return RESULT_NOMEM;
  if (last)
    hide_trailing_number(pr->text.data, pr->text.len);
  *out = interner_add(profile_frames(pr->out), pr->text.data, pr->text.len);
  if (*out == INTERNER_NONE || !idmap_put(&pr->frame_of, key, *out))
    return RESULT_NOMEM;
  return RESULT_OK;
}

static enum result collect(struct printer *pr, const struct profile_stack *s)
{
  if (s->count >= pr->stack_cap) {
    size_t cap = s->count * 2 + 64;
    uint32_t *stack = realloc(pr->stack, cap * sizeof *stack);
    if (!stack)
      return RESULT_NOMEM;
    pr->stack = stack;
    pr->stack_cap = cap;
  }
  for (size_t k = 0; k < s->count; k++) {
    enum result r =
        print_frame(pr, s->frame[k], k + 1 == s->count, &pr->stack[k]);
    if (r != RESULT_OK)
      return r;
  }
  if (s->count)
    return profile_add(pr->out, pr->stack, s->count, s->weight);
  pr->stack[0] = interner_add_str(profile_frames(pr->out), "?");
  if (pr->stack[0] == INTERNER_NONE)
    return RESULT_NOMEM;
  return profile_add(pr->out, pr->stack, 1, s->weight);
}

static enum result write_lines(struct profile *p, struct strbuf *out)
{
  const struct profile_stack *stack = profile_sorted(p);
  size_t count = profile_stack_count(p);
  if (count && !stack)
    return RESULT_NOMEM;
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < stack[i].count; k++) {
      if (k)
        strbuf_add(out, ";", 1);
      strbuf_add_str(out, profile_frame_text(p, stack[i].frame[k]));
    }
    strbuf_printf(out, " %" PRIu64 "\n", stack[i].weight);
  }
  return out->failed ? RESULT_NOMEM : RESULT_OK;
}

static void printer_free(struct printer *pr)
{
  profile_free(pr->out);
  interner_free(pr->clean_texts);
  free(pr->clean);
  free(pr->stack);
  idmap_free(&pr->clean_of);
  idmap_free(&pr->frame_of);
  strbuf_free(&pr->text);
}

struct profile *output_printable(struct profile *p)
{
  struct printer pr = {.in = p};
  size_t count = profile_stack_count(p);
  const struct profile_stack *stack = profile_sorted(p);
  struct profile *out = NULL;
  enum result r = RESULT_NOMEM;
  pr.out = profile_new();
  pr.clean_texts = interner_new();
  if (!pr.out || !pr.clean_texts || (count && !stack))
    goto out;
  r = clean_all(&pr, stack, count);
  for (size_t i = 0; r == RESULT_OK && i < count; i++)
    r = collect(&pr, &stack[i]);
  if (r == RESULT_OK) {
    out = pr.out;
    pr.out = NULL;
  }
out:
  printer_free(&pr);
  return out;
}

enum result output_collapsed(struct profile *p, struct strbuf *out)
{
  struct profile *printable = output_printable(p);
  enum result r = printable ? write_lines(printable, out) : RESULT_NOMEM;
  profile_free(printable);
  return r;
}
