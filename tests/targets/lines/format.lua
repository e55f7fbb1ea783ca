-- string.format called from compiled code, tables filled with what it makes.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local out = {}
local function run(n, d)
  local x = 1.5
  for i = 1, n do
    x = (x + i) / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d  --@ 24 run
    out[i % 8] = string.format("%d", i % 100)
    x = (x + #out) / d / d / d / d / d / d / d / d / d / d / d / d  --@ 12 run
  end
end
while true do run(1e5, 1.0000001) end
