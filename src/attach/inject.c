/* SPDX-License-Identifier: MIT
 *
 * --inject: the agent into a process that runs without it.
 */
#include <limits.h>
#include <stdlib.h>

#include "attach/attach_internal.h"
#include "inject/inject.h"

#define MOMENT_NS (5 * UNITS_S)
#define CALL_NS (5 * UNITS_S)

/* The process is held for milliseconds: what it takes is said. */
static void tell(struct target *t, const struct options *o,
                 const struct inject_account *a)
{
  char comm[16];
  if (o->quiet)
    return;
  target_comm(t, comm);
  say("loaded the agent into %d (%s): its thread %d was held for %.1f ms%s",
      (int)target_pid(t), comm, (int)a->tid, (double)a->held_ns / 1e6,
      a->copied ? ", the library as a copy in memory" : "");
  if (o->verbose)
    say("%u times a thread was stopped for a look", a->looks);
}

enum result inject_into(struct target *t, const struct options *o,
                        struct error *e)
{
  char lib[4096], path[PATH_MAX];
  struct inject_account account;
  enum result r = agentlib_path(lib, sizeof lib, e);
  if (r != RESULT_OK)
    return r;
  if (!realpath(lib, path))
    return error_set(e, RESULT_NOTFOUND, "there is no file %.300s", lib);
  const struct inject_options how = {.library = path,
                                     .moment_ns = MOMENT_NS,
                                     .call_ns = CALL_NS,
                                     .stop = &signals_stop};
  r = inject_load(t, &how, &account, e);
  if (r == RESULT_OK && account.tid)
    tell(t, o, &account);
  /* the process cannot be reached that way; there may well be a VM in it */
  return r == RESULT_UNSUPPORTED ? RESULT_PERM : r;
}
