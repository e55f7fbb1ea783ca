-- SPDX-License-Identifier: MIT
-- areas.lua SECONDS: so many traces that their machine code needs some hundred
-- areas; then one of the oldest runs.
jit.opt.start("maxmcode=65536", "maxtrace=30000", "hotloop=5")
local function chunk(i)
  local text = { "local n = ... local s = 0.5 for i = 1, n do\n" }
  for k = 1, 60 do
    text[#text + 1] = ("s = s * %d.25 + i %% %d\n"):format(k % 3, k + i % 5)
  end
  text[#text + 1] = "end return s"
  return assert(loadstring(table.concat(text), "=chunk" .. i))
end
local chunks = {}
for i = 1, 4000 do
  chunks[i] = chunk(i)
  chunks[i](50)
end
print("ready")
io.stdout:flush()
local stop = os.time() + tonumber(arg[1])
while os.time() < stop do
  local s = chunks[1](20000)
end
