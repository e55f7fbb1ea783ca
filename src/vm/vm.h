/* SPDX-License-Identifier: MIT
 *
 * What the addresses in a sample mean: prototypes, builtins, zone names, lines.
 * Fed with the images that the stream carries; asks the live process only for
 * names that were not known when a function was loaded.
 */
#ifndef VM_VM_H
#define VM_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/shm.h"
#include "target/target.h"
#include "util/error.h"
#include "util/strbuf.h"

#define VM_NAME_LIMIT 200u  /* bytes of a function's or zone's name */
#define VM_CHUNK_LIMIT 240u /* bytes of a path or `=` chunk name */

/* Slots that records may come from: those of the segment, and one of a
 * collector's own. */
#define VM_SLOTS (TECS_SLOTS + 1u)

struct vm_store;

/* t may be NULL (replay): then nothing is asked of a live process. */
enum result vm_store_new(struct target *t, struct vm_store **out);
void vm_store_free(struct vm_store *s);

/* Images of PROTO, STRING and MCODE records of slot `slot`; a new generation
 * of a slot forgets the old one's ids. */
enum result vm_store_record(struct vm_store *s, unsigned slot,
                            const struct tecs_record *rec);
void vm_store_reset_slot(struct vm_store *s, unsigned slot);

/* Text of a Lua frame: `name (file.lua:12)`, `main chunk (file.lua)`,
 * `anonymous#1a2b3c4d (file.lua:?)`, `[builtin:remove]`.  The line is the
 * function's first, or with lines the current one at pc (a tecs_frame's);
 * `?` when it is not known.  Names have at most VM_NAME_LIMIT bytes, chunk
 * names VM_CHUNK_LIMIT; paths keep their tail.
 * A function whose name may still be found (vm_store_name_late) gets a
 * placeholder, to be settled in the end, so that it has one name in all of its
 * samples.
 * The text lives as long as the store.  NULL: no such prototype. */
const char *vm_frame_text(struct vm_store *s, unsigned slot, uint32_t proto_id,
                          uint32_t pc, bool lines);
/* Is text, of vm_frame_text or longer by what follows it, a placeholder? */
bool vm_text_is_pending(const char *text);
/* Appends what a placeholder of this store stands for by now, and what follows
 * it.  false: it is none of this store's. */
bool vm_text_settle(struct vm_store *s, const char *text, struct strbuf *out);

/* ---- functions, as all slots share them ---- */

#define VM_NO_FUNCTION UINT32_MAX
/* false: no such prototype. */
bool vm_function_of(const struct vm_store *s, unsigned slot, uint32_t proto_id,
                    uint32_t *function);
/* As vm_frame_text. */
const char *vm_function_text(struct vm_store *s, uint32_t function, uint32_t pc,
                             bool lines);
/* Line of its instruction number index, header first; 0: not known. */
uint32_t vm_function_line(const struct vm_store *s, uint32_t function,
                          uint32_t index);
/* Its bytecode and constants as struct tecs_bytecode has them. */
struct vm_code {
  uint64_t addr, bcaddr; /* of the prototype, of its bytecode */
  const uint32_t *bc;
  const uint64_t *kn, *kgc;
  uint32_t nbc, nkn, nkgc;
};
/* false: not met in a trace.  Valid until the next record. */
bool vm_function_code(const struct vm_store *s, uint32_t function,
                      struct vm_code *out);

/* ---- traces ---- */

/* Memory for images of traces; beyond it, those that no sample can mean any
 * more are dropped, and then no more are kept. */
#define VM_TRACES_BYTES (64u << 20)

struct vm_trace_object {
  uint64_t addr;
  uint32_t function; /* VM_NO_FUNCTION: a C function or builtin */
  bool is_proto;     /* a prototype; else a function object */
  uint8_t ffid;      /* of a builtin; 0: Lua, 1: a C function of the program */
};
/* As struct tecs_log_event. */
struct vm_event {
  uint32_t ref, depth, function, pc;
};
/* As struct tecs_trace.  Nothing of it is believed: only the sizes hold. */
struct vm_trace {
  uint64_t g, mcode;
  uint32_t layout, szmcode, nk, nins, nsnap, nsnapmap, nobject;
  uint32_t traceno, link, root, linktype;
  uint32_t start, startindex; /* function and bytecode; VM_NO_FUNCTION */
  const uint8_t *code;        /* szmcode bytes */
  const uint8_t *ir;
  const struct tecs_snap *snap;
  const uint32_t *snapmap;
  const struct vm_trace_object *object;
  /* Its record log; nevent 0: none.  A function may be VM_NO_FUNCTION, as of
   * builtins. */
  const struct vm_event *event;
  uint32_t nevent;
  /* Whoever makes something of it keeps that here; made_end is called before
   * the trace is freed. */
  void *made;
  void (*made_end)(void *made);
};
/* The trace that a sample's VM was in, NULL: no image of it.  Lives as long as
 * the slot's next record allows. */
struct vm_trace *vm_trace_of(const struct vm_store *s, unsigned slot,
                             const struct tecs_sample_vm *vm);
/* Where record logs are read; NULL: nowhere. */
void vm_store_set_logs(struct vm_store *s, const struct shm *shm);
/* What makes something of traces, for all of the store's: ended after they
 * are. */
void vm_store_set_maker(struct vm_store *s, void *maker, void (*end)(void *));
void *vm_store_maker(const struct vm_store *s);

/* Where a prototype comes from.  The text lives as long as the store. */
struct vm_place {
  const char *chunk; /* as vm_chunk_text has it */
  uint32_t firstline, numline;
  uint64_t pt; /* address of the prototype */
};
/* Appends a chunk's name as texts show it: a path or a name without its mark,
 * `[string "..."]` for source text. */
void vm_chunk_text(struct strbuf *out, const char *chunk, size_t len,
                   uint32_t firstline);
/* false: no such prototype. */
bool vm_frame_place(const struct vm_store *s, unsigned slot, uint32_t proto_id,
                    struct vm_place *out);
/* `string.gsub` for a builtin's ffid in the VM at g, which has this layout;
 * NULL: not a builtin, or its name is not known.  Reads the libraries of the
 * live process; where there is none, goes by LuaJIT's own list. */
const char *vm_builtin_text(struct vm_store *s, uint64_t g, uint32_t layout,
                            uint32_t ffid);
/* Text of a zone entry, never NULL; a name that was not recorded is
 * `[lost]`. */
const char *vm_zone_text(struct vm_store *s, unsigned slot,
                         const struct tecs_zone *z);
/* Trace machine code areas of VM g: count and array (NULL when unknown). */
const struct tecs_range *vm_mcode(const struct vm_store *s, uint64_t g,
                                  size_t *count);
/* Does addr lie in the machine code areas of any VM? */
bool vm_is_mcode(const struct vm_store *s, uint64_t addr);
/* N, I, C, G or J; the meaning of vmstate is the layout's.  0: unknown
 * layout. */
char vm_state_letter(uint32_t layout, int32_t vmstate);
/* Bytes of a C frame in this layout (CFRAME_SIZE); 0: unknown layout. */
uint32_t vm_cframe_size(uint32_t layout);

/* Late names: looks, in the live process, for names of functions that were met
 * without one (loaded before the agent, or as bytecode, or in a host without
 * an API).  Bounded work; call about once a second, and once at the end. */
void vm_store_name_late(struct vm_store *s);
/* Functions that were met so far, by their records; it only grows. */
size_t vm_store_functions(const struct vm_store *s);

#endif
