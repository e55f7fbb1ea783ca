-- SPDX-License-Identifier: MIT
-- Runs a script within a frame of a LÖVE game: love contractgame SCRIPT FOLDER
local script, folder
function love.load(args)
  script, folder = args[1], args[2]
  io.stdout:setvbuf("line")
end

function love.update()
  local failures = assert(loadfile(script))(folder)
  love.event.quit(failures == 0 and 0 or 1)
end
