-- SPDX-License-Identifier: MIT
-- timed.lua FILE: runs FILE with a clock around each call of its main loop
-- (`while life.alive() do f(1) g(2) end`) and prints each one's share.
local path = arg[1]
local source = assert(io.open(path)):read("*a")
local head, body, tail = source:match("^(.*\nwhile life%.alive%(%) do )(.-)( end%s*)$")
assert(head, "no main loop of calls in " .. path)
TIMED = {}
local timed = body:gsub("(%w+)(%b())", function(name, args)
  return ("local c = os.clock() %s%s TIMED.%s = (TIMED.%s or 0) + os.clock() - c ")
    :format(name, args, name, name)
end)
assert(loadstring(head .. timed .. tail, "@" .. path))()
local sum = 0
for _, s in pairs(TIMED) do sum = sum + s end
for name, s in pairs(TIMED) do
  print(("truth share %s %.4f"):format(name, s / sum))
end
