/* SPDX-License-Identifier: MIT
 *
 * The module jit.zone as Lua source.  It uses no global: a sandbox may have
 * taken any of them away.  Arguments of the chunk: the module's table, a
 * function that raises `empty zone stack`, one that says whether the JIT
 * compiler is on, and the box of zones_meta.c.  Results: the table's metatable,
 * and the table that getmetatable() shows in its place with that one's
 * metatable.
 *
 * t[1..n] are the names, as in LuaJIT's own module (vmcore/zone.h reads them).
 *
 * `plain` is fast in the interpreter, where one # is cheaper than two loads.
 * In a trace # is a call, with all registers spilled around it; `quick` needs
 * none.  Its depth is a guess that the top's neighbours confirm: somebody may
 * write zone[i] himself.  Their loads are also what keeps the zone visible: the
 * compiler leaves out a store that another one to the same place follows with
 * no guard between (lj_opt_mem.c, lj_opt_dse_ahstore).  They stay, because
 * depth is a floating-point number, whose sums it does not simplify.
 *
 * Engines replace getmetatable(zone).__call, by nothing while they do not
 * measure, and back: `around` runs what they put there and opens and closes
 * the zone all the same; `other` does where they replaced the metatable.
 */
#ifndef AGENT_ZONEMOD_H
#define AGENT_ZONEMOD_H

static const char zonemod_source[] =
    "local zone, empty, compiles, box = ...\n"
    "local meta, depth, engine = {}, 0\n"
    "\n"
    "local function plain(t, name)\n"
    "  local n = #t\n"
    "  if name then t[n + 1] = name return end\n"
    "  if n == 0 then empty() end\n"
    "  local top = t[n]\n"
    "  t[n] = nil\n"
    "  return top\n"
    "end\n"
    "\n"
    "local function quick(t, name)\n"
    "  local n = depth\n"
    "  if name then\n"
    "    local m = n + 1\n"
    "    if t[m] or n ~= 0 and not t[n] then m = #t + 1 end\n"
    "    depth = m\n"
    "    t[m] = name\n"
    "    return\n"
    "  end\n"
    "  local top = t[n]\n"
    "  if not top or t[n + 1] then\n"
    "    n = #t\n"
    "    if n == 0 then empty() end\n"
    "    top = t[n]\n"
    "  end\n"
    "  depth = n - 1\n"
    "  t[n] = nil\n"
    "  return top\n"
    "end\n"
    "\n"
    "-- Chosen by the first zone: the compiler is turned off before it, if at "
    "all.\n"
    "local function first(t, name)\n"
    "  meta.__call = compiles() and quick or plain\n"
    "  return meta.__call(t, name)\n"
    "end\n"
    "\n"
    "local function settle(t, name, n, ...)\n"
    "  if #t == n then\n"
    "    if name then t[n + 1] = name elseif n > 0 then t[n] = nil end\n"
    "  end\n"
    "  return ...\n"
    "end\n"
    "\n"
    "local function around(t, name, ...)\n"
    "  return settle(t, name, #t, engine(t, name, ...))\n"
    "end\n"
    "\n"
    "-- As __call in place of that of a metatable of the game's, box[5].\n"
    "local function other(t, name, ...)\n"
    "  return settle(t, name, #t, box[5].__call(t, name, ...))\n"
    "end\n"
    "\n"
    "local function read(_, key)\n"
    "  if key ~= '__call' then return meta[key] end\n"
    "  if meta.__call == first then meta.__call = compiles() and quick or "
    "plain end\n"
    "  return engine or meta.__call\n"
    "end\n"
    "\n"
    "local function write(_, key, value)\n"
    "  if key == '__call' then\n"
    "    engine = nil\n"
    "    if value and value ~= plain and value ~= quick then\n"
    "      engine, value = value, around\n"
    "    end\n"
    "  end\n"
    "  meta[key] = value\n"
    "end\n"
    "\n"
    "function zone.get(t) return t[#t] end\n"
    "function zone.flush(t) for i = #t, 1, -1 do t[i] = nil end end\n"
    "meta.__call, meta.__metatable = first, {}\n"
    "box[1], box[2], box[3] = meta, meta.__metatable, other\n"
    "return meta, meta.__metatable, { __index = read, __newindex = write }\n";

#endif
