-- An arithmetic loop.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local function run(n, d)
  local x = 1.5
  for i = 1, n do
    x = x / d / d / d / d / d / d / d / d  --@ 8 run
    x = x / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d + i  --@ 16 run
    x = x / d / d / d / d / d / d / d / d / d / d / d / d  --@ 12 run
  end
  return x
end
while true do run(1e5, 1.0000001) end
