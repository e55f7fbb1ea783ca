/* SPDX-License-Identifier: MIT
 *
 * The program's main room: options in, verdict out.  The only room that may
 * print or exit; everything but main.c is linked into its unit test as well.
 */
#ifndef ATTACH_ATTACH_INTERNAL_H
#define ATTACH_ATTACH_INTERNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "session/session.h"
#include "util/error.h"
#include "util/strbuf.h"

#define ATTACH_NAME "tecs-attach"

/* ---- exit status (verdict.c) ---- */

enum status {
  STATUS_DONE = 0,
  STATUS_FAILED = 1,
  STATUS_USAGE = 2,
  STATUS_UNREACHABLE = 3,
  STATUS_NO_VM = 4,
  /* launch mode, as env(1) and timeout(1) have it */
  STATUS_LAUNCH_FAILED = 125,
  STATUS_LAUNCH_CANNOT_RUN = 126,
  STATUS_LAUNCH_NOT_FOUND = 127,
};

enum status verdict_status(enum result r);
/* Of an ended command: its own status, or 128 + the signal that ended it. */
int verdict_of_wait(int wait_status);

/* ---- units (units.c) ---- */

#define UNITS_US UINT64_C(1000)
#define UNITS_MS UINT64_C(1000000)
#define UNITS_S UINT64_C(1000000000)

/* `10`, `1.5s`, `500us`, `10ms`, `2m`, `1h` into nanoseconds; a bare number
 * counts in `bare` nanoseconds.  False: anything else, an overflow included. */
bool units_time(const char *text, uint64_t bare, uint64_t *ns);
/* `999`, `0.5`: times a second, into the interval in nanoseconds. */
bool units_rate(const char *text, uint64_t *ns);
/* A decimal integer in [lo, hi] and nothing else. */
bool units_int(const char *text, long lo, long hi, long *out);

/* ---- options (options.c, help.c) ---- */

#define OPTIONS_INTERVAL_MIN (100 * UNITS_US)
#define OPTIONS_INTERVAL_MAX (60 * UNITS_S)
#define OPTIONS_DURATION_MAX (365 * 24 * 3600 * UNITS_S)
#define OPTIONS_WAIT_MAX (24 * 3600 * UNITS_S)
#define OPTIONS_DEPTH_MAX 4096

enum options_action {
  OPTIONS_RUN = 0,
  OPTIONS_HELP = 1,
  OPTIONS_VERSION = 2,
};

struct verb;

struct options {
  enum options_action action;
  const struct verb *verb;
  pid_t pid;      /* 0: launch mode */
  char **command; /* NULL-terminated; NULL: attach to pid */
  uint64_t interval_ns;
  uint64_t duration_ns; /* 0: none */
  uint64_t wait_ns;
  long depth;
  const char *zone;       /* NULL: every sample */
  const char *output;     /* NULL: stdout */
  const char *format;     /* NULL: by the output's suffix */
  int format_id;          /* enum format_id: what both come to */
  const char *file;       /* report: collapsed stacks; "-": stdin */
  bool convert;           /* report: written in format_id instead */
  const char *diff;       /* report: the file before; NULL: none */
  const char *categories; /* the user's table; NULL: none */
  bool report;            /* record: to stderr at the end */
  const char *aborts; /* record: file of the trace-abort table; NULL: none */
  bool benign, samples, by_cost;
  bool keep_own;    /* from the agent: what the process wrote before an exec */
  bool from_inside; /* the agent has started us for the program itself */
  uint64_t vm;      /* then: its VM, 0: all; */
  uint32_t cookie;  /* and of which image, that is which segment */
  bool threads, vms;
  bool follow; /* children too */
  bool wall;   /* threads that sleep, too */
  bool lines, inlined, native, lua, zones, state;
  bool no_agent, require_agent;
  bool inject; /* the agent, where there is none */
  bool verbose, quiet;
};

/* argv[argc] is NULL.  USAGE with the text for the user. */
enum result options_parse(int argc, char **argv, struct options *o,
                          struct error *e);
/* The text of --help: only what works in this version. */
void options_help(struct strbuf *b);

/* ---- formats (formats.c, picture.c) ---- */

struct profile;

enum format_id {
  FORMAT_COLLAPSED = 0,
  FORMAT_SVG,
  FORMAT_HTML,
  FORMAT_SPEEDSCOPE,
  FORMAT_PPROF,
  FORMAT_PERF,
  FORMAT_CHROME,
  FORMAT_TECS,
};
/* The contract's formats, by name or else by the suffix of the path (NULL:
 * none): OK with *id for one that this version writes. */
enum result format_check(const char *name, const char *path, enum format_id *id,
                         struct error *e);
/* What has to be there before anything is sampled. */
enum result format_prepare(enum format_id id, struct error *e);
/* Appends the profile in that format.  OK, NOMEM; IO: a program that draws has
 * failed. */
enum result format_write(enum format_id id, struct profile *p,
                         const char *title, struct strbuf *out,
                         struct error *e);
/* inferno-flamegraph: NOTFOUND, with the cure. */
enum result picture_check(struct error *e);
enum result picture_draw(const struct strbuf *collapsed, const char *title,
                         struct strbuf *svg, struct error *e);

/* Verbs that an option goes with. */
enum verb_bit {
  VERB_RECORD = 1u << 0,
  VERB_TRACE = 1u << 1,
  VERB_STATUS = 1u << 2,
  VERB_STEER = 1u << 3, /* pause, resume, stop */
  VERB_REPORT = 1u << 4,
  VERB_PROCESS = VERB_RECORD | VERB_TRACE | VERB_STATUS | VERB_STEER,
  VERB_ANY = VERB_PROCESS | VERB_REPORT,
};

/* One row of the table of options. */
struct option_row {
  unsigned verbs;   /* enum verb_bit */
  char letter;      /* 0: long name only */
  const char *name; /* without the dashes */
  const char *arg;  /* NULL: takes no value */
  enum result (*set)(struct options *o, const char *value, struct error *e);
  size_t flag; /* set NULL: offset of the bool that becomes `value` */
  bool value;
  const char *help; /* NULL: not for users */
};
extern const struct option_row options_table[];
extern const size_t options_count;

/* ---- verbs (verbs.c) ---- */

struct verb {
  const char *name;
  enum verb_bit bit;
  int (*run)(const struct options *o); /* NULL: not in this version */
  const char *help;
};
extern const struct verb verbs_table[];
extern const size_t verbs_count;
const struct verb *verb_find(const char *name); /* NULL: no verb */

int record_run(const struct options *o);
int trace_run(const struct options *o);
int status_run(const struct options *o);
int pause_run(const struct options *o);
int resume_run(const struct options *o);
int stop_run(const struct options *o);
int report_run(const struct options *o);

struct session_options record_session_options(const struct options *o);

/* ---- what the user is told (closing.c) ---- */

/* What --follow adds to the sums of all its sessions. */
struct follow_sums {
  unsigned processes;  /* sampled */
  unsigned outside;    /* of them: without an agent */
  unsigned seen;       /* followed, with those in which no VM appeared */
  uint64_t process_ns; /* for which they were sampled, added up */
};

struct closing {
  const struct session_account *acc;
  const struct follow_sums *follow; /* NULL: one process */
  uint64_t interval_ns;
  const char *zone; /* NULL: none */
  bool stopped;     /* the target was in state T */
  bool too_soon;    /* it ended before it could be sampled, which was said */
};
/* The one line of honest accounting, without a newline. */
void closing_line(struct strbuf *b, const struct closing *c);
/* For --verbose: what it took, in the game and here. */
void closing_details(struct strbuf *b, const struct session_account *acc,
                     size_t stacks, uint64_t peak_kb);
/* This program's largest resident size so far, in KB; 0: unknown. */
uint64_t closing_own_peak(void);
/* Why there are no samples; nothing is added when there are some. */
void closing_why_empty(struct strbuf *b, const struct closing *c);
/* Why sleeping threads could not be read; nothing is added when they could. */
void closing_why_unread(struct strbuf *b, const struct session_account *acc);
void closing_progress(struct strbuf *b, const struct session_account *acc);
/* The same of a trace session. */
void closing_trace_line(struct strbuf *b,
                        const struct session_trace_account *acc, bool benign);
void closing_trace_progress(struct strbuf *b,
                            const struct session_trace_account *acc,
                            bool benign);
/* "tecs-attach: text\n" on stderr. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- status (status.c, status_traces.c) ---- */

/* Any bytes, on one line. */
void status_add_plain(struct strbuf *b, const char *text, size_t len);
/* Appends the lines `vm.<n>.trace...`; shm NULL: no agent. */
void status_traces(struct strbuf *out, struct target *t, const struct shm *shm,
                   unsigned n, const struct session_vm *vm);

/* ---- signals (signals.c) ---- */

extern volatile sig_atomic_t signals_stop;
/* SIGINT, SIGTERM and SIGHUP (unless ignored: nohup) raise signals_stop;
 * SIGPIPE and SIGXFSZ are ignored. */
void signals_install(void);
/* Back to what they were, so that a second Ctrl-C ends the program. */
void signals_restore(void);
/* Those that a launched command must find at their default. */
void signals_defaults(sigset_t *set);
int signals_seen(void); /* the signal that raised the flag, 0: none */

/* ---- launch mode (launch.c, agentlib.c) ---- */

struct launch {
  bool trace;    /* trace aborts are counted from its start on */
  bool no_agent; /* the command is started as it is */
  bool follow;   /* it and all that come from it are to be recognised */
  char mark[64]; /* then: variable in their environment */
  pid_t pid;     /* 0: nothing launched */
  int wait_status;
  bool reaped;
};
/* Path of the agent library that belongs to this program.  NOTFOUND. */
enum result agentlib_path(char *out, size_t size, struct error *e);
/* Value of LD_PRELOAD: what was there and the agent.  USAGE: the dynamic
 * loader can't take such a path. */
enum result agentlib_preload(const char *old, const char *lib,
                             struct strbuf *out, struct error *e);
/* Starts the command with the agent.  *status is set on failure.  With
 * quiet_stdout its output goes to our stderr, since stdout is the profile's. */
enum result launch_start(struct launch *l, char **command, bool quiet_stdout,
                         enum status *status, struct error *e);
bool launch_ended(struct launch *l);
void launch_wait(struct launch *l);

/* ---- reaching the target (reach.c) ---- */

/* Opens the process; UNSUPPORTED: it is a 32-bit one. */
enum result reach_process(pid_t pid, struct target **out, struct error *e);
/* The same, and waits for the agent in one that has just started.
 * *out is set when the process could be opened, also when there is an error:
 * NOAGENT, or NOVM (nor is there an agent). */
enum result reach_open(pid_t pid, bool launched, uint64_t wait_ns,
                       struct target **out, struct error *e);
bool reach_stopped(struct target *t);
/* When the process began (exec does not begin it anew): CLOCK_REALTIME. */
uint64_t reach_started_ns(struct target *t);
/* --inject (inject.c): loads the agent into a process that has none, and says
 * so. */
enum result inject_into(struct target *t, const struct options *o,
                        struct error *e);
/* Of a process without an agent: NOVM or NOAGENT, with the cure. */
enum result reach_why_no_agent(struct target *t, struct error *e);
/* Is there still time for a VM to appear?  OK, or NOVM with the reason: waited
 * is over, or a child has one. */
enum result reach_no_vm(struct target *t, uint64_t waited_ns, uint64_t wait_ns,
                        unsigned unknown, struct error *e);

/* ---- one command line's work on one process (job.c) ---- */

struct job {
  const struct options *o;
  struct launch child;
  struct target *target;
  char comm[16];
  bool outside; /* sampled without an agent */
  bool stopped; /* the target was in state T */
  bool tty;     /* progress line wanted */
  bool shown;   /* and one stands there now */
  bool told;    /* that there is no VM yet */
  struct error error;
};
void job_init(struct job *j, const struct options *o);
int job_pid(const struct job *j);
/* Opens the target and says what there is to say about it. */
enum result job_reach(struct job *j);
void job_show(struct job *j, const struct strbuf *line);
void job_clear(struct job *j);
void job_tell_waiting(struct job *j); /* for a VM; once */
void job_tell_end(const struct job *j);
/* A command that ended before anything could be seen in it is no failure of
 * ours. */
bool job_ended_too_soon(struct job *j, enum result r);
/* What a verb does, from start to end: its exit status. */
struct job_steps {
  enum result (*prepare)(void *arg); /* all that can fail before a start */
  enum result (*work)(void *arg);    /* the job's messages are its own */
  void (*release)(void *arg);        /* always */
};
int job_run(struct job *j, const struct job_steps *steps, void *arg);

/* ---- a process and all that come from it (follow.c) ---- */

/* As session_run, for the job's process and all that come from it; each with a
 * frame comm/pid outermost.  Ends with the duration, on signals_stop, when the
 * session on the job's process is stopped, or when that and all others that
 * are sampled have ended.  acc: all of them; elapsed_ns is the whole time.
 * NOVM: in none of them in vm_wait_ns; errors of the first otherwise. */
enum result follow_run(struct job *j, const struct session_options *o,
                       struct profile *into, struct session_account *acc,
                       struct follow_sums *sums, enum session_end *end);

/* ---- reports (report.c) ---- */

struct categories;

/* Collapsed stacks of a file ("-": stdin), fit to print; says which lines were
 * left out.  IO: no such file, or no such lines in it; NOMEM. */
enum result report_load(const char *path, bool quiet, struct profile **out,
                        struct error *e);
/* The user's table (NULL: none), then the built-in one.  USAGE: the table makes
 * no sense; IO, NOMEM. */
enum result report_categories(const char *own, struct categories **out,
                              struct error *e);
/* Appends the report of a printable profile.  OK or NOMEM. */
enum result report_text(const struct profile *p, const struct categories *c,
                        const char *zone, struct strbuf *out);

/* ---- trace aborts, alone or beside samples (tracing.c) ---- */

struct tracing {
  const struct options *o;
  struct aborts *table;
  struct session_trace *session; /* NULL: not begun, or ended */
  struct session_trace_account acc;
  enum session_trace_state state;
  uint64_t start; /* CLOCK_MONOTONIC */
  struct output_file *out;
  bool outside;       /* the process has no agent */
  enum result failed; /* rows or samples are missing */
};
/* All that can fail before a target is touched; path NULL: stdout. */
enum result tracing_open(struct tracing *t, const struct options *o,
                         const char *path, struct error *e);
enum result tracing_begin(struct tracing *t, struct target *target,
                          struct error *e);
/* Of a process without an agent: what its memory tells. */
enum result tracing_outside(struct tracing *t, struct target *target,
                            struct error *e);
void tracing_hit(void *tracing, const struct session_hit *hit);
enum session_trace_state tracing_poll(struct tracing *t, uint64_t now);
/* Ends the session, if one was begun. */
void tracing_end(struct tracing *t);
/* Writes the table and says what was and was not seen in process pid. */
enum result tracing_finish(struct tracing *t, int pid, struct error *e);
void tracing_free(struct tracing *t);

#endif
