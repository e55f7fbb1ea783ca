-- SPDX-License-Identifier: MIT
-- idle.lua SECONDS: sleeps.
local ffi = require("ffi")
ffi.cdef("int usleep(unsigned);")
io.stdout:setvbuf("no")
print("ready")
for _ = 1, tonumber(arg[1]) do ffi.C.usleep(1000000) end
print("truth slept " .. arg[1])
