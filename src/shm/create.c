/* SPDX-License-Identifier: MIT
 *
 * The agent's side: create, publish, destroy.
 */
#include "shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomics.h"
#include "shm/shm_internal.h"

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#define MFD_ALLOW_SEALING 2u
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_SEAL_SHRINK 2
#endif

/* Growing a file beyond the program's limit would raise SIGXFSZ in it. */
static bool within_limit(uint64_t size)
{
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
         size <= limit.rlim_cur;
}

/* An anonymous file: gone with the last process that has it, whichever way the
 * game ends; sealed, so that nobody can turn a load into SIGBUS by cutting
 * it.  The fixed part is backed before it is mapped; the rings only when a
 * collector comes (shm_back_rings). */
static int make_file(void)
{
  if (!within_limit(SEGMENT_FIXED_SIZE)) {
    errno = EFBIG;
    return -1;
  }
  int fd = (int)syscall(SYS_memfd_create, TECS_SEGMENT_NAME,
                        MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return -1;
  if (fchmod(fd, 0600) || fallocate(fd, 0, 0, SEGMENT_FIXED_SIZE) ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)) {
    close(fd);
    return -1;
  }
  return fd;
}

static void set_pointers(struct shm *s)
{
  s->header = (struct tecs_header *)s->base;
  s->control = (struct tecs_control *)(s->base + SEGMENT_CONTROL_OFFSET);
  s->vms = (struct tecs_vm *)(s->base + SEGMENT_VMS_OFFSET);
  s->slots = (struct tecs_slot *)(s->base + SEGMENT_SLOTS_OFFSET);
  s->rings = s->base + SEGMENT_RINGS_OFFSET;
  s->aborts = (struct tecs_aborts *)(s->base + SEGMENT_ABORTS_OFFSET);
  s->abort_rows = (struct tecs_abort *)(s->base + SEGMENT_ABORT_ROWS_OFFSET);
  s->log = (struct tecs_log *)(s->base + SEGMENT_LOG_OFFSET);
}

static void add_section(struct tecs_header *h, uint32_t tag, uint64_t offset,
                        uint32_t stride, uint32_t count)
{
  struct tecs_section *sec = &h->section[h->section_count++];
  sec->tag = tag;
  sec->offset = offset;
  sec->stride = stride;
  sec->count = count;
  sec->size = (uint64_t)stride * count;
}

/* Field 22 of /proc/self/stat, without stdio: the agent also runs where
 * allocation must not happen (a fork child). */
static uint64_t own_start_time(void)
{
  char buf[512];
  int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  ssize_t n = read(fd, buf, sizeof buf - 1);
  close(fd);
  if (n <= 0)
    return 0;
  buf[n] = 0;
  char *p = strrchr(buf, ')'); /* the name may hold anything */
  for (int field = 2; p && field < 22; field++)
    p = strchr(p + 1, ' ');
  uint64_t v = 0;
  if (p)
    for (p++; *p >= '0' && *p <= '9'; p++)
      v = v * 10 + (uint64_t)(*p - '0');
  return v;
}

static void fill_header(struct tecs_header *h, const char *build,
                        uint32_t cookie)
{
  h->endian = TECS_ABI_ENDIAN;
  h->word_bytes = sizeof(void *);
  h->major = TECS_ABI_MAJOR;
  h->oldest = TECS_ABI_OLDEST;
  h->minor = TECS_ABI_MINOR;
  h->header_size = sizeof *h;
  h->segment_size = SEGMENT_SIZE;
  h->pid = (uint32_t)getpid();
  h->uid = (uint32_t)geteuid();
  h->start_time = own_start_time();
  h->cookie = cookie;
  h->state = TECS_STATE_STARTING;
  for (size_t i = 0; build[i] && i + 1 < sizeof h->build; i++)
    h->build[i] = build[i];
  add_section(h, TECS_SECTION_CONTROL, SEGMENT_CONTROL_OFFSET,
              sizeof(struct tecs_control), 1);
  add_section(h, TECS_SECTION_VMS, SEGMENT_VMS_OFFSET, sizeof(struct tecs_vm),
              TECS_VMS);
  add_section(h, TECS_SECTION_SLOTS, SEGMENT_SLOTS_OFFSET,
              sizeof(struct tecs_slot), TECS_SLOTS);
  add_section(h, TECS_SECTION_RINGS, SEGMENT_RINGS_OFFSET, TECS_RING_BYTES,
              TECS_SLOTS);
  add_section(h, TECS_SECTION_ABORTS, SEGMENT_ABORTS_OFFSET,
              sizeof(struct tecs_aborts), 1);
  add_section(h, TECS_SECTION_ABORT_ROWS, SEGMENT_ABORT_ROWS_OFFSET,
              sizeof(struct tecs_abort), TECS_ABORT_ROWS);
  add_section(h, TECS_SECTION_LOG, SEGMENT_LOG_OFFSET, sizeof(struct tecs_log),
              1);
}

enum result shm_create(struct shm *s, const char *build, uint32_t cookie)
{
  memset(s, 0, sizeof *s);
  s->fd = make_file();
  if (s->fd < 0)
    return errno == EPERM || errno == EACCES ? RESULT_PERM : RESULT_NOMEM;
  void *base =
      mmap(NULL, SEGMENT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
  if (base == MAP_FAILED) {
    close(s->fd);
    s->fd = -1;
    return RESULT_NOMEM;
  }
  /* A child by fork() makes its own; one by a raw clone gets none at all,
   * rather than writing into its parent's.  No core file needs this. */
  madvise(base, SEGMENT_SIZE, MADV_DONTFORK);
  madvise(base, SEGMENT_SIZE, MADV_DONTDUMP);
  struct stat st;
  s->inode = fstat(s->fd, &st) ? 0 : st.st_ino;
  s->base = base;
  s->size = SEGMENT_SIZE;
  set_pointers(s);
  fill_header(s->header, build, cookie);
  return RESULT_OK;
}

void shm_publish(struct shm *s, enum tecs_state state, enum tecs_reason why)
{
  s->header->reason = why;
  atomic_release(&s->header->state, (uint32_t)state);
  atomic_release(&s->header->magic, TECS_ABI_MAGIC);
}

enum result shm_back(struct shm *s, const void *from, const void *to)
{
  off_t start = (const uint8_t *)from - s->base;
  off_t end = (const uint8_t *)to - s->base;
  if (!within_limit((uint64_t)end) || fallocate(s->fd, 0, start, end - start))
    return RESULT_FULL;
  return RESULT_OK;
}

enum result shm_back_aborts(struct shm *s)
{
  if (!s->aborts)
    return RESULT_UNSUPPORTED;
  return shm_back(s, s->aborts, s->abort_rows + SHM_ABORT_STEP);
}

enum result shm_back_abort_rows(struct shm *s, uint32_t from, uint32_t to)
{
  if (from >= to || to > TECS_ABORT_ROWS)
    return RESULT_FULL;
  return shm_back(s, s->abort_rows + from, s->abort_rows + to);
}

void shm_destroy(struct shm *s)
{
  struct stat st;
  if (s->base)
    munmap(s->base, s->size);
  /* a game that closes everything may have given the number away */
  if (s->fd >= 0 && !fstat(s->fd, &st) && st.st_ino == s->inode)
    close(s->fd);
  memset(s, 0, sizeof *s);
  s->fd = -1;
}
