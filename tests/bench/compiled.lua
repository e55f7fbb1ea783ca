-- SPDX-License-Identifier: MIT
-- Loops over numbers that stay in compiled code: a trace with inlined calls
-- and one that reads and writes tables.
local beat = require("beat")

local function iterate(re, im, cr, ci)
  return re * re - im * im + cr, 2 * re * im + ci
end

local function orbit(cr, ci, times)
  local re, im = 0, 0
  for _ = 1, times do
    re, im = iterate(re, im, cr, ci)
  end
  return re + im
end

local bodies = {}
for i = 1, 100 do
  bodies[i] = { x = i, v = i % 7 - 3 }
end

local function move(seconds)
  for i = 1, #bodies do
    local b = bodies[i]
    b.x = (b.x + b.v * seconds) % 640
  end
end

local function step()
  local sum = 0
  for row = 1, 20 do
    sum = sum + orbit(-0.5, row / 100, 5000)
  end
  for _ = 1, 500 do
    move(0.001)
  end
  return sum
end

beat.run(step)
