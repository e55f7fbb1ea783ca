/* SPDX-License-Identifier: MIT
 *
 * The record log: a ring of logs that forgets the oldest, with chains through
 * it by VM and trace number.  Written without regard for readers, who look
 * afterwards whether what they copied was still there.
 */
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "base/atomics.h"
#include "shm/shm_internal.h"

#define LOG_STEP 65536u /* bytes that get memory at a time */
#define TABLES offsetof(struct tecs_log, bytes)

_Static_assert((TECS_LOG_BYTES & (TECS_LOG_BYTES - 1)) == 0, "a power of two");
_Static_assert(TECS_LOG_BYTES % LOG_STEP == 0, "");

static uint8_t *at(const struct shm *s, uint64_t position)
{
  return s->log->bytes + (position & (TECS_LOG_BYTES - 1));
}

static uint64_t padded(uint64_t bytes)
{
  return (bytes + 7) & ~UINT64_C(7);
}

/* Of counts within their bounds. */
static uint64_t length(uint32_t nproto, uint32_t nevent)
{
  return padded(sizeof(struct tecs_log_trace) +
                nproto * sizeof(struct tecs_log_proto) +
                nevent * sizeof(struct tecs_log_event));
}

static bool counts_ok(uint32_t nproto, uint32_t nevent)
{
  return nproto <= TECS_LOG_PROTOS_MAX && nevent <= TECS_LOG_EVENTS_MAX;
}

/* ---- writer ---- */

/* A game that closes everything may have given the file's number away. */
static bool file_is_ours(const struct shm *s)
{
  struct stat st;
  return s->fd >= 0 && !fstat(s->fd, &st) && st.st_ino == s->inode;
}

enum result shm_log_back(struct shm *s)
{
  if (!s->log)
    return RESULT_UNSUPPORTED;
  if (s->log_backed)
    return RESULT_OK;
  if (!file_is_ours(s) ||
      shm_back(s, s->log, s->log->bytes + LOG_STEP) != RESULT_OK)
    return RESULT_FULL;
  s->log_head = TECS_LOG_START;
  s->log_backed = LOG_STEP;
  atomic_set(&s->log->tail, s->log_head);
  atomic_set(&s->log->head, s->log_head);
  atomic_release(&s->log->backed, s->log_backed);
  return RESULT_OK;
}

/* Memory for bytes [0, end). */
static bool grow(struct shm *s, uint64_t end)
{
  while (s->log_backed < end) {
    uint8_t *bytes = s->log->bytes;
    uint64_t more = s->log_backed + LOG_STEP;
    if (!file_is_ours(s) ||
        shm_back(s, bytes + s->log_backed, bytes + more) != RESULT_OK)
      return false;
    s->log_backed = more;
    atomic_release(&s->log->backed, more);
  }
  return true;
}

void shm_log_flush(struct shm *s, unsigned vm)
{
  atomic_release(&s->log->vm[vm].floor, s->log_head);
}

void shm_log_vm_made(struct shm *s, unsigned vm, uint64_t g,
                     enum tecs_log_state state, uint32_t now_s)
{
  struct tecs_log_vm *v = &s->log->vm[vm];
  atomic_release(&v->g, (uint64_t)0);
  shm_log_flush(s, vm);
  atomic_set(&v->logged, (uint64_t)0);
  atomic_set(&v->missed, (uint64_t)0);
  atomic_set(&v->since_s, now_s);
  atomic_set(&v->state, (uint32_t)state);
  atomic_release(&v->g, g);
}

/* Positions from here on are not overwritten yet. */
static uint64_t tail_of(uint64_t head)
{
  return head < 2 * TECS_LOG_START ? TECS_LOG_START : head - TECS_LOG_BYTES;
}

/* Chains may have been spoilt by who else has the segment: what is found is in
 * the ring in any case, and the search ends. */
static struct tecs_log_trace *newest(const struct shm *s, uint64_t g,
                                     uint32_t traceno)
{
  struct tecs_log *log = s->log;
  uint64_t p = atomic_get(&log->bucket[tecs_log_bucket(g, traceno)]);
  uint64_t below = s->log_head, tail = tail_of(below);
  while (p >= tail && p < below && !(p & 7)) {
    struct tecs_log_trace *t = (struct tecs_log_trace *)at(s, p);
    uint64_t end = (p & (TECS_LOG_BYTES - 1)) + sizeof *t;
    if (end > s->log_backed)
      break;
    if (t->g == g && t->traceno == traceno)
      return t;
    below = p;
    p = atomic_get(&t->prev);
  }
  return NULL;
}

void shm_log_drop(struct shm *s, uint64_t g, uint32_t traceno)
{
  struct tecs_log_trace *t = newest(s, g, traceno);
  if (t)
    atomic_release(&t->dropped, 1u);
}

/* Where len bytes go: none across the end. */
static uint64_t place(const struct shm *s, uint64_t len)
{
  uint64_t to_end = TECS_LOG_BYTES - (s->log_head & (TECS_LOG_BYTES - 1));
  return to_end < len ? s->log_head + to_end : s->log_head;
}

/* What comes before the new tail is about to be written over: readers are told
 * first. */
static void forget_before(struct tecs_log *log, uint64_t tail)
{
  atomic_set(&log->tail, tail);
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

enum result shm_log_put(struct shm *s, const struct tecs_log_trace *head,
                        const struct tecs_log_proto *proto,
                        const struct tecs_log_event *event)
{
  struct tecs_log *log = s->log;
  if (!counts_ok(head->nproto, head->nevent))
    return RESULT_FULL;
  uint64_t len = length(head->nproto, head->nevent), to = place(s, len);
  uint64_t end = (to & (TECS_LOG_BYTES - 1)) + len;
  if (!grow(s, end))
    return RESULT_FULL;
  uint64_t *bucket = &log->bucket[tecs_log_bucket(head->g, head->traceno)];
  forget_before(log, tail_of(to + len));
  struct tecs_log_trace t = *head;
  t.len = (uint32_t)len;
  t.dropped = 0;
  t.position = to;
  t.prev = *bucket;
  uint8_t *p = at(s, to);
  memcpy(p, &t, sizeof t);
  p += sizeof t;
  memcpy(p, proto, head->nproto * sizeof *proto);
  p += head->nproto * sizeof *proto;
  memcpy(p, event, head->nevent * sizeof *event);
  s->log_head = to + len;
  atomic_release(&log->head, s->log_head);
  atomic_release(bucket, to);
  return RESULT_OK;
}

/* ---- reader ---- */

/* Is there memory behind bytes [0, end) of the log?  What the file has it
 * keeps: it is sealed against being cut. */
static bool has_memory(const struct shm *s, uint64_t end)
{
  struct stat st;
  uint64_t need = (uint64_t)((const uint8_t *)s->log - s->base) + TABLES + end;
  return s->fd >= 0 && !fstat(s->fd, &st) && st.st_size >= 0 &&
         (uint64_t)st.st_size >= need;
}

/* Its place in the table, TECS_VMS: none. */
static unsigned vm_of(const struct shm *s, uint64_t g)
{
  unsigned i = 0;
  while (i < TECS_VMS && (!g || atomic_acquire(&s->log->vm[i].g) != g))
    i++;
  return i;
}

enum result shm_log_vm(const struct shm *s, uint64_t g, struct tecs_log_vm *out)
{
  if (!s->log || !has_memory(s, 0))
    return RESULT_UNSUPPORTED;
  unsigned i = vm_of(s, g);
  if (i == TECS_VMS)
    return RESULT_NOTFOUND;
  memcpy(out, &s->log->vm[i], sizeof *out);
  out->g = g;
  return RESULT_OK;
}

struct reader {
  const struct shm *s;
  unsigned vm;     /* place of the VM */
  uint64_t backed; /* bytes that may be read */
};

/* Is what stands at position p still whole, and of this VM? */
static bool stands(const struct reader *r, uint64_t p)
{
  const struct tecs_log *log = r->s->log;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return atomic_get(&log->tail) <= p && atomic_get(&log->vm[r->vm].floor) <= p;
}

/* Are len bytes at p within the ring? */
static bool inside(const struct reader *r, uint64_t p, uint64_t len)
{
  return !(p & 7) && (p & (TECS_LOG_BYTES - 1)) + len <= r->backed &&
         p < atomic_acquire(&r->s->log->head);
}

/* Copies the head of the log at p; false: there is none, or no longer. */
static bool load_head(const struct reader *r, uint64_t p,
                      struct tecs_log_trace *t)
{
  if (!inside(r, p, sizeof *t) || !stands(r, p))
    return false;
  memcpy(t, at(r->s, p), sizeof *t);
  return stands(r, p) && t->position == p;
}

/* The newest of that VM and number. */
static bool search(const struct reader *r, const struct shm_log_key *key,
                   struct tecs_log_trace *t)
{
  const struct tecs_log *log = r->s->log;
  uint64_t p =
      atomic_acquire(&log->bucket[tecs_log_bucket(key->g, key->traceno)]);
  for (uint64_t below = UINT64_MAX; p < below; p = t->prev) {
    if (!load_head(r, p, t))
      return false;
    if (t->g == key->g && t->traceno == key->traceno)
      return true;
    below = p;
  }
  return false;
}

static bool is_of(const struct tecs_log_trace *t, const struct shm_log_key *key)
{
  return !t->dropped && t->mcode == key->mcode && t->szmcode == key->szmcode;
}

static bool fits(const struct reader *r, const struct tecs_log_trace *t)
{
  return counts_ok(t->nproto, t->nevent) &&
         t->len == length(t->nproto, t->nevent) &&
         inside(r, t->position, t->len);
}

static bool events_ok(const struct shm_log *l)
{
  for (uint32_t i = 0; i < l->nevent; i++)
    if (l->event[i].proto >= l->nproto &&
        l->event[i].proto != TECS_LOG_NO_PROTO)
      return false;
  return true;
}

bool shm_log_peek(const struct shm *s, const struct shm_log_key *key,
                  struct shm_log *out)
{
  if (!s->log || !s->log_backed)
    return false;
  const struct tecs_log_trace *t = newest(s, key->g, key->traceno);
  if (!t || !is_of(t, key) || !counts_ok(t->nproto, t->nevent) ||
      (t->position & (TECS_LOG_BYTES - 1)) + length(t->nproto, t->nevent) >
          s->log_backed)
    return false;
  *out = (struct shm_log){.position = t->position,
                          .nproto = t->nproto,
                          .nevent = t->nevent,
                          .proto = (const struct tecs_log_proto *)(t + 1)};
  out->event = (const struct tecs_log_event *)(out->proto + t->nproto);
  return (const uint8_t *)t == at(s, t->position);
}

static enum result copy(const struct reader *r, const struct tecs_log_trace *t,
                        uint8_t *buffer, struct shm_log *out)
{
  const struct tecs_log_trace *there =
      (const struct tecs_log_trace *)at(r->s, t->position);
  memcpy(buffer, there, t->len);
  if (!stands(r, t->position) || atomic_get(&there->dropped))
    return RESULT_NOTFOUND;
  out->position = t->position;
  out->nproto = t->nproto;
  out->nevent = t->nevent;
  out->proto = (const struct tecs_log_proto *)(buffer + sizeof *t);
  out->event = (const struct tecs_log_event *)(out->proto + t->nproto);
  return events_ok(out) ? RESULT_OK : RESULT_CORRUPT;
}

enum result shm_log_find(const struct shm *s, const struct shm_log_key *key,
                         void *buffer, struct shm_log *out)
{
  struct tecs_log_trace t;
  struct reader r = {.s = s};
  if (!s->log || !has_memory(s, 0))
    return RESULT_UNSUPPORTED;
  r.backed = atomic_acquire(&s->log->backed);
  if (r.backed > TECS_LOG_BYTES || !has_memory(s, r.backed))
    return RESULT_CORRUPT;
  r.vm = vm_of(s, key->g);
  if (r.vm == TECS_VMS || !search(&r, key, &t) || !is_of(&t, key))
    return RESULT_NOTFOUND;
  return fits(&r, &t) ? copy(&r, &t, buffer, out) : RESULT_CORRUPT;
}
