-- SPDX-License-Identifier: MIT
-- zonecompat.lua: the agent's jit.zone against LuaJIT's own, in every call and
-- in random order; then with an engine that swaps __call.  Prints `good`, or
-- what differs.  An argument `late` turns the compiler off after require.
local zone = require("jit.zone")
if arg[1] == "late" then jit.off() end
local stock = dofile((assert(package.searchpath("jit.zone", package.path))))
assert(debug.getinfo(zone.get, "S").source == "=jit.zone", "not the agent's")

local function packed(...) return { n = select("#", ...), ... } end

-- Where in the module an error was raised is each module's own.
local function bare(v)
  return type(v) == "string" and v:gsub("^[^ ]*zone[^ ]*:%d+: ", "") or v
end

local function same(what, a, b)
  assert(a.n == b.n, ("%s: %d results, %d"):format(what, a.n, b.n))
  for i = 1, a.n do
    assert(bare(a[i]) == bare(b[i]), ("%s: %s, %s"):format(what, tostring(a[i]), tostring(b[i])))
  end
end

-- The same on both; the same results, errors and contents.
local function both(what, f, ...)
  same(what, packed(pcall(f, zone, ...)), packed(pcall(f, stock, ...)))
  assert(#zone == #stock, what .. ": depth")
  assert(table.concat(zone, "/") == table.concat(stock, "/"), what .. ": names")
end

local operations = {
  function(z, ...) return z(...) end, -- push
  function(z) return z() end,
  function(z) return z(nil) end,
  function(z) return z(false) end,
  function(z) return z:get() end,
  function(z) return z[#z], z[1], z[#z + 1] end,
  function(z) return getmetatable(z).__call(z) end,
  function(z, name) return getmetatable(z).__call(z, name) end,
  function(z, name) z[#z + 1] = name end, -- games that write it themselves
  function(z) z[#z] = nil end,
  function(z) return table.remove(z) end,
  function(z) for i = #z, 1, -1 do z[i] = nil end end,
  function(z) return z:flush() end,
}
-- How often each, for stacks that get deep and empty again.
local weights = { 60, 30, 5, 5, 5, 5, 5, 5, 6, 3, 2, 0.05, 0.05 }
local total = 0
for _, w in ipairs(weights) do total = total + w end
local function pick()
  local x = math.random() * total
  for i, w in ipairs(weights) do
    x = x - w
    if x <= 0 then return i end
  end
  return #weights
end

math.randomseed(1)
both("get of nothing", operations[5])
both("pop of nothing", operations[2])
assert(select(2, pcall(zone)):find("^jit%.zone:%d+: empty zone stack$"))
for n = 1, 60000 do
  local i = pick()
  both("operation " .. i .. " after " .. n, operations[i], "n" .. n % 97)
end
both("flush", operations[13])
for n = 1, 10000 do both("deep", operations[1], tostring(n)) end
for _ = 1, 10000 do both("deep", operations[2]) end

-- In compiled loops.
local function loop(z)
  local names = {}
  for i = 1, 500 do
    z("a") names[#names + 1] = z:get()
    z("b" .. i % 3) names[#names + 1] = z() z()
    if i % 7 == 0 then z[#z + 1] = "raw" names[#names + 1] = z() end
    names[#names + 1] = #z
  end
  return table.concat(names, ",")
end
for _ = 1, 20 do assert(loop(zone) == loop(stock), "compiled loop") end

-- Values that are no strings, and fields of the game's own.
for _, v in ipairs({ 42, 0.5, zone, print, true, "" }) do
  zone(v)
  assert(#zone == 1 and zone[1] == v and zone:get() == v and zone() == v)
end
for i = 1, 40 do zone["field" .. i] = i end
zone("a") zone("b")
assert(#zone == 2 and zone[1] == "a" and zone() == "b" and zone() == "a")

-- One stack, whatever becomes of package.loaded.
zone("kept")
package.loaded["jit.zone"] = nil
assert(require("jit.zone") == zone and zone:get() == "kept" and zone() == "kept")

-- An engine: nothing while it does not measure, its own function while it does.
local meta = getmetatable(zone)
local real, calls = meta.__call, 0
local engine = {
  function() end,
  function(t, name) calls = calls + 1 return real(t, name) end,
  function(t, name)
    if name then t[#t + 1] = name return end
    return table.remove(t)
  end,
  function(t, name) if name ~= "skipped" then return real(t, name) end end,
}
local function frame()
  zone("frame") zone("skipped")
  assert(#zone == 2 and zone[1] == "frame" and zone[2] == "skipped")
  zone()
  assert(#zone == 1)
  zone()
  assert(#zone == 0)
end
local function swaps(metatable, what)
  for i = 1, 400 do
    local f = engine[i % #engine + 1]
    metatable(zone).__call = f
    assert(metatable(zone).__call == f, what)
    frame()
    zone("over the swap")
    metatable(zone).__call = real
    assert(metatable(zone).__call == real, what)
    assert(#zone == 1 and zone() == "over the swap", what)
    frame()
  end
end
swaps(function() return meta end, "the same table")
swaps(getmetatable, "getmetatable")
swaps(debug.getmetatable, "debug.getmetatable")
assert(calls > 0, "the engine's function was not called")
meta.__call = engine[1]
assert(select("#", zone()) == 0, "an engine's function that returns nothing")
meta.__call = real
assert(not pcall(zone))
meta.__call = nil
assert(not pcall(zone, "a") and meta.__call == nil)
meta.__call = real
meta.__tostring = function() return "zones" end
assert(tostring(zone) == "zones")

-- Another metatable for the module, and back: stock runs its __call, shows it,
-- and has its other fields.
local theirs = { __tostring = function() return "theirs" end, __call = real }
local others = 0
for i = 1, 400 do
  theirs.__call = engine[i % #engine + 1]
  assert(debug.setmetatable(zone, theirs))
  assert(getmetatable(zone) == theirs and debug.getmetatable(zone) == theirs)
  assert(tostring(zone) == "theirs")
  frame()
  zone("over the swap")
  assert(#zone == 1 and zone[1] == "over the swap")
  debug.setmetatable(zone, meta)
  assert(getmetatable(zone) == meta and tostring(zone) == "zones")
  assert(#zone == 1 and zone() == "over the swap")
  frame()
end
debug.setmetatable(zone, theirs)
theirs.__call = function(t, name) others = others + 1 return real(t, name) end
frame()
assert(others == 4, "its __call of now")
theirs.__call = nil
assert(not pcall(zone, "a") and #zone == 0)
theirs.__metatable = "hidden"
debug.setmetatable(zone, theirs)
assert(getmetatable(zone) == "hidden" and debug.getmetatable(zone) == theirs)
debug.setmetatable(zone, nil)
assert(debug.getmetatable(zone) == nil and not pcall(zone, "a"))
debug.setmetatable(zone, meta)
frame()
-- Any table with the module's metatable is a stack of its own.
local second = {}
debug.setmetatable(second, debug.getmetatable(zone))
second("a") second("b")
assert(#second == 2 and #zone == 0 and second() == "b" and second[1] == "a")
assert(debug.getmetatable(second) == meta)

-- The two functions are what they were, for all else.
for _, name in ipairs({ "getmetatable", "setmetatable" }) do
  local f = debug[name]
  assert(tostring(f):find("^function: builtin#%d+$"), tostring(f))
  local info = debug.getinfo(f)
  assert(info.what == "C" and info.nups == 0)
  assert(select(2, pcall(f)):find("^bad argument #%d to "), name)
end
assert(not pcall(debug.setmetatable, zone, 1))
assert(debug.getmetatable("").__index == string and debug.getmetatable(1) == nil)
print("good")
