-- The program's own signal handler runs while Lua code is interrupted.
local ffi = require("ffi")
local stopped = ffi.cast("int *", stop_word)

local function interpreted(label)
  stage(label, 3, "interrupted")
  while running do end
end
jit.off(interpreted)

-- See compiled.lua.
local function compiled(label)
  stage(label, 3, "interrupted")
  local n = 0
  while stopped[n - n] == 0 do n = n + 1 end
  return n
end

local function in_c(label)
  stage(label, 3, "interrupted")
  spin()
end

interpreted("interpreted")
compiled("compiled")
in_c("c")
other_stack()
interpreted("interpreted-other-stack")
compiled("compiled-other-stack")
in_c("c-other-stack")
