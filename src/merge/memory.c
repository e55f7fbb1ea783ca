/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "merge/merge_internal.h"

static const char *const fixed_text[FIXED_COUNT] = {
    [FIXED_PARTIAL] = "[partial]",     [FIXED_TRUNCATED] = "[truncated]",
    [FIXED_SIGNAL] = "[signal]",       [FIXED_IDLE] = "[idle]",
    [FIXED_START] = "_start",          [FIXED_THREAD] = "[thread start]",
    [FIXED_UNKNOWN] = "[unknown]",     [FIXED_VDSO] = "[vdso]",
    [FIXED_CODE] = "[anonymous code]",
};

static void memory_free(void *companion)
{
  struct merge_memory *m = companion;
  idmap_free(&m->code_of_ip);
  idmap_free(&m->with_state);
  strbuf_free(&m->text);
  free(m->code);
  free(m->inlined);
  free(m->item);
  free(m->run);
  free(m->stack);
  free(m);
}

struct merge_memory *merge_memory_of(struct profile *p)
{
  struct merge_memory *m = profile_companion(p);
  if (m)
    return m;
  m = calloc(1, sizeof *m);
  if (!m)
    return NULL;
  m->profile = p;
  for (int i = 0; i < FIXED_COUNT; i++) {
    m->fixed[i] = interner_add_str(profile_frames(p), fixed_text[i]);
    if (m->fixed[i] == INTERNER_NONE) {
      memory_free(m);
      return NULL;
    }
  }
  profile_set_companion(p, m, memory_free);
  return m;
}

void merge_forget_code(struct profile *p)
{
  struct merge_memory *m = profile_companion(p);
  if (!m)
    return;
  idmap_clear(&m->code_of_ip);
  m->code_count = 0;
  m->inlined_count = 0;
}

uint32_t merge_intern(struct merging *g, const char *text)
{
  uint32_t id = interner_add_str(profile_frames(g->m->profile), text);
  g->nomem = g->nomem || id == INTERNER_NONE;
  return id;
}

void merge_push(struct merging *g, struct item it)
{
  struct merge_memory *m = g->m;
  if (m->item_count == m->item_cap) {
    size_t cap = m->item_cap * 2 + 256;
    struct item *item = realloc(m->item, cap * sizeof *item);
    if (!item) {
      g->nomem = true;
      return;
    }
    m->item = item;
    m->item_cap = cap;
  }
  m->item[m->item_count++] = it;
}

void merge_push_mark(struct merging *g, enum fixed_frame f)
{
  struct merge_memory *m = g->m;
  uint32_t frame = m->fixed[f];
  if (m->item_count && m->item[m->item_count - 1].frame == frame)
    return;
  merge_push(g, (struct item){.frame = frame, .mark = true});
}
