/* SPDX-License-Identifier: MIT
 *
 * The path that the recorder took through the bytecode, for a trace without a
 * log: the best one under which the bytecodes would be recorded as just this
 * IR.  Each bytecode on it consumes some IR instructions; a cell says how well
 * the first k ones are explained by a path that has come to a state.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lines/path_internal.h"

enum {
  CELLS_MAX = 1 << 19,
  PER_BYTECODE = 24,     /* IR instructions, at most */
  AT_START = 60,         /* inherited from the parent */
  LIVE = 64,             /* more than either */
  WORK_MAX = 500000,     /* scored instructions */
  SNAP_FRAME = 0x010000, /* lj_jit.h */
  FRAMES_MAX = 256,
  FRAME_CONT = 2, /* lj_frame.h, the type of a link */
  DEEPER = 3,     /* calls around bytecode that no snapshot is in */
};
/* How wide the search is: if a narrow one does not come by all snapshots, the
 * other is made. */
static const struct {
  float margin;
  uint32_t expanded;
} widths[] = {{14, 60}, {25, 240}};
enum { WIDTHS = sizeof widths / sizeof *widths };

static const float HOPELESS = -45, EACH = -.02f;
/* What a snapshot says of the bytecode at its reference: its position is that
 * bytecode's, or that of the way not taken (lj_record.c, rec_comp_fixup), or
 * where it leads; and the number of frames. */
static const float WRONG_DEPTH = -40, AHEAD = -1, ELSEWHERE = -40;

/* A snapshot in front of an IR instruction. */
struct anchor {
  uint32_t at, pos, depth;
};
struct cell {
  uint32_t state, k, step;
  uint32_t from, next; /* index + 1 */
  float score;
  bool followed;
  bool anchored; /* has come by the snapshot at k */
};

struct heap_entry {
  float score;
  uint32_t cell;
};

struct search {
  struct lines_walk w;
  uint32_t *ref; /* of the IR instructions that are explained */
  uint16_t *kind;
  struct lines_hint *hint;
  uint32_t n;
  struct anchor *anchor;
  uint32_t nanchor;
  struct cell *cell;
  uint32_t ncell, cell_cap;
  uint32_t *head;           /* for each k: index + 1 of its cells */
  float *top;               /* for each k: the best score so far */
  struct idmap cells[LIVE]; /* by state, of k and what follows */
  struct heap_entry *heap;  /* cells at the k that is on, best first */
  uint32_t nheap, heap_cap;
  uint32_t on;
  float margin;      /* cells worse than the best by that are left */
  uint32_t expanded; /* cells of each k that are followed at most */
  uint32_t work;
  bool failed;
};

static bool is_recorded(unsigned op)
{
  return op != LINES_OP_RENAME && op != LINES_OP_PHI;
}

static void list_ir(struct search *s)
{
  const struct lines_parts *p = s->w.p;
  uint32_t end = p->loop ? p->loop : p->nir;
  for (uint32_t i = 1; i < end; i++) {
    const struct lines_ir *x = &p->ir[i];
    if (!is_recorded(x->op))
      continue;
    s->kind[s->n] = (uint16_t)LINES_PATH_KIND(x->op, x->type, x->guard);
    s->hint[s->n] = lines_hint_of(&s->w, x);
    s->ref[s->n++] = LINES_REF_BIAS + i;
  }
  while (s->n && p->ir[s->ref[s->n - 1] - LINES_REF_BIAS].op == LINES_OP_NOP)
    s->n--;
}

/* ---- snapshots ---- */

/* How many words there are behind the slots of a snapshot. */
static uint32_t words_behind(const struct lines_trace *t, uint32_t i)
{
  uint32_t slots = t->snap[i].mapofs + t->snap[i].nent, end = t->nsnapmap;
  if (i + 1 < t->nsnap && t->snap[i + 1].mapofs < end)
    end = t->snap[i + 1].mapofs;
  return end > slots ? end - slots : 0;
}

/* Without GC64 the links stand behind the slots, innermost first, behind the
 * position; that of a continuation is followed by where it goes on (lj_snap.c,
 * snapshot_framelinks). */
static bool short_links(const uint32_t *word, uint32_t words, uint64_t *link,
                        uint32_t n)
{
  uint32_t at = 1;
  while (n > 0 && at < words) {
    link[--n] = word[at];
    at += (word[at] & 7) == FRAME_CONT ? 2 : 1;
  }
  return n == 0;
}

/* Links of the frames in a snapshot but the first, outermost first: where each
 * returns to.  false: it has none such. */
static bool snap_frames(const struct search *s, uint32_t i, uint64_t *link,
                        uint32_t *n, uint64_t *pc)
{
  const struct lines_trace *t = s->w.p->t;
  const struct lines_snap *snap = &t->snap[i];
  uint32_t own = t->gc64 ? 1 : 0; /* last slot of the first frame's */
  unsigned op;
  *n = 0;
  if (snap->mapofs > t->nsnapmap ||
      snap->nent + (t->gc64 ? 2u : 1u) > t->nsnapmap - snap->mapofs)
    return false;
  const uint32_t *map = t->snapmap + snap->mapofs, *behind = map + snap->nent;
  for (uint32_t k = 0; k < snap->nent; k++)
    if (map[k] & SNAP_FRAME && map[k] >> 24 > own)
      link[(*n)++] = lines_walk_const(&s->w, map[k] & 0xffff, &op);
  if (!t->gc64) {
    *pc = behind[0];
    return short_links(behind, words_behind(t, i), link, *n);
  }
  memcpy(pc, behind, 8);
  *pc >>= 8;
  return true;
}

/* The first instruction listed from a reference on; n: the path's end. */
static uint32_t index_of(const struct search *s, uint32_t ref)
{
  uint32_t lo = 0, hi = s->n;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (s->ref[mid] < ref)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

static bool list_anchors(struct search *s)
{
  const struct lines_trace *t = s->w.p->t;
  uint64_t link[FRAMES_MAX], pc;
  uint32_t n;
  for (uint32_t i = 1; i < t->nsnap; i++) {
    uint32_t at = index_of(s, t->snap[i].ref);
    if (!snap_frames(s, i, link, &n, &pc))
      return false;
    if (!s->w.p->loop || t->snap[i].ref <= LINES_REF_BIAS + s->w.p->loop)
      s->anchor[s->nanchor++] =
          (struct anchor){at, lines_walk_pos(&s->w, pc), n};
    if (n + DEEPER > s->w.depth_max)
      s->w.depth_max = n + DEEPER;
  }
  return true;
}

/* The anchors at an IR instruction: [first, last). */
static uint32_t anchors_at(const struct search *s, uint32_t at, uint32_t *last)
{
  uint32_t lo = 0, hi = s->nanchor;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (s->anchor[mid].at < at)
      lo = mid + 1;
    else
      hi = mid;
  }
  for (*last = lo; *last < s->nanchor && s->anchor[*last].at == at;)
    ++*last;
  return lo;
}

static uint32_t depth_of(const struct search *s, uint32_t state)
{
  return s->w.frame[s->w.state[state].frame].depth;
}

/* Is the state at a snapshot in front of the k-th instruction? */
static bool is_anchored(const struct search *s, uint32_t k, uint32_t state)
{
  uint32_t last;
  for (uint32_t i = anchors_at(s, k, &last); i < last; i++)
    if (s->anchor[i].pos == s->w.state[state].pos &&
        s->anchor[i].depth == depth_of(s, state))
      return true;
  return false;
}

/* Is a snapshot that of the bytecode of a step? */
static bool holds(const struct search *s, const struct anchor *a,
                  uint32_t state, const struct lines_step *step)
{
  return a->pos && (a->pos == s->w.state[state].pos || a->pos == step->instead);
}

static float anchor_score(const struct search *s, uint32_t at,
                          const struct cell *c, const struct lines_step *step)
{
  uint32_t last;
  float sum = 0;
  if (c->anchored && at == c->k)
    return 0;
  for (uint32_t i = anchors_at(s, at, &last); i < last; i++) {
    const struct anchor *a = &s->anchor[i];
    if (holds(s, a, c->state, step))
      sum += a->depth == depth_of(s, c->state) ? 0 : WRONG_DEPTH;
    else
      sum += a->pos == s->w.state[step->to].pos ? AHEAD : ELSEWHERE;
  }
  return sum;
}

/* ---- search ---- */

static struct idmap *cells_at(struct search *s, uint32_t k)
{
  return &s->cells[k % LIVE];
}

static bool worse(struct heap_entry a, struct heap_entry b)
{
  return a.score != b.score ? a.score < b.score : a.cell > b.cell;
}

/* A binary heap.  A cell that got better is in it twice. */
static void heap_push(struct search *s, uint32_t cell)
{
  struct heap_entry new = {s->cell[cell].score, cell};
  if (s->nheap == s->heap_cap) {
    uint32_t cap = s->heap_cap ? s->heap_cap * 2 : 1024;
    struct heap_entry *more = realloc(s->heap, cap * sizeof *more);
    if (!more) {
      s->failed = true;
      return;
    }
    s->heap = more;
    s->heap_cap = cap;
  }
  uint32_t i = s->nheap++;
  for (; i && worse(s->heap[(i - 1) / 2], new); i = (i - 1) / 2)
    s->heap[i] = s->heap[(i - 1) / 2];
  s->heap[i] = new;
}

static struct heap_entry heap_pop(struct search *s)
{
  struct heap_entry top = s->heap[0], last = s->heap[--s->nheap];
  uint32_t i = 0, child;
  while ((child = 2 * i + 1) < s->nheap) {
    if (child + 1 < s->nheap && worse(s->heap[child], s->heap[child + 1]))
      child++;
    if (!worse(last, s->heap[child]))
      break;
    s->heap[i] = s->heap[child];
    i = child;
  }
  s->heap[i] = last;
  return top;
}

static struct cell *new_cell(struct search *s, uint32_t k, uint32_t state,
                             bool anchored)
{
  if (s->ncell == s->cell_cap) {
    uint32_t cap = s->cell_cap ? s->cell_cap * 2 : 1024;
    void *more =
        cap > CELLS_MAX ? NULL : realloc(s->cell, cap * sizeof *s->cell);
    if (!more)
      return NULL;
    s->cell = more;
    s->cell_cap = cap;
  }
  if (!idmap_put(cells_at(s, k), (uint64_t)state << 1 | anchored, s->ncell))
    return NULL;
  struct cell *c = &s->cell[s->ncell++];
  *c = (struct cell){.state = state,
                     .k = k,
                     .next = s->head[k],
                     .score = -INFINITY,
                     .anchored = anchored};
  s->head[k] = s->ncell;
  return c;
}

static void improve(struct search *s, uint32_t k, uint32_t state, float score,
                    uint32_t from, uint32_t step)
{
  uint32_t at;
  if (score < s->top[k] - s->margin)
    return;
  bool anchored =
      (from && s->cell[from - 1].k == k && s->cell[from - 1].anchored) ||
      is_anchored(s, k, state);
  struct cell *c =
      idmap_get(cells_at(s, k), (uint64_t)state << 1 | anchored, &at)
          ? &s->cell[at]
          : new_cell(s, k, state, anchored);
  if (!c) {
    s->failed = true;
    return;
  }
  s->top[k] = fmaxf(s->top[k], score);
  if (score > c->score && !c->followed) {
    c->score = score;
    c->from = from;
    c->step = step;
    if (k == s->on)
      heap_push(s, (uint32_t)(c - s->cell));
  }
}

/* One step of a cell, over no, one, two... IR instructions. */
static void take(struct search *s, uint32_t cell, uint32_t step_index)
{
  struct lines_step step = s->w.step[step_index];
  uint32_t k = s->cell[cell].k, state = s->cell[cell].state;
  float base = s->cell[cell].score + step.cost + EACH, e = 0, wrong = 0;
  const struct lines_path_scores *p = lines_path_scores(s->w.model, step.path);
  if (!p) {
    s->failed = true;
    return;
  }
  for (uint32_t l = 0; l <= PER_BYTECODE && k + l <= s->n; l++) {
    if (l) {
      uint32_t at = k + l - 1;
      e += p->ir[s->kind[at]] +
           lines_hint_match(&s->w, &s->hint[at], state, &step);
      wrong += anchor_score(s, at, &s->cell[cell], &step);
      s->work++;
      if (e < HOPELESS)
        break;
    }
    improve(s, k + l, step.to,
            base + e + wrong + (float)lines_path_length(p, l), cell + 1,
            step_index);
  }
}

/* The best cell at k that has not been followed, s->ncell: none near the
 * best. */
static uint32_t next_cell(struct search *s, uint32_t k)
{
  while (s->nheap) {
    struct heap_entry best = heap_pop(s);
    if (best.score < s->top[k] - s->margin)
      break;
    if (!s->cell[best.cell].followed)
      return best.cell;
  }
  return s->ncell;
}

static void follow(struct search *s, uint32_t at)
{
  s->cell[at].followed = true;
  uint32_t n = lines_walk_steps(&s->w, s->cell[at].state);
  uint32_t first = s->w.state[s->cell[at].state].step;
  for (uint32_t q = 0; q < n && !s->failed; q++)
    take(s, at, first + q);
  s->failed = s->failed || s->w.failed || s->work > WORK_MAX;
}

static void search(struct search *s)
{
  for (uint32_t k = 0; k <= s->n && !s->failed; k++) {
    s->on = k;
    s->nheap = 0;
    for (uint32_t at = s->head[k]; at; at = s->cell[at - 1].next)
      heap_push(s, at - 1);
    for (uint32_t i = 0; i < s->expanded && !s->failed; i++) {
      uint32_t at = next_cell(s, k);
      if (at == s->ncell)
        break;
      follow(s, at);
    }
    idmap_clear(cells_at(s, k));
  }
}

/* Where the trace begins: snapshot 0, with the frames that its parent had. */
static bool begin(struct search *s)
{
  uint64_t link[FRAMES_MAX], pc;
  uint32_t n, frame = 0;
  const struct lines_path_scores *p =
      lines_path_scores(s->w.model, LINES_PATH(LINES_BC_START, 0));
  if (!p || !snap_frames(s, 0, link, &n, &pc))
    return false;
  if (n + DEEPER > s->w.depth_max)
    s->w.depth_max = n + DEEPER;
  for (uint32_t i = 0; i < n; i++)
    frame = lines_walk_frame(
        &s->w, link[i] & 3 ? LINES_CONT : lines_walk_pos(&s->w, link[i]),
        frame);
  uint32_t state = lines_walk_state(&s->w, lines_walk_pos(&s->w, pc), frame);
  float e = 0;
  for (uint32_t l = 0; l <= s->n && l <= AT_START; l++) {
    if (l)
      e += p->ir[s->kind[l - 1]];
    improve(s, l, state, e + (float)lines_path_length(p, l), 0, 0);
  }
  return !s->failed && !s->w.failed;
}

/* ---- the path ---- */

/* Where it ends: at the last snapshot, if it comes there. */

static uint32_t best_end(const struct search *s)
{
  uint32_t best = 0;
  for (uint32_t at = s->head[s->n]; at; at = s->cell[at - 1].next) {
    const struct cell *c = &s->cell[at - 1], *b = &s->cell[best ? best - 1 : 0];
    if (!best ||
        (c->anchored != b->anchored ? c->anchored : c->score > b->score))
      best = at;
  }
  return best;
}

static void count_anchors(const struct search *s, const struct cell *from,
                          const struct cell *to, struct lines_path *out)
{
  const struct lines_step *step = &s->w.step[to->step];
  uint32_t last, depth = depth_of(s, from->state);
  for (uint32_t at = from->k; at < to->k; at++)
    for (uint32_t i = anchors_at(s, at, &last); i < last; i++) {
      out->anchors++;
      out->held += (from->anchored && at == from->k) ||
                   (holds(s, &s->anchor[i], from->state, step) &&
                    s->anchor[i].depth == depth);
    }
}

static bool add_event(const struct search *s, const struct cell *from,
                      struct lines_event *e)
{
  const struct lines_state *state = &s->w.state[from->state];
  uint32_t index;
  const struct lines_proto *p = lines_walk_proto(&s->w, state->pos, &index);
  if (!p || index >= p->nbc)
    return false;
  *e = (struct lines_event){.ref = from->k < s->n ? s->ref[from->k]
                                                  : s->w.p->t->nins,
                            .depth = s->w.frame[state->frame].depth,
                            .proto = p->id,
                            .pc = index,
                            .line = p->line ? p->line[index] : 0};
  return true;
}

static enum result take_path(const struct search *s, struct lines_path *out)
{
  uint32_t end = best_end(s), n = 0, last;
  for (uint32_t at = end; at && s->cell[at - 1].from; at = s->cell[at - 1].from)
    n++;
  if (!n)
    return RESULT_NOTFOUND;
  out->event = malloc(n * sizeof *out->event);
  if (!out->event)
    return RESULT_NOMEM;
  out->nevent = n;
  for (uint32_t at = end; n > 0; at = s->cell[at - 1].from) {
    const struct cell *to = &s->cell[at - 1], *from = &s->cell[to->from - 1];
    count_anchors(s, from, to, out);
    if (!add_event(s, from, &out->event[--n]))
      return RESULT_NOTFOUND;
  }
  if (anchors_at(s, s->n, &last) < last) {
    out->anchors++;
    out->held += s->cell[end - 1].anchored;
  }
  return RESULT_OK;
}

static bool search_alloc(struct search *s)
{
  uint32_t n = s->w.p->nir;
  s->ref = malloc(n * sizeof *s->ref);
  s->kind = malloc(n * sizeof *s->kind);
  s->hint = malloc(n * sizeof *s->hint);
  s->head = calloc((size_t)n + 1, sizeof *s->head);
  s->top = malloc(((size_t)n + 1) * sizeof *s->top);
  s->anchor = malloc(s->w.p->t->nsnap * sizeof *s->anchor);
  for (uint32_t k = 0; s->top && k <= n; k++)
    s->top[k] = -INFINITY;
  return s->ref && s->kind && s->hint && s->head && s->top && s->anchor;
}

static void search_free(struct search *s)
{
  free(s->ref);
  free(s->kind);
  free(s->hint);
  free(s->head);
  free(s->top);
  free(s->anchor);
  free(s->cell);
  free(s->heap);
  for (int i = 0; i < LIVE; i++)
    idmap_free(&s->cells[i]);
  lines_walk_close(&s->w);
}

static enum result attempt(struct lines_model *m, const struct lines_parts *p,
                           const struct lines_code *code, unsigned width,
                           struct lines_path *out, struct error *e)
{
  struct search s = {.w = {.model = m, .p = p, .code = code},
                     .on = UINT32_MAX,
                     .margin = widths[width].margin,
                     .expanded = widths[width].expanded};
  memset(out, 0, sizeof *out);
  enum result r = lines_walk_open(&s.w, e);
  if (r == RESULT_OK && !search_alloc(&s))
    r = error_set(e, RESULT_NOMEM, "no memory for the path of trace %u",
                  p->t->traceno);
  if (r == RESULT_OK) {
    list_ir(&s);
    if (list_anchors(&s) && begin(&s))
      search(&s);
    else
      s.failed = true;
    r = s.failed ? RESULT_NOTFOUND : take_path(&s, out);
    if (r != RESULT_OK)
      error_set(e, r, "trace %u: no path through the bytecode is found",
                p->t->traceno);
  }
  search_free(&s);
  return r;
}

enum result lines_path_find(struct lines_model *m, const struct lines_parts *p,
                            const struct lines_code *code,
                            struct lines_path *out, struct error *e)
{
  struct lines_path better;
  enum result r = attempt(m, p, code, 0, out, e);
  for (unsigned i = 1; i < WIDTHS; i++) {
    if (r != RESULT_NOTFOUND && (r != RESULT_OK || out->held == out->anchors))
      break;
    enum result wider = attempt(m, p, code, i, &better, e);
    if (wider == RESULT_OK) {
      free(out->event);
      *out = better;
      r = wider;
    } else {
      free(better.event);
    }
  }
  return r;
}
