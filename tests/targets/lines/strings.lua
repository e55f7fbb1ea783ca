-- Strings made, compared and taken apart.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local text = ("abcdefghij"):rep(10)
local function run(n, d)
  local x = 1.5
  for i = 1, n do
    x = (x + text:byte(i % 100 + 1)) / d / d / d / d / d / d / d / d / d / d / d / d / d / d  --@ 14 run
    local s = text:sub(i % 50 + 1, i % 50 + 3)
    if s == "abc" then x = x + 1 end
    x = (x + #s) / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d  --@ 26 run
  end
end
while true do run(1e5, 1.0000001) end
