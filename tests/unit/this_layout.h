/* SPDX-License-Identifier: MIT
 *
 * The layout of the LuaJIT in this process: Debian's, or, when the test was
 * linked with another one, the one that TECS_LAYOUT names.
 */
#ifndef TESTS_UNIT_THIS_LAYOUT_H
#define TESTS_UNIT_THIS_LAYOUT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmcore/layout.h"

static inline uint32_t this_layout_id(void)
{
  const char *name = getenv("TECS_LAYOUT");
  for (uint32_t id = 0; name && id < vm_layout_count(); id++)
    if (!strcmp(vm_layout_get(id)->name, name))
      return id;
  if (name) {
    fprintf(stderr, "no layout %s\n", name);
    exit(EXIT_FAILURE);
  }
  return 0;
}

/* The reference at addr in this process. */
static inline uint64_t ref_at(const struct vm_layout *lay, uint64_t addr)
{
  return lay->gc64 ? *(uint64_t *)addr : *(uint32_t *)addr;
}

#endif
