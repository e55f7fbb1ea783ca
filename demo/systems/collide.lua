-- SPDX-License-Identifier: MIT
-- Looks for neighbours with a grid of cells: table reads and writes.
local CELL = 16

local function cell_of(world, row)
  return math.floor(world.y[row] / CELL) * 256 + math.floor(world.x[row] / CELL)
end

local function fill(world, grid, first, last)
  for row = first, last do
    local cell = cell_of(world, row)
    grid[cell] = (grid[cell] or 0) + 1
  end
end

local function repel(world, grid, first, last)
  for row = first, last do
    local crowd = grid[cell_of(world, row)] - 1
    if crowd > 0 then
      world.vx[row] = world.vx[row] * (1 - 0.01 * crowd)
      world.vy[row] = world.vy[row] * (1 - 0.01 * crowd)
    end
  end
end

local function collide(world)
  local first, last = world:slice("collide", 128)
  local grid = {}
  fill(world, grid, first, last)
  repel(world, grid, first, last)
end

return collide
