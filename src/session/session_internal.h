/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of this room only.
 */
#ifndef SESSION_SESSION_INTERNAL_H
#define SESSION_SESSION_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "session/session.h"
#include "shm/shm.h"
#include "symbols/symbols.h"
#include "unwind/unwind.h"
#include "vm/vm.h"
#include "vmcore/mem.h"

#define MS UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

/* ---- threads.c: which threads there are, and which of them run ---- */

struct thread {
  pid_t tid;
  int schedstat; /* kept open; -1: not yet */
  int stat;
  bool no_schedstat; /* this kernel has none: state alone decides */
  bool running;      /* when last looked at */
  char last[64];     /* text of schedstat */
  uint64_t active;   /* time of the last look that found it changed */
  int slot;          /* -1: none */
  bool gave;         /* a sample, through a slot it no longer has */
  struct sleep {     /* mode wall */
    char since[64];  /* schedstat as it was then; "": not known */
    bool ended;      /* it has no stack any more */
    bool kept;       /* in the profile; else filtered */
    size_t stack;    /* of the profile */
    unsigned vms;    /* that were known then */
    uint64_t stack_lo, stack_hi; /* mapping that its stack lies in */
  } sleep;
  uint64_t held;    /* by its samples; no tick has been moved or left out for
                       it yet */
  unsigned blocked; /* times in a row it was found to block the signal */
  uint64_t blocked_at;
};

struct threads {
  struct thread *v;
  size_t count, cap;
  struct target_tids tids; /* scratch of the scan */
  unsigned long mark;
  uint64_t scanned;
};

enum gate {
  GATE_IDLE = 0,
  GATE_RUN = 1,
  GATE_GONE = 2,
};

void thread_init(struct thread *th, pid_t tid, uint64_t now);
void thread_close(struct thread *th);
/* One look.  Costs one small read for a thread that has not run since. */
enum gate thread_gate(struct target *t, struct thread *th, uint64_t now);
/* Every how many ticks an idle thread is looked at. */
unsigned threads_idle_divisor(size_t idle, uint64_t interval_ns);
/* Text of schedstat now; false: it can't be read. */
bool thread_schedstat(struct target *t, struct thread *th, char text[64]);
bool thread_is_idle(const struct thread *th, uint64_t now);

/* ---- slots.c: slots of the segment, and what was sent to each ---- */

struct slot {
  pid_t tid; /* 0: free; as the collector sees it */
  uint32_t generation;
  uint64_t sent;
  uint64_t given_up; /* of the sent: consumed, but not by the agent */
  uint64_t sent_at;
  uint64_t waiting; /* mode wall: ticks since the last signal was sent, in which
                       it had not arrived: the thread waits for a CPU */
  uint64_t named;
  uint32_t largest; /* record so far, in bytes */
  bool gave;        /* a sample */
  char root[64];    /* frame that stands for the thread */
};

/* One more than the segment has: for threads that are read from outside. */
#define SLOT_WALL TECS_SLOTS

/* ---- drain.c ---- */

struct vm_info {
  uint64_t g;
  uint64_t asm_pc, table_lo, table_hi; /* as the agent says */
  uint64_t lo, hi;                     /* as the unwind table says */
  bool live;
};

/* ---- session.c ---- */

/* What stays over an exec is outside; one part is one program image. */
struct session;

/* How samples are taken: agent.c, remote.c.  Both fill rings of s->shm; what
 * follows is the same. */
struct engine {
  bool by_signal; /* a thread that blocks the signal can't be sampled */
  /* Takes the one session of the process: s->shm, s->claimed. */
  enum result (*open)(struct session *s);
  /* Gives it back, also after a failed open. */
  void (*close)(struct session *s);
  /* Does the process still run the program of this part?  Cheap. */
  bool (*same_image)(struct session *s);
  /* A sample of a thread that has a slot and owes none; false: it is gone. */
  bool (*sample)(struct session *s, struct thread *th, uint64_t now);
  /* Whatever is due besides ticks, on every round of the loop; returns when the
   * next round must be, UINT64_MAX: no matter.  NULL: nothing. */
  uint64_t (*attend)(struct session *s, uint64_t now);
  /* Last resort: looks for VMs that nothing has led to.  NULL: there are none.
   */
  void (*search)(struct session *s);
};
extern const struct engine engine_agent, engine_remote;

struct session {
  const struct engine *engine;
  struct remote *remote; /* of engine_remote */
  struct target *t;
  const struct session_options *o;
  struct session_account *acc;
  struct profile *p;
  const volatile sig_atomic_t *stop;
  struct error *e;

  uint64_t start, end; /* CLOCK_MONOTONIC; end UINT64_MAX: none */
  bool paused;
  uint64_t paused_since, paused_ns; /* ended pauses */
  uint64_t cpu_start;
  uint64_t random;

  struct shm shm;
  uint32_t cookie;
  bool claimed;
  struct modules *modules;
  struct unwinder *unwinder;
  struct vm_store *vm;
  struct unwind_stack *stack;
  struct threads threads;
  struct slot slot[TECS_SLOTS + 1];
  struct vm_info vms[TECS_VMS];
  struct unwind_vm unwind_vm[UINT8_MAX]; /* vm_count is 8 bits wide */
  unsigned rings;                        /* backed */

  struct wall *wall; /* NULL: threads on a CPU only */

  uint64_t next_tick, tick_grid; /* when, and the grid point it belongs to */
  uint64_t tick_number;
  uint64_t next_drain, next_alive, next_segment, next_second, next_wait;
  uint64_t next_refresh; /* of the modules, not before */
  unsigned drain_first;
  size_t idle;
  enum result failed; /* a tick met an error that ends the session */

  bool image_gone; /* seen while the maps were read */

  char comm[16];
  uint64_t wait_start;
  bool waiting; /* no VM yet */
  unsigned wait_round;
  bool has_luajit;
};

/* ---- segment.c ---- */

/* Waits a moment for the state READY.  NOAGENT. */
enum result segment_wait_ready(struct target *t, const struct shm *shm,
                               const volatile sig_atomic_t *stop,
                               struct error *e);
/* A program that was started a moment ago may still be before the agent's
 * constructor, or in it: then its segment is not whole yet.  How long to try,
 * and, after a pause, whether to try again. */
uint64_t segment_patience(struct target *t);
bool segment_is_early(struct target *t, enum result r, uint64_t give_up);
/* The lock that the holder of a session has: until shm_detach, or its death. */
bool segment_lock(const struct shm *shm, enum session_kind kind);
bool segment_locked(const struct shm *shm, enum session_kind kind);

/* ---- agent.c ---- */

/* Sends a tick whose value's lower half is `low`, to one thread. */
long tick_send(struct target *t, uint32_t cookie, pid_t tid, uint32_t low);

/* ---- beacon.c: one session on a process without an agent ---- */

struct beacon {
  int fd; /* listens; -1: not */
  int client;
  unsigned patience; /* with the client */
};
/* BUSY: somebody has it; the text names the owner.  IO. */
enum result beacon_open(struct beacon *b, struct target *t, struct error *e);
void beacon_close(struct beacon *b);
/* Does what a caller asks for, through control. */
void beacon_answer(struct beacon *b, struct tecs_control *c);

/* ---- steer.c ---- */

/* Follows what control says; true: the session is asked to end. */
bool steer_follow(struct session *s, uint64_t now);
/* Time that the session was not paused. */
uint64_t steer_elapsed(const struct session *s, uint64_t now);
/* Not asked for: taken in a pause, or in another VM.  Counted here. */
bool steer_drops(struct session *s, const struct sample_view *v);

/* ---- outside.c: the VM's memory, read while it runs ---- */

#define OUTSIDE_PAGE UINT64_C(4096)
#define OUTSIDE_PAGES 32u

/* Pages that were read are kept as long as this. */
struct outside {
  struct vm_mem mem;
  struct target *target;
  struct outside_page {
    uint64_t number; /* address / OUTSIDE_PAGE */
    bool readable;
    uint8_t bytes[OUTSIDE_PAGE];
  } page[OUTSIDE_PAGES];
};
struct vm_mem *outside_open(struct outside *o, struct target *t);
/* Fills in what the VM's memory says. */
void outside_look(struct vm_mem *m, struct session_vm *vm);

/* ---- pages.c: memory of a process that stands still ---- */

#define PAGES_MAX 512u /* at the same time; what is beyond cannot be read */
#define PAGES_KEPT 96u /* pages whose numbers are told */

struct pages;
struct pages *pages_new(struct target *t); /* NULL: no memory */
void pages_free(struct pages *p);
/* It has run since: nothing is known. */
void pages_begin(struct pages *p);
/* Pages that will be needed; pages_read reads them at once. */
void pages_want(struct pages *p, uint64_t addr, uint64_t len);
void pages_want_again(struct pages *p, const uint64_t *number, unsigned n);
void pages_read(struct pages *p);
/* Sets m up to read through p. */
void pages_mem(struct pages *p, struct vm_mem *m);
/* Up to n bytes; returns how many could be read. */
size_t pages_copy(struct pages *p, void *to, uint64_t from, size_t n);
/* Numbers (address / 4096) of pages that were asked for since pages_begin;
 * returns how many. */
unsigned pages_used(const struct pages *p, uint64_t number[PAGES_KEPT]);

/* ---- penalty.c ---- */

/* Adds rows of the sources PENALTY and, with objects, BYTECODE.  GONE: there is
 * no such VM any more; NOMEM. */
enum result penalty_read(struct target *t, const struct session_vm *vm,
                         bool objects, struct aborts *into);

/* ---- costs.c ---- */

void costs_add(struct session_account *acc, uint32_t ns);

/* ---- claim.c ---- */

/* Opens the segment, takes the lock that one sampling session holds, and
 * announces the session in control. */
enum result claim_take(struct session *s);
void claim_drop(struct session *s);
/* Writes into control what a session asks for, and announces it. */
void claim_announce(struct session *s);

/* ---- slots.c ---- */

/* Slot for a thread that is about to be signalled; false: none, or failed. */
bool slot_assign(struct session *s, struct thread *th, uint64_t now);
/* Adds the slot's counts to the account and frees it; drain it first. */
void slot_release(struct session *s, unsigned i);
/* May another signal be sent, or is the last one still on its way? */
bool slot_ready(struct session *s, struct thread *th, uint64_t now);
/* Gives it the thread's name. */
void slot_name_root(struct session *s, struct slot *sl);
/* Signals that have neither been answered nor given up. */
uint64_t slot_outstanding(const struct session *s, unsigned i);
/* Anything in the ring? */
bool slot_holds(const struct session *s, unsigned i);
/* Might another record not fit into the ring, if it is like the largest one
 * that was there?  Deep stacks: two in a row would not. */
bool slot_presses(const struct session *s, unsigned i);

/* ---- ticks.c ---- */

void ticks_rescan(struct session *s, uint64_t now);
void ticks_fire(struct session *s, uint64_t now);
/* Sets the next tick after one at `now`; counts the ones left out. */
void ticks_schedule(struct session *s, uint64_t now);
/* Time in which samples held threads is no time of theirs: after each tick, and
 * before each sample (true: this one is left out). */
void ticks_leave_out_held(struct session *s);
bool ticks_are_held(struct session *s, struct thread *th);
void ticks_free(struct session *s);

/* ---- drain.c ---- */

/* Processes what the rings hold until the deadline; a ring that is more than
 * half full does not wait. */
void drain_rings(struct session *s, uint64_t deadline);
void drain_record(struct session *s, unsigned slot,
                  const struct tecs_record *rec);
void drain_slot(struct session *s, unsigned i, uint64_t deadline);
/* Takes over the segment's table of VMs. */
void drain_vms(struct session *s);
/* Maps again, unless done a moment ago.  Whether anything changed. */
bool drain_refresh(struct session *s, uint64_t now);

/* ---- wall.c ---- */

/* For a part whose agent is open; nothing without mode wall. */
enum result wall_open(struct session *s);
void wall_close(struct session *s);
/* A tick of a thread that does not run. */
void wall_tick(struct session *s, struct thread *th);

/* ---- wait.c ---- */

/* NOVM when the wait is over, or when a child has the VM. */
enum result wait_check(struct session *s, uint64_t now);
/* Is there a VM after all, that did not run all the while? */
bool wait_last_resort(struct session *s);
/* The session ends and there was no VM. */
enum result wait_failed(struct session *s, uint64_t now);
enum result wait_name_child(struct session *s, pid_t child, const char *comm);
/* Child of t with a VM in its agent's segment, or (deep) with LuaJIT in its
 * files; 0: none. */
pid_t wait_find_child(struct target *t, bool deep, char comm[16]);

#endif
