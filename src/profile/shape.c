/* SPDX-License-Identifier: MIT
 *
 * Which frames of a stack are what, by their texts alone: all that collapsed
 * stacks have.
 */
#include <string.h>

#include "profile/profile.h"

#define ROOTS_MAX 2 /* a process; a thread, a VM or both */

static bool starts_with(const char *text, const char *start)
{
  return !strncmp(text, start, strlen(start));
}

size_t profile_frame_split(const char *text, char *state)
{
  size_t len = strlen(text);
  *state = 0;
  if (len < 4 || text[len - 4] != '_' || text[len - 3] != '[' ||
      text[len - 1] != ']' || !memchr("NICGJ", text[len - 2], 5))
    return len;
  *state = text[len - 2];
  return len - 4;
}

bool profile_frame_is_lua(const char *text, size_t len)
{
  size_t i = len;
  if (!len || text[len - 1] != ')')
    return false;
  if (len > 13 && starts_with(text, "main chunk ("))
    return true;
  i--;
  while (i > 0 && text[i - 1] >= '0' && text[i - 1] <= '9')
    i--;
  if (i == len - 1 && i > 0 && text[i - 1] == '?')
    i--;
  return i < len - 1 && i > 0 && text[i - 1] == ':' &&
         memmem(text, i, " (", 2) != NULL;
}

/* Functions of LuaJIT's libraries as they stand in stacks, in lib_base.c and by
 * library. */
static bool is_builtin(const char *text, size_t len)
{
  static const char *const base[] = {
      "pcall",  "xpcall", "ipairs",   "pairs",        "next",  "tostring",
      "unpack", "select", "tonumber", "setmetatable", "error", "require",
      "load",   "dofile", "loadfile", "loadstring",   "print", "collectgarbage",
  };
  static const char *const library[] = {
      "string.", "table.", "coroutine.", "math.",  "io.",       "os.",
      "ffi.",    "bit.",   "jit.",       "debug.", "[builtin:",
  };
  for (size_t i = 0; i < sizeof base / sizeof *base; i++)
    if (strlen(base[i]) == len && !memcmp(text, base[i], len))
      return true;
  for (size_t i = 0; i < sizeof library / sizeof *library; i++)
    if (starts_with(text, library[i]))
      return true;
  return false;
}

static bool is_native_root(const char *text, size_t len)
{
  static const char *const root[] = {"_start", "[thread start]", "[partial]",
                                     "[truncated]"};
  for (size_t i = 0; i < sizeof root / sizeof *root; i++)
    if (strlen(root[i]) == len && !memcmp(root[i], text, len))
      return true;
  return false;
}

static size_t without_digits(const char *text, size_t len)
{
  while (len > 0 && text[len - 1] >= '0' && text[len - 1] <= '9')
    len--;
  return len;
}

/* `VM 2`, `no VM`, alone or behind a thread's name; *start: where. */
static bool is_vm(const char *text, size_t len, size_t *start)
{
  size_t i = without_digits(text, len);
  size_t n = i < len ? 3 : 5;
  const char *what = i < len ? "VM " : "no VM";
  if (i < n || memcmp(text + i - n, what, n) != 0)
    return false;
  *start = i - n;
  return !*start || text[*start - 1] == ' ';
}

/* As sessions name processes and threads (`name/4711`) and VMs. */
static bool is_root(const char *text)
{
  size_t len = strlen(text), start;
  if (is_vm(text, len, &start)) {
    if (!start)
      return true;
    len = start - 1;
  }
  size_t i = without_digits(text, len);
  return i < len && i > 0 && text[i - 1] == '/';
}

struct profile_shape profile_shape_of(const struct profile *p)
{
  struct profile_shape shape = {profile_stack_count(p) ? ROOTS_MAX : 0};
  const struct profile_stack *s;
  for (size_t i = 0; shape.roots && (s = profile_stack_at(p, i)); i++) {
    size_t n = 0;
    while (n < shape.roots && n < s->count &&
           is_root(profile_frame_text(p, s->frame[n])))
      n++;
    shape.roots = n;
  }
  return shape;
}

size_t profile_zones_end(const struct profile *p, struct profile_shape shape,
                         const struct profile_stack *s)
{
  for (size_t i = shape.roots; i < s->count; i++) {
    const char *text = profile_frame_text(p, s->frame[i]);
    char state;
    size_t len = profile_frame_split(text, &state);
    if (is_native_root(text, len) || profile_frame_is_lua(text, len) ||
        is_builtin(text, len))
      return i;
  }
  return shape.roots;
}
