-- SPDX-License-Identifier: MIT
-- Seconds of the wall clock, and of CPU time that this thread has used.
local ffi = require("ffi")

ffi.cdef [[
struct demo_timespec { long sec, nsec; };
int clock_gettime(int clock, struct demo_timespec *ts);
]]

local CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID = 1, 3 -- Linux

local ts = ffi.new("struct demo_timespec")

local function read(clock)
  ffi.C.clock_gettime(clock, ts)
  return tonumber(ts.sec) + tonumber(ts.nsec) * 1e-9
end

local M = {}

function M.wall()
  return read(CLOCK_MONOTONIC)
end

function M.cpu()
  return read(CLOCK_THREAD_CPUTIME_ID)
end

return M
