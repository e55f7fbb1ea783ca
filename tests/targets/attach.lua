-- SPDX-License-Identifier: MIT
-- What a program sees of jit.attach.  Its output is the same with the agent
-- and without.
local key = -1765235912 -- lj_vmevent.h: of "trace" in registry._VMEVENTS
local original = jit.attach
jit.attach(print) -- makes the table
local place = debug.getregistry()._VMEVENTS

local function work() -- aborts: closures in a loop, in code that is new
  local f = loadstring("local f for i = 1, 200 do " ..
    "f = function() return i end end", "=fresh")
  f()
end

local function counter()
  local seen = { start = 0, abort = 0, stop = 0, flush = 0 }
  return seen, function(what) seen[what] = seen[what] + 1 end
end

-- What it has heard since the last time; how often depends on addresses.
local function say(text, seen)
  print(text, seen.start > 0, seen.abort > 0, seen.flush)
  seen.start, seen.abort = 0, 0
end

-- attach, attach over it, detach by function
local a, fa = counter()
local b, fb = counter()
jit.attach(fa, "trace") work() say("a heard", a)
jit.attach(fb, "trace") work() say("a no more", a) say("b instead", b)
jit.attach(fa) work() say("b still, a was not there", b)
jit.attach(fb) work() say("b no more", b)
jit.attach(fa, "trace") work() say("a again", a)
jit.attach(fa) work() say("a no more", a)

-- the same function for several events
local kinds = {}
local function all(what) kinds[type(what)] = (kinds[type(what)] or 0) + 1 end
jit.attach(all, "trace") jit.attach(all, "bc") work()
local n = 0
for kind, times in pairs(kinds) do
  if kind ~= "string" then n = n + times end
end
print("all", kinds.string > 0, n)
jit.attach(all)
n = kinds.string
work()
print("all no more", kinds.string == n)

-- arguments
local given = {}
jit.attach(function(what, tr, func, pc, err, info)
  local text = table.concat({what, type(tr), type(func), type(pc),
    tostring(err), tostring(info)}, " ")
  given[text] = true
end, "trace")
work()
jit.flush()
jit.attach(print, "trace")
jit.attach(print)
local list = {}
for text in pairs(given) do list[#list + 1] = text end
table.sort(list)
print(table.concat(list, "\n"))

-- an error in a handler goes to stderr and nowhere else
jit.attach(function(what) error("handler of " .. what, 0) end, "trace")
work()
jit.attach(function() error({}) end, "trace")
work()

-- fetch whoever is there, call it from one's own
local c, fc = counter()
jit.attach(fc, "trace")
local old = place[key]
local d = 0
local function mine(...) d = d + 1 old(...) end
jit.attach(mine, "trace")
work()
say("chained by the program", c)
print("and heard itself", d > 0)
jit.attach(mine)
d = 0
work()
print("no more", d)
say("nor that one", c)
jit.attach(old, "trace")
work()
say("the old one put back", c)
jit.attach(old)
work()
say("and taken off", c)

-- within a handler
local e, fe = counter()
local function once()
  jit.attach(once)
  jit.attach(fe, "trace")
end
jit.attach(once, "trace")
work()
say("attached by a handler", e)
jit.attach(fe)

-- past jit.attach
local g, fg = counter()
place[key] = fg
jit.attach(function() end, "texit") -- events are looked up again
work()
say("written into the registry", g)
jit.attach(fg)
work()
say("detached", g)

-- what is raised, and the value itself
print(pcall(jit.attach))
print(pcall(jit.attach, 1))
print(pcall(jit.attach, print, {}))
print(pcall(jit.attach, print, 1))
print(jit.attach == original, tostring(jit.attach):gsub("0x%x+", "ADDR"))
print(select("#", jit.attach(print)), select("#", jit.attach(print, "record")))
jit.attach(print)
