-- SPDX-License-Identifier: MIT
-- exec.lua ROUNDS: works for a second in each round, then executes itself anew.
local ffi = require("ffi")
ffi.cdef("int execvp(const char *file, const char *const argv[]);")
local left = tonumber(arg[1])

local function work(n)
  local s = 0
  for i = 1, n do s = s + i % 7 end
  return s
end

io.stdout:setvbuf("no")
print("ready")
local stop = os.clock() + 1
while os.clock() < stop do work(1e6) end
if left > 1 then
  local again = { arg[-1], arg[0], tostring(left - 1) }
  ffi.C.execvp(again[1], ffi.new("const char *[4]", again))
  print("exec failed")
  os.exit(1)
end
print("truth done 1")
