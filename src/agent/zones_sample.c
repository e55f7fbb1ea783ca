/* SPDX-License-Identifier: MIT
 *
 * The zones of a sample.  Runs in the signal handler.
 */
#include "agent/zones.h"

static void add(struct slot_state *s, uint32_t kind, uint64_t value,
                uint32_t vm)
{
  s->zone[s->zone_count++] =
      (struct tecs_zone){.value = value, .kind = kind, .vm = vm};
}

static void add_gap(struct slot_state *s, uint32_t left_out, uint32_t vm)
{
  if (!left_out)
    return;
  add(s, TECS_ZONE_GAP, left_out, vm);
  s->flags |= TECS_SAMPLE_ZONES_CUT;
}

/* ---- native code ---- */

void zones_add_native(struct slot_state *s)
{
  const char *name[NATIVE_ZONES_MAX];
  uint32_t depth = zones_native(name);
  uint32_t n = depth < NATIVE_ZONES_MAX ? depth : NATIVE_ZONES_MAX;
  for (uint32_t i = 0; i < n; i++)
    if (name[i])
      add(s, TECS_ZONE_STRING, intern_text(s, name[i]), TECS_ZONE_NATIVE);
    else
      add(s, TECS_ZONE_OTHER, 0, TECS_ZONE_NATIVE); /* [nil] */
  add_gap(s, depth - n, TECS_ZONE_NATIVE);
}

/* ---- a VM ---- */

/* A table that is growing at this moment has slots that are not filled yet:
 * what says that it is a string must lead to one. */
static void add_value(struct slot_state *s, uint64_t tv, uint32_t vm)
{
  uint32_t type = vm_itype_inv(tv);
  uint64_t str = tv & VM_GCV_MASK;
  if (type > 13) /* beyond the tags: a double (lj_obj.h, LJ_TNUMX) */
    add(s, TECS_ZONE_NUMBER, tv, vm);
  else if (type != VM_GCT_STR)
    add(s, TECS_ZONE_OTHER, type, vm);
  else if (vm_load1(&s->mem, str + s->lay->L_gct) == VM_GCT_STR)
    add(s, TECS_ZONE_STRING, intern_string(s, str), vm);
  else
    add(s, TECS_ZONE_STRING, 0, vm); /* [lost] */
}

void zones_add_vm(struct slot_state *s, struct vm_entry *e, unsigned vm)
{
  uint64_t value[ZONES_MAX];
  uint32_t left_out;
  s->lay = vm_layout_get(e->layout);
  uint64_t table = vm_zone_table(&s->mem, s->lay, e->g, &e->zone);
  if (!table)
    return;
  unsigned n =
      vm_zone_read(&s->mem, s->lay, table, value, ZONES_MAX, &left_out);
  for (unsigned i = 0; i < n; i++) {
    if (i == ZONES_MAX / 2)
      add_gap(s, left_out, vm);
    add_value(s, value[i], vm);
  }
}
