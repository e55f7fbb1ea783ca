/* SPDX-License-Identifier: MIT
 *
 * What the namer reads of a prototype.  Nothing is believed: a prototype's
 * arrays are one allocation (lj_parse.c, fs_finish; lj_bcread.c,
 * lj_bcread_proto), so every place in it is checked against sizept.
 */
#include "vmcore/bcname_internal.h"

#include <string.h>

/* No source function comes near; keeps the work on garbage small. */
#define SIZEBC_MAX (1u << 21)
/* Nodes of a constant table that are searched for one key. */
#define TAB_NODES_MAX 64u

static uint64_t load_ref(struct namer *n, uint64_t addr)
{
  return vm_ref(n->m, n->lay, addr);
}

static bool has_gct(struct namer *n, uint64_t obj, enum vm_gct gct)
{
  /* GCHeader is the same for every object (lj_obj.h). */
  return obj != 0 && vm_load1(n->m, obj + n->lay->L_gct) == gct;
}

/* Offset from pt of what the field points to; 0: outside the prototype. */
static uint32_t inner_offset(struct namer *n, uint32_t field)
{
  uint64_t off = load_ref(n, n->pt + field) - n->pt;
  return off >= n->lay->pt_sizeof && off < n->sizept ? (uint32_t)off : 0;
}

static bool constants_fit(struct namer *n)
{
  uint64_t off = n->k - n->pt;
  uint64_t bc_end = n->lay->pt_sizeof + (uint64_t)n->sizebc * 4;
  return off <= n->sizept && bc_end <= off &&
         (uint64_t)n->sizekgc * vm_ref_size(n->lay) <= off - bc_end &&
         (uint64_t)n->sizekn * 8 <= n->sizept - off;
}

bool bcname_open(struct namer *n, struct vm_mem *m, const struct vm_layout *lay,
                 uint64_t pt)
{
  memset(n, 0, offsetof(struct namer, vars));
  memset(n->table, 0, sizeof n->table);
  n->m = m;
  n->lay = lay;
  n->pt = pt;
  n->faults = m->faults;
  if (!has_gct(n, pt, VM_GCT_PROTO))
    return false;
  n->framesize = vm_load1(m, pt + lay->pt_framesize);
  n->sizebc = vm_load4(m, pt + lay->pt_sizebc);
  n->sizept = vm_load4(m, pt + lay->pt_sizept);
  n->sizekgc = vm_load4(m, pt + lay->pt_sizekgc);
  n->sizekn = vm_load4(m, pt + lay->pt_sizekn);
  n->k = load_ref(n, pt + lay->pt_k);
  if (n->sizebc > SIZEBC_MAX || !constants_fit(n))
    return false;
  n->uvinfo = inner_offset(n, lay->pt_uvinfo);
  n->varinfo = inner_offset(n, lay->pt_varinfo);
  n->lineinfo = inner_offset(n, lay->pt_lineinfo);
  n->firstline = vm_load4(m, pt + lay->pt_firstline);
  n->numline = vm_load4(m, pt + lay->pt_numline);
  return n->uvinfo && n->varinfo && n->lineinfo && m->faults == n->faults;
}

uint32_t bcname_ins(struct namer *n, uint32_t pc)
{
  uint32_t ins = vm_load4(n->m, n->pt + n->lay->pt_sizeof + (uint64_t)pc * 4);
  return (ins & ~UINT32_C(0xff)) | bcname_op(n->lay, ins & 0xff);
}

uint64_t bcname_kgc(struct namer *n, uint32_t idx, enum vm_gct gct)
{
  if (idx >= n->sizekgc)
    return 0;
  uint64_t obj = load_ref(n, n->k - (uint64_t)(idx + 1) * vm_ref_size(n->lay));
  return has_gct(n, obj, gct) ? obj : 0;
}

uint64_t bcname_knum(struct namer *n, uint32_t idx)
{
  if (idx >= n->sizekn)
    return UINT64_MAX; /* a NaN */
  return vm_load8(n->m, n->k + (uint64_t)idx * 8);
}

/* lj_debug.c, lj_debug_line: entry pc - 1, as wide as numline needs. */
uint32_t bcname_line(struct namer *n, uint32_t pc)
{
  unsigned width = n->numline < 256 ? 1 : n->numline < 65536 ? 2 : 4;
  uint64_t off = n->lineinfo + (uint64_t)(pc - 1) * width;
  if (pc == 0 || off + width > n->sizept)
    return 0;
  return n->firstline + (uint32_t)n->m->load(n->m, n->pt + off, width);
}

/* lj_debug.c, lj_debug_uvname: NUL-terminated names, one after another. */
uint32_t bcname_upvalue(struct namer *n, uint32_t idx)
{
  if (idx >= vm_load1(n->m, n->pt + n->lay->pt_sizeuv))
    return 0;
  uint32_t off = n->uvinfo;
  for (; idx > 0 && off < n->sizept && bcname_step(n); off++)
    if (vm_load1(n->m, n->pt + off) == 0)
      idx--;
  return idx == 0 && off < n->sizept ? off : 0;
}

bool bcname_str_is(struct namer *n, uint64_t str, const char *want)
{
  size_t len = strlen(want);
  if (str == 0 || vm_load4(n->m, str + n->lay->str_len) != len)
    return false;
  for (size_t i = 0; i < len; i++)
    if (vm_load1(n->m, str + n->lay->str_sizeof + i) != (uint8_t)want[i])
      return false;
  return true;
}

bool bcname_name_is(struct vm_mem *m, uint64_t addr, const char *want)
{
  for (;; addr++, want++) {
    if (vm_load1(m, addr) != (uint8_t)*want)
      return false;
    if (*want == '\0')
      return true;
  }
}

/* The string that a tagged value is, else 0. */
static uint64_t tv_str(struct namer *n, uint64_t addr)
{
  uint64_t tv = vm_load8(n->m, addr);
  return vm_value_type(n->lay, tv) == VM_GCT_STR ? vm_value_obj(n->lay, tv) : 0;
}

uint64_t bcname_tab_str(struct namer *n, uint64_t tab, const char *key)
{
  uint64_t node = load_ref(n, tab + n->lay->tab_node);
  uint32_t hmask = vm_load4(n->m, tab + n->lay->tab_hmask);
  for (uint32_t i = 0; i <= hmask && i < TAB_NODES_MAX; i++) {
    uint64_t at = node + (uint64_t)i * n->lay->node_sizeof;
    if (bcname_str_is(n, tv_str(n, at + n->lay->node_key), key))
      return tv_str(n, at + n->lay->node_val);
  }
  return 0;
}
