-- Branches taken in turns: side traces.  Each of the three runs as often.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local x = 1.5
local function one(i, d)
  x = (x + i) / d / d / d / d / d / d / d / d / d / d  --@ 10 one
end
local function two(i, d)
  x = (x + i) / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d  --@ 20 two
end
local function three(i, d)
  x = (x + i) / d / d / d / d / d / d / d / d / d / d  --@ 10 three
end
local kind = {one, two, three}
local function run(n, d)
  for i = 1, n do
    if i % 3 == 0 then one(i, d)
    elseif i % 3 == 1 then two(i, d)
    else three(i, d) end
  end
end
while true do run(1e5, 1.0000001) end
