/* SPDX-License-Identifier: MIT
 *
 * Texts of native code, remembered by address.  An address that another module
 * has taken over is looked up anew.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "merge/merge_internal.h"

/* lj_vm_ffi_call is an ordinary C frame with its own unwind information, but
 * belongs to the VM's assembly (vm_x64.dasc). */
static bool is_vm_assembly(const char *name)
{
  return !strcmp(name, "lj_vm_ffi_call");
}

static void add_symbol_name(struct strbuf *b, const char *name)
{
  size_t len = strlen(name);
  size_t n = utf8_head(name, len, NATIVE_LIMIT);
  if (vm_text_is_pending(name)) { /* not ours: only a strange symbol */
    strbuf_add(b, "?", 1);
    name++;
    n--;
  }
  strbuf_add(b, name, n);
  if (n + 1 < len)
    strbuf_add_str(b, "...");
}

static uint32_t intern_name(struct merging *g, const char *name)
{
  struct strbuf *b = &g->m->text;
  strbuf_clear(b);
  add_symbol_name(b, name);
  g->nomem = g->nomem || b->failed;
  return merge_intern(g, strbuf_text(b));
}

static bool room_for_inlined(struct merge_memory *m, size_t n)
{
  if (m->inlined_cap - m->inlined_count >= n)
    return true;
  size_t cap = m->inlined_cap * 2 + INLINED_MAX;
  uint32_t *p = realloc(m->inlined, cap * sizeof *p);
  if (!p)
    return false;
  m->inlined = p;
  m->inlined_cap = cap;
  return true;
}

static void describe_inlined(struct merging *g, struct native_code *c)
{
  const char *name[INLINED_MAX];
  struct merge_memory *m = g->m;
  size_t n = module_inlined(c->mod, c->ip, name, INLINED_MAX);
  c->inlined_first = m->inlined_count;
  if (!room_for_inlined(m, n)) {
    g->nomem = true;
    return;
  }
  c->inlined_count = n;
  for (size_t i = 0; i < n; i++)
    m->inlined[m->inlined_count++] = intern_name(g, name[i]);
}

static void describe(struct merging *g, struct native_code *c)
{
  struct strbuf *b = &g->m->text;
  struct symbol sym;
  strbuf_clear(b);
  if (!module_function_range(c->mod, c->ip, &c->function_lo, &c->function_hi))
    c->function_lo = c->function_hi = 0;
  if (module_is_vdso(c->mod)) {
    c->text = g->m->fixed[FIXED_VDSO];
    return;
  }
  if (module_symbol(c->mod, c->ip, &sym)) {
    c->symbol_lo = sym.start;
    c->symbol_hi = sym.start + sym.size;
    c->hidden = is_vm_assembly(sym.name);
    add_symbol_name(b, sym.name);
  } else {
    uint64_t start = c->function_hi ? c->function_lo : c->ip;
    strbuf_printf(b, "%s+0x%" PRIx64, module_name(c->mod),
                  start - module_bias(c->mod));
  }
  g->nomem = g->nomem || b->failed;
  c->text = merge_intern(g, strbuf_text(b));
  if (g->o->inlined)
    describe_inlined(g, c);
}

static struct native_code *append(struct merging *g)
{
  struct merge_memory *m = g->m;
  if (m->code_count == m->code_cap) {
    size_t cap = m->code_cap * 2 + 256;
    struct native_code *code = realloc(m->code, cap * sizeof *code);
    if (!code)
      return NULL;
    m->code = code;
    m->code_cap = cap;
  }
  return &m->code[m->code_count];
}

const struct native_code *merge_native(struct merging *g, uint64_t ip,
                                       const struct module *mod)
{
  struct merge_memory *m = g->m;
  uint32_t index;
  bool known = idmap_get(&m->code_of_ip, ip, &index);
  if (known && m->code[index].mod == mod)
    return &m->code[index];
  struct native_code *c = known ? &m->code[index] : append(g);
  if (!c ||
      (!known && !idmap_put(&m->code_of_ip, ip, (uint32_t)m->code_count))) {
    g->nomem = true;
    return NULL;
  }
  m->code_count += !known;
  *c = (struct native_code){.ip = ip, .mod = mod};
  if (mod)
    describe(g, c);
  else
    c->text = m->fixed[modules_is_anon_exec(g->modules, ip) ? FIXED_CODE
                                                            : FIXED_UNKNOWN];
  return c;
}

/* GCC moves unlikely parts of f to f.cold, away from it. */
static bool is_cold_part(const char *name, const char *of)
{
  size_t n = strlen(of);
  return !strncmp(name, of, n) && !strcmp(name + n, ".cold");
}

bool merge_is_function(struct merging *g, uint64_t ip, const struct module *mod,
                       uint64_t value)
{
  const struct native_code *c = mod ? merge_native(g, ip, mod) : NULL;
  if (!c)
    return false;
  if (value >= c->symbol_lo && value < c->symbol_hi)
    return true;
  if (value >= c->function_lo && value < c->function_hi)
    return true;
  if (c->symbol_lo == c->symbol_hi || modules_find(g->modules, value) != mod)
    return false;
  uint32_t text = c->text;
  const struct native_code *f = merge_native(g, value, mod);
  struct interner *in = profile_frames(g->m->profile);
  return f && f->symbol_lo != f->symbol_hi &&
         is_cold_part(interner_text(in, text), interner_text(in, f->text));
}
