/* SPDX-License-Identifier: MIT */
#include "lines/lines_internal.h"

enum { EVENTS_MAX = 1 << 20 };

enum result lines_map_new(struct lines_model *m, const struct lines_trace *t,
                          struct lines_map **out, struct error *e)
{
  struct lines_parts parts;
  *out = NULL;
  if (!t->event || !t->nevent || t->nevent > EVENTS_MAX)
    return error_set(e, RESULT_NOTFOUND, "trace %u has no record log",
                     t->traceno);
  enum result r = lines_parts_read(t, &parts, e);
  if (r == RESULT_OK)
    r = lines_map_make(m, &parts, t->event, t->nevent, out, e);
  lines_parts_free(&parts);
  return r;
}
