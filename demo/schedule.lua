-- SPDX-License-Identifier: MIT
-- Systems in phases, each with a share of the frame's CPU time.  A system is
-- a function that does one small piece of its work; the schedule repeats it as
-- often as the share allows, going by what pieces have cost so far.  What a
-- frame gets wrong is owed to the next one, so that the shares hold in the long
-- run, and the clock is read only where zones begin and end.
local meter = require("meter")

local Schedule = {}
Schedule.__index = Schedule

function Schedule.new(frame_seconds)
  return setmetatable({ frame = frame_seconds, phases = {} }, Schedule)
end

function Schedule:add(phase, name, share, system)
  local systems = self.phases[phase] or {}
  self.phases[phase] = systems
  local budget = share * self.frame
  systems[#systems + 1] = {
    name = name, run = system, budget = budget, left = 0,
    cost = budget / 8, -- seconds for a piece
  }
end

local function spend(system, world)
  system.left = system.left + system.budget
  local pieces = math.max(0, math.floor(system.left / system.cost))
  meter.open(system.name)
  for _ = 1, pieces do
    system.run(world)
  end
  local used = meter.close()
  system.left = system.left - used
  if pieces > 0 then
    system.cost = (system.cost + used / pieces) / 2
  end
end

function Schedule:run(phase, world)
  meter.open(phase)
  for _, system in ipairs(self.phases[phase]) do
    spend(system, world)
  end
  meter.close()
end

return Schedule
