-- Closures made in a loop, more of them than are specialized to.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local function make(d)
  local x = 1.5
  return function(v) x = (x * 0 + v) / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d return x end  --@ 24 anonymous
end
local f = {}
for i = 1, 16 do f[i] = make(1.0000001) end
local function run(n, d)
  local y = 1.5
  for i = 1, n do
    y = (y + f[i % 16 + 1](y)) / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d  --@ 16 run
  end
end
while true do run(1e5, 1.0000001) end
