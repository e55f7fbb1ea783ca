/* SPDX-License-Identifier: MIT
 *
 * One page with everything in it: share/flamegraph/page.html, in which @name@
 * stands for a part.
 */
#define _GNU_SOURCE /* qsort_r */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "output/output.h"
#include "output/output_internal.h"
#include "util/idmap.h"

/* Files, compiled in as they are. */
#define EMBED(name, file)                                                      \
  __asm__(".section .rodata\n" #name ":\n"                                     \
          ".incbin \"" TECS_SHARE "/flamegraph/" file "\"\n" #name "_end:\n"   \
          ".previous\n");                                                      \
  extern const char name[] __attribute__((visibility("hidden")));              \
  extern const char name##_end[] __attribute__((visibility("hidden")))

EMBED(html_page, "page.html");
EMBED(html_script, "page.js");
EMBED(html_css, "d3-flamegraph.css");
EMBED(html_flamegraph, "d3-flamegraph.min.js");
EMBED(html_selection, "d3-selection.min.js");
EMBED(html_licence_flamegraph, "LICENSE.d3-flame-graph");
EMBED(html_licence_d3, "LICENSE.d3");

static const struct part {
  const char *name, *text, *end;
} parts[] = {
    {"@script@", html_script, html_script_end},
    {"@css@", html_css, html_css_end},
    {"@d3-flamegraph@", html_flamegraph, html_flamegraph_end},
    {"@d3-selection@", html_selection, html_selection_end},
    {"@licence-d3-flame-graph@", html_licence_flamegraph,
     html_licence_flamegraph_end},
    {"@licence-d3@", html_licence_d3, html_licence_d3_end},
};

/* ---- the profile as JSON ---- */

struct writer {
  const struct profile *p;
  struct interner *texts; /* of frames, without states */
  uint32_t *frame;        /* of the current stack and the one before */
  uint32_t *before;
  size_t before_count, cap;
  struct strbuf *out;
  bool nomem;
};

/* Neighbours in this order have much in common. */
static int by_frames(const void *a, const void *b, void *profile)
{
  const struct profile_stack *x =
      profile_stack_at(profile, *(const uint32_t *)a);
  const struct profile_stack *y =
      profile_stack_at(profile, *(const uint32_t *)b);
  for (size_t i = 0; i < x->count && i < y->count; i++)
    if (x->frame[i] != y->frame[i])
      return x->frame[i] < y->frame[i] ? -1 : 1;
  return (x->count > y->count) - (x->count < y->count);
}

static unsigned state_number(char letter)
{
  static const char letters[] = "NICGJ"; /* STATES of page.js */
  const char *at = letter ? strchr(letters, letter) : NULL;
  return at ? (unsigned)(at - letters) : 5;
}

static bool grow(struct writer *w, size_t count)
{
  if (count <= w->cap)
    return true;
  size_t cap = count * 2;
  uint32_t *frame = realloc(w->frame, cap * sizeof *frame);
  if (frame)
    w->frame = frame;
  uint32_t *before = realloc(w->before, cap * sizeof *before);
  if (before)
    w->before = before;
  w->cap = frame && before ? cap : w->cap;
  return frame && before;
}

/* [frames kept of the stack before, end of the zones, state, count, the other
 * frames...] */
static void add_stack(struct writer *w, struct profile_shape shape,
                      const struct profile_stack *s)
{
  char state = 0;
  size_t kept = 0;
  if (!grow(w, s->count)) {
    w->nomem = true;
    return;
  }
  for (size_t i = 0; i < s->count; i++) {
    const char *text = profile_frame_text(w->p, s->frame[i]);
    w->frame[i] =
        interner_add(w->texts, text, profile_frame_split(text, &state));
    w->nomem = w->nomem || w->frame[i] == INTERNER_NONE;
  }
  while (kept < s->count && kept < w->before_count &&
         w->frame[kept] == w->before[kept])
    kept++;
  strbuf_printf(w->out, "[%zu,%zu,%u,%" PRIu64, kept,
                profile_zones_end(w->p, shape, s), state_number(state),
                s->weight);
  for (size_t i = kept; i < s->count; i++)
    strbuf_printf(w->out, ",%" PRIu32, w->frame[i]);
  strbuf_add(w->out, "]", 1);
  uint32_t *swap = w->before;
  w->before = w->frame;
  w->frame = swap;
  w->before_count = s->count;
}

static void add_stacks(struct writer *w)
{
  size_t count = profile_stack_count(w->p);
  struct profile_shape shape = profile_shape_of(w->p);
  uint32_t *order = malloc((count + 1) * sizeof *order);
  if (!order) {
    w->nomem = true;
    return;
  }
  for (size_t i = 0; i < count; i++)
    order[i] = (uint32_t)i;
  qsort_r(order, count, sizeof *order, by_frames, (void *)w->p);
  for (size_t i = 0; i < count && !w->nomem; i++) {
    strbuf_add_str(w->out, i ? ",\n" : "");
    add_stack(w, shape, profile_stack_at(w->p, order[i]));
  }
  free(order);
}

static void add_data(struct strbuf *out, const struct profile *p, bool *nomem)
{
  struct writer w = {.p = p, .texts = interner_new(), .out = out};
  w.nomem = !w.texts;
  strbuf_printf(out, "{\"total\":%" PRIu64 ",\"stacks\":[", profile_weight(p));
  if (!w.nomem)
    add_stacks(&w);
  strbuf_add_str(out, "],\n\"frames\":[");
  for (size_t i = 0; w.texts && i < interner_count(w.texts); i++) {
    const char *text = interner_text(w.texts, (uint32_t)i);
    strbuf_add_str(out, i ? ",\n" : "");
    output_json_string(out, text, strlen(text));
  }
  strbuf_add_str(out, "]}");
  *nomem = *nomem || w.nomem;
  if (w.texts)
    interner_free(w.texts);
  free(w.frame);
  free(w.before);
}

/* ---- the page ---- */

static void add_title(struct strbuf *out, const char *title)
{
  for (; *title; title++) {
    if (strchr("<>&\"'", *title))
      strbuf_printf(out, "&#%d;", *title);
    else
      strbuf_add(out, title, 1);
  }
}

/* What stands for the marker at `at`; its length, 0: this is none. */
static size_t expand(const char *at, size_t len, const struct profile *p,
                     const char *title, struct strbuf *out, bool *nomem)
{
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    size_t n = strlen(parts[i].name);
    if (n <= len && !memcmp(at, parts[i].name, n)) {
      strbuf_add(out, parts[i].text, (size_t)(parts[i].end - parts[i].text));
      return n;
    }
  }
  if (len >= 7 && !memcmp(at, "@title@", 7)) {
    add_title(out, title);
    return 7;
  }
  if (len >= 6 && !memcmp(at, "@data@", 6)) {
    add_data(out, p, nomem);
    return 6;
  }
  return 0;
}

enum result output_html(const struct profile *p, const char *title,
                        struct strbuf *out)
{
  const char *at = html_page;
  bool nomem = false;
  while (at < html_page_end) {
    size_t left = (size_t)(html_page_end - at);
    const char *mark = memchr(at, '@', left);
    if (!mark)
      mark = html_page_end;
    strbuf_add(out, at, (size_t)(mark - at));
    if (mark == html_page_end)
      break;
    size_t n =
        expand(mark, (size_t)(html_page_end - mark), p, title, out, &nomem);
    if (!n)
      strbuf_add(out, mark, 1);
    at = mark + (n ? n : 1);
  }
  return nomem || out->failed ? RESULT_NOMEM : RESULT_OK;
}
