/* SPDX-License-Identifier: MIT
 *
 * What kind of program runs in a process, told from its files alone.
 */
#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/target_internal.h"

/* LUAJIT_VERSION (luajit.h) reaches every build through lib_jit.c, which sets
 * jit.version.  The blank is put in at run time: programs that contain this
 * function are no LuaJIT. */
#define VERSION_LEN 9
static void version_text(char text[VERSION_LEN])
{
  static const volatile char blank = ' ';
  memcpy(text, "LuaJIT_2.", VERSION_LEN);
  text[6] = blank;
}

static const char *base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Same file as an earlier mapping? */
static bool seen_before(const struct target_maps *maps, size_t i)
{
  const struct target_map *m = &maps->map[i];
  for (size_t k = 0; k < i; k++)
    if (maps->map[k].x && maps->map[k].inode == m->inode &&
        strcmp(maps->map[k].path, m->path) == 0)
      return true;
  return false;
}

/* Bytes of a file, or of memory where the file can't be reached. */
struct source {
  int fd; /* -1: memory */
  struct target *t;
};

static bool source_read(const struct source *s, uint64_t at, void *buf,
                        size_t n)
{
  if (s->fd < 0)
    return target_read(s->t, at, buf, n) == RESULT_OK;
  return pread(s->fd, buf, n, (off_t)at) == (ssize_t)n;
}

/* Of the bytes at text, which begin as a version does, the version. */
static void take_version(const char *text, size_t n, char *version)
{
  size_t len = VERSION_LEN;
  while (len < n && len < TARGET_LUAJIT_VERSION - 1 &&
         (isalnum((unsigned char)text[len]) || strchr(".+-", text[len])) &&
         text[len])
    len++;
  memcpy(version, text, len);
  version[len] = '\0';
}

/* version may be NULL. */
static bool has_version(const struct source *s, uint64_t start, uint64_t end,
                        char *version)
{
  enum { CHUNK = 1 << 17, KEEP = TARGET_LUAJIT_VERSION };
  char text[VERSION_LEN];
  version_text(text);
  char *buf = calloc(1, KEEP + CHUNK);
  const char *found = NULL;
  if (!buf)
    return false;
  for (uint64_t at = start; at < end && !found; at += CHUNK) {
    size_t n = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
    if (!source_read(s, at, buf + KEEP, n))
      break;
    found = memmem(buf, KEEP + n, text, sizeof text);
    if (found && at + CHUNK < end && found > buf + n)
      found = NULL; /* whole in the next one */
    if (found && version)
      take_version(found, (size_t)(buf + KEEP + n - found), version);
    memmove(buf, buf + n, KEEP); /* a text across two chunks */
  }
  free(buf);
  return found != NULL;
}

static bool mapping_has_version(struct target *t,
                                const struct target_maps *maps, size_t i,
                                char *version)
{
  const struct target_map *m = &maps->map[i];
  struct source file = {.fd = target_map_open(t, m)};
  struct source memory = {.fd = -1, .t = t};
  struct stat st;
  if (file.fd >= 0) {
    bool found = fstat(file.fd, &st) == 0 &&
                 has_version(&file, 0, (uint64_t)st.st_size, version);
    close(file.fd);
    return found;
  }
  for (size_t k = 0; k < maps->count; k++) {
    const struct target_map *part = &maps->map[k];
    if (part->inode == m->inode && part->r && !part->w &&
        strcmp(part->path, m->path) == 0 &&
        has_version(&memory, part->start, part->end, version))
      return true;
  }
  return false;
}

/* Our own library knows the text too, without being a LuaJIT. */
static bool is_agent(const struct target_map *m)
{
  return strncmp(base_name(m->path), "libtecs-agent.so", 16) == 0;
}

static enum target_luajit search(struct target *t,
                                 const struct target_maps *maps)
{
  for (size_t i = 0; i < maps->count; i++)
    if (maps->map[i].inode &&
        strncmp(base_name(maps->map[i].path), "libluajit", 9) == 0)
      return TARGET_LUAJIT_SHARED;
  for (size_t i = 0; i < maps->count; i++) {
    const struct target_map *m = &maps->map[i];
    if (m->inode && m->x && m->path[0] == '/' && !is_agent(m) &&
        !seen_before(maps, i) && mapping_has_version(t, maps, i, NULL))
      return TARGET_LUAJIT_STATIC;
  }
  return TARGET_LUAJIT_NO;
}

enum target_luajit target_has_luajit(struct target *t)
{
  struct target_maps maps;
  if (target_maps_read(t, &maps, NULL) != RESULT_OK)
    return TARGET_LUAJIT_NO;
  enum target_luajit found = search(t, &maps);
  target_maps_free(&maps);
  return found;
}

void target_luajit_version(struct target *t,
                           char version[TARGET_LUAJIT_VERSION])
{
  struct target_maps maps;
  *version = '\0';
  if (target_maps_read(t, &maps, NULL) != RESULT_OK)
    return;
  for (size_t i = 0; i < maps.count && !*version; i++) {
    const struct target_map *m = &maps.map[i];
    if (m->inode && m->x && m->path[0] == '/' && !is_agent(m) &&
        !seen_before(&maps, i))
      mapping_has_version(t, &maps, i, version);
  }
  target_maps_free(&maps);
}

bool target_auxv(struct target *t, uint64_t type, uint64_t *out)
{
  char path[64];
  Elf64_auxv_t aux[64];
  if (!target_task_path(t, "auxv", path, sizeof path))
    return false;
  int fd = openat(t->proc, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t n = read(fd, aux, sizeof aux);
  close(fd);
  for (ssize_t i = 0; n > 0 && i < n / (ssize_t)sizeof *aux; i++)
    if (aux[i].a_type == type) {
      *out = aux[i].a_un.a_val;
      return true;
    }
  return false;
}

/* Where its dynamic linker is: nowhere (getauxval(3), AT_BASE). */
bool target_is_static(struct target *t)
{
  uint64_t base;
  return target_auxv(t, AT_BASE, &base) && base == 0;
}

int target_word_bits(struct target *t)
{
  char path[64];
  unsigned char ident[EI_NIDENT];
  if (!target_task_path(t, "exe", path, sizeof path))
    return 0;
  int fd = openat(t->proc, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  ssize_t n = pread(fd, ident, sizeof ident, 0);
  close(fd);
  if (n != (ssize_t)sizeof ident || memcmp(ident, ELFMAG, SELFMAG) != 0)
    return 0;
  return ident[EI_CLASS] == ELFCLASS64   ? 64
         : ident[EI_CLASS] == ELFCLASS32 ? 32
                                         : 0;
}
