-- SPDX-License-Identifier: MIT
-- zonetraces.lua stock|agent: what the compiler makes of loops with zones, as
-- lines `start N`, `stop N`, `abort N`.
local zone = arg[1] == "stock"
  and dofile((assert(package.searchpath("jit.zone", package.path))))
  or require("jit.zone")
local n = { start = 0, stop = 0, abort = 0, flush = 0 }
jit.attach(function(what) n[what] = n[what] + 1 end, "trace")

local s = 0
local function flat() for i = 1, 2000 do zone("a") s = s + i % 3 zone() end end
local function nested()
  for i = 1, 2000 do zone("a") zone("b") s = s + i % 3 zone() zone() end
end
local function deep()
  for i = 1, 2000 do
    zone("a") zone("b") zone("c") zone("d") s = s + i zone() zone() zone() zone()
  end
end
local function siblings()
  for i = 1, 2000 do zone("a") s = s + i zone() zone("b") s = s + 2 zone() end
end
local function part(i) zone("part") s = s + i zone() end
local function calls() zone("frame") for i = 1, 2000 do part(i) end zone() end
local function made() for i = 1, 2000 do zone("x" .. i % 5) s = s + i zone() end end
local object = setmetatable({}, {})
local function metatables()
  for _ = 1, 2000 do if debug.getmetatable(object) then s = s + 1 end end
end
for _ = 1, 3 do flat() nested() deep() siblings() calls() made() metatables() end
for _, what in ipairs({ "start", "stop", "abort" }) do print(what, n[what]) end
