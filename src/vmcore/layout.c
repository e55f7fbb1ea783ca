/* SPDX-License-Identifier: MIT
 *
 * The rows, made by scripts/layout-rows.  A row's place is its number in the
 * shared segment (tecs/abi.h): Debian 12's is the first.
 */
#include "vmcore/layout.h"

#include <stddef.h>

/* clang-format off */
static const struct vm_layout layouts[] = {
#include "vmcore/layout_v2_1_gc64.h"
#include "vmcore/layout_openresty_gc64.h"
#include "vmcore/layout_v2_1_nogc64.h"
#include "vmcore/layout_v2_0.h"
#include "vmcore/layout_openresty_nogc64.h"
#include "vmcore/layout_tarantool_gc64.h"
#include "vmcore/layout_tarantool_nogc64.h"
#include "vmcore/layout_v2_1_gc64_options.h"
#include "vmcore/layout_v2_1_gc64_options_later.h"
#include "vmcore/layout_v2_1_nogc64_options.h"
#include "vmcore/layout_v2_1_nogc64_options_later.h"
};
/* clang-format on */

unsigned vm_layout_count(void)
{
  return sizeof layouts / sizeof layouts[0];
}

const struct vm_layout *vm_layout_get(uint32_t id)
{
  return id < vm_layout_count() ? &layouts[id] : NULL;
}
