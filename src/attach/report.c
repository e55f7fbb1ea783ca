/* SPDX-License-Identifier: MIT
 *
 * Collapsed stacks in, what a reader asks first out.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attach/attach_internal.h"
#include "output/output.h"
#include "profile/profile.h"

#define ROWS 20                              /* of zones and functions */
#define DIFF_ROWS 10                         /* that grew, and that shrank */
#define CATEGORIES_MAX ((size_t)1024 * 1024) /* bytes of a table */

/* ---- files ---- */

static const char *file_name(const char *path)
{
  return strcmp(path, "-") ? path : "standard input";
}

static FILE *open_input(const char *path, struct error *e)
{
  FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
  if (!f)
    error_set(e, RESULT_IO, "cannot read %s: %s", path, strerror(errno));
  return f;
}

static void close_input(FILE *f)
{
  if (f != stdin)
    fclose(f);
}

static enum result judge(const char *path, const struct profile_reading *r,
                         bool quiet, struct error *e)
{
  if (r->bad && r->bad == r->lines)
    return error_set(e, RESULT_IO,
                     "%s has no collapsed stacks (`frame;frame count` lines), "
                     "as tecs-attach and stackcollapse programs write them",
                     file_name(path));
  if (r->bad)
    say("%" PRIu64 " of %" PRIu64 " lines of %s are no `frame;frame count` and "
        "were left out, the first is line %" PRIu64,
        r->bad, r->lines, file_name(path), r->first_bad);
  else if (!r->lines && !quiet)
    say("%s is empty: no stacks", file_name(path));
  return RESULT_OK;
}

enum result report_load(const char *path, bool quiet, struct profile **out,
                        struct error *e)
{
  struct profile_reading sums;
  FILE *f = open_input(path, e);
  if (!f)
    return RESULT_IO;
  struct profile *p = profile_new();
  enum result r = p ? profile_read(p, f, &sums) : RESULT_NOMEM;
  int err = errno;
  close_input(f);
  if (r == RESULT_OK)
    r = judge(path, &sums, quiet, e);
  else if (r == RESULT_IO)
    error_set(e, r, "cannot read %s: %s", file_name(path), strerror(err));
  else
    error_set(e, r, "no memory for %s", file_name(path));
  if (r == RESULT_OK) {
    *out = output_printable(p);
    if (!*out)
      r = error_set(e, RESULT_NOMEM, "no memory for %s", file_name(path));
  }
  profile_free(p);
  return r;
}

/* ---- categories ---- */

static enum result add_own_categories(struct categories *c, const char *path,
                                      struct error *e)
{
  struct strbuf text = STRBUF_INIT;
  struct error why = {RESULT_OK, ""};
  char bytes[4096];
  size_t n;
  FILE *f = open_input(path, e);
  if (!f)
    return RESULT_IO;
  while (text.len <= CATEGORIES_MAX && (n = fread(bytes, 1, sizeof bytes, f)))
    strbuf_add(&text, bytes, n);
  enum result r = RESULT_OK;
  if (ferror(f))
    r = error_set(e, RESULT_IO, "cannot read %s: %s", file_name(path),
                  strerror(errno));
  else if (text.len > CATEGORIES_MAX)
    r = error_set(e, RESULT_USAGE, "%s is too large for a table of categories",
                  file_name(path));
  else if (text.failed)
    r = error_set(e, RESULT_NOMEM, "no memory");
  close_input(f);
  if (r == RESULT_OK) {
    r = categories_add(c, strbuf_text(&text), text.len, &why);
    if (r != RESULT_OK)
      error_set(e, r, "%s: %s", file_name(path), why.text);
  }
  strbuf_free(&text);
  return r;
}

enum result report_categories(const char *own, struct categories **out,
                              struct error *e)
{
  size_t len;
  const char *text = categories_default(&len);
  enum result r = RESULT_OK;
  *out = categories_new();
  if (!*out)
    return error_set(e, RESULT_NOMEM, "no memory");
  if (own)
    r = add_own_categories(*out, own, e);
  if (r == RESULT_OK)
    r = categories_add(*out, text, len, e);
  if (r != RESULT_OK) {
    categories_free(*out);
    *out = NULL;
  }
  return r;
}

/* ---- the report ---- */

enum result report_text(const struct profile *p, const struct categories *c,
                        const char *zone, struct strbuf *out)
{
  struct summary s;
  enum result r = summary_make(&s, p, c, zone);
  if (r == RESULT_OK)
    r = output_report(&s, ROWS, out);
  summary_free(&s);
  return r;
}

static enum result diff_text(const struct profile *old,
                             const struct profile *new,
                             const struct categories *c, const char *zone,
                             struct strbuf *out)
{
  struct summary a, b = {0};
  enum result r = summary_make(&a, old, c, zone);
  if (r == RESULT_OK)
    r = summary_make(&b, new, c, zone);
  if (r == RESULT_OK)
    r = output_diff(&a, &b, DIFF_ROWS, out);
  summary_free(&a);
  summary_free(&b);
  return r;
}

struct report {
  const struct options *o;
  struct output_file *out;
  struct categories *categories;
  struct profile *profile, *other;
  struct strbuf text;
  struct error e;
};

static enum result load(struct report *t)
{
  const struct options *o = t->o;
  enum result r = output_file_open(o->output, &t->out, &t->e);
  if (r == RESULT_OK)
    r = format_prepare((enum format_id)o->format_id, &t->e);
  if (r == RESULT_OK)
    r = report_categories(o->categories, &t->categories, &t->e);
  if (r == RESULT_OK)
    r = report_load(o->file, o->quiet, &t->profile, &t->e);
  if (r == RESULT_OK && o->diff)
    r = report_load(o->diff, o->quiet, &t->other, &t->e);
  return r;
}

static enum result make_text(struct report *t)
{
  const struct options *o = t->o;
  if (o->convert)
    return format_write((enum format_id)o->format_id, t->profile,
                        file_name(o->file), &t->text, &t->e);
  enum result r =
      o->diff
          ? diff_text(t->other, t->profile, t->categories, o->zone, &t->text)
          : report_text(t->profile, t->categories, o->zone, &t->text);
  return r == RESULT_OK ? r : error_set(&t->e, r, "no memory");
}

static enum result write_text(struct report *t)
{
  struct output_file *out = t->out;
  t->out = NULL;
  enum result r = output_file_finish(out, &t->text, &t->e);
  return r == RESULT_END ? RESULT_OK : r; /* the reader had enough */
}

int report_run(const struct options *o)
{
  struct report t = {.o = o};
  enum result r = load(&t);
  if (r == RESULT_OK)
    r = make_text(&t);
  if (r == RESULT_OK)
    r = write_text(&t);
  if (r != RESULT_OK)
    say("%s", t.e.text);
  if (t.out)
    output_file_abandon(t.out);
  categories_free(t.categories);
  profile_free(t.profile);
  profile_free(t.other);
  strbuf_free(&t.text);
  return (int)verdict_status(r);
}
