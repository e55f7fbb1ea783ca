-- SPDX-License-Identifier: MIT
-- compiled.lua [plain]: traces of all kinds, and what LuaJIT itself says of them.
-- Lines `trace N ...` in the end, as the test makes them of tecs-attach's; then
-- `ready`, and each line of input is run as Lua, then `done` printed.
--   plain    without listeners of its own: nothing is said of where traces start
-- Truth: jit.util's traceinfo and tracemc; the event "trace" for where a trace
-- starts and what it comes from; the event "record" for the functions that it
-- was recorded through.
local plain = ... == "plain"
local util = require "jit.util"
local names = {} -- by first line: written here by hand
local function named(name, f)
  names[util.funcinfo(f).linedefined] = name
end

local add, twice, mixed, branch, fib, down, stitch
function add(x) return x + 1 end
function twice(x) return add(x) * 2 end
function mixed(n)
  local s = 0
  for i = 1, n do s = s + twice(i) % 7 + add(s) % 3 end
  return s
end
function branch(n)
  local s = 0
  for i = 1, n do
    if i % 3 == 0 then
      s = twice(s) % 1000
    elseif i % 7 == 0 then
      s = add(s)
    else
      s = s + i % 5
    end
  end
  return s
end
function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
function down(n, a) if n == 0 then return a end return down(n - 1, a + n) end
-- What is not compiled leads to stitching, where LuaJIT has that.
function stitch(n)
  local s, clock = 0, os.clock
  for i = 1, n do
    s = s + (clock() >= 0 and 1 or 2)
    s = add(s)
  end
  return s
end
named("add", add)
named("twice", twice)
named("mixed", mixed)
named("branch", branch)
named("fib", fib)
named("down", down)
named("stitch", stitch)

local starts, through, done = {}, {}, {}
local function line_of(fn, pc)
  local i = util.funcinfo(fn, pc)
  return i.currentline
end
local function on_trace(what, tr, fn, pc, otr, oex)
  if what == "start" then
    starts[tr] = {line = line_of(fn, pc), first = util.funcinfo(fn).linedefined,
                  otr = otr, oex = oex}
    through[tr] = {}
  elseif what == "stop" then
    done[tr] = {starts[tr], through[tr]}
  elseif what == "flush" then
    done = {}
  end
end
local function on_record(tr, fn, pc, depth)
  if pc >= 0 then
    local all = through[tr]
    all[#all + 1] = {util.funcinfo(fn).linedefined, depth}
  end
end

local function name_at(first)
  if first == 0 then return "main chunk" end
  return names[first] or "anonymous"
end
local function root_of(tr)
  local s = done[tr][1]
  if not s.otr or s.oex == -1 then return tr end
  return root_of(s.otr)
end
local function origin(tr)
  local s = done[tr][1]
  if not s.otr then return "root" end
  if s.oex == -1 then return "root, stitched to " .. s.otr end
  return ("side of %d at exit %d, root %d"):format(s.otr, s.oex, root_of(tr))
end
local function inlined(tr)
  local all, met, out = done[tr][2], {}, {}
  for _, e in ipairs(all) do
    local first, depth = e[1], e[2]
    local again = first == all[1][1] and depth <= all[1][2]
    if not again and not met[first] then
      met[first] = true
      out[#out + 1] = name_at(first)
    end
  end
  return #out > 0 and table.concat(out, ", ") or "none"
end

function traces()
  for tr = 1, 4000 do
    local i = util.traceinfo(tr)
    local code, addr = util.tracemc(tr)
    if code then
      -- 32 bits of a number for an address: the sign is not the address's
      local text = ("trace %d link %s %d code %d %x"):format(tr, i.linktype,
        i.link, #code, addr % 2 ^ 32)
      if not plain and done[tr] then
        local s = done[tr][1]
        local at = s.line == 0 and "stripped:?" or name_at(s.first) .. ":" .. s.line
        text = text .. (" at %s from %s inlined %s"):format(at, origin(tr), inlined(tr))
      end
      print(text)
    end
  end
  io.flush()
end

-- Many small loops.
function many(n)
  local code = {"local s = 0 "}
  for i = 1, n do code[#code + 1] = "for i = 1, 9 do s = s + i end\n" end
  jit.on()
  jit.opt.start("hotloop=2", "maxtrace=4000", "maxmcode=8192")
  kept = loadstring(table.concat(code) .. "return s", "=many") -- with its traces
  kept()
  jit.off()
end

-- For ever: made, flushed, made again.
function churn(seconds)
  local stop = os.time() + seconds
  jit.on()
  jit.opt.start("hotloop=2")
  print("done")
  io.flush()
  while os.time() < stop do
    for k = 1, 20 do
      loadstring("local s = 0 for i = 1, 50 do s = s + i % 3 end return s", "=churn" .. k)()
      mixed(20)
      branch(60)
    end
    jit.flush()
  end
  jit.off()
end

for _, f in pairs {named, line_of, on_trace, on_record, name_at, root_of,
                   origin, inlined, traces, many} do
  jit.off(f)
end
if not plain then
  jit.attach(on_trace, "trace")
  jit.attach(on_record, "record")
end
jit.opt.start("hotloop=5", "hotexit=3")
mixed(500)
branch(3000)
for _ = 1, 20 do fib(14) end
for i = 1, 400 do down(i % 50, 0) end
stitch(500)
local bare = loadstring(string.dump(loadstring("local s = 0 for i = 1, 500 do s = s + i end return s"), true))
bare()
if not plain then -- what is made later is told without
  jit.attach(on_trace)
  jit.attach(on_record)
end
jit.off()
traces()
print("ready")
io.flush()
for line in io.lines() do
  assert(loadstring(line))()
  print("done")
  io.flush()
end
