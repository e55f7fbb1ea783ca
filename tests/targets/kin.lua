-- SPDX-License-Identifier: MIT
-- kin.lua MODE NAME SECONDS: processes that come from each other.  Each burns
-- SECONDS of CPU time of its own in a function called NAME (game, short) or, in
-- forked ones, parent, child and daemon, and adds a line
-- `cpu <pid> <function> <seconds>` to the file KIN_OUT.
local ffi = require("ffi")
ffi.cdef [[
int fork(void); int setsid(void); int getpid(void);
int waitpid(int, int *, int); void _exit(int);
]]
local C, clock = ffi.C, os.clock
local mode, name, secs = arg[1], arg[2], tonumber(arg[3])
local lines = {}

local function burn(f)
  local start = clock()
  while clock() - start < secs do f() end
  lines[#lines + 1] = ("cpu %d %s %.3f\n"):format(C.getpid(), name,
    clock() - start)
end

local function sum()
  local s = 0
  for i = 1, 2e5 do s = s + i % 7 end
  return s
end

local work = {}
function work.game() local s = sum() return s end
function work.short() local s = sum() return s end
function work.parent() local s = sum() return s end
function work.child() local s = sum() return s end
function work.daemon() local s = sum() return s end

local function as(what)
  name = what
  burn(work[what])
end

local function tell()
  local out = assert(io.open(os.getenv("KIN_OUT"), "a"))
  out:write(table.concat(lines))
  out:close()
  lines = {}
end

local function forked(what, setsid)
  local pid = C.fork()
  if pid ~= 0 then return pid end
  lines = {}
  if setsid then
    C.setsid()
    if C.fork() ~= 0 then C._exit(0) end
  end
  as(what)
  tell()
  C._exit(0)
end

io.stdout:setvbuf("no")
if mode == "fork" then
  print("ready")
  as("parent")
  local child = forked("child")
  as("parent")
  tell()
  C.waitpid(child, nil, 0)
elseif mode == "daemon" then
  C.waitpid(forked("daemon", true), nil, 0)
else
  as(name)
  tell()
end
