-- Structs of the FFI.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local ffi = require("ffi")
ffi.cdef("typedef struct { double x, y; int32_t n; } body;")
local b = ffi.new("body", 1.5, 2.5, 3)
local function step(p, d)
  p.x = (p.x + p.y) / d / d / d / d / d / d / d / d / d / d / d / d  --@ 12 step
  p.y = (p.y + p.x) / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d / d  --@ 20 step
  p.n = p.n + 1
end
local function run(n, d)
  for i = 1, n do
    step(b, d)
    b.x = (b.y + i) / d / d / d / d / d / d / d / d  --@ 8 run
  end
end
while true do run(1e5, 1.0000001) end
