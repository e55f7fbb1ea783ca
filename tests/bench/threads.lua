-- SPDX-License-Identifier: MIT
-- usage: threads.lua LIBRARY COUNT SECONDS: a busy thread among COUNT that doze;
-- LIBRARY is threads.c.
local ffi = require("ffi")
ffi.cdef("int dozing_threads(int count);")
local count = tonumber(arg[2])
assert(ffi.load(arg[1]).dozing_threads(count) == count, "threads")
local stop = os.time() + tonumber(arg[3])
local s = 0
repeat
  for i = 1, 1e6 do
    s = s + i % 7
  end
until os.time() >= stop
