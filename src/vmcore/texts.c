/* SPDX-License-Identifier: MIT */
#include "vmcore/texts_internal.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "vmcore/layout.h"

/* Before 2021 and in Tarantool's fork the errors are the same, but other IR
 * instructions stand in between (lj_ir.h, IRDEF). */
static bool has_other_ir(const struct vm_layout *lay)
{
  return lay->snap_mcofs == VM_ABSENT16 || lay->vmst_lfunc != VM_ABSENT8 ||
         !strncmp(lay->name, "tarantool-", 10);
}

/* The first betas of 2.1 number the errors in another way (lj_traceerr.h). */
static bool has_other_errors(const struct vm_layout *lay)
{
  return strstr(lay->name, "-2.1-201506") != NULL;
}

const struct vm_texts *vm_texts_get(uint32_t id)
{
  static const struct vm_texts none;
  const struct vm_layout *lay = vm_layout_get(id);
  if (!lay)
    return NULL;
  switch (lay->bc_max) {
  case 93:
    return &vm_texts_2_0;
  case 97:
    if (has_other_errors(lay))
      return &none;
    return has_other_ir(lay) ? &vm_texts_20220320_other_ir : &vm_texts_20220320;
  case 104:
    return &vm_texts_2026;
  }
  return &none;
}

/* lj_obj.h, LJ_T*: a tag is the complement of one of these. */
const char *vm_type_text(uint32_t tag)
{
  static const char *const names[] = {
      "[nil]",     "[boolean]", "[boolean]",  "[lightuserdata]", "[string]",
      "[upvalue]", "[thread]",  "[proto]",    "[function]",      "[trace]",
      "[cdata]",   "[table]",   "[userdata]",
  };
  if (tag > UINT32_MAX / 2)
    tag = ~tag;
  return tag < sizeof names / sizeof *names ? names[tag] : "[lost]";
}
