/* SPDX-License-Identifier: MIT
 *
 * The segment: what the agent inside a game and a collector outside it share.
 *
 * One anonymous memory file (memfd, mode 0600, sealed against shrinking) that
 * lives exactly as long as the game.  It is named TECS_SEGMENT_NAME, so a
 * reader finds it from the pid alone among /proc/<pid>/fd.
 *
 * Rules of the format
 *  - fixed-width types only, little endian, every structure padded to a
 *    multiple of 8 bytes and every section to a multiple of 64;
 *  - no pointers into the segment: places are offset + count;
 *  - one writer for each field, named in its comment;
 *  - a reader checks every offset, count and length that it did not write,
 *    additions included, before it is used;
 *  - unknown section tags, record types and trailing record bytes are skipped.
 *
 * A change that an older reader survives raises TECS_ABI_MINOR, any other
 * raises TECS_ABI_MAJOR.
 */
#ifndef TECS_ABI_H
#define TECS_ABI_H

#include <stdint.h>

#define TECS_SEGMENT_NAME "tecs-agent"

#define TECS_ABI_MAGIC UINT64_C(0x1a47455353434554) /* "TECSSEG\x1a" */
#define TECS_ABI_ENDIAN UINT32_C(0x01020304)
#define TECS_ABI_MAJOR 1
#define TECS_ABI_MINOR 4
#define TECS_ABI_OLDEST 1 /* oldest major whose readers understand this */

#define TECS_SLOTS 128          /* threads sampled at the same time */
#define TECS_RING_BYTES 262144u /* a power of two */
#define TECS_VMS 64             /* VMs known at the same time */
#define TECS_SECTIONS 8

/* What the agent is doing, and why it does nothing (header.state). */
enum tecs_state {
  TECS_STATE_STARTING = 0,
  TECS_STATE_READY = 1, /* samples when asked */
  TECS_STATE_OFF = 2,   /* header.reason says why */
};

enum tecs_reason {
  TECS_REASON_NONE = 0,
  TECS_REASON_SIGNAL_TAKEN = 1, /* a handler could not be installed */
  TECS_REASON_NO_MEMORY = 2,
  /* in state READY: the agent works, but did not do what TECS_AGENT asks for */
  TECS_REASON_BAD_ENV = 3,      /* it can't be understood */
  TECS_REASON_NO_COLLECTOR = 4, /* tecs-attach was not found or not started */
};

/* What is wrong with the setting that header.fault_at names (BAD_ENV). */
enum tecs_fault {
  TECS_FAULT_NONE = 0,     /* not told: before minor 3 */
  TECS_FAULT_UNKNOWN = 1,  /* there is none of that name */
  TECS_FAULT_VALUE = 2,    /* its value is missing, out of range or no value */
  TECS_FAULT_NO_START = 3, /* all are good, but `start` is missing */
  TECS_FAULT_TOO_LONG = 4, /* TECS_AGENT as a whole */
};

enum tecs_agent_flag {
  TECS_AGENT_LATE = 1u << 0, /* loaded into the running process: stands behind
                                everything that was bound before */
};

enum tecs_section_tag {
  TECS_SECTION_CONTROL = 1,    /* struct tecs_control, one */
  TECS_SECTION_VMS = 2,        /* struct tecs_vm, TECS_VMS of them */
  TECS_SECTION_SLOTS = 3,      /* struct tecs_slot, TECS_SLOTS of them */
  TECS_SECTION_RINGS = 4,      /* bytes, one ring for each slot */
  TECS_SECTION_ABORTS = 5,     /* struct tecs_aborts, one */
  TECS_SECTION_ABORT_ROWS = 6, /* struct tecs_abort, TECS_ABORT_ROWS */
  TECS_SECTION_LOG = 7,        /* struct tecs_log, one; since minor 3 */
};

struct tecs_section {
  uint32_t tag; /* enum tecs_section_tag */
  uint32_t reserved;
  uint64_t offset; /* from the start of the segment */
  uint64_t size;   /* stride * count at least */
  uint32_t stride; /* bytes of one element */
  uint32_t count;
};

/* At offset 0.  Written by the agent before it is published, then constant
 * apart from state, reason and, before reason, fault. */
struct tecs_header {
  uint64_t magic; /* TECS_ABI_MAGIC, stored last */
  uint32_t endian;
  uint16_t word_bytes; /* 8 */
  uint16_t major;
  uint16_t oldest;
  uint16_t minor;
  uint32_t header_size;  /* sizeof(struct tecs_header) */
  uint64_t segment_size; /* of the agent's mapping; the file is shorter until a
                            collector backs the rings */
  uint32_t pid;          /* in the game's own pid namespace */
  uint32_t uid;
  uint64_t start_time; /* /proc/<pid>/stat field 22, clock ticks since boot */
  uint32_t cookie;     /* upper half of every tick's signal value */
  uint32_t section_count;
  uint32_t state;     /* enum tecs_state */
  uint32_t reason;    /* enum tecs_reason */
  uint32_t flags;     /* enum tecs_agent_flag */
  uint32_t fault;     /* enum tecs_fault */
  uint32_t fault_at;  /* the setting, as bytes of TECS_AGENT's value */
  uint32_t fault_len; /* at the program's start */
  uint64_t reserved[2];
  char build[32]; /* version of the agent, NUL-terminated */
  struct tecs_section section[TECS_SECTIONS];
};

/* In a tick's value instead of a slot: trace_session has changed. */
#define TECS_TICK_TRACE 0xffffu

enum tecs_control_flag {
  TECS_CONTROL_NO_STACK = 1u, /* leave the native stack out of samples */
};

/* Written by the collector, apart from paused and stop: anyone who steers the
 * session (another tecs-attach, the game through tecs.utils.profile). */
struct tecs_control {
  uint32_t session;       /* 0: none; otherwise new for every session */
  uint32_t owner;         /* collector's pid, in its own namespace */
  uint64_t owner_start;   /* its start time: a dead owner is recognised */
  uint32_t rings_backed;  /* rings [0, n) have memory behind them */
  uint32_t flags;         /* enum tecs_control_flag */
  uint32_t stack_max;     /* bytes of native stack copied per sample, at most */
  uint32_t depth_max;     /* Lua frames per sample, at most */
  uint32_t paused;        /* 1: ticks give no samples; 0 at a session's start */
  uint32_t stop;          /* 1: the session is asked to end and write */
  uint64_t vm;            /* only threads that run this VM (g); 0: all */
  uint32_t trace_session; /* as session, of the trace-abort session */
  uint32_t trace_owner;   /* its collector's pid; the game's own: the game */
  uint32_t trace_paused;
  uint32_t trace_stop;
};

enum tecs_vm_state {
  TECS_VM_FREE = 0,
  TECS_VM_LIVE = 1,
  TECS_VM_UNKNOWN = 2, /* a LuaJIT VM whose layout this agent does not know */
  TECS_VM_CLAIMED = 3, /* being filled in */
};

/* A LuaJIT VM that the agent found.  Written by the agent. */
struct tecs_vm {
  uint32_t state;  /* enum tecs_vm_state, stored last */
  uint32_t layout; /* index into the layouts of vmcore; UINT32_MAX unknown */
  uint64_t g;      /* global_State */
  uint64_t asm_pc; /* an address in the interpreter's machine code */
  uint64_t asm_lo; /* bounds of that code as far as the dispatch table shows */
  uint64_t asm_hi;
  uint32_t tid;        /* thread that was seen running it first */
  uint32_t found;      /* enum tecs_vm_found */
  uint64_t zone_table; /* table of the loaded jit.zone, 0 when unknown */
  uint32_t events;     /* enum tecs_vm_event */
  uint32_t replaced_s; /* CLOCK_MONOTONIC, seconds: REPLACED since then */
};

/* What hears this VM's "trace" events; 0: no Lua API to install with. */
enum tecs_vm_event {
  TECS_VM_LISTENING = 1u << 0, /* the agent's listener, whoever else does */
  TECS_VM_REPLACED = 1u << 1,  /* the game put another in its place, past
                                  jit.attach; LISTENING only when that one
                                  calls ours */
  TECS_VM_WITHDRAWN = 1u << 2, /* a fault of LuaJIT's own would kill while
                                  somebody listens: the VM's thread blocks
                                  SIGSEGV, or takes it on too small a stack */
  TECS_VM_WAITING = 1u << 3,   /* an agent that came late waits for a moment at
                                  which the Lua API may be called; since minor
                                  4 */
};

enum tecs_vm_found {
  TECS_FOUND_API = 1,    /* luaL_newstate, luaL_openlibs, lua_newstate */
  TECS_FOUND_GETENV = 2, /* while the package library opened */
  TECS_FOUND_SCAN = 3,   /* registers or stack of a sampled thread */
};

/* One per sampled thread.  The collector owns the life cycle: it sets tid and
 * generation, then sends ticks that carry the slot's index. */
struct tecs_slot {
  /* written by the collector */
  uint32_t tid;        /* 0: free; in the game's own pid namespace */
  uint32_t generation; /* new for every assignment: the agent starts afresh */
  uint64_t tail;       /* bytes consumed, ever growing */
  uint64_t collector_reserved[6];
  /* written by the agent */
  uint64_t head;  /* bytes produced, ever growing, record aligned */
  uint64_t calls; /* ticks that reached the handler */
  uint64_t lost;  /* of them: ring full */
  uint32_t generation_seen;
  uint32_t fault_count; /* guarded loads that faulted */
  uint64_t agent_reserved[4];
};

/* ---- Trace aborts: totals and rows, counted by the agent ---- */

#define TECS_ABORT_ROWS 16384u /* memory behind them comes as they fill */

enum tecs_severity {
  TECS_SEVERITY_INFO = 1,
  TECS_SEVERITY_WARN = 2,
  TECS_SEVERITY_BLACKLIST = 3,
};

/* Written by the agent.  All of it belongs to one session: the agent empties
 * the table and sets session at the first event that it meets in a new one.  A
 * reader that finds another number there: no event yet, everything is 0. */
struct tecs_aborts {
  uint32_t session; /* control.trace_session of these numbers; stored last */
  uint32_t rows;    /* in use: [0, rows) */
  uint64_t starts;  /* traces begun */
  uint64_t stops;   /* traces completed */
  uint64_t aborts;  /* all, benign ones included */
  uint64_t flushes;
  uint64_t overflow;   /* aborts that found no free row */
  uint64_t blacklists; /* aborts of severity blacklist */
  uint64_t reserved;
};

/* One distinct (reason, location, zone).  Texts are UTF-8 without control
 * bytes other than tab, LF and CR, not NUL-terminated; cut ones have "..." in
 * place of what is left out (of a location, its line is always whole). */
struct tecs_abort {
  uint32_t state;    /* 0 free, 1 being filled in, 2 in use; stored last */
  uint32_t severity; /* enum tecs_severity: the worst seen */
  uint64_t count;
  uint64_t pt;        /* prototype being recorded at the abort, last seen */
  uint32_t firstline; /* of that prototype */
  uint32_t numline;
  uint16_t reason_len, location_len, zone_len, reserved16;
  char reason[128];
  char location[256];
  char zone[216];
};

/* ---- The record log: which bytecode traces were recorded from ---- */

#define TECS_LOG_BYTES 4194304u       /* a power of two; oldest logs go first */
#define TECS_LOG_BUCKETS 4096u        /* a power of two */
#define TECS_LOG_EVENTS_MAX 8192u     /* of one trace; more: it has no log */
#define TECS_LOG_PROTOS_MAX 1024u     /* likewise */
#define TECS_LOG_START TECS_LOG_BYTES /* position of the first log; 0: none */
#define TECS_LOG_NO_PROTO UINT16_MAX

enum tecs_log_state {
  TECS_LOG_NONE = 0,      /* no VM, or one without a JIT */
  TECS_LOG_ON = 1,        /* traces that are made now get a log */
  TECS_LOG_OFF = 2,       /* TECS_AGENT has log=off */
  TECS_LOG_REPLACED = 3,  /* the game put a handler of its own over ours */
  TECS_LOG_WITHDRAWN = 4, /* as TECS_VM_WITHDRAWN */
  TECS_LOG_UNSAFE = 5,    /* a LuaJIT without GC64, which a fault of its own
                             could keep from going on while we listen */
};

/* Of the VM in the same place of section VMS; g 0: it has no Lua API to listen
 * with. */
struct tecs_log_vm {
  uint64_t g;       /* 0: none; stored last */
  uint64_t floor;   /* logs at positions below it have been dropped: of traces
                       that were flushed, or of an earlier VM */
  uint32_t state;   /* enum tecs_log_state */
  uint32_t since_s; /* CLOCK_MONOTONIC, seconds: in this state since then */
  uint64_t logged;  /* traces that got a log in this VM */
  uint64_t missed;  /* and that did not although we listened: too long, or the
                       area was taken by another thread for too long */
  uint64_t reserved[3];
};

/* Written by the agent.  A position is a count of bytes that only grows; what
 * is at position p stands in bytes[p % TECS_LOG_BYTES], and is whole as long as
 * tail <= p < head: a reader looks at tail afterwards, too.  Logs are chained
 * by bucket (tecs_log_bucket), the newest first; positions fall along a chain,
 * and one below tail ends it. */
struct tecs_log {
  uint64_t head;
  uint64_t tail;
  uint64_t backed; /* of bytes: [0, backed) have memory behind them */
  uint64_t reserved[5];
  struct tecs_log_vm vm[TECS_VMS];
  uint64_t bucket[TECS_LOG_BUCKETS]; /* positions; 0: none */
  uint8_t bytes[TECS_LOG_BYTES];
};

/* A log; 8-aligned, never across the end of bytes.  nproto tecs_log_proto and
 * nevent tecs_log_event follow.  Of several of one VM and traceno, only the
 * newest is of use, and only when it is not dropped and mcode and szmcode are
 * those of the trace (lj_jit.h, GCtrace). */
struct tecs_log_trace {
  uint32_t len;      /* all of it, a multiple of 8 */
  uint32_t dropped;  /* 1: the trace's number is being used anew */
  uint64_t position; /* its own */
  uint64_t prev;     /* position of the next older one in its bucket; 0: none */
  uint64_t g;
  uint64_t mcode;
  uint32_t szmcode;
  uint32_t traceno;
  uint32_t nproto;
  uint32_t nevent;
  uint64_t reserved;
};

/* A prototype that was recorded in, as it was when it was recorded. */
struct tecs_log_proto {
  uint64_t addr; /* of the GCproto */
  uint32_t firstline;
  uint32_t sizebc; /* instructions, the header (0) included */
};

/* A recorded bytecode: what a listener of the event "record" sees before it
 * (lj_trace.c, trace_state), in the order of recording. */
struct tecs_log_event {
  uint32_t pc;    /* index of the bytecode in its prototype */
  uint16_t ref;   /* J->cur.nins: the first IR reference that it may use */
  uint16_t depth; /* J->framedepth */
  uint16_t proto; /* index of its tecs_log_proto; TECS_LOG_NO_PROTO: the header
                     of a builtin, outside all prototypes, pc 0 */
  uint16_t reserved;
};

static inline uint32_t tecs_log_bucket(uint64_t g, uint32_t traceno)
{
  uint64_t h = (g ^ traceno) * UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)(h >> 40) & (TECS_LOG_BUCKETS - 1);
}

/* ---- Records in a ring: 8-aligned, never across the ring's end ---- */

enum tecs_record_type {
  TECS_RECORD_PAD = 0, /* skip to the ring's start */
  TECS_RECORD_SAMPLE = 1,
  TECS_RECORD_PROTO = 2,
  TECS_RECORD_STRING = 3,
  TECS_RECORD_MCODE = 4,
  TECS_RECORD_BYTECODE = 5,
  TECS_RECORD_TRACE = 6,
};

struct tecs_record {
  uint32_t len; /* of the whole record, a multiple of 8, this included */
  uint16_t type;
  uint16_t flags;
};

enum tecs_native_form {
  TECS_NATIVE_NONE = 0,
  TECS_NATIVE_STACK = 1, /* registers and stack bytes: to be unwound */
  TECS_NATIVE_ADDRS = 2, /* struct tecs_native, innermost first */
};

enum tecs_sample_flag {
  TECS_SAMPLE_FAULT = 1u << 0,     /* a guarded load faulted */
  TECS_SAMPLE_SYSCALL = 1u << 1,   /* interrupted in a system call */
  TECS_SAMPLE_STACK_CUT = 1u << 2, /* stack_max ended the copy */
  TECS_SAMPLE_ZONES_CUT = 1u << 3, /* there is a TECS_ZONE_GAP */
  TECS_SAMPLE_PAUSED = 1u << 4, /* control.paused was set: not to be counted */
  TECS_SAMPLE_ASLEEP = 1u << 5, /* read from outside: of the registers, only the
                                   stack pointer and the pc are known */
};

/* x86-64 registers in DWARF numbering, then the return address column. */
enum { TECS_REGS = 17, TECS_REG_RSP = 7, TECS_REG_RIP = 16 };

/* Followed by vm_count tecs_sample_vm (innermost VM first), lua_count
 * tecs_frame (innermost first, all VMs in that order), zone_count tecs_zone
 * (native ones, then those of the VMs, innermost VM first; each outermost
 * first), then the native part. */
struct tecs_sample {
  struct tecs_record rec;
  uint64_t time_ns; /* CLOCK_MONOTONIC */
  uint32_t tid;
  uint32_t seq;     /* tick number within the slot's generation */
  uint32_t flags;   /* enum tecs_sample_flag */
  uint32_t cost_ns; /* spent in the handler */
  uint8_t native_form;
  uint8_t vm_count;
  uint16_t lua_count;
  uint16_t zone_count;
  uint16_t native_count; /* TECS_NATIVE_ADDRS */
  uint32_t stack_len;    /* TECS_NATIVE_STACK: bytes, a multiple of 8 */
  uint32_t outer_len;    /* the same of the stack that was left for a signal
                            handler's alternate one; 0: none was */
  uint64_t stack_base;   /* address of the first of stack_len: at rsp, or up to
                            128 bytes below it, the red zone */
  uint64_t outer_base;   /* and of outer_len, which follow them */
  uint64_t reg[TECS_REGS]; /* at the interruption */
};

enum tecs_vm_class {
  TECS_CLASS_NONE = 0,
  TECS_CLASS_VMASM = 1,      /* in the interpreter's machine code */
  TECS_CLASS_TRACE = 2,      /* in a trace */
  TECS_CLASS_TRACE_C = 3,    /* in C called from a trace */
  TECS_CLASS_TRACE_EXIT = 4, /* jit_base set, trace not found */
  TECS_CLASS_C = 5,          /* in C called from the interpreter */
  TECS_CLASS_OUTER = 6,      /* not the innermost VM of this thread */
};

/* Why a Lua walk ended before the bottom of the stack; 0: it did not. */
enum tecs_walk_error {
  TECS_WALK_OK = 0,
  TECS_WALK_NO_THREAD = 1, /* no running lua_State to start from */
  TECS_WALK_BAD_FRAME = 2, /* frame pointer outside the Lua stack */
  TECS_WALK_NOT_FUNC = 3,  /* slot holds no function */
  TECS_WALK_BAD_PROTO = 4,
  TECS_WALK_BAD_PC = 5, /* return pc outside its function */
  TECS_WALK_BAD_LINK = 6,
  TECS_WALK_BAD_BASE = 7,
  TECS_WALK_NO_SNAPSHOT = 8,
  TECS_WALK_NO_PARENT = 9, /* coroutine whose resumer is not found */
  TECS_WALK_DEPTH = 10,    /* depth_max reached: cut, not wrong */
  TECS_WALK_INTERN = 11,   /* a name could not be recorded */
};

enum tecs_sample_vm_flag {
  TECS_SAMPLE_VM_TRACE = 1u << 0, /* the last TRACE record before this sample
                                     with this g and trace is an image of it */
};

struct tecs_sample_vm {
  uint64_t g;
  uint64_t L;
  uint64_t cframe;   /* innermost C frame of L, flag bits removed */
  uint64_t mcode_pc; /* pc within the trace, 0 outside */
  int32_t vmstate;
  uint32_t layout;
  uint16_t trace;
  uint16_t snapshot;
  uint8_t vm_class; /* enum tecs_vm_class */
  uint8_t rule;     /* how the leaf frame was found, vmcore/walk.c */
  uint8_t error;    /* enum tecs_walk_error */
  uint8_t flags;    /* enum tecs_sample_vm_flag */
};

enum tecs_frame_kind {
  TECS_FRAME_LUA = 1,    /* value: prototype id; pc: bytecode position */
  TECS_FRAME_C = 2,      /* value: address of the C function; pc: ffid */
  TECS_FRAME_CFRAME = 3, /* value: address of the C frame that the frames
                            since the previous one of these ran on */
  TECS_FRAME_LOST = 4,   /* a frame that could not be read */
};

enum tecs_frame_flag {
  TECS_FRAME_INLINED = 1u << 0, /* known from a trace's snapshot only */
};

struct tecs_frame {
  uint64_t value;
  uint32_t pc; /* 1 + index of the current instruction; 0: unknown */
  uint8_t kind;
  uint8_t flags;
  uint8_t vm; /* index into the sample's VMs */
  uint8_t reserved;
};

enum tecs_zone_kind {
  TECS_ZONE_STRING = 1, /* value: string id */
  TECS_ZONE_NUMBER = 2, /* value: bits of a double */
  TECS_ZONE_OTHER = 3,  /* value: LuaJIT's internal type tag */
  TECS_ZONE_GAP = 4,    /* value: how many zones are left out in this place */
};

#define TECS_ZONE_NATIVE UINT32_MAX /* pushed by native code: tecs/zone.h */

struct tecs_zone {
  uint64_t value;
  uint32_t kind;
  uint32_t vm; /* index into the sample's VMs, or TECS_ZONE_NATIVE */
};

struct tecs_native {
  uint64_t ip;
  uint64_t cfa;
};

/* Ids are per slot generation; the image precedes its first use unless it did
 * not fit (then the sample carries TECS_FRAME_LOST instead). */
struct tecs_string {
  struct tecs_record rec;
  uint32_t id;
  uint32_t full_len; /* of the string in the game */
  uint32_t len;      /* bytes that follow, its first ones */
  uint32_t reserved;
};

enum tecs_proto_flag {
  TECS_PROTO_LINES = 1u << 0,      /* line table follows */
  TECS_PROTO_LINES_CUT = 1u << 1,  /* it was too long to be carried */
  TECS_PROTO_NAME_KNOWN = 1u << 2, /* the source's name, or that it has none */
  TECS_PROTO_CHUNK_TAIL = 1u << 3, /* chunk name cut: its first byte and tail */
};

/* Image of a prototype: chunk name, name, line table follow, each padded to a
 * multiple of 8. */
struct tecs_proto {
  struct tecs_record rec;
  uint32_t id;
  uint32_t flags;
  uint64_t addr; /* of the GCproto */
  uint64_t g;
  uint32_t firstline;
  uint32_t numline;
  uint32_t sizebc;      /* instructions */
  uint32_t opcode_hash; /* FNV-1a over the opcode bytes */
  uint32_t chunk_len;   /* bytes of chunk name that follow */
  uint32_t name_len;    /* bytes of function name that follow */
  uint32_t lines_len;   /* bytes of line table that follow */
  uint32_t line_width;  /* 1, 2 or 4: of one entry of it */
};

struct tecs_range {
  uint64_t lo;
  uint64_t hi;
};

/* Machine code areas of a VM's traces, sent when they change; count
 * tecs_range follow. */
struct tecs_mcode {
  struct tecs_record rec;
  uint64_t g;
  uint32_t count;
  uint32_t reserved;
};

/* Bytecode and constants of a prototype that a trace may have run through, once
 * per slot generation: nbc instructions (4 bytes each, header first; loops that
 * the JIT has patched are as they were before), nkn numbers and nkgc addresses
 * of objects (8 bytes each), each part padded to a multiple of 8. */
struct tecs_bytecode {
  struct tecs_record rec;
  uint32_t proto; /* id */
  uint32_t nbc;
  uint64_t bcaddr; /* of the first instruction */
  uint32_t nkn;
  uint32_t nkgc;
};

/* SnapShot, what is needed of it. */
struct tecs_snap {
  uint32_t mapofs;
  uint16_t ref;
  uint16_t mcofs; /* 0 in versions without */
  uint8_t nent;
  uint8_t reserved[3];
};

enum tecs_trace_object_kind {
  TECS_TRACE_FUNC = 1, /* a function object */
  TECS_TRACE_PROTO = 2 /* a prototype */
};

/* What a trace refers to. */
struct tecs_trace_object {
  uint64_t addr;
  uint32_t proto; /* id; 0: a C function or builtin */
  uint8_t kind;   /* enum tecs_trace_object_kind */
  uint8_t ffid;   /* of a builtin; 0: Lua, 1: a C function of the program */
  uint8_t reserved[2];
};

/* Image of a GCtrace, sent when a slot's sample is in one that it has not met:
 * machine code, IR (8 bytes for each of [nk, nins)), nsnap tecs_snap, nsnapmap
 * snapshot entries of 4 bytes, nobject tecs_trace_object, each part padded to a
 * multiple of 8.  Names of fields are LuaJIT's (lj_jit.h, GCtrace). */
struct tecs_trace {
  struct tecs_record rec;
  uint64_t g;
  uint64_t mcode;
  uint32_t szmcode;
  uint32_t layout; /* index into the layouts of vmcore */
  uint32_t nk, nins;
  uint32_t nsnap, nsnapmap;
  uint32_t nobject;
  uint32_t startproto; /* id of startpt */
  uint32_t startindex; /* of the bytecode at startpc */
  uint16_t traceno, link, root;
  uint8_t linktype;
  uint8_t reserved;
  uint32_t reserved32;
  uint64_t log; /* position of its record log (struct tecs_log); 0: none */
};

#endif
