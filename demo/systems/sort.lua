-- SPDX-License-Identifier: MIT
-- Puts sprites into drawing order: table.sort is a C function that calls back
-- into Lua.
local function sort(world)
  local y = world.y
  local function behind(a, b)
    return y[a] < y[b]
  end
  local first, last = world:slice("sort", 32)
  local order = {}
  for row = first, last do
    order[#order + 1] = row
  end
  table.sort(order, behind)
  return order
end

return sort
