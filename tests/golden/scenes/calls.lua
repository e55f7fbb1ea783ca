-- Interpreted: every way in which one frame comes to stand on another.
jit.off()

local zone = require("jit.zone")

local function burn(label, ...)
  stage(label, 3, "", ...)
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
  local sum = setmetatable({}, {__add = function(a, b) burn("metamethod") end})
  return sum + 1
end

local function substitute()
  return (string.gsub("x", "x", function(c) burn("gsub") end))
end

local function by_order(a, b)
  if running == nil then burn("sort") end
  return a < b
end

local function from_c() call(burn, "call") end

local function leaf_c()
  stage("spin", 3)
  spin()
  running = nil
end

local function inner(outermost, outer)
  burn("coroutine", outermost, outer)
end

local function outer(outermost)
  local co = coroutine.create(inner)
  assert(coroutine.resume(co, outermost, coroutine.running()))
end

local function wrapped()
  local co
  co = coroutine.wrap(function() outer(co and nil) end)
  co()
end

local function nested_coroutines()
  local co = coroutine.create(function() outer(coroutine.running()) end)
  assert(coroutine.resume(co))
end

local function zones()
  zone("frame")
  zone("physics;step")
  burn("zones")
  zone()
  zone()
end

local function generator()
  for i in function(_, i) burn("iterator") return i == nil and 1 or nil end do
    break
  end
end

plain()
Player:hit()
protected()
tail()
variable(1, 2, 3)
metamethod()
substitute()
from_c()
leaf_c()
table.sort({2, 1}, by_order)
nested_coroutines()
zones()
generator()
