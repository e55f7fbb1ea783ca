-- SPDX-License-Identifier: MIT
-- Moves everybody towards the middle of the flock: tight loops over numbers,
-- which LuaJIT compiles.
local function centre(world)
  local x, y = 0, 0
  for row = 0, world.count - 1 do
    x, y = x + world.x[row], y + world.y[row]
  end
  return x / world.count, y / world.count
end

local function advance(world, cx, cy)
  local x, y, vx, vy = world.x, world.y, world.vx, world.vy
  for row = 0, world.count - 1 do
    local dx, dy = cx - x[row], cy - y[row]
    local pull = 0.001 / (1 + math.sqrt(dx * dx + dy * dy))
    vx[row] = vx[row] * 0.999 + dx * pull
    vy[row] = vy[row] * 0.999 + dy * pull
    x[row] = (x[row] + vx[row]) % world.width
    y[row] = (y[row] + vy[row]) % world.height
  end
end

local function steer(world)
  local cx, cy = centre(world)
  advance(world, cx, cy)
end

return steer
