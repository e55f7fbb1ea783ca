/* SPDX-License-Identifier: MIT
 *
 * Names of built-in functions.
 */
#include <stdlib.h>

#include "vm/late_internal.h"
#include "vm/vm_internal.h"
#include "vmcore/ffnames.h"

enum { TRIES = 8 }; /* at the libraries of a VM, at twice the distance each */

struct vm_builtins {
  uint64_t g;
  uint32_t layout;
  uint32_t asked, next; /* questions so far; at which one to look */
  bool read;
  struct vm_ffnames names;
};

/* Its libraries may not be there yet, or the game took them away. */
static void look(struct vm_store *s, struct vm_builtins *b)
{
  struct late_cache *cache = late_cache_new(s->target);
  if (cache)
    b->read =
        vm_ffnames_read(&b->names, late_cache_begin(cache), b->layout, b->g);
  late_cache_free(cache);
  b->next *= 2;
}

static struct vm_builtins *of_vm(struct vm_store *s, uint64_t g,
                                 uint32_t layout)
{
  struct vm_builtins *b = s->builtins;
  for (size_t i = 0; i < s->builtin_count; i++)
    if (b[i].g == g && b[i].layout == layout)
      return &b[i];
  b = realloc(b, (s->builtin_count + 1) * sizeof *b);
  if (!b)
    return NULL;
  s->builtins = b;
  b += s->builtin_count++;
  *b = (struct vm_builtins){.g = g, .layout = layout, .next = 1};
  vm_ffnames_listed(&b->names, layout);
  return b;
}

const char *vm_builtin_text(struct vm_store *s, uint64_t g, uint32_t layout,
                            uint32_t ffid)
{
  struct vm_builtins *b = of_vm(s, g, layout);
  if (!b)
    return NULL;
  b->asked++;
  if (!b->read && s->target && b->asked >= b->next && b->next < 1u << TRIES)
    look(s, b);
  return vm_ffname(&b->names, ffid);
}
