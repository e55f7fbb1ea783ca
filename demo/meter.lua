-- SPDX-License-Identifier: MIT
-- Zones with a truth: every zone that is opened here is also timed here, in the
-- thread's own CPU time, so that the game can print what a profiler ought to
-- find.
local clock = require("clock")

-- The profiler's agent brings jit.zone, and so does LuaJIT's own installation;
-- a game must run without either.
local has_zone, zone = pcall(require, "jit.zone")
if not has_zone then
  zone = function() end
end

local M = { has_zone = has_zone }

local path = "" -- of the zones that are open
local above = {} -- the paths around it
local spent = {} -- path -> seconds, without the zones inside
local since = clock.cpu()

local function charge()
  local now = clock.cpu()
  local seconds = now - since
  spent[path] = (spent[path] or 0) + seconds
  since = now
  return seconds
end

function M.open(name)
  charge()
  above[#above + 1] = path
  path = path == "" and name or path .. "/" .. name
  zone(name)
end

-- Returns the seconds since the last zone was opened or closed.
function M.close()
  local seconds = charge()
  path = table.remove(above)
  zone()
  return seconds
end

-- Lines `truth <zone path> <percent of the CPU time>`; `-` is outside all zones.
function M.report(write)
  charge()
  local total, paths = 0, {}
  for p, seconds in pairs(spent) do
    total = total + seconds
    paths[#paths + 1] = p
  end
  table.sort(paths)
  for _, p in ipairs(paths) do
    write(string.format("truth %s %.2f\n", p == "" and "-" or p,
      100 * spent[p] / total))
  end
end

return M
