-- Compiled: what traces do to stacks.
local ffi = require("ffi")
local stopped = ffi.cast("int *", stop_word)
local ffi_step = ffi.cast("int (*)(int)", ffi_step)

-- A root trace of a loop.  (n - n: an index that the compiler does not
-- know to be constant, or it would load the word once, before the loop.)
local function loop(label)
  stage(label, 3, "", coroutine.running())
  local n = 0
  while stopped[n - n] == 0 do n = n + 1 end
  return n
end

-- Its side trace takes over after a while.
local function branch()
  stage("side", 3)
  local n, m = 0, 0
  while stopped[n - n] == 0 do
    n = n + 1
    if n > 1000 then m = m + 1 end
  end
  return m
end

-- The called function is part of the trace.
local function still(n) return stopped[n - n] == 0 end
local function inlined()
  stage("inlined", 3)
  local n = 0
  while still(n) do n = n + 1 end
  return n
end

-- The trace calls C itself.
local function foreign()
  stage_step("ffi", 150, 3)
  local n = 0
  for i = 1, 200 do n = n + ffi_step(i) end
  return n
end

-- The trace ends before the call of C and another goes on behind it.
local function stitched()
  stage_step("stitch", 150, 3)
  local n = 0
  for i = 1, 200 do
    step(i)
    n = n + i
  end
  return n
end

local function in_coroutine()
  coroutine.wrap(function() loop("coroutine") end)()
end

local function in_callback()
  return (string.gsub("x", "x", function() loop("gsub") end))
end

loop("root")
branch()
inlined()
foreign()
stitched()
in_coroutine()
in_callback()
