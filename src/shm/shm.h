/* SPDX-License-Identifier: MIT
 *
 * The shared segment: created and published by the agent, opened and checked
 * by the collector.  This room alone knows its bytes.  No malloc, stdio or
 * locks here: the agent links it.
 */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/result.h"
#include "tecs/abi.h"

/* A mapping of the segment; plain addresses into it.  Either side. */
struct shm {
  uint8_t *base;
  size_t size;    /* bytes mapped */
  int fd;         /* -1: none */
  uint64_t inode; /* agent: of fd, in case the game closed it */
  struct tecs_header *header;
  struct tecs_control *control;
  struct tecs_vm *vms;
  struct tecs_slot *slots;
  uint8_t *rings;
  struct tecs_aborts *aborts;    /* no memory behind these two before */
  struct tecs_abort *abort_rows; /* shm_back_aborts; NULL: agent is older */
  struct tecs_log *log; /* nor behind this before shm_log_back; likewise */
  uint64_t log_head, log_backed; /* agent: what the log should say of itself */
  uint8_t *scratch;              /* collector: a record copied out of a ring */
};

/* ---- agent ---- */

/* Creates and maps the segment of this process and fills its header, in state
 * STARTING.  The mapping reaches over the rings, which have no memory yet.
 * *s is all zero with fd -1 after a failure. */
enum result shm_create(struct shm *s, const char *build, uint32_t cookie);
/* Magic last: from here on a reader may find it. */
void shm_publish(struct shm *s, enum tecs_state state, enum tecs_reason why);
void shm_destroy(struct shm *s);

/* Reserves len bytes (a multiple of 8) in a ring for the producer; NULL when
 * full, or when the consumer's tail makes no sense.  shm_ring_commit makes
 * `used` <= len of them visible. */
void *shm_ring_reserve(struct tecs_slot *slot, uint8_t *ring, uint32_t len);
void shm_ring_commit(struct tecs_slot *slot, uint32_t used);

/* Puts memory behind the rows [from, to) of the abort table too; as
 * shm_back_aborts. */
enum result shm_back_abort_rows(struct shm *s, uint32_t from, uint32_t to);

/* The record log.  The writer is one thread at a time: the agent sees to that.
 *
 * Puts memory behind the log's tables and the first of its bytes; idempotent.
 * As shm_back_aborts. */
enum result shm_log_back(struct shm *s);
/* The VM at that place of the VMs' table is now g: it has no logs yet. */
void shm_log_vm_made(struct shm *s, unsigned vm, uint64_t g,
                     enum tecs_log_state state, uint32_t now_s);
/* All logs of the VM at that place are dropped. */
void shm_log_flush(struct shm *s, unsigned vm);
/* The log of that trace, if there is one, is dropped. */
void shm_log_drop(struct shm *s, uint64_t g, uint32_t traceno);
/* Appends a log; g, mcode, szmcode, traceno, nproto and nevent of *head are
 * given.  FULL: too large, or no memory for it; nothing was changed. */
enum result shm_log_put(struct shm *s, const struct tecs_log_trace *head,
                        const struct tecs_log_proto *proto,
                        const struct tecs_log_event *event);

/* ---- either side ---- */

/* Puts memory behind the abort totals and the first SHM_ABORT_STEP rows; it
 * stays until the game ends.  FULL: there is none left. */
#define SHM_ABORT_STEP 128u
enum result shm_back_aborts(struct shm *s);

/* ---- collector ---- */

/* Maps and checks a segment.  fd is taken over also on failure.
 * VERSION: found_major and found_minor say what was met. */
struct shm_attach_info {
  uint16_t found_major;
  uint16_t found_oldest;
  const char *what; /* static text: which check failed */
};
enum result shm_attach(struct shm *s, int fd, struct shm_attach_info *info);
void shm_detach(struct shm *s);

/* A segment of our own, in plain memory, for a collector that fills the rings
 * itself: no header, no aborts, no descriptor (fd -1).  NOMEM. */
enum result shm_private(struct shm *s);

/* Backs rings [0, count) with memory and sets control->rings_backed.
 * FULL: there is none left. */
enum result shm_back_rings(struct shm *s, unsigned count);
/* Gives the rings' memory back (end of a session). */
void shm_release_rings(struct shm *s);

/* Next record of a slot's ring, or NULL when it is drained.  The bytes are a
 * private copy, valid until the next peek at any slot.  *bad counts records
 * whose framing was wrong: the ring is then resynchronised at its head. */
const struct tecs_record *shm_ring_peek(struct shm *s, unsigned slot,
                                        uint64_t *bad);
void shm_ring_consume(struct shm *s, unsigned slot,
                      const struct tecs_record *rec);

/* ---- the record log, read ----
 *
 * A log belongs to the trace if the trace still is what the key says after the
 * log was read: read GCtrace (its number, mcode, szmcode) first, then the log,
 * then GCtrace again.  Nothing of it is believed: counts, indices and lengths
 * are checked here, but prototypes, positions in them, references and depths
 * are what the game's memory says. */

struct shm_log_key {
  uint64_t g; /* global_State of the VM: tecs_sample_vm.g */
  uint64_t mcode;
  uint32_t szmcode;
  uint32_t traceno;
};
/* Points into the caller's buffer. */
struct shm_log {
  uint64_t position; /* identifies this log for the segment's life: the same
                        position is the same log */
  uint32_t nproto, nevent;
  const struct tecs_log_proto *proto;
  const struct tecs_log_event *event; /* .proto < nproto, or
                                         TECS_LOG_NO_PROTO */
};
#define SHM_LOG_TRACE_MAX                                                      \
  (sizeof(struct tecs_log_trace) +                                             \
   TECS_LOG_PROTOS_MAX * sizeof(struct tecs_log_proto) +                       \
   TECS_LOG_EVENTS_MAX * sizeof(struct tecs_log_event))

/* Copies a trace's log into buffer (SHM_LOG_TRACE_MAX bytes, 8-aligned).
 * NOTFOUND: there is none, or it went while it was read; UNSUPPORTED: the agent
 * is older, or keeps no log; CORRUPT: what stands there makes no sense.  Holds
 * no lock; one system call. */
enum result shm_log_find(const struct shm *s, const struct shm_log_key *key,
                         void *buffer, struct shm_log *out);
/* The writer's side, also in a handler that interrupted it: the log in its
 * place, where it may be written over.  false: there is none. */
bool shm_log_peek(const struct shm *s, const struct shm_log_key *key,
                  struct shm_log *out);
/* What the log says of VM g; returns as above. */
enum result shm_log_vm(const struct shm *s, uint64_t g,
                       struct tecs_log_vm *out);

/* ---- records, checked: every pointer lies inside the record ---- */

struct sample_view {
  const struct tecs_sample *sample;
  const struct tecs_sample_vm *vm;  /* sample->vm_count */
  const struct tecs_frame *lua;     /* sample->lua_count */
  const struct tecs_zone *zone;     /* sample->zone_count */
  const struct tecs_native *native; /* sample->native_count */
  const uint8_t *stack;             /* sample->stack_len */
  const uint8_t *outer;             /* sample->outer_len */
};
struct proto_view {
  const struct tecs_proto *proto;
  const char *chunk;    /* proto->chunk_len bytes, not NUL-terminated */
  const char *name;     /* proto->name_len */
  const uint8_t *lines; /* proto->lines_len */
};
struct bytecode_view {
  const struct tecs_bytecode *head;
  const uint32_t *bc;
  const uint64_t *kn, *kgc;
};
struct trace_view {
  const struct tecs_trace *trace;
  const uint8_t *mcode, *ir;
  const struct tecs_snap *snap;
  const uint32_t *snapmap;
  const struct tecs_trace_object *object;
};

/* CORRUPT when a count or length points outside the record. */
enum result record_sample(const struct tecs_record *rec, struct sample_view *v);
enum result record_proto(const struct tecs_record *rec, struct proto_view *v);
enum result record_string(const struct tecs_record *rec,
                          const struct tecs_string **s, const char **bytes);
enum result record_bytecode(const struct tecs_record *rec,
                            struct bytecode_view *v);
enum result record_trace(const struct tecs_record *rec, struct trace_view *v);
enum result record_mcode(const struct tecs_record *rec,
                         const struct tecs_mcode **m,
                         const struct tecs_range **ranges);

#endif
