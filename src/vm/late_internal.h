/* SPDX-License-Identifier: MIT
 *
 * Late naming: functions that were met without a name are looked for in the
 * live VM.  late.c has the store's side, late_walk.c visits what is reachable,
 * late_pick.c chooses among the places where a function was seen.
 *
 * The VM runs on meanwhile: nothing that is read is believed before its type
 * is checked, and a function only gets a name while it is still the one that
 * was sampled.
 */
#ifndef VM_LATE_INTERNAL_H
#define VM_LATE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/target.h"
#include "util/idmap.h"
#include "vmcore/bcname.h"
#include "vmcore/layout.h"
#include "vmcore/mem.h"
#include "vmcore/value.h"

/* ---- memory of the process, by pages (late_mem.c) ---- */

struct late_cache;

struct late_cache *late_cache_new(struct target *t); /* NULL: no memory */
void late_cache_free(struct late_cache *c);
/* Forgets what was read; returns the reader. */
struct vm_mem *late_cache_begin(struct late_cache *c);
/* Gives the memory back. */
void late_cache_empty(struct late_cache *c);

/* ---- places (late_pick.c) ---- */

/* Where a function was seen; the lower is believed first. */
enum late_rank {
  LATE_FIELD,   /* of a table kept in an upvalue of the same chunk */
  LATE_UPVALUE, /* of a function of the same chunk */
  LATE_GLOBAL,  /* key of _G */
  LATE_LOADED,  /* key of package.loaded */
  LATE_NOWHERE,
};

struct late_place {
  uint8_t rank, depth; /* depth: tables on the way */
  bool doubtful;       /* two upvalues disagree */
  uint8_t len;
  char name[VM_NAME_MAX];
};

/* ---- one VM (late_walk.c) ---- */

/* A function that wants a name; identity as it was sampled. */
struct late_want {
  uint64_t proto;
  uint32_t firstline, numline, sizebc;
  const char *chunk; /* with its `@` or `=`; NULs are `?` */
  bool chunk_tail;   /* first byte and tail of it */
  void *user;
  bool named;
  struct late_place place;
};

/* Value of a referrer's upvalue, over all its closures. */
struct late_upvalue {
  uint64_t proto; /* the referrer */
  uint64_t value; /* tagged: function or table */
  uint8_t idx;
  bool several;
};

struct late_object {
  uint64_t addr;
  uint32_t gct;
};

typedef void late_name_fn(void *ctx, const struct late_want *w,
                          const char *name, size_t len);

struct late {
  const struct vm_layout *lay;
  uint64_t g;
  struct late_want *want;
  size_t want_count, want_cap;
  struct idmap by_proto; /* to want */
  size_t left;           /* wants without a name */
  /* the walk */
  bool walking;
  bool incomplete; /* a bound was hit: not all closures were seen */
  struct idmap seen;
  struct late_object *queue;
  size_t head, tail, queue_cap;
  struct idmap parents;     /* prototype to its parent's place in the queue */
  struct idmap upvalue_ids; /* proto and index to upvalue */
  struct late_upvalue *upvalue;
  size_t upvalue_count, upvalue_cap;
  struct idmap looked_through; /* tables, by late_pick */
  /* while running */
  struct vm_mem *m;
  late_name_fn *fn;
  void *ctx;
  uint64_t deadline; /* of the thread's CPU clock, ns */
  bool late;         /* it is over */
};

enum late_state {
  LATE_MORE, /* the time is up; call again */
  LATE_DONE, /* all that is reachable was seen */
  LATE_FAIL, /* no memory, or no such VM any more */
};

void late_init(struct late *l, const struct vm_layout *lay, uint64_t g);
void late_free(struct late *l);
/* Index of the new want, SIZE_MAX: no memory. */
size_t late_want(struct late *l, const struct late_want *w);
/* Starts or goes on with a walk, for about cpu_ns.  fn is called for each
 * function whose name was found (len 0: the source gives it none). */
enum late_state late_run(struct late *l, struct vm_mem *m, uint64_t cpu_ns,
                         late_name_fn *fn, void *ctx);
/* CPU time of this thread, ns. */
uint64_t late_clock(void);

/* ---- between late_walk.c and late_pick.c ---- */

/* The object of type gct that a tagged value is, checked; else 0. */
uint64_t late_value(struct late *l, uint64_t tv, enum vm_gct gct);
bool late_is(struct late *l, uint64_t obj, enum vm_gct gct);
/* Prototype of a Lua function, else 0. */
uint64_t late_proto(struct late *l, uint64_t fn);
/* Still the function that was sampled? */
bool late_same(struct late *l, const struct late_want *w);
/* The want for a prototype, NULL: none, or it has a name. */
struct late_want *late_find(struct late *l, uint64_t proto);
void late_named(struct late *l, struct late_want *w, const char *name,
                size_t len);
/* The parent of a prototype, when the walk met it; else 0. */
uint64_t late_parent(struct late *l, uint64_t proto);
/* Length of a string's bytes, copied to out; 0: no string, or longer. */
size_t late_string(struct late *l, uint64_t str, char *out, size_t cap);
/* What a complete (or bounded) walk saw decides. */
void late_pick(struct late *l);

#endif
