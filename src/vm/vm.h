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

#endif
