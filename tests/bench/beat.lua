-- SPDX-License-Identifier: MIT
-- usage: LUA_PATH='tests/bench/?.lua;demo/?.lua;;' luajit WORKLOAD.lua FILE SECONDS
-- Counts work while it is done: about every 50 ms a line with the time of the
-- monotonic clock, this thread's CPU time (seconds both) and the work so far
-- goes to FILE.  Ends by itself after SECONDS, whatever becomes of its starter.
local clock = require("clock") -- the demo's

local M = {}

local EVERY = 0.05
local out = assert(io.open(arg[1], "w"))
local stop = clock.wall() + assert(tonumber(arg[2]), "for how many seconds?")
local work, due = 0, 0

out:setvbuf("no")

-- Adds to the work that is done; false: it is time to stop.  To be called
-- every millisecond or so.
function M.count(units)
  work = work + units
  local now = clock.wall()
  if now < due then
    return true
  end
  due = now + EVERY
  out:write(string.format("%.9f %.9f %.9f\n", now, clock.cpu(), work))
  return now < stop
end

-- Repeats a step of a millisecond or less that does the same work every time.
function M.run(step)
  repeat
    step()
  until not M.count(1)
end

return M
