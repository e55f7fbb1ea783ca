-- SPDX-License-Identifier: MIT
-- phases.lua SECONDS: three functions in two zones, each timed by the program
-- itself; the shares are printed at the end as `truth NAME share`.
local secs = tonumber(arg[1]) or 5
local zone = require("jit.zone")
local clock, time = os.clock, os.time
local spent = { update = 0, collide = 0, draw = 0 }

local function burn(n)
  local s = 0
  for i = 1, n do s = s + i % 7 end
  return s
end

local function update()
  local r = burn(3e5)
  return r
end

local function collide()
  zone("collide")
  local r = burn(2e5)
  zone()
  return r
end

local function draw()
  local r = burn(1e5)
  return r
end

local function timed(name, f)
  local t = clock()
  f()
  spent[name] = spent[name] + clock() - t
end

local function frame()
  zone("simulate")
  timed("update", update)
  timed("collide", collide)
  zone()
  zone("render")
  timed("draw", draw)
  zone()
end

io.stdout:setvbuf("no")
print("ready")
local stop = time() + secs
while time() < stop do
  for _ = 1, 5 do frame() end
end
local sum = spent.update + spent.collide + spent.draw
for name, t in pairs(spent) do print(("truth %s %.4f"):format(name, t / sum)) end
print(("truth simulate %.4f"):format((spent.update + spent.collide) / sum))
