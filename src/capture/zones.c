/* SPDX-License-Identifier: MIT
 *
 * The zones of a sample.
 */
#include "capture/capture_internal.h"
#include "vmcore/value.h"

static void add(struct capture *c, uint32_t kind, uint64_t value, uint32_t vm)
{
  c->zone[c->zone_count++] =
      (struct tecs_zone){.value = value, .kind = kind, .vm = vm};
}

static void add_gap(struct capture *c, uint32_t left_out, uint32_t vm)
{
  if (!left_out)
    return;
  add(c, TECS_ZONE_GAP, left_out, vm);
  c->flags |= TECS_SAMPLE_ZONES_CUT;
}

/* ---- native code ---- */

void zones_add_native(struct capture *c)
{
  uint64_t name[CAPTURE_ZONES];
  uint32_t depth = c->host->zones ? c->host->zones(c, name) : 0;
  uint32_t n = depth < CAPTURE_ZONES ? depth : CAPTURE_ZONES;
  for (uint32_t i = 0; i < n; i++)
    if (name[i])
      add(c, TECS_ZONE_STRING, intern_text(c, name[i]), TECS_ZONE_NATIVE);
    else
      add(c, TECS_ZONE_OTHER, 0, TECS_ZONE_NATIVE); /* [nil] */
  add_gap(c, depth - n, TECS_ZONE_NATIVE);
}

/* ---- a VM ---- */

/* A table that is growing at this moment has slots that are not filled yet:
 * what says that it is a string must lead to one. */
static void add_value(struct capture *c, uint64_t tv, uint32_t vm)
{
  uint32_t type = vm_value_type(c->lay, tv);
  uint64_t str = vm_value_obj(c->lay, tv);
  if (type > VM_TYPE_INT)
    add(c, TECS_ZONE_NUMBER, tv, vm);
  else if (type != VM_GCT_STR)
    add(c, TECS_ZONE_OTHER, type, vm);
  else if (vm_load1(&c->mem, str + c->lay->L_gct) == VM_GCT_STR)
    add(c, TECS_ZONE_STRING, intern_string(c, str), vm);
  else
    add(c, TECS_ZONE_STRING, 0, vm); /* [lost] */
}

void zones_add_vm(struct capture *c, struct capture_vm *e, unsigned vm)
{
  uint64_t value[CAPTURE_ZONES];
  uint32_t left_out;
  c->lay = vm_layout_get(e->layout);
  uint64_t table = vm_zone_table(&c->mem, c->lay, e->g, &e->zone);
  if (!table)
    return;
  unsigned n =
      vm_zone_read(&c->mem, c->lay, table, value, CAPTURE_ZONES, &left_out);
  for (unsigned i = 0; i < n; i++) {
    if (i == CAPTURE_ZONES / 2)
      add_gap(c, left_out, vm);
    add_value(c, value[i], vm);
  }
}
