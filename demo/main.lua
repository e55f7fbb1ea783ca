-- SPDX-License-Identifier: MIT
-- A small game whose costs are known:
--
--   luajit demo/main.lua [seconds]     without a window (default 20 s)
--   love demo/ [seconds]               with LÖVE, until it is closed
--
-- Each system has a fixed share of the frame's CPU time.  At the end the game
-- prints what was really used, zone by zone, for a profile to be held against.
local love = rawget(_G, "love")

if not love then
  local here = arg[0]:match("^(.*/)[^/]*$") or "./"
  package.path = here .. "?.lua;" .. package.path
end

local clock = require("clock")
local meter = require("meter")
local Schedule = require("schedule")
local World = require("world")

local FRAME = 0.016 -- seconds of CPU time in a frame

local schedule = Schedule.new(FRAME)
schedule:add("update", "steer", 0.30, require("systems.steer"))
schedule:add("update", "collide", 0.20, require("systems.collide"))
schedule:add("update", "think", 0.15, require("systems.think"))
schedule:add("draw", "sort", 0.20, require("systems.sort"))
schedule:add("draw", "label", 0.10, require("systems.label"))
schedule:add("draw", "sparks", 0.05, require("systems.sparks"))

local world = World.new(512)

local function report()
  meter.report(function(text) io.stdout:write(text) end)
  io.stdout:flush()
end

local function run_headless(seconds)
  local stop = clock.wall() + seconds
  while clock.wall() < stop do
    schedule:run("update", world)
    schedule:run("draw", world)
  end
  report()
end

local function run_love(seconds)
  local stop = seconds and clock.wall() + seconds

  function love.update()
    schedule:run("update", world)
    if stop and clock.wall() >= stop then
      love.event.quit()
    end
  end

  function love.draw()
    schedule:run("draw", world)
    for row = 0, world.count - 1 do
      love.graphics.circle("fill", world.x[row], world.y[row], 2)
    end
    love.graphics.print(world.labels or "", 8, 8)
  end

  function love.quit()
    report()
  end
end

if love then
  function love.load(args)
    run_love(tonumber(args[1]))
  end
else
  run_headless(tonumber(arg[1]) or 20)
end
