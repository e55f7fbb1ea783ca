-- pairs, ipairs and pcall.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local list, x = {}, 1.5
for i = 1, 50 do list[i] = i end
local function body(v, d)
  x = (x + v) / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d  --@ 16 body
end
local function run(d)
  for i, v in ipairs(list) do
    x = (x + v) / d / d / d / d / d / d / d / d / d / d / d / d  --@ 12 run
    pcall(body, v, d)
  end
  for k, v in pairs(list) do
    x = (x + v) / d / d / d / d / d / d / d / d / d / d / d / d  --@ 12 run
  end
end
while true do run(1.0000001) end
