-- SPDX-License-Identifier: MIT
-- The world: entities are rows, components are columns.
local ffi = require("ffi")

local World = {}
World.__index = World

World.width, World.height = 640, 400

local function column(count, fill)
  local c = ffi.new("double[?]", count)
  for row = 0, count - 1 do
    c[row] = fill(row)
  end
  return c
end

function World.new(count)
  local random = math.random
  local world = setmetatable({ count = count, cursor = {} }, World)
  world.x = column(count, function() return random() * World.width end)
  world.y = column(count, function() return random() * World.height end)
  world.vx = column(count, function() return random() * 2 - 1 end)
  world.vy = column(count, function() return random() * 2 - 1 end)
  world.mood = {}
  for row = 0, count - 1 do
    world.mood[row] = "calm"
  end
  return world
end

-- The next `size` rows for a system that works through the world piece by
-- piece: first and last row.
function World:slice(system, size)
  local first = self.cursor[system] or 0
  if first + size > self.count then
    first = 0
  end
  self.cursor[system] = first + size
  return first, first + size - 1
end

return World
