local ok, zone = pcall(require, "jit.zone")
if not ok then zone = function() end end

local function spin(part, step)
  local t = cpu()
  local stop, c = t + budget[part + 1]
  repeat step() c = cpu() until c >= stop
  spent(part, c - t)
end

local function crunch()
  local s = 0
  for i = 1, 20000 do s = s + i % 7 end
  return s
end

local function compiled() spin(1, crunch) end
local function on_middle() spin(3, crunch) end

function tick()
  zone("simulate")
  compiled()
  zone()
  zone("script")
  middle(on_middle)
  zone()
end
