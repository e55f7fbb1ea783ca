/* SPDX-License-Identifier: MIT
 *
 * Private to the room.
 */
#ifndef INJECT_INJECT_INTERNAL_H
#define INJECT_INJECT_INTERNAL_H

#include <stddef.h>
#include <sys/user.h>

#include "inject/inject.h"
#include "symbols/symbols.h"
#include "unwind/unwind.h"

/* ---- places.c: where things are in the process ---- */

enum {
  PLACES_LIBC_MAX = 3,   /* libc, and libpthread and libdl of old */
  PLACES_MALLOC_MAX = 4, /* allocators besides the C library's */
};

struct places {
  struct target *t;
  struct target_maps maps;
  struct modules *modules;
  struct unwinder *unwinder;
  const struct module *libc[PLACES_LIBC_MAX];
  unsigned libc_count;
  const struct module *loader;
  const struct module *allocator[PLACES_MALLOC_MAX];
  unsigned allocator_count;
  struct export *entry; /* entry_names, where they are */
  unsigned entry_count;
  uint64_t dlopen, dlerror, errno_location;
  uint64_t loader_data, loader_data_size; /* _rtld_global */
  uint64_t sigreturn; /* mov $SYS_rt_sigreturn,%rax; syscall */
  uint64_t syscall;   /* syscall; ret */
};

enum result places_find(struct target *t, struct places *p, struct error *e);
void places_free(struct places *p);
/* A mapping that holds addr; NULL: none.  As of the last read. */
const struct target_map *places_map(const struct places *p, uint64_t addr);
bool places_refresh(struct places *p);

/* ---- refuse.c: processes that it is not tried on ---- */

enum result refuse_check(struct target *t, struct error *e);

/* ---- frame.c: a signal frame, made by hand ---- */

enum {
  FRAME_XSTATE_MAX = 16384,
  FRAME_MAX = FRAME_XSTATE_MAX + 1024,
  FRAME_RED_ZONE = 128, /* below the stack pointer, in use all the same */
};

/* All that a thread needs to go on. */
struct frame_state {
  struct user_regs_struct regs; /* as ptrace has them */
  uint64_t mask;                /* of blocked signals */
  size_t xstate_len;
  uint8_t xstate[FRAME_XSTATE_MAX]; /* NT_X86_XSTATE */
};

struct frame {
  uint64_t at; /* address of its first word: where a function returns to; as a
                  stack pointer at a function's entry, rightly aligned */
  size_t len;
  uint8_t bytes[FRAME_MAX];
};

/* Builds the frame that ends below `top`.  false: the thread uses registers
 * that a signal frame of this size does not hold. */
bool frame_build(const struct frame_state *s, uint64_t top, uint64_t sigreturn,
                 struct frame *out);
/* Is this the stack (bytes of [base, base + n)) word at which a signal frame
 * begins?  Its interrupted rip and rsp then. */
bool frame_at(const uint8_t *bytes, size_t n, uint64_t *rip, uint64_t *rsp);

/* ---- tracee.c: one thread under ptrace ---- */

enum tracee_event {
  TRACEE_TIMEOUT = 0,
  TRACEE_INTERRUPTED = 1, /* by tracee_interrupt */
  TRACEE_GROUP = 2,       /* stopped by job control */
  TRACEE_SYSCALL = 3,     /* at the entry or exit of a system call */
  TRACEE_SIGNAL = 4,      /* about to take tracee.signal */
  TRACEE_OTHER = 5,
  TRACEE_ENDED = 6,
};

struct tracee {
  pid_t tid;
  bool seized;
  bool stopped;
  int signal; /* that it was about to take, 0: none */
};

/* PERM with the reason (another tracer, too), GONE, IO. */
enum result tracee_seize(struct target *t, pid_t tid, struct tracee *tr,
                         struct error *e);
bool tracee_interrupt(struct tracee *tr);
/* Goes on to the next event; with signal 0, one that it was about to take is
 * dropped. */
bool tracee_go(struct tracee *tr, bool to_syscall, int signal);
/* Stays as it is in a stop of job control, until that is over. */
bool tracee_listen(struct tracee *tr);
enum tracee_event tracee_wait(struct tracee *tr, uint64_t deadline_ns);
/* Stops it where it is, delivering what it has to take first; false: it did
 * not stop in time, or ended. */
bool tracee_stop(struct tracee *tr, uint64_t deadline_ns);
/* Lets it go; waits for a stop if it has to. */
void tracee_release(struct tracee *tr);
bool tracee_get(struct tracee *tr, struct frame_state *s);
bool tracee_put(struct tracee *tr, const struct frame_state *s);
bool tracee_regs(struct tracee *tr, struct user_regs_struct *regs);
bool tracee_set_regs(struct tracee *tr, const struct user_regs_struct *regs);
bool tracee_set_mask(struct tracee *tr, uint64_t mask);
bool tracee_poke(struct tracee *tr, uint64_t addr, const void *bytes, size_t n);

/* ---- moment.c: may this thread call the loader now? ---- */

/* NULL: it may; otherwise why not, for people. */
const char *moment_hindrance(struct places *p, pid_t tid,
                             const struct frame_state *s);
/* A thread (its own number) that is in the dynamic loader; 0: none is. */
pid_t moment_loader_owner(struct places *p);

/* ---- remote.c: what a held thread is made to do ---- */

struct remote {
  struct places *at;
  struct tracee tr;
  struct frame_state own; /* where the thread was */
  struct frame frame;     /* the same, on its stack */
  bool moved;             /* its registers are ours now */
};

/* The thread is stopped and own is filled.  RESULT_UNSUPPORTED: its stack has
 * no room for the frame. */
enum result remote_begin(struct remote *r, struct error *e);
/* *ret is what the kernel returned: negative errno values as such. */
enum result remote_syscall(struct remote *r, long number, const uint64_t arg[6],
                           int64_t *ret, struct error *e);
struct remote_call {
  uint64_t function, a, b;
  uint64_t stack_end;   /* of a stack for it; 0: the thread's own, for functions
                           that need next to none */
  uint64_t deadline_ns; /* 0: soon */
};
/* ret: for a function that returns a pointer; NULL: what it returns is lost.
 * BUSY: it did not come back in time, and may still be running. */
enum result remote_call(struct remote *r, const struct remote_call *call,
                        uint64_t *ret, struct error *e);
/* Everything back to where it was, and let go. */
void remote_end(struct remote *r);
/* Let go as it is: it comes back by itself. */
void remote_leave(struct remote *r);

#endif
