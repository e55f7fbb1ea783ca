-- SPDX-License-Identifier: MIT
-- For luajit -joff: calls, closures, tables and strings in the interpreter.
local beat = require("beat")

local Shape = {}
Shape.__index = Shape

function Shape.new(width, height)
  return setmetatable({ width = width, height = height }, Shape)
end

function Shape:area()
  return self.width * self.height
end

local function sum(shapes, weigh)
  local total = 0
  for i = 1, #shapes do
    total = total + weigh(shapes[i], i)
  end
  return total
end

local function build(count)
  local shapes = {}
  for i = 1, count do
    shapes[i] = Shape.new(i % 7, i % 5)
  end
  return shapes
end

local function step()
  local shapes, scale = build(100), 3
  for _ = 1, 60 do
    sum(shapes, function(shape, i)
      return shape:area() * scale + i
    end)
  end
end

beat.run(step)
