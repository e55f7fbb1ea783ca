-- SPDX-License-Identifier: MIT
-- reused.lua: 40 functions, each of a chunk of its own, one after the other and
-- as long as it takes for some samples: the next one often gets the memory of
-- the last.  `truth again N`: how many were where another had been.
local util = require "jit.util"
local source = [[
function F(n)
  local s = 0
  for i = 1, n do s = s + i %% 7 end
  return s
end]]
local been, again = {}, 0
for i = 10, 49 do
  local name = "once_" .. i
  assert(loadstring(source:gsub("F", name):gsub("%%%%", "%%"), "=" .. name))()
  local at = ("%p"):format(util.funcinfo(_G[name]).proto)
  again = again + (been[at] and 1 or 0)
  been[at] = true
  local stop = os.clock() + 0.05
  while os.clock() < stop do _G[name](1e5) end
  _G[name] = nil
  collectgarbage()
  collectgarbage()
end
print("truth again " .. again)
