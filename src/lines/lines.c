/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

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

enum result lines_map_infer(struct lines_model *m, const struct lines_trace *t,
                            const struct lines_code *code,
                            struct lines_map **out, struct error *e)
{
  struct lines_parts parts;
  struct lines_path path = {0};
  *out = NULL;
  enum result r = lines_parts_read(t, &parts, e);
  if (r == RESULT_OK)
    r = lines_path_find(m, &parts, code, &path, e);
  if (r == RESULT_OK)
    r = lines_map_make(m, &parts, path.event, path.nevent, out, e);
  if (r == RESULT_OK) {
    (*out)->inferred = true;
    (*out)->anchors = path.anchors;
    (*out)->anchors_held = path.held;
  }
  free(path.event);
  lines_parts_free(&parts);
  return r;
}
