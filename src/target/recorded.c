/* SPDX-License-Identifier: MIT
 *
 * A recording in the place of a process: <dir>/maps is the text of its maps,
 * <dir>/root/<path> are mapped files.  Memory is gone, threads too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "target/target_internal.h"

static char *recorded_maps(struct target *t, size_t *len)
{
  return proc_slurp(t->dir, "maps", len);
}

static int recorded_open(struct target *t, const struct target_map *m)
{
  char path[4096 + 8];
  if (m->path[0] != '/')
    return -1;
  snprintf(path, sizeof path, "root%s", m->path);
  return openat(t->dir, path, O_RDONLY | O_CLOEXEC);
}

static enum result recorded_read(struct target *t, uint64_t addr, void *buf,
                                 size_t n)
{
  (void)t, (void)addr, (void)buf, (void)n;
  return RESULT_GONE;
}

static const struct target_ops recorded_ops = {
    .maps_text = recorded_maps,
    .map_open = recorded_open,
    .read = recorded_read,
};

enum result target_open_recorded(const char *dir, struct target **out,
                                 struct error *e)
{
  *out = NULL;
  struct target *t = target_alloc(&recorded_ops);
  if (!t)
    return error_set(e, RESULT_NOMEM, "no memory for the recording %s", dir);
  t->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (t->dir < 0) {
    int err = errno;
    target_close(t);
    return error_set(e, RESULT_IO, "cannot open the recording %s: %s", dir,
                     strerror(err));
  }
  *out = t;
  return RESULT_OK;
}
