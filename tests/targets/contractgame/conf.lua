-- SPDX-License-Identifier: MIT
function love.conf(t)
  t.identity = "tecs_contract"
  t.window.width, t.window.height, t.window.vsync = 64, 64, 0
  t.modules.audio, t.modules.sound = false, false
  t.modules.joystick, t.modules.physics = false, false
end
