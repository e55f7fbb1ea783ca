-- SPDX-License-Identifier: MIT
-- C functions of the standard library, with Lua functions that they call back.
local beat = require("beat")

local function describe(count)
  local lines = {}
  for i = 1, count do
    lines[i] = string.format("%4d: %8.3f %s", i, i / 7, "some text")
  end
  return table.concat(lines, "\n")
end

local function double(digits)
  return tostring(2 * digits)
end

local function less(a, b)
  return a < b
end

local function shuffled(count)
  local list = {}
  for i = 1, count do
    list[i] = i * 7919 % 1009
  end
  return list
end

local function step()
  for _ = 1, 4 do
    local text = describe(60)
    text = text:gsub("%d+", double)
    text:upper():find("no such text", 1, true)
    table.sort(shuffled(200), less)
  end
end

beat.run(step)
