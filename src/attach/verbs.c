/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "attach/attach_internal.h"

const struct verb verbs_table[] = {
    {"record", record_run, "sample a process into a profile (the default)"},
    {"trace", NULL, NULL},
    {"alloc", NULL, NULL},
    {"top", NULL, NULL},
    {"dump", NULL, NULL},
    {"status", NULL, NULL},
    {"pause", NULL, NULL},
    {"resume", NULL, NULL},
    {"stop", NULL, NULL},
    {"report", NULL, NULL},
};
const size_t verbs_count = sizeof verbs_table / sizeof verbs_table[0];

const struct verb *verb_find(const char *name)
{
  for (size_t i = 0; i < verbs_count; i++)
    if (!strcmp(name, verbs_table[i].name))
      return &verbs_table[i];
  return NULL;
}
