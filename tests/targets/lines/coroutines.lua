-- Compiled loops inside a coroutine.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local function worker(d)
  local x = 1.5
  while true do
    for i = 1, 1000 do
      x = (((((((((((((x + i) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d)  --@ 12 worker
      x = (((((((x + i) / d - d) / d - d) / d - d) / d - d) / d - d) / d - d)  --@ 6 worker
    end
    coroutine.yield(x)
  end
end
local resume = coroutine.wrap(worker)
while true do resume(1.0000001) end
