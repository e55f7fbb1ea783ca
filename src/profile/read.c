/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"
#include "util/strbuf.h"

struct reading {
  struct profile *p;
  struct profile_reading *sums;
  uint64_t number; /* of the line */
  struct strbuf line;
  bool too_long;
  uint32_t *frame;
  size_t cap;
};

/* The count at the end of a line, and where the stack before it ends. */
static bool split_count(const char *line, size_t len, size_t *end,
                        uint64_t *count)
{
  size_t i = len;
  while (i > 0 && line[i - 1] >= '0' && line[i - 1] <= '9')
    i--;
  if (i == len || i < 2 || line[i - 1] != ' ')
    return false;
  errno = 0;
  *count = strtoull(line + i, NULL, 10);
  *end = i - 1;
  return !errno;
}

static bool add_frame(struct reading *r, size_t n, const char *text, size_t len)
{
  if (n == r->cap) {
    size_t cap = r->cap * 2 + 256;
    uint32_t *frame = realloc(r->frame, cap * sizeof *frame);
    if (!frame)
      return false;
    r->frame = frame;
    r->cap = cap;
  }
  r->frame[n] = interner_add(profile_frames(r->p), text, len);
  return r->frame[n] != INTERNER_NONE;
}

static enum result add_stack(struct reading *r, const char *line, size_t end,
                             uint64_t count)
{
  size_t n = 0;
  for (size_t i = 0; i <= end;) {
    const char *stop = memchr(line + i, ';', end - i);
    size_t len = stop ? (size_t)(stop - line) - i : end - i;
    if (!add_frame(r, n++, line + i, len))
      return RESULT_NOMEM;
    i += len + 1;
  }
  return profile_add(r->p, r->frame, n, count);
}

static void bad_line(struct reading *r)
{
  r->sums->bad++;
  if (!r->sums->first_bad)
    r->sums->first_bad = r->number;
}

static enum result end_line(struct reading *r)
{
  const char *line = strbuf_text(&r->line);
  size_t len = r->line.len, end;
  uint64_t count;
  bool too_long = r->too_long;
  r->number++;
  r->too_long = false;
  while (len && (line[len - 1] == '\r' || line[len - 1] == ' '))
    len--;
  if (!len && !too_long)
    return RESULT_OK;
  r->sums->lines++;
  if (too_long || memchr(line, 0, len) ||
      !split_count(line, len, &end, &count) ||
      count > UINT64_MAX - profile_weight(r->p)) {
    bad_line(r);
    return RESULT_OK;
  }
  return count ? add_stack(r, line, end, count) : RESULT_OK;
}

static void keep(struct reading *r, const char *bytes, size_t len)
{
  if (r->line.len + len > PROFILE_LINE_MAX)
    r->too_long = true;
  else
    strbuf_add(&r->line, bytes, len);
}

static enum result take(struct reading *r, const char *bytes, size_t len)
{
  while (len) {
    const char *stop = memchr(bytes, '\n', len);
    size_t n = stop ? (size_t)(stop - bytes) : len;
    keep(r, bytes, n);
    if (r->line.failed)
      return RESULT_NOMEM;
    if (!stop)
      break;
    enum result res = end_line(r);
    if (res != RESULT_OK)
      return res;
    strbuf_clear(&r->line);
    bytes += n + 1;
    len -= n + 1;
  }
  return RESULT_OK;
}

enum result profile_read(struct profile *p, FILE *file,
                         struct profile_reading *sums)
{
  struct reading r = {.p = p, .sums = sums};
  enum result res = RESULT_OK;
  char bytes[16384];
  size_t n;
  *sums = (struct profile_reading){0};
  while (res == RESULT_OK && (n = fread(bytes, 1, sizeof bytes, file)) > 0)
    res = take(&r, bytes, n);
  if (res == RESULT_OK && ferror(file))
    res = RESULT_IO;
  if (res == RESULT_OK)
    res = end_line(&r);
  int err = errno;
  strbuf_free(&r.line);
  free(r.frame);
  errno = err;
  return res;
}
