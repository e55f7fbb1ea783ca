-- A stripped engine: two VMs on one thread, another on a thread of its own.
jit.off()

other_vm([[
jit.off()
local function update()
  stage("other", 4)
  while running do end
end
update()
]])

worker([[
jit.off()
local function job()
  stage("worker", 4)
  while running do end
end
job()
]])

local function draw()
  stage("first", 4)
  spin()
end
draw()
