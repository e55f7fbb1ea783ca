/* SPDX-License-Identifier: MIT
 *
 * VMs of a process without an agent, found in its memory: a main thread stands
 * right in front of its global_State and points at it (lj_state.c,
 * lua_newstate: both are parts of one GG_State).
 */
#include <stdlib.h>
#include <string.h>

#include "session/session_internal.h"
#include "vmcore/discover.h"
#include "vmcore/layout.h"
#include "vmcore/zone.h"

#define PIECE (UINT64_C(1) << 20)
#define MEMORY_MAX (UINT64_C(16) << 30) /* bytes that are looked at */

struct search {
  struct target *t;
  struct vm_mem *m;
  uint64_t *piece;
  struct session_vm *vm;
  unsigned count;
};

static void consider(struct search *s, uint64_t L)
{
  uint64_t g;
  uint32_t id = vm_identify(s->m, L, &g);
  if (id == VM_LAYOUT_UNKNOWN || s->count == TECS_VMS)
    return;
  struct session_vm *vm = &s->vm[s->count++];
  *vm = (struct session_vm){
      .layout = vm_layout_get(id)->name, .layout_id = id, .g = g};
  outside_look(s->m, vm);
}

/* Words that point a little beyond themselves. */
static void scan_piece(struct search *s, uint64_t addr, size_t words)
{
  for (size_t i = 0; i < words; i++) {
    uint64_t L = vm_main_thread_by(addr + 8 * i, s->piece[i]);
    if (L)
      consider(s, L);
  }
}

static void scan_map(struct search *s, const struct target_map *map)
{
  for (uint64_t at = map->start; at < map->end; at += PIECE) {
    uint64_t n = map->end - at < PIECE ? map->end - at : PIECE;
    if (target_read(s->t, at, s->piece, n) == RESULT_OK)
      scan_piece(s, at, n / 8);
  }
}

unsigned session_find_vms(struct target *t, struct session_vm vm[TECS_VMS])
{
  struct target_maps maps = {0};
  struct outside mem;
  struct search s = {.t = t, .m = outside_open(&mem, t), .vm = vm};
  uint64_t seen = 0;
  s.piece = malloc(PIECE);
  if (s.piece && target_maps_read(t, &maps, NULL) == RESULT_OK)
    for (size_t i = 0; i < maps.count && seen < MEMORY_MAX; i++) {
      const struct target_map *map = &maps.map[i];
      if (!map->r || !map->w || map->x)
        continue;
      seen += map->end - map->start;
      scan_map(&s, map);
    }
  target_maps_free(&maps);
  free(s.piece);
  return s.count;
}
