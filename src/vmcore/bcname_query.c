/* SPDX-License-Identifier: MIT
 *
 * Single questions about a prototype, for those who don't name its children.
 */
#include "vmcore/bcname_internal.h"

/* Parameters are the first entries of varinfo (lj_parse.c, parse_params). */
bool vm_takes_self(struct vm_mem *m, const struct vm_layout *lay, uint64_t pt)
{
  if (vm_load1(m, pt + lay->pt_numparams) == 0)
    return false;
  uint64_t varinfo = vm_ref(m, lay, pt + lay->pt_varinfo);
  return varinfo != 0 && bcname_name_is(m, varinfo, "self");
}

/* lj_debug.c, lj_debug_uvname.  Bounded by the end of the prototype, where the
 * debug information is (lj_parse.c, fs_finish). */
size_t vm_upvalue_name(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t pt, uint32_t idx, char name[VM_NAME_MAX])
{
  uint32_t faults = m->faults;
  uint64_t at = vm_ref(m, lay, pt + lay->pt_uvinfo);
  uint64_t end = pt + vm_load4(m, pt + lay->pt_sizept);
  size_t len = 0;
  if (idx >= vm_load1(m, pt + lay->pt_sizeuv) || at < pt)
    return 0;
  for (; idx > 0 && at < end && m->faults == faults; at++)
    if (vm_load1(m, at) == 0)
      idx--;
  for (; at < end && len < VM_NAME_MAX && m->faults == faults; at++) {
    uint32_t c = vm_load1(m, at);
    if (c == 0)
      return len;
    name[len++] = (char)c;
  }
  return 0;
}

/* The JIT compiler patches opcodes in place, so some count as one.  The I
 * variants (don't compile) and J variants (run the trace) of a loop or header
 * are one with it (lj_trace.c, trace_stop; lj_dispatch.c).  Traces that start
 * at ITERN or at a return put JLOOP there, and ISNEXT and ITERN become JMP and
 * ITERC in a loop that is not over `next` (vm_x64.dasc). */
static uint32_t plain(uint32_t op)
{
  switch (op) {
  case BC_JFORI:
    return BC_FORI;
  case BC_IFORL:
  case BC_JFORL:
    return BC_FORL;
  case BC_IITERL:
  case BC_JITERL:
    return BC_ITERL;
  case BC_ILOOP:
  case BC_JLOOP:
  case BC_ITERC:
  case BC_ITERN:
  case BC_RET:
  case BC_RET0:
  case BC_RET1:
    return BC_LOOP;
  case BC_IFUNCF:
  case BC_JFUNCF:
    return BC_FUNCF;
  case BC_IFUNCV:
  case BC_JFUNCV:
    return BC_FUNCV;
  case BC_ISNEXT:
    return BC_JMP;
  default:
    return op;
  }
}

uint32_t vm_opcode_hash(struct vm_mem *m, const struct vm_layout *lay,
                        uint64_t pt, uint32_t n)
{
  uint32_t h = UINT32_C(2166136261), faults = m->faults;
  bool known = bcname_numbers_known(lay);
  for (uint32_t i = 0; i < n && m->faults == faults; i++) {
    uint32_t op = vm_load1(m, pt + lay->pt_sizeof + (uint64_t)i * 4);
    h = (h ^ (known ? plain(bcname_op(lay, op)) : op)) * UINT32_C(16777619);
  }
  return h;
}
