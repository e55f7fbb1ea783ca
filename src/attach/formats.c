/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "attach/attach_internal.h"
#include "output/output.h"

static const struct format {
  const char *name;
  bool works;
  const char *suffix[3];
} formats[] = {
    [FORMAT_COLLAPSED] = {"collapsed", true, {".folded", ".collapsed", ".txt"}},
    [FORMAT_SVG] = {"svg", true, {".svg"}},
    [FORMAT_HTML] = {"html", true, {".html"}},
    [FORMAT_SPEEDSCOPE] = {"speedscope", false, {".speedscope.json"}},
    [FORMAT_PPROF] = {"pprof", false, {".pb.gz"}},
    [FORMAT_PERF] = {"perf", false, {".perf"}},
    [FORMAT_CHROME] = {"chrome", false, {".trace.json"}},
    [FORMAT_TECS] = {"tecs", false, {".tecs"}},
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

static void add_names(struct strbuf *b)
{
  for (size_t i = 0; i < FORMATS; i++)
    if (formats[i].works)
      strbuf_printf(b, "%s%s", b->len ? ", " : "", formats[i].name);
}

enum result format_check(const char *name, const char *path, enum format_id *id,
                         struct error *e)
{
  const struct format *f = name ? by_name(name) : by_suffix(path ? path : "");
  struct strbuf names = STRBUF_INIT;
  enum result r = RESULT_OK;
  add_names(&names);
  if (!f)
    r = error_set(e, RESULT_USAGE,
                  "unknown format '%s'; this version writes: %s", name,
                  strbuf_text(&names));
  else if (!f->works)
    r = error_set(e, RESULT_USAGE,
                  "format '%s'%s%s is not in this version; it writes: %s",
                  f->name, name ? "" : " for ", name ? "" : path,
                  strbuf_text(&names));
  else
    *id = (enum format_id)(f - formats);
  strbuf_free(&names);
  return r;
}

enum result format_prepare(enum format_id id, struct error *e)
{
  return id == FORMAT_SVG ? picture_check(e) : RESULT_OK;
}

static enum result write_svg(struct profile *p, const char *title,
                             struct strbuf *out, struct error *e)
{
  struct strbuf text = STRBUF_INIT;
  enum result r = output_collapsed(p, &text);
  r = r == RESULT_OK ? picture_draw(&text, title, out, e)
                     : error_set(e, r, "no memory for the picture");
  strbuf_free(&text);
  return r;
}

static enum result write_printable(enum format_id id, struct profile *p,
                                   const char *title, struct strbuf *out)
{
  struct profile *printable = output_printable(p);
  enum result r = RESULT_NOMEM;
  if (printable && id == FORMAT_HTML)
    r = output_html(printable, title, out);
  profile_free(printable);
  return r;
}

enum result format_write(enum format_id id, struct profile *p,
                         const char *title, struct strbuf *out, struct error *e)
{
  enum result r = RESULT_OK;
  if (id == FORMAT_SVG)
    return write_svg(p, title, out, e);
  if (id == FORMAT_COLLAPSED)
    r = output_collapsed(p, out);
  else
    r = write_printable(id, p, title, out);
  if (r != RESULT_OK)
    error_set(e, r, "cannot write the profile: %s", result_text(r));
  return r;
}
