/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "attach/attach_internal.h"

static const struct format {
  const char *name;
  bool works;
  const char *suffix[3];
} formats[] = {
    {"collapsed", true, {".folded", ".collapsed", ".txt"}},
    {"svg", false, {".svg"}},
    {"html", false, {".html"}},
    {"speedscope", false, {".speedscope.json"}},
    {"pprof", false, {".pb.gz"}},
    {"perf", false, {".perf"}},
    {"chrome", false, {".trace.json"}},
    {"tecs", false, {".tecs"}},
};
#define FORMATS (sizeof formats / sizeof formats[0])

static bool ends_with(const char *text, const char *end)
{
  size_t a = strlen(text), b = strlen(end);
  return a >= b && !strcmp(text + a - b, end);
}

static const struct format *by_name(const char *name)
{
  for (size_t i = 0; i < FORMATS; i++)
    if (!strcmp(name, formats[i].name))
      return &formats[i];
  return NULL;
}

/* An unknown suffix means the default, collapsed. */
static const struct format *by_suffix(const char *path)
{
  for (size_t i = 0; i < FORMATS; i++)
    for (size_t j = 0; j < 3 && formats[i].suffix[j]; j++)
      if (ends_with(path, formats[i].suffix[j]))
        return &formats[i];
  return &formats[0];
}

enum result format_check(const char *name, const char *path, struct error *e)
{
  const struct format *f = name ? by_name(name) : by_suffix(path ? path : "");
  if (!f)
    return error_set(e, RESULT_USAGE,
                     "unknown format '%s'; this version writes: collapsed",
                     name);
  if (!f->works)
    return error_set(e, RESULT_USAGE,
                     "format '%s'%s%s is not in this version; it writes "
                     "collapsed stacks (-f collapsed)",
                     f->name, name ? "" : " for ", name ? "" : path);
  return RESULT_OK;
}
