-- SPDX-License-Identifier: MIT
-- Every call of tecs.utils.profile and every error that it documents.
--   profile_contract.lua FOLDER
-- Prints `pass TEXT` or `fail TEXT: WHY` and at the end `done FAILURES`.
local folder = ...
local failures = 0
local here = "profile_contract.lua"

local function check(good, text, why)
  if not good then failures = failures + 1 end
  print((good and "pass " or "fail ") .. text ..
    (good and "" or ": " .. tostring(why):gsub("\n", "\\n")))
  return good
end

-- An error with that text, at the place of the call: a line of this file.
local function raises(text, pattern, f, ...)
  local ok, err = pcall(f, ...)
  local placed = type(err) == "string" and err:find(here .. ":%d+: ")
  check(not ok and placed and err:find(pattern), text,
    ok and "no error" or err)
end

local function line_of(f)
  return debug.getinfo(f, "S").linedefined
end

local function read(name)
  local f = io.open(name, "rb")
  local text = f and f:read("*a")
  if f then f:close() end
  return text
end

local function spin(seconds) -- on the CPU
  local stop, s = os.clock() + seconds, 0
  repeat for i = 1, 5000 do s = s + i % 7 end until os.clock() >= stop
  return s
end

local zone = require("jit.zone")
local function in_zone(name, seconds)
  zone(name)
  local r = spin(seconds)
  zone()
  return r
end

local function samples(text)
  local sum, list = 0, {}
  for stack, n in text:gmatch("([^\n]*) (%d+)\n") do
    sum = sum + n
    list[#list + 1] = {stack = stack, n = tonumber(n)}
  end
  return sum, list
end

local function share(text, pattern)
  local sum, list = samples(text)
  local hit = 0
  for _, s in ipairs(list) do
    if s.stack:find(pattern) then hit = hit + s.n end
  end
  return sum > 0 and hit / sum or -1, hit
end

-- ---- the module ----

local profile = require("tecs.utils.profile")
check(type(profile) == "table" and type(profile.sample) == "function" and
  type(profile.trace) == "function", "the module")
check(require("tecs.utils.profile") == profile, "the same module again")
check(package.preload["tecs.utils.profile"] ~= nil, "package.preload has it")

-- ---- a sampling session ----

local ffi = require("ffi")
ffi.cdef("struct contract_time { long sec, nsec; };"
  .. "int clock_gettime(int, struct contract_time *);")
local function wall()
  local t = ffi.new("struct contract_time")
  ffi.C.clock_gettime(1, t) -- CLOCK_MONOTONIC
  return tonumber(t.sec) + tonumber(t.nsec) * 1e-9
end

local function all_defaults()
  local began = wall()
  local s = profile.sample()
  in_zone("update", 0.6)
  return s:stop(), wall() - began
end
local text, took = all_defaults()
local sum, list = samples(text)
-- 0.6 s of CPU time; a thread that waits for a core is sampled when it gets one
check(sum >= 20 and sum <= took * 100 + 2, "10 ms by default",
  sum .. " in " .. took .. " s")
check(text:gsub("[^\n]+ %d+\n", "") == "", "lines of stack and count", text)
local sorted = true
for i = 2, #list do
  local a, b = list[i - 1], list[i]
  sorted = sorted and (a.n > b.n or (a.n == b.n and a.stack < b.stack))
end
check(sorted, "most first, then by stack", text)
local suffixed = true
for _, s in ipairs(list) do
  suffixed = suffixed and s.stack:find("_%[[NICGJ]%]$") ~= nil
end
check(suffixed, "each stack ends in its VM state", text)
check(share(text, "^update;") > 0.9, "the zone is the outermost frame", text)
local deep = 0
for _, s in ipairs(list) do
  local _, n = s.stack:gsub(";", "")
  deep = math.max(deep, n + 1)
end
check(deep <= 1 + 1 + 16, "16 frames kept, behind the zone and the mark", deep)
local lines, hot = {}, line_of(spin)
for l in text:gmatch("spin %(.-profile_contract%.lua:(%d+)%)") do
  lines[tonumber(l)] = true
end
check(lines[hot + 2] and not lines[hot], "Lua frames carry the current line",
  text)

-- ---- its options ----

do
  local s = profile.sample({intervalMs = 1, stackDepth = 2, zone = "game/ren"})
  zone("game")
  in_zone("render", 0.4)
  in_zone("rest", 0.4)
  zone()
  text = s:stop()
  sum = samples(text)
  check(sum > 80, "intervalMs = 1", sum)
  check(share(text, "^game;render;") == 1, "zone keeps one part", text)
  check(share(text, "^game;render;%[truncated%];[^;]+;[^;]+$") == 1,
    "stackDepth = 2", text)
  s = profile.sample({intervalMs = 1, scope = "process"})
  spin(0.3)
  check(samples(s:stop()) > 50, 'scope = "process"')
  s = profile.sample({scope = "vm"})
  s:stop()
  s = profile.sample({})
  s:stop()
  check(true, 'scope = "vm", no options')
  s = profile.sample({intervalMs = 60000, stackDepth = 4096, zone = ""})
  s:stop()
  check(true, "the largest values")
end

-- ---- pause and resume ----

do
  local s = profile.sample({intervalMs = 1})
  in_zone("before", 0.3)
  s:pause()
  s:pause()
  in_zone("paused", 0.4)
  s:resume()
  s:resume()
  in_zone("after", 0.3)
  s:pause()
  in_zone("paused", 0.1)
  text = s:stop()
  local _, before = share(text, "^before;")
  local _, paused = share(text, "^paused;")
  local _, after = share(text, "^after;")
  check(paused == 0, "a pause gives no sample", paused)
  check(before > 40 and after > 60, "what is around it is kept",
    before .. " and " .. after)
  s = profile.sample({intervalMs = 1})
  s:pause()
  in_zone("paused", 0.3)
  text = s:stop() -- a busy machine may take a sample before the pause
  check(not text:find("paused;", 1, true) and samples(text) < 20,
    "paused from its start to its end: nothing", text)
end

-- ---- into a file ----

do
  local name = folder .. "/kept.folded"
  local s = profile.sample({intervalMs = 1})
  spin(0.2)
  text = s:stop(name)
  check(#text > 0 and read(name) == text, "stop(filename) writes what it returns")
  raises("stopped twice", "session:stop: the session has ended",
    function() s:stop() end)
  raises("pause after stop", "session:pause: the session has ended",
    function() s:pause() end)
  raises("resume after stop", "session:resume: the session has ended",
    function() s:resume() end)
  for _, bad in ipairs({folder .. "/none/x.folded", folder, ""}) do
    s = profile.sample({intervalMs = 1})
    raises("stop(" .. bad:gsub("^" .. folder:gsub("%p", "%%%0"), "FOLDER") ..
      ")", "session:stop: cannot write " .. bad:gsub("%p", "%%%0"),
      function() s:stop(bad) end)
    raises("and the session has ended", "has ended already",
      function() s:stop() end)
  end
  check(not read(folder .. "/none/x.folded"), "nothing half-written")
end

-- ---- one at a time ----

do
  local s = profile.sample(); local at = debug.getinfo(1, "l").currentline
  raises("a second session", "profile.sample: a sampling session is running " ..
    "already, started at .*" .. here .. ":" .. at, function()
    profile.sample()
  end)
  s:stop()
  s = profile.sample() -- forgotten
  s = nil
  collectgarbage()
  collectgarbage()
  s = profile.sample({intervalMs = 1})
  spin(0.2)
  check(samples(s:stop()) > 20, "a forgotten session has freed its place")
end

-- ---- wrong arguments ----

local function bad(text, pattern, opts)
  raises(text, pattern, function() profile.sample(opts) end)
end
bad("options: a number", "profile.sample: the options must be a table, not a number", 1)
bad("options: a string", "the options must be a table, not a string", "10")
bad("options: false", "the options must be a table, not a boolean", false)
for _, v in ipairs({0, -1, 0.5, 60001, 0 / 0, 1 / 0, 1e300}) do
  bad("intervalMs = " .. v, "option 'intervalMs' must be an integer from 1 to 60000", {intervalMs = v})
end
for _, v in ipairs({"10", true, {}, print}) do
  bad("intervalMs: a " .. type(v), "option 'intervalMs' must be an integer, not a " .. type(v),
    {intervalMs = v})
  bad("stackDepth: a " .. type(v), "option 'stackDepth' must be an integer, not a " .. type(v),
    {stackDepth = v})
end
for _, v in ipairs({0, -3, 1.5, 4097, -1 / 0}) do
  bad("stackDepth = " .. v, "option 'stackDepth' must be an integer from 1 to 4096", {stackDepth = v})
end
for _, v in ipairs({1, false, {}}) do
  bad("zone: a " .. type(v), "option 'zone' must be a string, not a " .. type(v), {zone = v})
  bad("scope: a " .. type(v), "option 'scope' must be \"vm\" or \"process\", not a " .. type(v),
    {scope = v})
end
bad("zone: too long", "option 'zone' is too long", {zone = ("x"):rep(5000)})
bad("zone: a zero byte", "option 'zone' holds a zero byte", {zone = "a\0b"})
bad("scope: another word", "option 'scope' must be \"vm\" or \"process\", not \"thread\"",
  {scope = "thread"})
bad("scope: a zero byte", "option 'scope' must be", {scope = "vm\0x"})
bad("an option's name: a zero byte", "unknown option 'zone", {["zone\0x"] = "a"})
bad("an unknown option", "unknown option 'interval' %(there are: intervalMs, stackDepth, zone, scope%)",
  {interval = 5})
bad("an unknown key", "option names are strings, not a number", {5})
do
  local s = profile.sample()
  raises("stop(5)", "session:stop: the filename must be a string, not a number",
    function() s:stop(5) end)
  raises("stop with a zero byte", "the filename holds a zero byte",
    function() s:stop("a\0b") end)
  raises("stop of nothing", "session:stop: called on a no value, not on its session",
    function() s.stop() end)
  raises("pause of a table", "session:pause: called on a table", function() s.pause({}) end)
  raises("resume of a file", "session:resume: called on a userdata",
    function() s.resume(io.stdout) end)
  check(getmetatable(s) == false, "the metatable is not shown")
  s:stop()
end

-- ---- a trace session ----

local function closures(n) -- NYI: bytecode FNEW
  local f
  for i = 1, n do f = function() return i end end
  return f
end
local function once(n) -- leaving loop in root trace
  local s = 0
  for i = 1, 1 do s = s + n end
  return s
end
local function provoke()
  jit.flush()
  zone("provoked")
  for _ = 1, 40 do closures(100) end
  for i = 1, 200 do once(i) end
  zone()
end

local name = folder .. "/trace.csv"
local t = profile.trace()
provoke()
local report = t:stop(name)
check(type(report.durationSec) == "number" and report.durationSec > 0 and
  report.durationSec < 60, "durationSec", report.durationSec)
check(type(report.totalAborts) == "number" and report.totalAborts > 0 and
  report.totalAborts % 1 == 0, "totalAborts", report.totalAborts)
check(type(report.blacklisted) == "number" and report.blacklisted >= 0, "blacklisted",
  report.blacklisted)
check(#report.unheard == 0, "no VM is unheard", report.unheard[1])
local rank, total, seen = {blacklist = 3, warn = 2, info = 1}, 0, {}
sorted = true
for i, r in ipairs(report.sites) do
  check(rank[r.severity] and type(r.count) == "number" and type(r.reason) == "string" and
    type(r.location) == "string" and type(r.zone) == "string", "row " .. i)
  total = total + r.count
  seen[r.reason] = r
  local p = report.sites[i - 1]
  sorted = sorted and (not p or rank[p.severity] > rank[r.severity] or
    (p.severity == r.severity and p.count >= r.count))
end
check(sorted, "worst first, then most")
check(total == report.totalAborts, "totalAborts is the sum", total)
local fnew = seen["NYI: bytecode FNEW"]
check(fnew and fnew.zone == "provoked" and
  fnew.location:find(here .. ":" .. line_of(closures) + 2 .. "$"), "NYI: bytecode FNEW",
  tostring(report))
check(not seen["leaving loop in root trace"], "nothing benign unless asked for")
check(tostring(report):find("^severity,count,reason,location,zone\r\n") and
  read(name) == tostring(report), "tostring(report) is the CSV that stop writes")

-- Whether the short loop gets hot before its function is a matter of addresses.
local benign
for _ = 1, 50 do
  t = profile.trace({includeBenign = true})
  provoke()
  report = t:stop()
  for _, r in ipairs(report.sites) do benign = benign or r.severity == "info" end
  if benign then break end
end
check(benign, "includeBenign", tostring(report))
raises("trace stopped twice", "session:stop: the session has ended", function() t:stop() end)
raises("trace paused late", "session:pause: the session has ended", function() t:pause() end)
raises("trace resumed late", "session:resume: the session has ended", function() t:resume() end)

t = profile.trace()
t:pause()
t:pause()
provoke()
t:resume()
t:resume()
check(t:stop().totalAborts == 0, "a pause counts no abort")

t = profile.trace(nil); local at = debug.getinfo(1, "l").currentline
raises("a second trace session", "profile.trace: a trace session is running already, " ..
  "started at .*" .. here .. ":" .. at, function() profile.trace() end)
local both = profile.sample()
both:stop()
raises("trace into no folder", "session:stop: cannot write .*/none/t.csv: ",
  function() t:stop(folder .. "/none/t.csv") end)
raises("and it has ended", "has ended already", function() t:stop() end)
t = profile.trace()
t = nil
collectgarbage()
collectgarbage()
profile.trace():stop()
check(true, "a forgotten trace session has freed its place")

raises("trace options: a string", "profile.trace: the options must be a table, not a string",
  function() profile.trace("x") end)
raises("includeBenign: a number", "option 'includeBenign' must be a boolean, not a number",
  function() profile.trace({includeBenign = 1}) end)
raises("an unknown option of trace", "unknown option 'benign' %(there are: includeBenign%)",
  function() profile.trace({benign = true}) end)

print("done " .. failures)
return failures
