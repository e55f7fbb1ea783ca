/* SPDX-License-Identifier: MIT
 *
 * Memory of a process, without stopping it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "target/target_internal.h"

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
