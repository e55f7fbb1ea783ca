/* SPDX-License-Identifier: MIT */
#include "symbols/symbols_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A piece that could not be read is not tried again. */
static uint8_t unreadable[1];

static const struct image_segment *find_segment(const struct image *im,
                                                uint64_t addr)
{
  for (size_t i = 0; i < im->seg_count; i++) {
    if (addr >= im->seg[i].start && addr < im->seg[i].end)
      return &im->seg[i];
  }
  return NULL;
}

static bool read_fd(int fd, uint64_t offset, void *buf, size_t n, size_t *got)
{
  size_t done = 0;

  while (done < n) {
    ssize_t r = pread(fd, (char *)buf + done, n - done, (off_t)(offset + done));
    if (r <= 0)
      break;
    done += (size_t)r;
  }
  *got = done;
  return done > 0;
}

/* The rest of the last page of a file is zero, as in the target. */
static uint8_t *load_chunk(struct image *im, const struct image_segment *s,
                           size_t index)
{
  uint64_t rel = (uint64_t)index * IMAGE_CHUNK;
  size_t n = s->end - s->start - rel;
  uint8_t *bytes;
  size_t got;
  bool ok;

  if (n > IMAGE_CHUNK)
    n = IMAGE_CHUNK;
  bytes = calloc(1, n);
  if (bytes == NULL)
    return unreadable;
  if (im->fd >= 0)
    ok = read_fd(im->fd, s->offset + rel, bytes, n, &got);
  else
    ok = target_read(im->target, s->start + rel, bytes, n) == RESULT_OK;
  if (!ok) {
    free(bytes);
    return unreadable;
  }
  return bytes;
}

static const uint8_t *get_chunk(struct image *im, const struct image_segment *s,
                                size_t index)
{
  if (s->chunk == NULL)
    return NULL;
  if (s->chunk[index] == NULL)
    s->chunk[index] = load_chunk(im, s, index);
  return s->chunk[index] == unreadable ? NULL : s->chunk[index];
}

bool image_read(struct image *im, uint64_t addr, void *buf, size_t n)
{
  uint8_t *out = buf;

  while (n > 0) {
    const struct image_segment *s = find_segment(im, addr);
    if (s == NULL)
      return false;
    uint64_t rel = addr - s->start;
    size_t skip = rel % IMAGE_CHUNK;
    size_t piece = IMAGE_CHUNK - skip;
    if (piece > s->end - addr)
      piece = s->end - addr;
    if (piece > n)
      piece = n;
    const uint8_t *chunk = get_chunk(im, s, rel / IMAGE_CHUNK);
    if (chunk == NULL)
      return false;
    memcpy(out, chunk + skip, piece);
    out += piece;
    addr += piece;
    n -= piece;
  }
  return true;
}

bool image_read_file(struct image *im, uint64_t offset, void *buf, size_t n)
{
  size_t got;

  if (im->fd >= 0)
    return read_fd(im->fd, offset, buf, n, &got) && got == n;
  for (size_t i = 0; i < im->seg_count; i++) {
    const struct image_segment *s = &im->seg[i];
    if (offset >= s->offset && offset - s->offset < s->end - s->start)
      return image_read(im, s->start + (offset - s->offset), buf, n);
  }
  return false;
}

const struct image_segment *image_code(const struct image *im)
{
  for (size_t i = 0; i < im->seg_count; i++) {
    if (im->seg[i].x)
      return &im->seg[i];
  }
  return NULL;
}

void image_close(struct image *im)
{
  if (im->fd >= 0)
    close(im->fd);
  im->fd = -1;
}

void image_free(struct image *im)
{
  for (size_t i = 0; i < im->seg_count; i++) {
    struct image_segment *s = &im->seg[i];
    size_t count = (s->end - s->start + IMAGE_CHUNK - 1) / IMAGE_CHUNK;
    for (size_t k = 0; s->chunk != NULL && k < count; k++) {
      if (s->chunk[k] != unreadable)
        free(s->chunk[k]);
    }
    free(s->chunk);
  }
  im->seg_count = 0;
  image_close(im);
}
