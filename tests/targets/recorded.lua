-- SPDX-License-Identifier: MIT
-- recorded.lua HOW PROGRAM: a small program, and the truth about its traces.
--   plain    nothing but the program
--   records  listens to what is recorded: lines `event ...` as reclog_reader
--            has them, for the traces that there are in the end
--   traces   listens to traces: a line for each start, stop, abort and flush
-- In the end `trace NUMBER ADDRESS SIZE` for each trace, and `about NUMBER ...`
-- without what differs from run to run.  Then `ready`, and lines of input are
-- run as Lua until they end.  In tests/targets/vms.c, with HOW:PROGRAM for an
-- argument, it waits for a line instead.
-- HOW:PROGRAM:N has N objects made before the program is loaded, and loops hot
-- at once: LuaJIT counts hot places by their address (lj_dispatch.h,
-- hotcount_get), so that what is compiled depends a little on where they lie.
local how, name = ...
local n
if not name then how, name, n = (how or arg[1]):match("(%w+):(%w+):?(%d*)") end
if n and n ~= "" and not kept then
  kept = {}
  for i = 1, 16 do kept[i] = 0 end
  for i = 1, n do kept[i] = ("k%06d"):format(i) end
  jit.opt.start("hotloop=2")
  local source = debug.getinfo(1, "S").source:sub(2)
  return assert(loadfile(source))(how, name)
end
local util, out = require "jit.util", {}
local function say(...) out[#out + 1] = table.concat({...}, " ") end

local programs = {}

function programs.loops()
  local s = 0
  for i = 1, 2000 do
    for k = 1, 10 do s = s + (i % k) * 2 end
    if i % 3 == 0 then s = s - 1 elseif i % 7 == 0 then s = s * 1.5 % 1000 end
  end
  return s
end

function programs.inlined()
  local function a(x) return x + 1 end
  local function b(x) return a(x) * 2 end
  local function c(x, y) return b(x) - (y or 0) end
  local s = 0
  for i = 1, 3000 do s = s + c(i, i % 5) % 7 end
  return s
end

function programs.builtins()
  local t, s, floor, byte = {}, 0, math.floor, string.byte
  for i = 1, 2000 do
    t[i % 50 + 1] = floor(i / 3)
    s = s + (byte("abcdef", i % 6 + 1) or 0) + select("#", i, i) + #tostring(i)
    s = s + (t[i % 50] or 0) + (rawget(t, i % 9) or 0)
  end
  return s
end

function programs.methods()
  local P = {}
  P.__index = P
  P.__add = function(a, b) return setmetatable({x = a.x + b.x}, P) end
  function P:len() return math.abs(self.x) end
  function P:step(d) self.x = self.x + d return self:len() end
  local p, s = setmetatable({x = 0}, P), 0
  for i = 1, 3000 do s = s + p:step(i % 2 == 0 and -1 or 2) end
  for i = 1, 500 do p = p + p p.x = p.x % 17 end
  return s + p.x
end

function programs.recursion()
  local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
  local function sum(n, acc) if n == 0 then return acc end return sum(n - 1, acc + n) end
  local function down(n) if n == 0 then return 0 end return 1 + down(n - 1) end
  local s = fib(18)
  for i = 1, 300 do s = s + sum(i, 0) + down(i % 90) end
  return s
end

function programs.iterators()
  local t, s = {a = 1, b = 2, c = 3, 4, 5, 6}, 0
  for i = 1, 300 do
    for k, v in pairs(t) do s = s + v end
    for k, v in ipairs(t) do s = s + v * k end
    local ok, v = pcall(function(x) return x * 2 end, i)
    s = s + v
  end
  return s
end

function programs.strings()
  local parts = {}
  for i = 1, 20 do parts[i] = "" end
  for i = 1, 1000 do
    parts[i % 20 + 1] = ("%d:%s"):format(i, ("x"):rep(i % 4))
    if i % 10 == 0 then parts[1] = table.concat(parts, ",", 1, 3) end
  end
  return #table.concat(parts, ",", 1, 20)
end

function programs.ffi()
  local ffi = require "ffi"
  local pt = ffi.new("struct { double x, y; int n; }[64]")
  local s = 0
  for i = 1, 5000 do
    local p = pt[i % 64]
    p.x, p.n = p.x + i, p.n + 1
    s = s + p.x + p.n
  end
  return s
end

function programs.coroutines()
  local s = 0
  local co = coroutine.wrap(function()
    local n = 0
    while true do
      for k = 1, 5 do n = n + k end
      coroutine.yield(n)
    end
  end)
  for i = 1, 1000 do s = s + co() end
  return s
end

function programs.closures()
  local s = 0
  local function make(k) return function(x) return x * k + s % 3 end end
  local f = {make(1), make(2), make(3)}
  for i = 1, 3000 do s = s + f[i % 3 + 1](i) end
  return s
end

-- Longer than a log can be: what it would keep in the end is not kept.
function programs.long()
  local code = {"local s, t = 0, {} for i = 1, 200 do "}
  for k = 1, 9000 do code[#code + 1] = "t = s " end
  code[#code + 1] = "s = s + i end return s"
  jit.opt.start("maxrecord=32000")
  return loadstring(table.concat(code), "=long")()
end

-- ---- truth

local events, final = {}, {}
local function on_record(tr, fn, pc, depth)
  local mine = events[tr]
  local head = util.traceinfo(tr).nins + 0x8001 .. " " .. depth
  if pc < 0 then
    mine[#mine + 1] = head .. " builtin"
  else
    local i = util.funcinfo(fn)
    mine[#mine + 1] = ("%s %x %d %d %d"):format(head,
      tonumber((("%p"):format(i.proto):gsub("^0x", "")), 16), i.linedefined,
      i.bytecodes, pc)
  end
end
local function on_trace(what, tr)
  if what == "start" then events[tr] = {}
  elseif what == "stop" then final[tr] = events[tr]
  elseif what == "flush" then final = {} end
end
local function position(fn, pc)
  local i = fn and util.funcinfo(fn) or {}
  return tostring(i.linedefined) .. "/" .. tostring(pc)
end
local function on_trace_list(what, tr, fn, pc, a, b)
  if what == "stop" or what == "flush" then say("list", what, tostring(tr))
  elseif what == "start" then
    say("list", what, tr, position(fn, pc), tostring(a), tostring(b))
  else
    say("list", what, tr, position(fn, pc), type(a) == "number" and a or "error")
  end
end
for _, f in pairs {on_record, on_trace, position, on_trace_list, say} do jit.off(f) end
if how == "records" then
  jit.attach(on_trace, "trace")
  jit.attach(on_record, "record")
elseif how == "traces" then
  jit.attach(on_trace_list, "trace")
end

function traces()
  for tr = 1, 1000 do
    local code, addr, loop = util.tracemc(tr)
    local i = util.traceinfo(tr)
    if code then
      local bits = require "ffi".cast("uintptr_t", addr)
      say("trace", tr, ("%x"):format(tonumber(bits)), #code)
      say("about", tr, #code, loop, i.link, i.linktype, i.nins, i.nk, i.nexit)
    end
    -- One that is gone went without an event (lj_record.c, check_call_unroll:
    -- a trace that only returns).
    for k, e in ipairs(code and final[tr] or {}) do say("event", tr, k, e) end
  end
  io.write(table.concat(out, "\n") .. "\n")
  io.flush()
  out = {}
end
jit.off(traces)

say("result", programs[name]())
jit.attach(on_record)
jit.attach(on_trace)
jit.attach(on_trace_list)
jit.off()
traces()
io.write("ready\n")
io.flush()
if wait then return wait() end
for line in io.lines() do
  assert(loadstring(line))()
  io.write("done\n")
  io.flush()
end
