-- Arrays and hash parts.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local t = {a = 1.5}
for i = 1, 64 do t[i] = i end
local function run(n, d)
  local x = 1.5
  for i = 1, n do
    x = (x + t[i % 64 + 1]) / d / d / d / d / d / d / d / d / d / d  --@ 10 run
    t.a = (t.a + x) / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d  --@ 18 run
    x = (t.a + i) / d / d / d / d / d / d / d / d / d / d / d / d  --@ 12 run
  end
end
while true do run(1e5, 1.0000001) end
