-- SPDX-License-Identifier: MIT
-- Short-lived objects: work for the garbage collector.
local function spark(x, y)
  return {
    pos = { x = x, y = y },
    glow = function(t) return 1 / (1 + t + x + y) end,
  }
end

local function sparks(world)
  local first, last = world:slice("sparks", 16)
  local sparks = {}
  for row = first, last do
    sparks[#sparks + 1] = spark(world.x[row], world.y[row])
  end
  world.sparks = sparks
end

return sparks
