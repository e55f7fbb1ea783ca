/* SPDX-License-Identifier: MIT
 *
 * Zone entries, builtins and VM states.
 */
#include <stdio.h>
#include <string.h>

#include "vm/vm_internal.h"
#include "vmcore/layout.h"

/* lj_obj.h, LJ_T*: a tag is the complement of one of these. */
static const char *type_text(uint64_t tag)
{
  static const char *const names[] = {
      "[nil]",     "[boolean]", "[boolean]",  "[lightuserdata]", "[string]",
      "[upvalue]", "[thread]",  "[proto]",    "[function]",      "[trace]",
      "[cdata]",   "[table]",   "[userdata]",
  };
  uint32_t t = (uint32_t)tag;
  if (t > UINT32_MAX / 2)
    t = ~t;
  return t < sizeof names / sizeof *names ? names[t] : "[lost]";
}

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
  default:
    return type_text(z->value);
  }
}

const char *vm_builtin_text(const struct vm_store *s, uint32_t layout,
                            uint32_t ffid)
{
  (void)s;
  /* lj_obj.h: FF_LUA 0, FF_C 1, builtins from 2. */
  if (!vm_layout_get(layout) || ffid < 2 || ffid >= vm_ffnames_20220320_count)
    return NULL;
  return vm_ffnames_20220320[ffid];
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
