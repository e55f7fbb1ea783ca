-- SPDX-License-Identifier: MIT
-- zones.lua MODE SECONDS: parts of one program, each a function of its own name
-- in a zone of that name, by turns.  What they spent is printed at the end as
-- `truth PART share`.  MODE:
--   places    the parts are in C, in the collector, in the compiler, ...
--   names     the names are what a game may get wrong
--   swapped   an engine swaps the __call of the module
--   replaced  a game puts something else into package.loaded
--   stock     LuaJIT's own module, loaded from its file
--   deep      10,000 zones are open
--   errors    errors unwind past zones; frames flush
--   calls     a compiled loop has only calls between its zones (a library with
--             work_one, work_two and free_of_zones is the third argument)
local mode, secs = arg[1], tonumber(arg[2]) or 5
if mode == "stock" then package.preload["jit.zone"] = nil end
local zone = require("jit.zone")
local clock, time, concat = os.clock, os.time, table.concat
local spent, order = {}, {}

local function crunch()
  local s = 0
  for i = 1, 1e4 do s = s + i % 7 end
  return s
end

-- f again and again for a while, by the CPU clock.
local function spin(name, f)
  local begin = clock()
  local now
  repeat
    f()
    now = clock()
  until now - begin > 0.002
  if not spent[name] then
    spent[name] = 0
    order[#order + 1] = name
  end
  spent[name] = spent[name] + now - begin
end

local function in_zone(name, part)
  zone(name)
  part()
  zone()
end

local modes = {}

-- ---- places ----

local chunk = "local t = ... local s = 0 for i = 1, 200 do s = s + t[i % 4 + 1] end return s"
local number = 0
local text = ("x"):rep(20000)
local sorted = {}
for i = 1, 300 do sorted[i] = i * 7 % 301 end

local function work_compiled() spin("compiled", crunch) end
local function work_interpreted()
  spin("interpreted", function()
    local s = 0
    for i = 1, 300 do s = s + i % 7 end
    return s
  end)
end
local function work_c() spin("c", function() return text:reverse():find("y", 1, true) end) end
local function work_callback()
  spin("callback", function() table.sort(sorted, function(a, b) return a < b end) end)
end
local function work_gc() spin("gc", function() collectgarbage() end) end
local function work_garbage()
  spin("garbage", function()
    local t = {}
    for i = 1, 200 do t[i] = { i, tostring(i) } end
    return concat(t[200])
  end)
end
local function work_compiler()
  spin("compiler", function()
    number = number + 1
    return loadstring(chunk .. " -- " .. number)({ 1, 2, 3, 4 })
  end)
end
local work_coroutine
local routine = coroutine.wrap(function()
  while true do
    crunch()
    coroutine.yield()
  end
end)
function work_coroutine() spin("coroutine", routine) end
if jit.status() then jit.off(work_interpreted, true) end

function modes.places()
  in_zone("compiled", work_compiled)
  in_zone("interpreted", work_interpreted)
  in_zone("c", work_c)
  in_zone("callback", work_callback)
  in_zone("gc", work_gc)
  in_zone("garbage", work_garbage)
  in_zone("compiler", work_compiler)
  in_zone("coroutine", work_coroutine)
  spin("outside", crunch)
end

-- ---- names ----

local names = {
  { "huge", ("h"):rep(1e5) }, { "empty", "" }, { "number", 42.5 },
  { "boolean", true }, { "table", {} }, { "bytes", "\255\254bad\128" },
  { "separators", ";a;b;" }, { "breaks", "line\r\nbreak\tand\0null" },
  { "mark", "_[N]" }, { "space", " " }, { "count", "x 12" },
}
function modes.names()
  for _, n in ipairs(names) do
    zone(n[2])
    spin(n[1], crunch)
    zone()
  end
end

-- ---- swapped ----

local frames = 0
local real
local function nothing() end
local function own(t, name)
  if name then t[#t + 1] = name return end
  return table.remove(t)
end
local function work_swapped() spin("swapped", crunch) end
function modes.swapped()
  local meta = getmetatable(zone)
  real = real or meta.__call
  local turn = { real, nothing, own }
  frames = frames + 1
  meta.__call = turn[frames % 3 + 1]
  zone("frame")
  meta.__call = turn[(frames + 1) % 3 + 1]
  in_zone("swapped", work_swapped)
  zone()
end

-- ---- replaced, stock ----

local function work_plain() spin("plain", crunch) end
function modes.replaced()
  if package.loaded["jit.zone"] == zone then
    package.loaded["jit.zone"] = setmetatable({}, { __call = function(_, ...) return zone(...) end })
  end
  in_zone("plain", work_plain)
  spin("outside", crunch)
end
function modes.stock()
  in_zone("plain", work_plain)
  spin("outside", crunch)
end

-- ---- deep ----

local function work_deep() spin("deep", crunch) end
function modes.deep()
  if #zone == 0 then for i = 1, 10000 do zone("z" .. i) end end
  in_zone("deep", work_deep)
end

-- ---- errors ----

local function work_failing()
  zone("failing")
  spin("failing", crunch)
  error("left behind")
end
local function work_after() spin("after", crunch) end
local function work_frame() spin("frame", crunch) end
function modes.errors()
  zone:flush()
  zone("frame")
  work_frame()
  pcall(work_failing)
  in_zone("after", work_after)
end

-- ---- calls ----

local library
if mode == "calls" then
  library = require("ffi")
  library.cdef("void work_one(void); void work_two(void); void free_of_zones(void);")
  library = library.load(arg[3])
end
function modes.calls()
  for _ = 1, 500 do
    zone("one") library.work_one() zone()
    library.free_of_zones()
    zone("two") library.work_two() zone()
    zone("one") library.work_one()
    zone("two") library.work_two() zone()
    library.work_one()
    zone("two") library.work_two() zone() zone()
  end
end

local run = modes[mode]
io.stdout:setvbuf("no")
run()
print("ready")
for name in pairs(spent) do spent[name] = 0 end
local stop = time() + secs
while time() < stop do run() end
local sum = 0
for _, name in ipairs(order) do sum = sum + spent[name] end
for _, name in ipairs(order) do print(("truth %s %.4f"):format(name, spent[name] / sum)) end
