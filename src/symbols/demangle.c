/* SPDX-License-Identifier: MIT */
#include "symbols/symbols.h"

#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

/* Names of C functions must not be taken for another scheme's: only the
 * prefixes of the C++ ABI and of both Rust schemes are tried.  DMGL_AUTO knows
 * them all and drops the hash of Rust's older one. */
char *symbols_demangle(const char *mangled)
{
  if (strncmp(mangled, "_Z", 2) != 0 && strncmp(mangled, "_R", 2) != 0)
    return NULL;
  return cplus_demangle(mangled, DMGL_AUTO | DMGL_PARAMS | DMGL_ANSI);
}
