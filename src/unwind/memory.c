/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "unwind/unwind_internal.h"

static bool word_in(const uint8_t *bytes, uint64_t base, uint32_t len,
                    uint64_t addr, uint64_t *out)
{
  if (len < 8 || addr < base || addr - base > len - 8)
    return false;
  memcpy(out, bytes + (addr - base), 8);
  return true;
}

bool unwind_stack_word(const struct unwinder *u, uint64_t addr, uint64_t *out)
{
  const struct tecs_sample *s = u->s->sample;

  return word_in(u->s->stack, s->stack_base, s->stack_len, addr, out) ||
         word_in(u->s->outer, s->outer_base, s->outer_len, addr, out);
}

static bool read_code(struct unwinder *u, uint64_t addr, void *buf, size_t n)
{
  const struct module *mod = modules_find(u->modules, addr);

  return mod != NULL && module_read(mod, addr, buf, n);
}

/* call rel32 is e8; call r/m64 is ff /2 with a ModRM byte and up to five more,
 * a REX prefix before them does not matter. */
bool unwind_is_return(struct unwinder *u, uint64_t addr)
{
  static const uint8_t tail[] = {2, 3, 4, 6, 7};
  uint8_t b[7];

  if (addr < sizeof b || !read_code(u, addr - sizeof b, b, sizeof b))
    return false;
  if (b[2] == 0xe8)
    return true;
  for (size_t i = 0; i < sizeof tail; i++) {
    const uint8_t *op = b + sizeof b - tail[i];
    if (op[0] == 0xff && (op[1] & 0x38) == 0x10)
      return true;
  }
  return false;
}

/* jmp *GOT(%rip), behind endbr64 and bnd or not. */
bool unwind_is_plt(struct unwinder *u, uint64_t addr)
{
  static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
  uint8_t b[7];

  if (!read_code(u, addr, b, sizeof b))
    return false;
  if (memcmp(b, endbr64, sizeof endbr64) == 0 &&
      !read_code(u, addr + sizeof endbr64, b, sizeof b))
    return false;
  return memcmp(b, "\xff\x25", 2) == 0 || memcmp(b, "\xf2\xff\x25", 3) == 0;
}

/* mov $SYS_rt_sigreturn,%rax; syscall: the restorer of every C library, and
 * what debuggers and unwinders recognise it by. */
bool unwind_is_sigreturn(struct unwinder *u, uint64_t addr)
{
  static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  uint8_t b[sizeof code];

  return read_code(u, addr, b, sizeof b) && memcmp(b, code, sizeof b) == 0;
}
