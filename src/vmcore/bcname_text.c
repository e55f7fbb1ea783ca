/* SPDX-License-Identifier: MIT
 *
 * Text that grows to the left: a place is found from its last field to its
 * root.  What does not fit is left out whole, so that a name that is too long
 * keeps its last fields.
 */
#include "vmcore/bcname_internal.h"

#include <string.h>

void bcname_text_clear(struct text *t)
{
  t->start = t->field = VM_NAME_MAX;
  t->separator = 0;
}

/* Room for len bytes before the text; NULL: it does not fit. */
static char *grow(struct text *t, uint32_t len)
{
  if (len > t->start)
    return NULL;
  t->start -= len;
  return t->bytes + t->start;
}

bool bcname_text_char(struct text *t, char c)
{
  char *at = grow(t, 1);
  if (at)
    *at = c;
  return at != NULL;
}

/* At most max bytes, without splitting a UTF-8 character. */
static uint32_t whole_characters(struct namer *n, uint64_t addr, uint32_t max)
{
  while (max > 0 && (vm_load1(n->m, addr + max) & 0xc0) == 0x80)
    max--;
  return max;
}

static bool add_bytes(struct namer *n, uint64_t addr, uint32_t len)
{
  struct text *t = &n->text;
  if (len > VM_NAME_MAX && t->start == VM_NAME_MAX)
    len = whole_characters(n, addr, VM_NAME_MAX); /* a field alone */
  char *at = grow(t, len);
  for (uint32_t i = 0; at && i < len; i++)
    at[i] = (char)vm_load1(n->m, addr + i);
  return at != NULL;
}

bool bcname_text_name(struct namer *n, uint32_t offset)
{
  uint32_t len = 0;
  if (offset == 0)
    return false;
  while (offset + len < n->sizept && len <= VM_NAME_MAX &&
         vm_load1(n->m, n->pt + offset + len) != 0)
    len++;
  return len > 0 && add_bytes(n, n->pt + offset, len);
}

bool bcname_text_str(struct namer *n, uint64_t str)
{
  if (str == 0)
    return false;
  return add_bytes(n, str + n->lay->str_sizeof,
                   vm_load4(n->m, str + n->lay->str_len));
}

bool bcname_text_int(struct text *t, int64_t v)
{
  uint64_t rest = v < 0 ? -(uint64_t)v : (uint64_t)v;
  bool ok = true;
  do {
    ok = bcname_text_char(t, (char)('0' + rest % 10));
    rest /= 10;
  } while (ok && rest > 0);
  return ok && (v >= 0 || bcname_text_char(t, '-'));
}

/* v as digits / 10^places, when that is exact. */
static bool as_decimal(double v, int64_t *digits, unsigned *places)
{
  double scale = 1;
  for (*places = 0; *places <= 6; ++*places, scale *= 10) {
    double scaled = v * scale;
    if (!(scaled > -1e15 && scaled < 1e15))
      return false;
    *digits = (int64_t)scaled;
    if ((double)*digits == scaled && scaled / scale == v)
      return true;
  }
  return false;
}

bool bcname_text_num(struct text *t, uint64_t bits)
{
  double v;
  int64_t digits;
  unsigned places;
  memcpy(&v, &bits, sizeof v);
  if (!as_decimal(v, &digits, &places))
    return false;
  uint64_t rest = digits < 0 ? -(uint64_t)digits : (uint64_t)digits;
  for (unsigned i = 0; i < places; i++, rest /= 10)
    if (!bcname_text_char(t, (char)('0' + rest % 10)))
      return false;
  if (places > 0 && !bcname_text_char(t, '.'))
    return false;
  return bcname_text_int(t, (int64_t)rest) &&
         (digits >= 0 || bcname_text_char(t, '-'));
}
