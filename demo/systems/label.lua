-- SPDX-License-Identifier: MIT
-- Writes a label for everybody: work inside LuaJIT's C functions.
local function describe(world, row)
  return string.format("%-6s %3d (%.1f, %.1f)", world.mood[row], row,
    world.x[row], world.y[row])
end

local function label(world)
  local first, last = world:slice("label", 16)
  local lines = {}
  for row = first, last do
    lines[#lines + 1] = describe(world, row)
  end
  world.labels = table.concat(lines, "\n")
end

return label
