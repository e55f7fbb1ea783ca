/* SPDX-License-Identifier: MIT
 *
 * References and tagged values: 64 bits wide with LJ_GC64, else 32 bits in
 * values of 64.  The one place that knows the difference, besides the frames
 * in walk_internal.h.
 */
#ifndef VMCORE_VALUE_H
#define VMCORE_VALUE_H

#include <stdint.h>

#include "vmcore/layout.h"
#include "vmcore/mem.h"

/* Bytes of a GCRef or MRef (lj_obj.h). */
static inline unsigned vm_ref_size(const struct vm_layout *lay)
{
  return lay->gc64 ? 8 : 4;
}

/* A reference to an object or into memory: GCRef, MRef.  Plain C pointers
 * (L->base, J->trace, T->ir and others) are 64 bits wide everywhere. */
static inline uint64_t vm_ref(struct vm_mem *m, const struct vm_layout *lay,
                              uint64_t addr)
{
  return m->load(m, addr, vm_ref_size(lay));
}

/* Types beyond the tags are numbers: 13, integers where LJ_DUALNUM is set, and
 * more, doubles (lj_obj.h: LJ_TISNUM, LJ_TNUMX). */
#define VM_TYPE_LIGHTUD 3u
#define VM_TYPE_INT 13u

/* The type of a tagged value as its object has it (enum vm_gct; 0 nil, 1 and 2
 * booleans, 3 light userdata); more than VM_TYPE_INT: a double. */
static inline uint32_t vm_value_type(const struct vm_layout *lay, uint64_t tv)
{
  if (lay->gc64)
    return (uint32_t) ~(int32_t)((int64_t)tv >> 47);
  uint32_t it = (uint32_t)(tv >> 32);
  if (it >> 15 == 0x1fffe) /* tvislightud: 47 bits of address below */
    return VM_TYPE_LIGHTUD;
  return it == 0xfffeffff ? VM_TYPE_INT : ~it; /* LJ_TISNUM with LJ_64 */
}

/* The object of a collectable value; of no meaning for others. */
static inline uint64_t vm_value_obj(const struct vm_layout *lay, uint64_t tv)
{
  return lay->gc64 ? tv & VM_GCV_MASK : (uint32_t)tv;
}

/* The object when the value has that type, else 0. */
static inline uint64_t vm_value_as(const struct vm_layout *lay, uint64_t tv,
                                   enum vm_gct gct)
{
  return vm_value_type(lay, tv) == gct ? vm_value_obj(lay, tv) : 0;
}

/* The function whose frame has that base (lj_frame.h: two slots below it, or
 * the lower half of the one below it). */
static inline uint64_t vm_base_func(struct vm_mem *m,
                                    const struct vm_layout *lay, uint64_t base)
{
  return lay->gc64 ? vm_load8(m, base - 16) & VM_GCV_MASK
                   : vm_load4(m, base - 8);
}

#endif
