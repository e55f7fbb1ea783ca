-- SPDX-License-Identifier: MIT
-- Every entity has a mind of its own: a coroutine that decides something and
-- yields.
local function decide(world, row)
  local speed = math.abs(world.vx[row]) + math.abs(world.vy[row])
  if speed < 0.2 then
    world.mood[row] = "bored"
    world.vx[row] = world.vx[row] + math.random() - 0.5
  elseif speed > 1.5 then
    world.mood[row] = "tired"
  else
    world.mood[row] = "calm"
  end
end

local function mind(world, row)
  while true do
    decide(world, row)
    coroutine.yield()
  end
end

local minds = {}

local function think(world)
  local first, last = world:slice("think", 32)
  for row = first, last do
    local co = minds[row]
    if not co then
      co = coroutine.create(mind)
      minds[row] = co
    end
    assert(coroutine.resume(co, world, row))
  end
end

return think
