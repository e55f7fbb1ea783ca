/* SPDX-License-Identifier: MIT
 *
 * Address space of a process and the files behind it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "target/target_internal.h"

static const char deleted_mark[] = " (deleted)";

/* The kernel writes a newline in a path as \012 and nothing else that way
 * (show_map_vma). */
static void unescape_newlines(char *s)
{
  char *to = s;
  for (; *s; to++) {
    bool newline = strncmp(s, "\\012", 4) == 0;
    *to = newline ? '\n' : *s;
    s += newline ? 4 : 1;
  }
  *to = '\0';
}

static bool cut_deleted(char *path)
{
  size_t len = strlen(path), n = sizeof deleted_mark - 1;
  if (len <= n || strcmp(path + len - n, deleted_mark) != 0)
    return false;
  path[len - n] = '\0';
  return true;
}

/* One line, NUL-terminated; its path stays where it is. */
static bool parse_line(char *line, struct target_map *m)
{
  char perm[5];
  int path = 0;
  memset(m, 0, sizeof *m);
  if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &m->start, &m->end, perm,
             &m->offset, &m->dev_major, &m->dev_minor, &m->inode, &path) < 7 ||
      m->start >= m->end)
    return false;
  m->r = perm[0] == 'r';
  m->w = perm[1] == 'w';
  m->x = perm[2] == 'x';
  char *name = path ? line + path : line + strlen(line);
  if (m->inode)
    m->deleted = cut_deleted(name);
  unescape_newlines(name);
  m->path = name;
  return true;
}

/* Takes text over, also on failure. */
enum result target_maps_parse(char *text, struct target_maps *out)
{
  size_t lines = 0;
  for (const char *p = text; *p; p++)
    lines += *p == '\n';
  memset(out, 0, sizeof *out);
  out->text = text;
  out->map = calloc(lines + 1, sizeof *out->map);
  if (!out->map) {
    target_maps_free(out);
    return RESULT_NOMEM;
  }
  char *save = NULL;
  for (char *line = strtok_r(text, "\n", &save); line && out->count < lines;
       line = strtok_r(NULL, "\n", &save))
    if (parse_line(line, &out->map[out->count]))
      out->count++;
  return RESULT_OK;
}

enum result target_maps_read(struct target *t, struct target_maps *out,
                             struct error *e)
{
  size_t len = 0;
  memset(out, 0, sizeof *out);
  char *text = t->ops->maps_text(t, &len);
  if (!text && (errno == EACCES || errno == EPERM))
    return target_refused(t, "read the maps of", e);
  if (!text && errno == ENOMEM)
    return error_set(e, RESULT_NOMEM, "no memory for the maps of process %d",
                     (int)t->pid);
  if (!text || len == 0) {
    free(text);
    return error_set(e, RESULT_GONE, "process %d has no maps: it has ended",
                     (int)t->pid);
  }
  if (target_maps_parse(text, out) != RESULT_OK)
    return error_set(e, RESULT_NOMEM, "no memory for the maps of process %d",
                     (int)t->pid);
  return RESULT_OK;
}

void target_maps_free(struct target_maps *m)
{
  free(m->map);
  free(m->text);
  memset(m, 0, sizeof *m);
}

char *target_live_maps_text(struct target *t, size_t *len)
{
  char path[64];
  if (!target_task_path(t, "maps", path, sizeof path)) {
    errno = ESRCH;
    return NULL;
  }
  return proc_slurp(t->proc, path, len);
}

int target_map_open(struct target *t, const struct target_map *m)
{
  return m->inode ? t->ops->map_open(t, m) : -1;
}

/* What the kernel's maps show for our own mapping of a descriptor. */
static bool shown_identity(int fd, struct target_map *out)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE), len;
  bool found = false;
  void *p = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
  if (p == MAP_FAILED)
    return false;
  char *text = proc_slurp(AT_FDCWD, "/proc/self/maps", &len);
  struct target_maps maps = {0};
  if (text && target_maps_parse(text, &maps) == RESULT_OK)
    for (size_t i = 0; i < maps.count && !found; i++)
      if ((uintptr_t)p >= maps.map[i].start && (uintptr_t)p < maps.map[i].end) {
        *out = maps.map[i];
        out->path = "";
        found = true;
      }
  target_maps_free(&maps);
  munmap(p, page);
  return found;
}

/* stat and maps name the same device and inode on most file systems, but not
 * on all (overlayfs, btrfs: one shows the layer or volume, the other the file
 * system).  Where they differ we map the file ourselves and compare what the
 * kernel shows for our mapping with what it shows for theirs: the same
 * presentation of the same file.  Inode alone is never enough. */
bool target_same_file(int fd, const struct target_map *m)
{
  struct stat st;
  struct target_map own;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
    return false;
  if (st.st_ino == m->inode && major(st.st_dev) == m->dev_major &&
      minor(st.st_dev) == m->dev_minor)
    return true;
  return shown_identity(fd, &own) && own.inode == m->inode &&
         own.dev_major == m->dev_major && own.dev_minor == m->dev_minor;
}

/* NONBLOCK: what stands at a path by now may be a FIFO. */
static int open_checked(struct target *t, const char *path,
                        const struct target_map *m)
{
  struct stat st;
  if (fstatat(t->proc, path, &st, 0) != 0 || !S_ISREG(st.st_mode))
    return -1;
  int fd = openat(t->proc, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd >= 0 && !target_same_file(fd, m)) {
    close(fd);
    fd = -1;
  }
  return fd;
}

int target_live_map_open(struct target *t, const struct target_map *m)
{
  char path[4096 + 64], task[64];
  /* Only the process has map_files, its threads have none. */
  snprintf(path, sizeof path, "map_files/%lx-%lx", m->start, m->end);
  int fd = open_checked(t, path, m);
  if (fd >= 0)
    return fd;
  if (!target_task_path(t, "", task, sizeof task))
    return -1;
  snprintf(path, sizeof path, "%sexe", task);
  fd = open_checked(t, path, m);
  if (fd >= 0 || m->path[0] != '/')
    return fd;
  snprintf(path, sizeof path, "%sroot%s", task, m->path);
  return open_checked(t, path, m);
}
