-- SPDX-License-Identifier: MIT
-- aborts.lua COUNT: aborts of every kind that can be provoked, over freshly
-- loaded chunks, until COUNT traces were aborted; keeps its own book through
-- jit.attach.  Says `ready`, waits for a line on its input, runs, says `ran`,
-- waits for another and prints the book:
-- `truth abort N<tab>severity<tab>reason<tab>location<tab>zone`.
local jutil, vmdef = require("jit.util"), require("jit.vmdef")
local zone, ffi = require("jit.zone"), require("ffi")
local wanted = tonumber(arg[1]) or 10000
local wait = wait or io.read -- a host of several VMs has its own

local function say(line) -- in one piece: other threads write too
  io.write(line .. "\n")
end

-- ---- the book

local benign = {
  ["leaving loop in root trace"] = true, ["inner loop in root trace"] = true,
  ["down-recursion, restarting"] = true, ["retry recording"] = true,
}
local rank = { info = 1, warn = 2, blacklist = 3 }
local book = {}
local total = { start = 0, stop = 0, abort = 0, flush = 0, blacklist = 0 }
local start = {}

local function opname(op)
  return (vmdef.bcnames:sub(op * 6 + 1, op * 6 + 6):gsub(" ", ""))
end

local function reason_of(code, info)
  if type(code) ~= "number" then return code end
  local text = vmdef.traceerr[code]
  if text:find("%s", 1, true) then
    return (text:gsub("%%s", vmdef.ffnames[jutil.funcinfo(info).ffid] or "?"))
  elseif text:find("bytecode %d", 1, true) then
    return (text:gsub("%%d", opname(info)))
  end
  return text
end

local function opcode(func, pc)
  return opname(bit.band(jutil.funcbc(func, pc), 0xff))
end

-- blacklisted when it was recorded, or given up because of this abort
local function severity_of(reason)
  if reason == "blacklisted" then return "blacklist" end
  if start.root then
    local now = opcode(start.func, start.pc)
    if now ~= start.op and (now == "I" .. start.op or now == "ITERC") then
      return "blacklist"
    end
  end
  return benign[reason] and "info" or "warn"
end

local function location_of(func, pc)
  local info = jutil.funcinfo(func, pc)
  return ("%s:%d"):format(info.source:gsub("^[@=]", ""), info.currentline or 0)
end

local function on_trace(what, _, func, pc, a, b)
  total[what] = total[what] + 1
  if what == "start" then
    start = { func = func, pc = pc, op = opcode(func, pc), root = a == nil }
  elseif what == "abort" then
    local reason = reason_of(a, b)
    local names = {}
    for i = 1, #zone do names[i] = zone[i] end
    local key = reason .. "\t" .. location_of(func, pc) .. "\t" ..
      table.concat(names, "/")
    local severity = severity_of(reason)
    if severity == "blacklist" then total.blacklist = total.blacklist + 1 end
    local entry = book[key] or { count = 0, severity = severity }
    entry.count = entry.count + 1
    if rank[severity] > rank[entry.severity] then entry.severity = severity end
    book[key] = entry
  end
end

-- ---- chunks that abort

local function each(n, item, glue) -- item with # replaced by 1, 2, ... n
  local t = {}
  for i = 1, n do t[i] = (item:gsub("#", i)) end
  return table.concat(t, glue)
end
local names = each(120, "a#", ",")

local kinds = {
  -- what LuaJIT cannot compile
  bytecode_fnew = "local f for i = 1, 200 do f = function() return i end end",
  bytecode_uclo = [[for i = 1, 300 do local x do local y = i
    if i > 1e9 then x = function() return y end end end end]],
  fastfunc = "for i = 1, 300 do local t = ffi.typeof('int') end",
  c_function = "for i = 1, 300 do local r = C.div(i, 3) end",
  c_callback = "for i = 1, 300 do C.qsort(array, 3, 4, compare) end",
  c_symbol = "jit.opt.start('hotloop=56') " .. -- fresh counters
    "for i = 1, 300 do if i >= 57 then local x = C.SYMBOL(i) end end",
  conversion = "for i = 1, 300 do local b = ffi.new('big_t', {a = {1}}) end",
  mixed = "local t = {1, 2, 3} for i = 1, 300 do t[i + 0.5] = i end",
  switched_off = [[local function f(i) return i + 1 end jit.off(f)
    for i = 1, 300 do f(i) end]],
  lower_frame = [[local function f() end local g
    for i = 1, 300 do pcall(f) g = function() return i end end]],
  -- errors
  bad_argument = "for i = 1, 300 do pcall(string.byte, {}) end",
  nan_key = "local t = {} for i = 1, 300 do pcall(rawset, t, 0/0, 1) end",
  metamethod = [[local t = {} local function f(x) return x.y.z end
    for i = 1, 300 do pcall(f, t) end]],
  index_loop = [[local a = {} setmetatable(a, {__index = a})
    local function f() return a.x end for i = 1, 300 do pcall(f) end]],
  always = "for i = 1, 300 do pcall(string.char, 300) end",
  thrown = "local t = {{}} for i = 1, 300 do pcall(table.concat, t) end",
  -- limits
  trace_long = "local s = 0 for i = 1, 300 do " ..
    each(700, "s = s * 0.5 + i s = s / (i + #)", " ") .. " end",
  records = "jit.opt.start('maxrecord=20') local s = 0 for i = 1, 300 do " ..
    each(9, "s = s * 0.5 + i s = s / (i + #)", " ") ..
    " end jit.opt.start('maxrecord=4000')",
  trace_short = [[jit.opt.start('minstitch=100')
    for i = 1, 300 do os.clock() end jit.opt.start('minstitch=0')]],
  deep = ([[local function f(...) local NAMES = 1 return a1 end
    local function g() local NAMES = 2 return f() + a1 end
    local function h() local NAMES = 3 return g() + a1 end
    for i = 1, 300 do h() end]]):gsub("NAMES", names),
  snapshots = "local n = 0 for i = 1, 200 do " ..
    each(650, "if t[#] ~= i then n = n + 1 end", "\n") .. " end",
  loop_unroll = [[local s = 0 for k = 1, 300 do for i = 1, 50 do local j = 0
    while j < i % 4 do j = j + 1 s = s + j end end end]],
  tail_unroll = [[local function a(n) if n == 0 then return 0 end
    return a(n - 1) end for i = 1, 200 do a(100) end]],
  call_unroll = [[local function fib(n) if n < 2 then return n end
    return fib(n - 1) + fib(n - 2) end fib(18)]],
  down_recursion = [[local function f(n) if n == 0 then return 0 end
    return 1 + f(n - 1) end for i = 1, 100 do f(100) end]],
  vararg_return = [[local function v(...) return ... end
    local function f(n) if n == 0 then return 1 end return v(f(n - 1)) end
    for i = 1, 200 do f(60) end]],
  phis = ("local NAMES = " .. each(120, "#", ",") .. " for i = 1, 300 do " ..
    each(119, "a# = a# + i", " ") .. " end"):gsub("NAMES", names),
  types = [[local a, b, c, d, e, f, g, h = 1, 'x', 2, true, nil, 3, 'y', false
    for i = 1, 500 do a, b, c, d, e, f, g, h = b, c, d, e, f, g, h, a end]],
  shuffle = ("local %s = unpack(t) for i = 1, 500 do %s = %s, a1 end")
    :format(each(16, "a#", ","), each(16, "a#", ","),
      (each(16, "a#", ","):gsub("^a1,", ""))),
  spills = ("local %s = %s for k = 1, 300 do local %s = %s t[1] = %s + %s end")
    :format("z", "0", each(190, "a#", ","), each(190, "t[#]", ","),
      each(190, "a#", "*"), each(190, "a#", "-")),
  code_long = "jit.flush() jit.opt.start('sizemcode=4', 'maxmcode=128') " ..
    "local s = 0 " ..
    "for i = 1, 300 do " .. each(250, "s = s * 0.5 + i s = s / (i + #)", " ") ..
    " end jit.opt.start('sizemcode=32', 'maxmcode=512') jit.flush()",
  code_full = "jit.flush() jit.opt.start('sizemcode=4', 'maxmcode=4') " ..
    "local s = 0 " ..
    "for i = 1, 300 do " .. each(150, "s = s * 0.5 + i s = s / (i + #)", " ") ..
    " end jit.opt.start('sizemcode=32', 'maxmcode=512') jit.flush()",
  -- how traces form
  leaves = [[local function once(n) local s = 0 for i = 1, 1 do s = s + n end
    return s end for i = 1, 100 do once(i) end]],
  -- given up: loops, functions, iterators
  ends_for = "local f for i = 1, 1.5e5 do f = function() return i end end",
  ends_while = [[local f, i = 0, 0
    while i < 1.5e5 do i = i + 1 f = function() return i end end]],
  ends_function = [[local function g(i) local f = function() return i end
    return f end for k = 1, 1.5e5 do g(k) end
    for k = 1, 2000 do local s = 0 for j = 1, 30 do s = s + 1 end g(k) end]],
  ends_ipairs = [[for k = 1, 250 do for i, v in ipairs(t) do
    local f = function() return v end end end]],
  ends_next = [[local h = {} for i = 1, 700 do h["k" .. i] = i end
    for k = 1, 250 do for i, v in pairs(h) do
    local f = function() return v end end end]],
  ends_iterator = [[local function it(s, i) if i < 700 then return i + 1 end end
    for k = 1, 250 do for i in it, nil, 0 do
    local f = function() return i end end end]],
}

ffi.cdef [[
  typedef struct { int a[100]; } big_t;
  typedef struct { int quot, rem; } div_t;
  div_t div(int, int);
  void qsort(void *, size_t, size_t, int (*)(const void *, const void *));
]]
local symbols = {} -- one a round: it must not have been used before
for name in ([[toupper tolower isalpha isdigit isspace isupper islower isprint
    isalnum iscntrl isgraph ispunct isxdigit isblank toascii isascii]])
    :gmatch("%a+") do
  ffi.cdef("int " .. name .. "(int);")
  symbols[#symbols + 1] = name
end
for name in ([[sin cos tan asin acos atan sinh cosh tanh exp log sqrt floor ceil
    fabs cbrt rint trunc round erf erfc lgamma tgamma]]):gmatch("%a+") do
  ffi.cdef("double " .. name .. "(double);")
  symbols[#symbols + 1] = name
end
local env = setmetatable({
  ffi = ffi, C = ffi.C, t = {}, array = ffi.new("int[3]"),
  compare = ffi.cast("int (*)(const void *, const void *)",
    function() return 0 end),
}, { __index = _G })
for i = 1, 700 do env.t[i] = i * 1.5 end

local order = {}
for kind in pairs(kinds) do order[#order + 1] = kind end
table.sort(order)

local function run(kind, round)
  local source = kinds[kind]:gsub("SYMBOL", symbols[round] or symbols[1])
  local chunk = assert(loadstring(source,
    ("%sgen/%s-%d.lua"):format(round % 2 == 0 and "@" or "=", kind, round)))
  setfenv(chunk, env)
  zone("round")
  if round % 3 == 0 then zone(kind) end
  chunk()
  if round % 3 == 0 then zone() end
  zone()
end

say("ready")
io.stdout:flush()
wait()
jit.attach(on_trace, "trace")
local round = 0
repeat
  round = round + 1
  for _, kind in ipairs(order) do run(kind, round) end
  jit.flush() -- frees trace numbers
until total.abort >= wanted
jit.attach(on_trace)
say("ran")
io.stdout:flush()
wait() -- the tracker ends its session

for key, entry in pairs(book) do
  say(("truth abort %d\t%s\t%s"):format(entry.count, entry.severity, key))
end
for what, n in pairs(total) do say(("truth total %s %d"):format(what, n)) end
say("truth rounds " .. round)
