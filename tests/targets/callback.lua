-- SPDX-License-Identifier: MIT
-- Short traces that C calls, each with an operation that benchmarks hardly have:
-- a number made of a string, a string of a number.
local function count(word) return tonumber(word) + 1 end
local function text(word) return word .. 7 end
local numbers = ("123 456 789 "):rep(8)
while true do
  numbers:gsub("%d+", count)
  numbers:gsub("%d+", text)
end
