-- Allocations that the compiler does away with.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local V = {}
V.__index = V
local function vec(x, y) return setmetatable({x = x, y = y}, V) end
V.__add = function(a, b) return vec(a.x + b.x, a.y + b.y) end
local function run(n, d)
  local a = vec(1.5, 2.5)
  for i = 1, n do
    local b = a + vec(i, 1)
    local u = b.x / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d  --@ 24 run
    a = vec((u + b.y) / d / d / d / d / d / d / d / d / d / d / d / d, 1)  --@ 12 run
  end
end
while true do run(1e5, 1.0000001) end
