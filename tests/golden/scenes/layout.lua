-- What differs from layout to layout, in each LuaJIT again: frames and their
-- links, coroutines, vararg frames, upvalues, snapshots of compiled code.
local ffi = require("ffi")
local stopped = ffi.cast("int *", stop_word)

local function burn(label, ...)
  stage(label, 2, "", ...)
  while running do end
end
jit.off(burn)

local function variable(...) burn("vararg", nil, ...) end

local function protected() assert(pcall(burn, "pcall")) end

local function inner(outermost)
  burn("coroutine", outermost, coroutine.running())
end

local function outer()
  assert(coroutine.resume(coroutine.create(inner), coroutine.running()))
end

local function metamethod()
  local mt = {}
  function mt.__add() burn("metamethod") end
  return setmetatable({}, mt) + 1
end

-- See compiled.lua: a trace, and what it has inlined.
local function loop(label)
  stage(label, 2, "", coroutine.running())
  local n = 0
  while stopped[n - n] == 0 do n = n + 1 end
  return n
end

-- The trace calls C itself.
local ffi_step = ffi.cast("int (*)(int)", ffi_step)
local function foreign()
  stage_step("ffi", 150, 2)
  local n = 0
  for i = 1, 200 do n = n + ffi_step(i) end
  return n
end

variable(1, 2, 3)
protected()
coroutine.wrap(outer)()
metamethod()
loop("root")
coroutine.wrap(function() loop("traced") end)()
foreign()
