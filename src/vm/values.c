/* SPDX-License-Identifier: MIT
 *
 * Zone entries and VM states.
 */
#include <stdio.h>
#include <string.h>

#include "vm/vm_internal.h"
#include "vmcore/discover.h"
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
    if (slot < VM_SLOTS && z->value <= UINT32_MAX &&
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

/* lj_profile.c, profile_trigger. */
char vm_state_letter(uint32_t layout, int32_t vmstate)
{
  const struct vm_layout *lay = vm_layout_get(layout);
  if (!lay)
    return 0;
  if (vmstate >= 0)
    return 'N';
  if (vm_state_interprets(lay, vmstate))
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
