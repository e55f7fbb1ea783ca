-- SPDX-License-Identifier: MIT
-- Systems in phases, each with a share of the frame's CPU time.  A system is
-- a function that does one small piece of its work; the schedule calls it until
-- the share is used up.  What a piece runs over is owed to the next frame, so
-- that the shares hold in the long run.
local clock = require("clock")
local meter = require("meter")

local Schedule = {}
Schedule.__index = Schedule

function Schedule.new(frame_seconds)
  return setmetatable({ frame = frame_seconds, phases = {} }, Schedule)
end

function Schedule:add(phase, name, share, system)
  local systems = self.phases[phase] or {}
  self.phases[phase] = systems
  systems[#systems + 1] = {
    name = name, budget = share * self.frame, left = 0, run = system,
  }
end

local function spend(system, world)
  local start = clock.cpu()
  local left = system.left + system.budget
  local used = 0
  while used < left do
    system.run(world)
    used = clock.cpu() - start
  end
  system.left = left - used
end

function Schedule:run(phase, world)
  meter.open(phase)
  for _, system in ipairs(self.phases[phase]) do
    meter.open(system.name)
    spend(system, world)
    meter.close()
  end
  meter.close()
end

return Schedule
