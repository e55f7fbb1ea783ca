/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording.h"

bool bytes_read(const char *path, struct bytes *out)
{
  FILE *f = fopen(path, "rb");
  size_t cap = 0, n;
  *out = (struct bytes){0};
  if (!f)
    return false;
  do {
    cap = cap * 2 + 65536;
    uint8_t *grown = realloc(out->data, cap);
    if (!grown)
      break;
    out->data = grown;
    n = fread(out->data + out->len, 1, cap - out->len, f);
    out->len += n;
  } while (out->len == cap);
  bool ok = !ferror(f) && out->data && out->len < cap;
  fclose(f);
  if (!ok)
    bytes_free(out);
  return ok;
}

void bytes_free(struct bytes *b)
{
  free(b->data);
  *b = (struct bytes){0};
}

bool make_folders(const char *path)
{
  char dir[PATH_MAX];
  snprintf(dir, sizeof dir, "%s", path);
  for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
    *p = '\0';
    if (mkdir(dir, 0777) && errno != EEXIST)
      return false;
    *p = '/';
  }
  return true;
}

bool bytes_write(const char *path, const void *data, size_t len)
{
  FILE *f = make_folders(path) ? fopen(path, "wb") : NULL;
  if (!f)
    return false;
  bool ok = fwrite(data, 1, len, f) == len;
  return fclose(f) == 0 && ok;
}

/* ---- unpacking ---- */

static bool put_pieces(int fd, const uint8_t *p, size_t left, uint64_t size)
{
  struct piece_head h;
  while (left >= sizeof h) {
    memcpy(&h, p, sizeof h);
    p += sizeof h;
    left -= sizeof h;
    if (h.len > left || h.offset > size || h.len > size - h.offset ||
        pwrite(fd, p, h.len, (off_t)h.offset) != (ssize_t)h.len)
      return false;
    p += h.len;
    left -= h.len;
  }
  return left == 0;
}

static bool unpack_file(const char *from, const char *to)
{
  const size_t head = sizeof REDUCED_MAGIC - 1 + sizeof(uint64_t);
  struct bytes b;
  uint64_t size;
  if (!bytes_read(from, &b))
    return false;
  bool ok = b.len >= head && !memcmp(b.data, REDUCED_MAGIC, 8);
  if (ok) {
    memcpy(&size, b.data + sizeof REDUCED_MAGIC - 1, sizeof size);
    int fd = make_folders(to) ? open(to, O_RDWR | O_CREAT | O_EXCL, 0666) : -1;
    ok = fd >= 0 && size < 1u << 30 && ftruncate(fd, (off_t)size) == 0 &&
         put_pieces(fd, b.data + head, b.len - head, size);
    if (fd >= 0)
      close(fd);
  }
  bytes_free(&b);
  return ok;
}

static const char *unpack_to;
static size_t unpack_skip;

static int unpack_entry(const char *path, const struct stat *st, int type,
                        struct FTW *at)
{
  char to[PATH_MAX];
  (void)st, (void)at;
  if (type != FTW_F)
    return 0;
  snprintf(to, sizeof to, "%s%s", unpack_to, path + unpack_skip);
  return unpack_file(path, to) ? 0 : -1;
}

bool recording_unpack(const char *from, const char *to)
{
  char path[PATH_MAX];
  struct bytes maps;
  snprintf(path, sizeof path, "%s/maps", from);
  if (!bytes_read(path, &maps))
    return false;
  snprintf(path, sizeof path, "%s/maps", to);
  bool ok = bytes_write(path, maps.data, maps.len);
  bytes_free(&maps);
  snprintf(path, sizeof path, "%s/root", from);
  unpack_to = to;
  unpack_skip = strlen(from);
  return ok && nftw(path, unpack_entry, 16, FTW_PHYS) == 0;
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *at)
{
  (void)st, (void)at;
  return type == FTW_DP ? rmdir(path) : unlink(path);
}

void recording_remove(const char *dir)
{
  nftw(dir, remove_entry, 16, FTW_PHYS | FTW_DEPTH);
}
