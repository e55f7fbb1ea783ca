-- Methods inlined three deep.
-- A line ending in --@ N FUNCTION costs N divisions, each waiting for the last.
local Point = {}
Point.__index = Point
function Point:inner(v, d)
  self.x = (((((((((((self.z + v) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d) / d + d)  --@ 10 Point:inner
end
function Point:middle(v, d)
  self:inner(v, d)
  self.y = ((((((self.x + v) / d - d) / d - d) / d - d) / d - d) / d - d)  --@ 5 Point:middle
end
function Point:outer(v, d)
  self:middle(v, d)
  self.z = ((((((self.y + v) / d + d) / d + d) / d + d) / d + d) / d + d)  --@ 5 Point:outer
end
local p = setmetatable({x = 1, y = 2, z = 3}, Point)
while true do
  for i = 1, 1e5 do p:outer(i, 1.0000001) end
end
