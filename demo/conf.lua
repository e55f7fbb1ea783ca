-- SPDX-License-Identifier: MIT
-- Settings for LÖVE; plain LuaJIT does not read this file.
function love.conf(t)
  t.identity = "tecs-demo"
  t.window.title = "tecs-attach demo"
  t.window.width, t.window.height = 640, 400
  t.modules.audio = false
  t.modules.joystick = false
  t.modules.physics = false
  t.modules.sound = false
  t.modules.video = false
end
