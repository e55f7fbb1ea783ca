-- SPDX-License-Identifier: MIT
-- Foreign functions: C called from compiled code, and C that calls back.
local beat = require("beat")
local ffi = require("ffi")

ffi.cdef [[
void *memchr(const void *bytes, int byte, size_t count);
double sin(double x);
void qsort(void *base, size_t count, size_t size,
           int (*compare)(const int *a, const int *b));
]]

local C = ffi.C
local TEXT, NUMBERS = 16384, 100
local text = ffi.new("char[?]", TEXT)
local numbers = ffi.new("int[?]", NUMBERS)

local function search(times)
  local sum = 0
  for i = 1, times do
    if C.memchr(text, 1, TEXT - i) == nil then
      sum = sum + C.sin(i)
    end
  end
  return sum
end

local compare = ffi.cast("int (*)(const int *, const int *)", function(a, b)
  return a[0] - b[0]
end)

local function sort()
  for i = 0, NUMBERS - 1 do
    numbers[i] = i * 7919 % 1009
  end
  C.qsort(numbers, NUMBERS, ffi.sizeof("int"), compare)
end
jit.off(sort) -- C that calls back must not be called from compiled code

local function step()
  search(1500)
  sort()
end

beat.run(step)
