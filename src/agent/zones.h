/* SPDX-License-Identifier: MIT
 *
 * Zones: the module jit.zone that the agent brings, zones of native code
 * (tecs/zone.h), and what a sample says of both.
 */
#ifndef AGENT_ZONES_H
#define AGENT_ZONES_H

#include <stdbool.h>

#include "agent/agent_internal.h"
#include "agent/luaapi.h"

/* ---- zones_module.c: on the game's own threads ---- */

#define ZONES_MODULE "jit.zone"

/* Does the VM's API have what zones_open needs? */
bool zones_usable(const struct api *api);
/* The loader of the module: the same table each time, one stack a VM. */
int zones_open(lua_State *L);

/* ---- zones_meta.c: debug.getmetatable and debug.setmetatable ---- */

/* Does the VM's API have what the other two need? */
bool zones_meta_usable(const struct api *api);
/* Pushes a new box, for what the module's source puts into it (zonemod.h). */
void zones_meta_push_box(const struct api *api, lua_State *L);
/* From now on both functions show and keep the face of the module that is on
 * top of the stack, and stays there. */
void zones_meta_take_over(const struct api *api, lua_State *L);

/* ---- zones_native.c ---- */

#define NATIVE_ZONES_MAX 64
/* How many zones this thread has open, and the names of as many as there is
 * room for, outermost first.  Safe in a handler. */
uint32_t zones_native(const char *name[NATIVE_ZONES_MAX]);

#endif
