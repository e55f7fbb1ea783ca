/* SPDX-License-Identifier: MIT
 *
 * Private to the room.  Every step is a function of a register file and the
 * sample's memory: libunwind, the VM's rule and the signal rule all read
 * `reg` and leave the caller's registers in it.
 */
#ifndef UNWIND_UNWIND_INTERNAL_H
#define UNWIND_UNWIND_INTERNAL_H

#include <libunwind.h>

#include "unwind/unwind.h"

/* DWARF numbers (System V ABI for AMD64, figure 3.36), as in tecs_sample. */
enum {
  DWARF_RBX = 3,
  DWARF_RBP = 6,
  DWARF_RSP = TECS_REG_RSP,
  DWARF_R12 = 12,
  DWARF_R13 = 13,
  DWARF_R14 = 14,
  DWARF_R15 = 15,
  DWARF_RIP = TECS_REG_RIP,
};

struct cframe {
  uint64_t addr;
  uint32_t size;
};

/* Registers that a function keeps for its caller; take an index. */
#define UNWIND_SAVED 6u
extern const uint8_t unwind_saved[UNWIND_SAVED];

/* What a step by an unwind table gives. */
struct unwind_caller {
  uint64_t ip, sp;
  uint64_t saved[UNWIND_SAVED];
  uint32_t known; /* bit i: saved[i] is */
};

/* A row of an unwind table: the frame begins `cfa` from register `base`, all
 * others stand at distances from there. */
struct unwind_row {
  int32_t cfa, ret, at[UNWIND_SAVED];
  uint8_t base;
  uint8_t how[UNWIND_SAVED]; /* enum unwind_row_how */
};

enum unwind_row_how {
  UNWIND_ROW_LOST,
  UNWIND_ROW_KEPT, /* it is still in the register */
  UNWIND_ROW_SAVED,
};

struct unwind_place {
  uint64_t lookup;
  const struct module *mod;
  bool used, exact;
  bool sigreturn; /* unwind_is_sigreturn */
  bool entry;     /* unwind_is_entry */
  bool row_tried, has_row;
  struct unwind_row row;
};

struct unwinder {
  struct modules *modules;
  unw_addr_space_t space;
  struct unwind_place *place; /* hash table */
  struct unwind_place *last_place;
  size_t place_count;

  /* of the sample at hand */
  const struct sample_view *s;
  const struct unwind_vm *vm;
  uint64_t reg[TECS_REGS];
  uint32_t known; /* bit i: reg[i] is */
  bool exact;     /* rip is where the thread was, not a return address */
  unsigned jumps; /* signal frames that moved sp down */
  struct cframe cframe[UNWIND_MAX]; /* ascending */
  size_t cframe_count, cframe_next;

  /* of the step at hand, for the callbacks */
  uint64_t table; /* the one entry of the search table */
  bool no_info;   /* no unwind information at the address */
  bool trial;     /* with registers and memory that are made up */
};

enum step {
  STEP_OK = 1,   /* reg is the caller's */
  STEP_END = 2,  /* there is no caller */
  STEP_FAIL = 3, /* reg is as it was */
};

/* ---- memory.c ---- */

/* The sample's stack bytes, nothing else. */
bool unwind_stack_word(const struct unwinder *u, uint64_t addr, uint64_t *out);
/* Is addr an address behind a call instruction in a mapped ELF file? */
bool unwind_is_return(struct unwinder *u, uint64_t addr);
/* Is there an entry of a procedure linkage table at addr? */
bool unwind_is_plt(struct unwinder *u, uint64_t addr);
/* Does the code at addr return from a signal handler? */
bool unwind_is_sigreturn(struct unwinder *u, uint64_t addr);

/* ---- native.c ---- */

enum result unwind_native_init(struct unwinder *u, struct error *e);
void unwind_native_free(struct unwinder *u);
/* One step of libunwind from reg, whose rip is what is looked up: 1, 0 where
 * there is no caller, or negative. */
int unwind_native_caller(struct unwinder *u, struct unwind_caller *out);
/* By the unwind table of the code at `lookup`. */
enum step unwind_native_step(struct unwinder *u, uint64_t lookup);
/* By the context that the kernel saved below a signal handler. */
enum step unwind_signal_step(struct unwinder *u);

/* ---- places.c: what is known of the code at an address ---- */

bool unwind_places_init(struct unwinder *u); /* false: no memory */
void unwind_places_free(struct unwinder *u);
/* The modules changed. */
void unwind_places_forget(struct unwinder *u);
/* Of the code at `lookup`, for u->exact; valid until the next call. */
const struct unwind_place *unwind_place(struct unwinder *u, uint64_t lookup);
/* The same place's row of the unwind table; NULL: libunwind must be asked. */
const struct unwind_row *unwind_place_row(struct unwinder *u, uint64_t lookup);
/* Memory of a trial; false: none is there. */
bool unwind_trial_word(const struct unwinder *u, uint64_t addr, uint64_t *out);

/* ---- unwinder.c ---- */

/* Is the code at lookup the one that the kernel started? */
bool unwind_is_entry(const struct module *mod, uint64_t lookup);

/* ---- unknown.c ---- */

/* Finds rbp where it is not known and the function at `lookup` needs it; false:
 * it is known, or cannot be told. */
bool unwind_find_frame(struct unwinder *u, uint64_t lookup);

/* ---- vmframe.c ---- */

void unwind_vm_begin(struct unwinder *u);
/* The VM whose machine code holds `lookup`; NULL: none. */
const struct unwind_vm *unwind_vm_find(const struct unwinder *u,
                                       uint64_t lookup);
/* Steps out of VM code; *cframe as in struct unwind_frame. */
enum step unwind_vm_step(struct unwinder *u, const struct unwind_vm *vm,
                         uint64_t *cframe);
/* Steps out of the next recorded C frame above sp, which *cframe names; false:
 * there is none. */
bool unwind_vm_resume(struct unwinder *u, uint64_t *cframe, enum step *step);

/* ---- sigmask.c ---- */

/* While quiet, sigprocmask() of the calling thread does nothing. */
void unwind_sigmask_quiet(bool quiet);

#endif
