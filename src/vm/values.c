/* SPDX-License-Identifier: MIT
 *
 * Zone entries, builtins and VM states.
 */
#include <stdio.h>
#include <string.h>

#include "vm/vm_internal.h"
#include "vmcore/layout.h"
#include "vmcore/texts.h"

static const char *number_text(struct vm_store *s, uint64_t bits)
{
  double d;
  char text[32];
  memcpy(&d, &bits, sizeof d);
  /* lj_strfmt_num.c, STRFMT_G14; it prints no sign of a nan. */
  int n = d != d ? snprintf(text, sizeof text, "nan")
                 : snprintf(text, sizeof text, "%.14g", d);
  return interner_text(s->texts, interner_add(s->texts, text, (size_t)n));
}

const char *vm_zone_text(struct vm_store *s, unsigned slot,
                         const struct tecs_zone *z)
{
  uint32_t id;
  switch (z->kind) {
  case TECS_ZONE_STRING:
    if (slot < TECS_SLOTS && z->value <= UINT32_MAX &&
        idmap_get(&s->slot[slot].string, z->value, &id))
      return interner_text(s->texts, id);
    return "[lost]";
  case TECS_ZONE_NUMBER:
    return number_text(s, z->value);
  case TECS_ZONE_GAP:
    return "[zones left out]";
  default:
    return vm_type_text((uint32_t)z->value);
  }
}

const char *vm_builtin_text(const struct vm_store *s, uint32_t layout,
                            uint32_t ffid)
{
  (void)s;
  const struct vm_texts *texts = vm_texts_get(layout);
  /* lj_obj.h: FF_LUA 0, FF_C 1, builtins from 2. */
  if (!texts || ffid < 2 || ffid >= texts->ffnames)
    return NULL;
  return texts->ffname[ffid];
}

/* lj_profile.c, profile_trigger. */
char vm_state_letter(uint32_t layout, int32_t vmstate)
{
  const struct vm_layout *lay = vm_layout_get(layout);
  if (!lay)
    return 0;
  if (vmstate >= 0)
    return 'N';
  if (~vmstate == lay->vmst_interp)
    return 'I';
  if (~vmstate == lay->vmst_c)
    return 'C';
  return ~vmstate == lay->vmst_gc ? 'G' : 'J';
}

uint32_t vm_cframe_size(uint32_t layout)
{
  const struct vm_layout *lay = vm_layout_get(layout);
  return lay ? lay->cframe_sizeof : 0;
}
