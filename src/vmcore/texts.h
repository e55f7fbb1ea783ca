/* SPDX-License-Identifier: MIT
 *
 * LuaJIT's own words for its numbers, which differ between versions: one set
 * for each layout.
 */
#ifndef VMCORE_TEXTS_H
#define VMCORE_TEXTS_H

#include <stdint.h>

#include "tecs/abi.h"

struct vm_traceerr {
  const char *text; /* lj_traceerr.h; may hold one %d or %s */
  uint8_t severity; /* enum tecs_severity of an abort with it */
};

struct vm_texts {
  const struct vm_traceerr *traceerr; /* TraceError */
  const char *const *bcname;          /* BCOp */
  const char *const *irname;          /* IROp */
  const char *const *ffname;          /* FastFuncID: "string.gsub"; of a very
                                         VM: ffnames.h */
  uint16_t traceerrs, bcnames, irnames, ffnames;
};

/* Of layout number id, empty lists where they are not known; NULL for a number
 * that is no layout. */
const struct vm_texts *vm_texts_get(uint32_t id);
/* "[table]" and so on for an internal type tag, a complement of LJ_T* or that
 * itself; "[lost]" for what is none. */
const char *vm_type_text(uint32_t tag);

#endif
