-- Interpreted: the ways in which one frame comes to stand on another.
jit.off()

local zone = require("jit.zone")

local function burn(label, ...)
  stage(label, 2, "", ...)
  while running do end
end

local function plain() burn("plain") end

local Player = {}
Player.__index = Player
function Player:hit() burn("method") end

local function protected() assert(pcall(burn, "pcall")) end

local function tail() return burn("tail") end

local function variable(...) burn("vararg", nil, ...) end

local function metamethod()
  local mt = {}
  function mt.__add() burn("metamethod") end
  return setmetatable({}, mt) + 1
end

local function substitute()
  return (string.gsub("x", "x", function() burn("gsub") end))
end

local sorted = false
local function by_order(a, b)
  if not sorted then burn("sort") end
  sorted = true
  return a < b
end

local function from_c() call(burn, "call") end

local function leaf_c()
  stage("spin", 2)
  spin()
end

local function inner(outermost)
  burn("coroutine", outermost, coroutine.running())
end

local function outer()
  assert(coroutine.resume(coroutine.create(inner), coroutine.running()))
end

local function coroutines()
  coroutine.wrap(outer)()
end

local function zones()
  zone("frame")
  zone("physics;step")
  burn("zones")
  zone()
  zone()
end

local function iterate()
  local function next_one(_, i)
    burn("iterator")
    return i == nil and 1 or nil
  end
  for _ in next_one do break end
end

plain()
Player:hit()
protected()
tail()
variable(1, 2, 3)
metamethod()
substitute()
table.sort({2, 1}, by_order)
from_c()
leaf_c()
coroutines()
zones()
iterate()
