/* SPDX-License-Identifier: MIT
 *
 * The Lua module tecs.utils.profile, and the collector that the agent starts
 * for it.  All of it runs on the game's own threads, where the VM's API may be
 * called, never in the handler.
 */
#ifndef AGENT_PROFILE_INTERNAL_H
#define AGENT_PROFILE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent_internal.h"
#include "agent/luaapi.h"

#define PROFILE_MODULE "tecs.utils.profile"
#define PROFILE_INTERVAL_MAX 60000 /* ms; the collector's own limits */
#define PROFILE_DEPTH_MAX 4096
#define PROFILE_ZONE_MAX 4096 /* bytes */

/* ---- profile_text.c: texts in a buffer of the caller; too long ones are cut
 * and stay terminated ---- */

struct text {
  char *buf;
  size_t size, len;
  bool cut;
};
struct text text_in(char *buf, size_t size);
void text_add(struct text *t, const char *s);
void text_add_bytes(struct text *t, const char *s, size_t len);
void text_add_number(struct text *t, uint64_t v, unsigned base);

/* ---- profile_args.c: what a caller passes; raises at the caller's level and
 * names the option ---- */

struct sample_options {
  int interval_ms, depth;
  bool process; /* all VMs */
  char zone[PROFILE_ZONE_MAX + 1];
  bool has_zone;
};
void args_sample(const struct api *api, lua_State *L, struct sample_options *o);
bool args_include_benign(const struct api *api, lua_State *L);
/* Argument 2 of a stop: NULL when there is none. */
const char *args_filename(const struct api *api, lua_State *L,
                          const char *method);
/* Where the caller is, as an error message has it, without the colon. */
void args_place(const struct api *api, lua_State *L, struct text *t);

/* ---- profile_spawn.c: a process that is not the game's child ---- */

/* stdin is empty, fd[0] and fd[1] become stdout and stderr.  The new process
 * has no other descriptor, no signal of ours, its own session, and a parent
 * that is not this process.  environment: without LD_PRELOAD and TECS_AGENT.
 * 0 or an errno; suspends this thread until the program is loaded. */
int spawn(const char *path, char *const argv[], const int fd[2], pid_t *pid);

/* ---- profile_collector.c: tecs-attach, started by us ---- */

struct collector {
  pid_t pid; /* 0: none */
  int pidfd; /* -1: the kernel has none */
  int out;   /* anonymous files that hold its stdout and stderr; -1 */
  int err;
  uint64_t out_inode, err_inode; /* of them: a game that closes everything may
                                    have given the numbers away */
};
#define COLLECTOR_NONE                                                         \
  {                                                                            \
    .pidfd = -1, .out = -1, .err = -1                                          \
  }

/* Path of the program; false: not found, why says so and what helps. */
bool collector_find(char *path, size_t size, struct text *why);
/* Starts it for this process.  Its stdout is an anonymous file; so is its
 * stderr, unless it is to be the game's. */
bool collector_start(struct collector *c, char *const argv[], bool keep_stderr,
                     struct text *why);
bool collector_gone(const struct collector *c);
/* true: it has gone. */
bool collector_wait(const struct collector *c, uint64_t timeout_ns);
void collector_kill(const struct collector *c);
/* What it said when it ended: true, its result is complete; otherwise why not.
 */
bool collector_verdict(const struct collector *c, struct text *why);
/* Size of its result; -1: the game has closed the file. */
int64_t collector_result_size(const struct collector *c);
/* Forgets it: closes what we have of it. */
void collector_forget(struct collector *c);

/* ---- profile_file.c ---- */

/* Complete or not at all: 0 or an errno. */
int file_write(const char *path, const void *data, size_t len);

/* ---- profile_place.c: one session of each kind at a time ---- */

#define PLACE_MAX 160

struct place {
  const char *function, *kind; /* for messages */
  volatile uint32_t id;        /* of the session that has it; 0: free */
  volatile uint32_t last;
  char started[PLACE_MAX]; /* where, or by whom */
};
/* How every session's userdata begins. */
struct session {
  uint32_t id; /* 0: not begun, or ended */
};
/* A new number, which has the place now; 0: it is taken. */
uint32_t place_take(struct place *p);
void place_release(struct place *p);
bool place_is_of(const struct place *p, const struct session *s);
/* Takes the place for a new userdata, which is left on the stack and has no id
 * yet: *id is its.  Raises when it is taken, naming where. */
struct session *place_begin(const struct api *api, lua_State *L,
                            struct place *p, size_t size, uint32_t *id);
/* Argument 1, which must have the place. */
struct session *place_session(const struct api *api, lua_State *L,
                              const struct place *p, const char *method);
/* The methods pause and resume. */
int place_steer(lua_State *L, const struct place *p, bool paused,
                void (*steer)(bool paused));

/* ---- profile_sample.c ---- */
int profile_sample(lua_State *L);
int sample_stop(lua_State *L);
int sample_pause(lua_State *L);
int sample_resume(lua_State *L);
int sample_gc(lua_State *L);
void sample_forked(void);
/* The session that TECS_AGENT asked for takes the one place there is; false: it
 * is taken. */
bool sample_claim_autostart(struct collector **c);
void sample_drop_autostart(void);

/* ---- profile_trace.c ---- */
int profile_trace(lua_State *L);
int trace_stop(lua_State *L);
int trace_pause(lua_State *L);
int trace_resume(lua_State *L);
int trace_gc(lua_State *L);
void trace_forked(void);

/* ---- profile_unheard.c: VMs whose aborts such a session missed ---- */

/* A session begins. */
void unheard_begin(void);
/* Pushes an array of texts, one for each VM: why nothing hears it. */
void unheard_push(const struct api *api, lua_State *L);

/* ---- profile_module.c ---- */

/* Sessions are userdata: upvalue 1 of every function here that is called from
 * Lua is the metatable of its kind of session. */
void *session_new(const struct api *api, lua_State *L, size_t size);
/* Argument 1, or an error that names the method. */
void *session_check(const struct api *api, lua_State *L, const char *method);

/* ---- for install.c and init.c ---- */

/* Are all functions there that the module calls? */
bool profile_usable(const struct api *api);
/* require "tecs.utils.profile" */
int profile_open(lua_State *L);
/* Reads TECS_AGENT; in the constructor. */
void profile_autostart_read(void);
/* In a child by fork: what does not hold there any more. */
void profile_autostart_forked(void);
/* Starts what TECS_AGENT asks for, once; when a VM has come up. */
void profile_autostart(void);
/* VM g is about to be closed. */
void unheard_vm_closes(uint64_t g);
/* A fork child has no sessions. */
void profile_forked(void);

#endif
