-- SPDX-License-Identifier: MIT
-- Coroutines: a chain of generators, made anew for each run through it.
local beat = require("beat")

local wrap, yield = coroutine.wrap, coroutine.yield

local function digits(n)
  local sum = 0
  for k = 1, 30 do
    sum = sum + n * k % 10
  end
  return sum
end

local function produce(count)
  for i = 1, count do
    yield(digits(i))
  end
end

local function filter(source)
  for n in source do
    if n % 3 ~= 0 then
      yield(n)
    end
  end
end

local function consume(source)
  local sum = 0
  for n in source do
    sum = sum + n
  end
  return sum
end

local function step()
  for _ = 1, 40 do
    local source = wrap(function() produce(30) end)
    consume(wrap(function() filter(source) end))
  end
end

beat.run(step)
