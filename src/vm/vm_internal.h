/* SPDX-License-Identifier: MIT
 *
 * An image is a function as its prototype record showed it.  Several slots,
 * and generations of a slot, share it.
 */
#ifndef VM_VM_INTERNAL_H
#define VM_VM_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/idmap.h"
#include "util/interner.h"
#include "util/strbuf.h"
#include "vm/vm.h"

/* lj_lib.c, lib_read_lfunc: firstline of builtins that are bytecode. */
#define FIRSTLINE_BUILTIN UINT32_MAX

struct vm_image {
  uint64_t addr; /* of the GCproto, at the time it was recorded */
  uint64_t g;
  uint32_t firstline, numline, sizebc, opcode_hash;
  uint32_t flags;     /* enum tecs_proto_flag */
  uint32_t chunk_id;  /* in store->texts, as the record carried it */
  uint32_t shown_id;  /* in store->texts, shortened */
  uint32_t name_id;   /* in store->texts; INTERNER_NONE: not known (yet) */
  uint32_t place;     /* the prototype: VM, address and source */
  uint32_t source;    /* equal for all loads of the same source */
  uint64_t *bytecode; /* what code points into; NULL: not known */
  struct vm_code code;
  uint8_t *lines;
  uint32_t lines_len, line_width;
};

/* Names that were met for one place or source. */
struct vm_names {
  uint32_t name_id; /* INTERNER_NONE: none so far */
  bool several;
};

struct vm_names_table {
  struct interner *keys; /* ids index names */
  struct vm_names *names;
  size_t cap;
};

struct vm_slot {
  struct idmap proto;  /* id to image */
  struct idmap string; /* id to text */
  struct idmap trace;  /* VM and number to trace */
};

struct vm_mcode_areas {
  uint64_t g;
  struct tecs_range *range;
  size_t count;
};

struct trace;

struct vm_store {
  struct target *target; /* may be NULL */
  unsigned serial;       /* tells placeholders of stores apart */
  struct interner *texts;
  struct interner *image_keys; /* ids index image */
  struct vm_image **image;
  size_t image_count, image_cap;
  struct vm_names_table places, sources;
  struct idmap frame_texts; /* image and line to text */
  struct vm_slot slot[VM_SLOTS];
  struct vm_mcode_areas *mcode;
  size_t mcode_count;
  struct trace **trace; /* traces.c */
  size_t trace_count, trace_cap, trace_free, trace_bytes;
  struct idmap trace_of_hash;
  const struct shm *logs; /* NULL: none are read */
  void *log_buffer;
  struct strbuf scratch;
  struct vm_builtins *builtins; /* of each VM, builtins.c */
  size_t builtin_count;
  void *late; /* of the late namer; ended by vm_store_free with late_end */
  void (*late_end)(void *late);
  void *maker; /* vm_store_set_maker */
  void (*maker_end)(void *maker);
};

/* ---- for the late namer ---- */

/* Images whose name is not known: *cursor starts at 0; NULL at the end.  The
 * image stays where it is as long as the store. */
struct vm_image *vm_image_next_unnamed(struct vm_store *s, size_t *cursor);
/* Chunk name as the record carried it, with its `@` or `=`. */
const char *vm_image_chunk(const struct vm_store *s, const struct vm_image *im);
/* len 0: the source gives it no name.  false: no memory.  All samples of the
 * image get this name, those that were counted before too. */
bool vm_image_set_name(struct vm_store *s, struct vm_image *im,
                       const char *name, size_t len);

/* ---- within the room ---- */

enum result vm_record_bytecode(struct vm_store *s, struct vm_slot *slot,
                               const struct tecs_record *rec);
enum result vm_record_trace(struct vm_store *s, unsigned slot,
                            const struct tecs_record *rec);
void vm_traces_reset_slot(struct vm_store *s, unsigned slot);
void vm_traces_free(struct vm_store *s);

/* Interns bytes that may hold anything; NULs become `?`. */
uint32_t vm_intern_bytes(struct vm_store *s, const char *bytes, size_t len);
enum result vm_image_record(struct vm_store *s, const struct proto_view *v,
                            uint32_t *index);
bool vm_names_init(struct vm_names_table *t);
void vm_names_free(struct vm_names_table *t);
/* Id of a key, INTERNER_NONE: no memory. */
uint32_t vm_names_id(struct vm_names_table *t, const void *key, size_t len);
void vm_names_met(struct vm_names_table *t, uint32_t id, uint32_t name_id);

/* Appends a name of the game, cut to VM_NAME_LIMIT; cut: bytes are missing
 * already. */
void vm_name_show(struct strbuf *out, const char *name, size_t len, bool cut);
/* Appends a chunk name as a frame shows it. */
void vm_chunk_show(struct strbuf *out, const char *chunk, size_t len,
                   uint32_t firstline, bool tail);
/* Neither a main chunk nor a builtin, and not stripped. */
bool vm_image_needs_name(const struct vm_image *im);
/* Line at pc (a tecs_frame's); false: not known. */
bool vm_image_line(const struct vm_image *im, uint32_t pc, uint32_t *line);

#endif
