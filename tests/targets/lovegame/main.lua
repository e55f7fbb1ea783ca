-- SPDX-License-Identifier: MIT
-- love lovegame SECONDS: 12 ms of thinking and 6 ms of painting in each frame;
-- what each really got is printed at the end.
local zone = require("jit.zone")
local clock = os.clock
local spent = { think = 0, paint = 0 }
local stop

local function spin(seconds)
  local t, s = clock(), 0
  repeat
    for i = 1, 20000 do s = s + i % 7 end
  until clock() - t >= seconds
  return s
end

local function think()
  local s = spin(0.012)
  return s
end

local function paint()
  local s = spin(0.006)
  return s
end

function love.load(arg)
  stop = love.timer.getTime() + (tonumber(arg[1]) or 5)
  io.stdout:setvbuf("no")
  print("ready")
end

function love.update()
  zone("update")
  local t = clock()
  think()
  spent.think = spent.think + clock() - t
  zone()
  if love.timer.getTime() > stop then love.event.quit() end
end

function love.draw()
  zone("draw")
  local t = clock()
  paint()
  spent.paint = spent.paint + clock() - t
  love.graphics.rectangle("fill", 10, 10, 40, 20)
  zone()
end

function love.quit()
  local sum = spent.think + spent.paint
  for name, t in pairs(spent) do
    print(("truth %s %.4f"):format(name, t / sum))
  end
end
