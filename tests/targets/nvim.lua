-- SPDX-License-Identifier: MIT
-- Inside neovim: its own inspect, and string functions of its runtime, each
-- timed; `truth NAME share` at the end, on stderr.
local clock = os.clock
local spent = { inspecting = 0, splitting = 0 }
local data = {}
for i = 1, 200 do data[i] = { id = i, name = "n" .. i, at = { i, i * 2 } } end
local text = string.rep("alpha,beta;gamma delta\n", 400)

local function inspecting()
  for _ = 1, 4 do vim.inspect(data) end
  return true
end

local function splitting()
  for _ = 1, 8 do vim.split(text, "[,;\n ]") end
  return true
end

local stop = os.time() + tonumber(vim.env.NVIM_SECONDS or 5)
io.stderr:write("ready\n")
while os.time() < stop do
  local t = clock()
  inspecting()
  local u = clock()
  splitting()
  spent.inspecting = spent.inspecting + u - t
  spent.splitting = spent.splitting + clock() - u
end
local sum = spent.inspecting + spent.splitting
for name, t in pairs(spent) do
  io.stderr:write(("truth %s %.4f\n"):format(name, t / sum))
end
