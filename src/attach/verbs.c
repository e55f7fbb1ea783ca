/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "attach/attach_internal.h"

const struct verb verbs_table[] = {
    {"record", VERB_RECORD, record_run,
     "sample a process into a profile (the default)"},
    {"trace", VERB_TRACE, trace_run,
     "what LuaJIT gave up compiling, and why, as CSV"},
    {"status", VERB_STATUS, status_run,
     "VMs, threads, agent and sessions of a process, and what can be profiled"},
    {"pause", VERB_STEER, pause_run,
     "pause the session that runs on a process"},
    {"resume", VERB_STEER, resume_run, "let it go on"},
    {"stop", VERB_STEER, stop_run, "end it; its owner writes what it has"},
    {"report", VERB_REPORT, report_run,
     "hottest functions, categories, zones and VM states of collapsed stacks"},
    {"alloc", 0, NULL, NULL},
    {"top", 0, NULL, NULL},
    {"dump", 0, NULL, NULL},
};
const size_t verbs_count = sizeof verbs_table / sizeof verbs_table[0];

const struct verb *verb_find(const char *name)
{
  for (size_t i = 0; i < verbs_count; i++)
    if (!strcmp(name, verbs_table[i].name))
      return &verbs_table[i];
  return NULL;
}
