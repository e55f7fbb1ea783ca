-- SPDX-License-Identifier: MIT
-- Script of wrk: each of its threads has a VM of its own.  What each function
-- cost by the thread's clock is printed at the end: `truth NAME share`.
local ffi = require("ffi")
ffi.cdef([[
struct tecs_timespec { long sec, nsec; };
int clock_gettime(int, struct tecs_timespec *);
]])
local ts = ffi.new("struct tecs_timespec")
local CLOCK_THREAD_CPUTIME_ID = 3

local function cpu()
  ffi.C.clock_gettime(CLOCK_THREAD_CPUTIME_ID, ts)
  return tonumber(ts.sec) + tonumber(ts.nsec) * 1e-9
end

local function burn(n)
  local s = 0
  for i = 1, n do s = s + i % 7 end
  return s
end

local function compose()
  local s = burn(40000)
  return s
end

local function inspect()
  local s = burn(20000)
  return s
end

spent_compose, spent_inspect = 0, 0

function request()
  local t = cpu()
  compose()
  spent_compose = spent_compose + cpu() - t
  return wrk.format("GET", "/")
end

function response()
  local t = cpu()
  inspect()
  spent_inspect = spent_inspect + cpu() - t
end

local threads = {}
function setup(thread) threads[#threads + 1] = thread end

function done()
  local compose, inspect = 0, 0
  for _, thread in ipairs(threads) do
    compose = compose + thread:get("spent_compose")
    inspect = inspect + thread:get("spent_inspect")
  end
  print(("truth compose %.4f"):format(compose / (compose + inspect)))
end
