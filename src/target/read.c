/* SPDX-License-Identifier: MIT
 *
 * Memory of a process, without stopping it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "target/target_internal.h"

#define SPANS 64u /* of one system call */

enum result target_read(struct target *t, uint64_t addr, void *buf, size_t n)
{
  return n == 0 ? RESULT_OK : t->ops->read(t, addr, buf, n);
}

static enum result read_result(ssize_t got, size_t n, int err)
{
  if (got == (ssize_t)n)
    return RESULT_OK;
  if (got < 0 && err == ESRCH)
    return RESULT_GONE;
  if (got < 0 && (err == EPERM || err == EACCES))
    return RESULT_PERM;
  return RESULT_IO;
}

static enum result read_vm(pid_t tid, uint64_t addr, void *buf, size_t n)
{
  struct iovec to = {buf, n};
  struct iovec from = {(void *)(uintptr_t)addr, n};
  ssize_t got = process_vm_readv(tid, &to, 1, &from, 1, 0);
  return read_result(got, n, got < 0 && errno == ENOSYS ? EPERM : errno);
}

/* Some sandboxes forbid the call above but not this file. */
static enum result read_mem(struct target *t, uint64_t addr, void *buf,
                            size_t n)
{
  char path[64];
  if (t->mem < 0 || t->mem_tid != t->tid) {
    if (!target_task_path(t, "mem", path, sizeof path))
      return RESULT_GONE;
    if (t->mem >= 0)
      close(t->mem);
    t->mem = openat(t->proc, path, O_RDONLY | O_CLOEXEC);
    t->mem_tid = t->tid;
  }
  if (t->mem < 0)
    return errno == EACCES || errno == EPERM ? RESULT_PERM : RESULT_GONE;
  if (addr > INT64_MAX)
    return RESULT_IO;
  ssize_t got = pread(t->mem, buf, n, (off_t)addr);
  enum result r = read_result(got, n, errno);
  if (got <= 0) { /* the memory of before an exec ends like this */
    close(t->mem);
    t->mem = -1;
  }
  return r;
}

enum result target_live_read(struct target *t, uint64_t addr, void *buf,
                             size_t n)
{
  enum result r = read_vm(t->tid, addr, buf, n);
  if (r == RESULT_GONE && target_living(t)) /* that thread alone has ended */
    r = read_vm(t->tid, addr, buf, n);
  if (r == RESULT_PERM)
    r = read_mem(t, addr, buf, n);
  return r;
}

/* Done in order, until one piece faults or ends early; returns how many were
 * begun. */
static size_t read_batch(struct target *t, struct target_span *span, size_t n)
{
  struct iovec to[SPANS], from[SPANS];
  size_t i = 0;
  for (; i < n && i < SPANS; i++) {
    to[i] = (struct iovec){span[i].to, span[i].len};
    from[i] = (struct iovec){(void *)(uintptr_t)span[i].addr, span[i].len};
  }
  n = i;
  ssize_t got = process_vm_readv(t->tid, to, n, from, n, 0);
  if (got < 0 && errno != EFAULT)
    return 0;
  size_t left = got > 0 ? (size_t)got : 0;
  for (i = 0; i < n; i++) {
    span[i].got = left < span[i].len ? left : span[i].len;
    left -= span[i].got;
    if (span[i].got < span[i].len)
      return i + 1;
  }
  return n;
}

void target_read_spans(struct target *t, struct target_span *span, size_t n)
{
  size_t done = 0;
  for (size_t i = 0; i < n; i++)
    span[i].got = 0;
  while (t->ops->read == target_live_read && done < n) {
    size_t begun = read_batch(t, span + done, n - done);
    if (!begun)
      break;
    done += begun;
  }
  for (; done < n; done++) /* not permitted, or the thread has ended */
    if (target_read(t, span[done].addr, span[done].to, span[done].len) ==
        RESULT_OK)
      span[done].got = span[done].len;
}

enum result target_image_open(struct target *t, int *fd, struct error *e)
{
  char path[64];
  *fd = -1;
  if (!target_task_path(t, "mem", path, sizeof path))
    return error_set(e, RESULT_GONE, "process %d has ended", (int)t->pid);
  *fd = openat(t->proc, path, O_RDONLY | O_CLOEXEC);
  if (*fd >= 0)
    return RESULT_OK;
  if (errno == EACCES || errno == EPERM)
    return target_refused(t, "read the memory of", e);
  return error_set(e, RESULT_GONE, "process %d has just ended", (int)t->pid);
}

/* The descriptor keeps naming the memory that it was opened for.  Reading it
 * where nothing is mapped fails; when nobody uses it any more, it has no bytes
 * at all (fs/proc/base.c, mem_rw). */
bool target_image_same(int fd)
{
  char byte;
  return pread(fd, &byte, 1, 0) != 0;
}
