/* SPDX-License-Identifier: MIT
 *
 * How this room reads a VM: through one callback, so that the same code runs
 * in the agent's signal handler (guarded loads), in a collector (memory of
 * another process) and in tests (bytes in an array).
 */
#ifndef VMCORE_MEM_H
#define VMCORE_MEM_H

#include <stdint.h>

struct vm_mem {
  /* width 1, 2, 4 or 8 bytes, zero-extended.  An address that can't be read
   * gives 0 and raises faults. */
  uint64_t (*load)(struct vm_mem *m, uint64_t addr, unsigned width);
  void *ctx;
  volatile uint32_t faults; /* volatile: a SIGSEGV handler may raise it */
};

static inline uint64_t vm_load8(struct vm_mem *m, uint64_t a)
{
  return m->load(m, a, 8);
}
static inline uint32_t vm_load4(struct vm_mem *m, uint64_t a)
{
  return (uint32_t)m->load(m, a, 4);
}
static inline uint32_t vm_load2(struct vm_mem *m, uint64_t a)
{
  return (uint32_t)m->load(m, a, 2);
}
static inline uint32_t vm_load1(struct vm_mem *m, uint64_t a)
{
  return (uint32_t)m->load(m, a, 1);
}

#endif
