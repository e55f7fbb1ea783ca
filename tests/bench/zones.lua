-- SPDX-License-Identifier: MIT
-- zones.lua compiled|interpreted ROUNDS: what push + pop cost in LuaJIT's own
-- jit.zone and in the agent's, net of the loop, in ns.  Rounds are paired: the
-- empty loop, LuaJIT's module, the agent's; medians.  One line each:
--   MODE SHAPE stock|agent NS
local mode, rounds = arg[1], tonumber(arg[2] or 9)
if mode == "interpreted" then jit.off() end
local count = mode == "interpreted" and 5e5 or 1e7

local file = assert(package.searchpath("jit.zone", package.path))
local modules = {
  { name = "stock", open = function() return dofile(file) end },
  { name = "agent", open = function()
    local zone = require("jit.zone")
    assert(debug.getinfo(zone.get, "S").source == "=jit.zone",
      "the agent is not preloaded")
    return zone
  end },
}

-- zones open before, text before the work, text after it
local shapes = {
  { "flat", 0, "zone('render')", "zone()" },
  { "nested", 0, "zone('frame') zone('phase')", "zone() zone()" },
  { "siblings", 0, "zone('a') zone() zone('b')", "zone()" },
  { "depth 3", 3, "zone('render')", "zone()" },
  { "depth 20", 20, "zone('render')", "zone()" },
}
local body = [[local zone, count = ...
  return function()
    local s = 0
    for i = 1, count do %s s = s + i %% 3 %s end
    return s
  end]]
local function loop(before, after, zone)
  return assert(loadstring(body:format(before, after)))(zone, count)
end

local function timed(f)
  local t = os.clock()
  f()
  return os.clock() - t
end

local function median(t)
  table.sort(t)
  return t[math.floor(#t / 2) + 1]
end

local function measure(shape)
  local empty, loops, net = loop("", ""), {}, { {}, {} }
  for i, m in ipairs(modules) do
    local zone = m.open()
    zone:flush()
    for _ = 1, shape[2] do zone("outer") end
    loops[i] = loop(shape[3], shape[4], zone)
  end
  for round = 0, rounds do
    local nothing = timed(empty)
    for i = 1, #modules do
      local t = timed(loops[i]) - nothing
      if round > 0 then net[i][round] = t / count * 1e9 end -- 0 warms up
    end
  end
  for i, m in ipairs(modules) do
    print(("%s\t%s\t%s\t%.2f"):format(mode, shape[1], m.name, median(net[i])))
  end
end

for _, shape in ipairs(shapes) do measure(shape) end
