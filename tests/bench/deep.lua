-- SPDX-License-Identifier: MIT
-- Native frames between Lua functions, many and large ones: each string.gsub
-- has a buffer of 8 KB on the C stack.
local beat = require("beat")

local gsub = string.gsub

local function busy()
  local s = 0
  for i = 1, 2000 do
    s = s + i % 7
  end
  return s
end

local function descend(n)
  if n == 0 then
    return busy()
  end
  gsub("a", "a", function()
    descend(n - 1)
    return "b"
  end)
end

beat.run(function()
  for _ = 1, 4 do
    descend(12)
  end
end)
