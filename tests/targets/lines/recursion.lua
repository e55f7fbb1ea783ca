-- A function that calls itself.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local function down(n, x, d)
  if n == 0 then return x end
  x = x / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d  --@ 36 down
  local y = down(n - 1, x, d)
  return (y + x) / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d  --@ 18 down
end
while true do down(40, 1.5, 1.0000001) end
