/* SPDX-License-Identifier: MIT
 *
 * The collector's side: open, check, back with memory.
 */
#include "shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomics.h"
#include "shm/shm_internal.h"

#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#define F_SEAL_SHRINK 2
#endif
#ifndef FALLOC_FL_KEEP_SIZE
#define FALLOC_FL_KEEP_SIZE 1
#define FALLOC_FL_PUNCH_HOLE 2
#endif

#define SEGMENT_MAX (UINT64_C(1) << 32) /* more is nonsense */

static enum result refuse(struct shm_attach_info *info, enum result r,
                          const char *what)
{
  info->what = what;
  return r;
}

/* Copies the header out and checks all that can be checked in itself. */
static enum result check_header(int fd, uint64_t file_size,
                                struct tecs_header *h,
                                struct shm_attach_info *info)
{
  if (pread(fd, h, sizeof *h, 0) != (ssize_t)sizeof *h)
    return refuse(info, RESULT_CORRUPT, "the segment is too short");
  if (h->magic != TECS_ABI_MAGIC)
    return refuse(info, RESULT_CORRUPT, "the segment has no magic number");
  info->found_major = h->major;
  info->found_oldest = h->oldest;
  if (h->endian != TECS_ABI_ENDIAN || h->word_bytes != sizeof(void *))
    return refuse(info, RESULT_VERSION, "another byte order or word size");
  if (h->major < TECS_ABI_OLDEST || h->oldest > TECS_ABI_MAJOR)
    return refuse(info, RESULT_VERSION, "another version");
  if (h->header_size < sizeof *h || h->section_count > TECS_SECTIONS)
    return refuse(info, RESULT_CORRUPT, "the header's sizes are wrong");
  if (h->segment_size > SEGMENT_MAX || h->segment_size < file_size ||
      file_size < h->header_size)
    return refuse(info, RESULT_CORRUPT, "the segment's size is wrong");
  return RESULT_OK;
}

/* Offset of the section, 0 when it is missing or does not fit. */
static uint64_t section_at(const struct tecs_header *h, uint32_t tag,
                           uint32_t stride, uint32_t count, uint64_t limit)
{
  for (uint32_t i = 0; i < h->section_count; i++) {
    const struct tecs_section *s = &h->section[i];
    if (s->tag != tag)
      continue;
    uint64_t need = (uint64_t)stride * count;
    if (s->stride != stride || s->count != count || s->size < need ||
        s->offset < sizeof *h || (s->offset & 63) || s->offset > limit ||
        need > limit - s->offset)
      return 0;
    return s->offset;
  }
  return 0;
}

static enum result place_sections(struct shm *s, const struct tecs_header *h,
                                  uint64_t file_size,
                                  struct shm_attach_info *info)
{
  uint64_t control = section_at(h, TECS_SECTION_CONTROL,
                                sizeof(struct tecs_control), 1, file_size);
  uint64_t vms = section_at(h, TECS_SECTION_VMS, sizeof(struct tecs_vm),
                            TECS_VMS, file_size);
  uint64_t slots = section_at(h, TECS_SECTION_SLOTS, sizeof(struct tecs_slot),
                              TECS_SLOTS, file_size);
  uint64_t rings = section_at(h, TECS_SECTION_RINGS, TECS_RING_BYTES,
                              TECS_SLOTS, h->segment_size);
  if (!control || !vms || !slots || !rings || (rings & 4095))
    return refuse(info, RESULT_CORRUPT, "a section is missing or misplaced");
  s->header = (struct tecs_header *)s->base;
  s->control = (struct tecs_control *)(s->base + control);
  s->vms = (struct tecs_vm *)(s->base + vms);
  s->slots = (struct tecs_slot *)(s->base + slots);
  s->rings = s->base + rings;
  uint64_t aborts = section_at(h, TECS_SECTION_ABORTS,
                               sizeof(struct tecs_aborts), 1, h->segment_size);
  uint64_t rows =
      section_at(h, TECS_SECTION_ABORT_ROWS, sizeof(struct tecs_abort),
                 TECS_ABORT_ROWS, h->segment_size);
  if (aborts && rows) { /* since minor 1 */
    s->aborts = (struct tecs_aborts *)(s->base + aborts);
    s->abort_rows = (struct tecs_abort *)(s->base + rows);
  }
  uint64_t log = section_at(h, TECS_SECTION_LOG, sizeof(struct tecs_log), 1,
                            h->segment_size);
  if (log) /* since minor 3 */
    s->log = (struct tecs_log *)(s->base + log);
  return RESULT_OK;
}

static enum result map_checked(struct shm *s, struct shm_attach_info *info)
{
  struct stat st;
  struct tecs_header h;
  if (fstat(s->fd, &st) || st.st_size < 0)
    return refuse(info, RESULT_IO, "the segment can't be examined");
  int seals = fcntl(s->fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK))
    return refuse(info, RESULT_CORRUPT, "the segment could be cut short");
  enum result r = check_header(s->fd, (uint64_t)st.st_size, &h, info);
  if (r != RESULT_OK)
    return r;
  s->size = h.segment_size;
  s->base = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
  if (s->base == MAP_FAILED) {
    s->base = NULL;
    return refuse(info, RESULT_NOMEM, "the segment can't be mapped");
  }
  return place_sections(s, &h, (uint64_t)st.st_size, info);
}

enum result shm_attach(struct shm *s, int fd, struct shm_attach_info *info)
{
  memset(s, 0, sizeof *s);
  memset(info, 0, sizeof *info);
  s->fd = fd;
  enum result r = map_checked(s, info);
  if (r != RESULT_OK)
    goto fail;
  s->scratch = mmap(NULL, TECS_RING_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (s->scratch == MAP_FAILED) {
    s->scratch = NULL;
    r = refuse(info, RESULT_NOMEM, "no memory");
    goto fail;
  }
  return RESULT_OK;
fail:
  shm_detach(s);
  return r;
}

void shm_detach(struct shm *s)
{
  if (s->scratch)
    munmap(s->scratch, TECS_RING_BYTES);
  if (s->base)
    munmap(s->base, s->size);
  if (s->fd >= 0)
    close(s->fd);
  memset(s, 0, sizeof *s);
  s->fd = -1;
}

/* As of a real one, but for what nobody reads here. */
enum result shm_private(struct shm *s)
{
  memset(s, 0, sizeof *s);
  s->fd = -1;
  s->size = SEGMENT_ABORTS_OFFSET;
  s->base = mmap(NULL, s->size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  s->scratch = mmap(NULL, TECS_RING_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (s->base == MAP_FAILED)
    s->base = NULL;
  if (s->scratch == MAP_FAILED)
    s->scratch = NULL;
  if (!s->base || !s->scratch) {
    shm_detach(s);
    return RESULT_NOMEM;
  }
  s->control = (struct tecs_control *)(s->base + SEGMENT_CONTROL_OFFSET);
  s->vms = (struct tecs_vm *)(s->base + SEGMENT_VMS_OFFSET);
  s->slots = (struct tecs_slot *)(s->base + SEGMENT_SLOTS_OFFSET);
  s->rings = s->base + SEGMENT_RINGS_OFFSET;
  return RESULT_OK;
}

enum result shm_back_rings(struct shm *s, unsigned count)
{
  if (count > TECS_SLOTS)
    return RESULT_FULL;
  if (s->fd < 0) { /* private: there as it is touched */
    atomic_release(&s->control->rings_backed, (uint32_t)count);
    return RESULT_OK;
  }
  if (count > atomic_get(&s->control->rings_backed)) {
    off_t end = s->rings - s->base + (off_t)count * TECS_RING_BYTES;
    if (fallocate(s->fd, 0, 0, end))
      return RESULT_FULL;
    atomic_release(&s->control->rings_backed, (uint32_t)count);
  }
  return RESULT_OK;
}

/* The file keeps its length, so a late write by the agent finds a page. */
void shm_release_rings(struct shm *s)
{
  off_t start = s->rings - s->base;
  uint32_t backed = atomic_get(&s->control->rings_backed);
  atomic_release(&s->control->rings_backed, 0u);
  if (s->fd >= 0 && backed && backed <= TECS_SLOTS)
    fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start,
              (off_t)backed * TECS_RING_BYTES);
}
