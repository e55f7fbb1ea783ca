-- SPDX-License-Identifier: MIT
-- Script of wrk: each of its threads has a VM of its own.
local function burn(n)
  local s = 0
  for i = 1, n do s = s + i % 7 end
  return s
end

local function compose()
  local s = burn(20000)
  return s
end

local function inspect()
  local s = burn(10000)
  return s
end

function request()
  compose()
  return wrk.format("GET", "/")
end

function response()
  inspect()
end
