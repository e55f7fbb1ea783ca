-- SPDX-License-Identifier: MIT
-- A game that takes its steps from stdin: each line is a Lua chunk.  Prints
-- `> RESULT` or `! ERROR` for each.
local profile = require("tecs.utils.profile")
io.stdout:setvbuf("line")

local function spin(seconds)
  local stop, s = os.clock() + seconds, 0
  repeat for i = 1, 5000 do s = s + i % 7 end until os.clock() >= stop
end

local function sum(t)
  local n = 0
  for count in t:gmatch(" (%d+)\n") do n = n + count end
  return n
end

local function descriptors()
  local stat = io.open("/proc/self/stat")
  local pid = stat:read("*n")
  stat:close()
  -- when popen itself is done in this process
  local p, n = io.popen("sleep 0.1; ls /proc/" .. pid .. "/fd"), 0
  for _ in p:lines() do n = n + 1 end
  p:close()
  return n
end

local env = setmetatable({profile = profile, spin = spin, sum = sum, descriptors = descriptors},
  {__index = _G})
print("ready")
for line in io.lines() do
  local f = assert(loadstring(line))
  local ok, r = pcall(setfenv(f, env))
  print((ok and "> " or "! ") .. tostring(r):gsub("\n", "\\n"))
end
