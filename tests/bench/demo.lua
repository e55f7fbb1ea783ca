-- SPDX-License-Identifier: MIT
-- The demo game as it is.  Its frames last equally long whatever happens, and
-- its systems do as many pieces of work in one as they manage: so pieces are
-- counted, each weighed by what it cost in the first second.
local beat = require("beat")
local clock = require("clock")
local Schedule = require("schedule")

local WARM_UP = 1 -- seconds
local seconds = arg[2]
local since = clock.wall()
local weights -- once they are known
local systems, pieces = {}, {}

local function counted(name, system)
  pieces[name] = 0
  return function(world)
    pieces[name] = pieces[name] + 1
    return system(world)
  end
end

local add = Schedule.add
function Schedule:add(phase, name, share, system)
  add(self, phase, name, share, counted(name, system))
  local phases = self.phases[phase]
  systems[name] = phases[#phases]
end

local function weigh()
  weights = {}
  for name, system in pairs(systems) do
    weights[name] = system.cost
  end
end

local function take()
  local work = 0
  for name, weight in pairs(weights) do
    work = work + pieces[name] * weight
    pieces[name] = 0
  end
  return work
end

local run = Schedule.run
function Schedule:run(phase, world)
  run(self, phase, world)
  if phase ~= "draw" then
    return
  end
  if weights then
    beat.count(take())
  elseif clock.wall() - since > WARM_UP then
    weigh()
    take()
  end
end

arg = { [0] = assert(package.searchpath("main", package.path)), seconds }
dofile(arg[0])
