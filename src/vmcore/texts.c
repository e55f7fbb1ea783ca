/* SPDX-License-Identifier: MIT */
#include "vmcore/texts_internal.h"

#include <stddef.h>

/* In the order of the layouts (layout.c). */
static const struct vm_texts *const texts[] = {
    &vm_texts_20220320,
};

const struct vm_texts *vm_texts_get(uint32_t id)
{
  return id < sizeof texts / sizeof texts[0] ? texts[id] : NULL;
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
