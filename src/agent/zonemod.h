/* SPDX-License-Identifier: MIT
 *
 * The module jit.zone as Lua source: the calls of LuaJIT's own module, over a
 * table whose array part holds the names (vmcore/zone.h reads it).
 */
#ifndef AGENT_ZONEMOD_H
#define AGENT_ZONEMOD_H

static const char zonemod_source[] =
    "local underflow = ...\n"
    "local zone = { get = function(t) return t[#t] end,\n"
    "  flush = function(t) for i = #t, 1, -1 do t[i] = nil end end }\n"
    "return zone, { __call = function(t, name)\n"
    "  local n = #t\n"
    "  if name then t[n + 1] = name return end\n"
    "  local top = t[n]\n"
    "  if top == nil then underflow() end\n"
    "  t[n] = nil\n"
    "  return top\n"
    "end }\n";

#endif
