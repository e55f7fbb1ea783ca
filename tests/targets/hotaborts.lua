-- SPDX-License-Identifier: MIT
-- hotaborts.lua SECONDS: one hot function that LuaJIT cannot compile (it makes
-- closures), a compiled one, and a hundred cold functions that abort as well.
-- `truth hot X` is the hot one's share of the CPU time by its own clock, from the
-- start of the process.  Reading that clock is a system call, where a busy kernel
-- likes to take the core away, and then a tick comes: so it is read seldom.
local clock = os.clock
local seconds = tonumber(arg[1]) or 5

local function hot(n)
  local f
  for i = 1, n do
    f = function() return i end
  end
  return f
end

local function compiled(n)
  local s = 0
  for i = 1, n do s = s + i % 7 end
  return s
end

local cold = {}
for i = 1, 100 do
  cold[i] = assert(loadstring(
    "local n = ... local f for i = 1, n do f = function() return i end end",
    ("@cold/%03d.lua"):format(i)))
end
for i = 1, 100 do cold[i](60) end

print("ready")
io.stdout:flush()
local used = 0
local stop = clock() + seconds
while clock() < stop do
  local t0 = clock()
  hot(300000)
  local t1 = clock()
  compiled(3000000)
  used = used + (t1 - t0)
end
print(("truth hot %.4f"):format(used / clock()))
