-- Interpreted: native code in between.
jit.off()

local ffi = require("ffi")
local back = ffi.cast("int (*)(int (*)(int))", ffi_back)

local function burn(label)
  stage(label, 3)
  while running do end
end

local function on_back(n)
  burn("callback")
  return n
end

local function through_ffi()
  local callback = ffi.cast("int (*)(int)", on_back)
  return back(callback) + 0
end

-- bare() calls through code without unwind information.
local function from_bare() burn("bare") end

local function without_tables() bare(from_bare) end

-- Hooks are off in a finalizer (gc_call_finalizer): burn() would not end.
local function on_gc()
  stage("finalizer", 3)
  spin()
end

local function finalize()
  local proxy = newproxy(true)
  getmetatable(proxy).__gc = on_gc
  proxy = nil
  collectgarbage()
end

local function deep(n)
  if n > 0 then deep(n - 1) else burn("deep") end
  return n
end

through_ffi()
without_tables()
finalize()
deep(10)
