-- SPDX-License-Identifier: MIT
-- soon.lua: two seconds of CPU, then five functions soon_1 to soon_5, one after
-- another: each comes from a chunk of its own and is gone after half a second.
local function work(n)
  local s = 0
  for i = 1, n do s = s + i % 7 end
  return s
end

local source = [[
function soon_%d(n)
  local s = 0
  for i = 1, n do s = s + i %% 7 end
  return s
end]]

io.stdout:setvbuf("no")
print("ready")
local stop = os.clock() + 2
while os.clock() < stop do work(1e6) end
for i = 1, 5 do
  local name = "soon_" .. i
  assert(loadstring(source:format(i), "=" .. name))()
  stop = os.clock() + 0.55
  while os.clock() < stop do _G[name](1e6) end
  _G[name] = nil
  collectgarbage()
  collectgarbage()
end
print("truth done 1")
