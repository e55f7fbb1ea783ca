/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/attach_internal.h"

#define AGENTLIB_NAME "libtecs-agent.so"

static bool readable(const char *path)
{
  return access(path, R_OK) == 0;
}

/* Folder of the running program; "" when unknown. */
static void own_folder(char *out, size_t size)
{
  ssize_t n = readlink("/proc/self/exe", out, size - 1);
  out[n > 0 ? n : 0] = 0;
  char *slash = strrchr(out, '/');
  if (slash)
    *slash = 0;
}

/* A build tree comes first, so that what was just built is what is tested:
 * the program stands beside the library there (libtool's .libs). */
enum result agentlib_path(char *out, size_t size, struct error *e)
{
  const char *set = getenv("TECS_AGENT_LIB");
  if (set && *set) {
    if ((size_t)snprintf(out, size, "%s", set) < size && readable(out))
      return RESULT_OK;
    return error_set(e, RESULT_NOTFOUND,
                     "TECS_AGENT_LIB: there is no readable file %s", set);
  }
  static const char *const near[] = {"/.libs/" AGENTLIB_NAME,
                                     "/" AGENTLIB_NAME};
  char folder[2048];
  own_folder(folder, sizeof folder);
  for (size_t i = 0; i < sizeof near / sizeof near[0]; i++)
    if ((size_t)snprintf(out, size, "%s%s", folder, near[i]) < size &&
        readable(out))
      return RESULT_OK;
  if ((size_t)snprintf(out, size, "%s", TECS_PKGLIBDIR "/" AGENTLIB_NAME) <
          size &&
      readable(out))
    return RESULT_OK;
  return error_set(e, RESULT_NOTFOUND,
                   "the agent library is missing: %s; install it, or name it "
                   "in TECS_AGENT_LIB",
                   TECS_PKGLIBDIR "/" AGENTLIB_NAME);
}

enum result agentlib_preload(const char *old, const char *lib,
                             struct strbuf *out, struct error *e)
{
  /* ld.so(8): LD_PRELOAD is a list separated by blanks or colons, and has no
   * way to escape them. */
  if (strpbrk(lib, " :\t\n"))
    return error_set(e, RESULT_USAGE,
                     "the agent's path has a blank or a colon, which "
                     "LD_PRELOAD can't hold: '%s'; link or copy it elsewhere "
                     "and name it in TECS_AGENT_LIB",
                     lib);
  if (old && *old)
    strbuf_printf(out, "%s:", old);
  strbuf_add_str(out, lib);
  if (out->failed)
    return error_set(e, RESULT_NOMEM, "no memory");
  return RESULT_OK;
}
