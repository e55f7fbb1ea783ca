/* SPDX-License-Identifier: MIT
 *
 * The name of a place: `M.sub.draw` for a store into the table that M.sub
 * loaded.  Built backwards from the store.  Lua evaluates the left side of an
 * assignment first, and a table before its fields, so what a place is made of
 * was loaded before the closure: one search, from `at` back, finds it.
 */
#include "vmcore/bcname_internal.h"

#include <string.h>

#define PATH_LINKS 16 /* fields of a place */
#define KEY_DEPTH 2   /* t[a[b]] */

/* A register's content, as of the instruction `before`. */
struct source {
  uint32_t before;
  uint32_t alive; /* an instruction at which a table made for it is still
                     there, to be followed on; 0: no such */
  unsigned reg;
};

enum link { LINK_FIELD, LINK_ROOT, LINK_LOST };

static bool add_path(struct namer *n, struct source s, unsigned depth);

/* `(a or b).f = ...`: what stands in the register depends on the way taken.
 * The second operand is evaluated right behind the jump over it. */
static bool conditional(struct namer *n, uint32_t pc, uint32_t before)
{
  if (pc <= 1)
    return false;
  uint32_t prev = bcname_ins(n, pc - 1);
  if (bc_op(prev) != BC_JMP || bc_j(prev) < 0)
    return false;
  uint32_t target = pc + (uint32_t)bc_j(prev);
  return target > pc && target <= before;
}

static uint64_t key_string(struct namer *n, unsigned idx)
{
  return bcname_kgc(n, idx, VM_GCT_STR);
}

/* A name between fields: the separator goes to its left. */
static bool add_field(struct namer *n, uint64_t str)
{
  struct text *t = &n->text;
  uint32_t was = t->start;
  if (str == 0 || !bcname_text_str(n, str))
    return false;
  bool last = was == VM_NAME_MAX;
  t->field = t->start;
  if (!bcname_text_char(t, '.'))
    return false;
  if (last)
    t->separator = t->start;
  return true;
}

/* What stands between brackets.  An expression that is no name prints `?`. */
static bool add_key_value(struct namer *n, uint32_t writer, struct source s,
                          unsigned depth)
{
  struct text *t = &n->text;
  uint32_t ins = writer ? bcname_ins(n, writer) : 0;
  uint32_t end = t->start;
  bool named = false;
  uint32_t var = bcname_var_at(n, n->at, s.reg);
  if (var != 0) {
    named = !bcname_var_hidden(n, var) && bcname_text_name(n, var);
  } else if (writer != 0) {
    switch (bc_op(ins)) {
    case BC_KSHORT:
      named = bcname_text_int(t, (int16_t)bc_d(ins));
      break;
    case BC_KNUM:
      named = bcname_text_num(t, bcname_knum(n, bc_d(ins)));
      break;
    default:
      named = depth < KEY_DEPTH && add_path(n, s, depth + 1);
    }
  }
  if (named)
    return true;
  t->start = end;
  return bcname_text_char(t, '?');
}

/* table[key] with the key in a register: a string constant is a field, as it
 * was written (more than 255 constants leave no room in TSETS). */
static bool add_key(struct namer *n, uint32_t writer, struct source s,
                    unsigned depth)
{
  struct text *t = &n->text;
  uint32_t ins = writer ? bcname_ins(n, writer) : 0;
  if (writer != 0 && bc_op(ins) == BC_KSTR &&
      bcname_var_at(n, n->at, s.reg) == 0)
    return add_field(n, key_string(n, bc_d(ins)));
  return bcname_text_char(t, ']') && add_key_value(n, writer, s, depth) &&
         bcname_text_char(t, '[');
}

static bool add_index(struct namer *n, unsigned idx)
{
  struct text *t = &n->text;
  return bcname_text_char(t, ']') && bcname_text_int(t, idx) &&
         bcname_text_char(t, '[');
}

/* MoonScript and YueScript keep a class's methods in _base_0 and the class in
 * _class_0; `_base_0.draw = ...` is the source's `draw` of class __name. */
static uint64_t find_class_name(struct namer *n)
{
  if (n->class_store > n->at)
    return n->class_name; /* still ahead: it serves this one too */
  for (uint32_t pc = n->at + 1; pc < n->sizebc && bcname_step(n); pc++) {
    uint32_t ins = bcname_ins(n, pc);
    if (bc_op(ins) != BC_TSETS ||
        !bcname_str_is(n, key_string(n, bc_c(ins)), "__base"))
      continue;
    n->class_store = pc;
    n->class_name = 0;
    while (pc > 1 && !bcname_writes(bcname_ins(n, --pc), bc_b(ins)))
      if (!bcname_step(n))
        return 0;
    uint32_t made = bcname_ins(n, pc);
    uint64_t tab = bcname_kgc(n, bc_d(made), VM_GCT_TAB);
    if (bc_op(made) == BC_TDUP && tab != 0)
      n->class_name = bcname_tab_str(n, tab, "__name");
    return n->class_name;
  }
  n->class_store = UINT32_MAX; /* there is none ahead */
  n->class_name = 0;
  return 0;
}

static bool is_class_variable(struct namer *n, uint32_t var)
{
  static const char *const prefix[] = {"_base_", "_class_"};
  char head[8] = {0};
  for (unsigned i = 0; i < sizeof head - 1; i++) {
    head[i] = (char)vm_load1(n->m, n->pt + var + i);
    if (head[0] != '_')
      return false;
    if (head[i] == '\0')
      break;
  }
  for (unsigned i = 0; i < 2; i++)
    if (strncmp(head, prefix[i], strlen(prefix[i])) == 0)
      return true;
  return false;
}

static bool add_local(struct namer *n, uint32_t var)
{
  struct text *t = &n->text;
  bool below = t->separator != 0 && t->separator == t->start;
  if (below && is_class_variable(n, var)) {
    uint64_t name = find_class_name(n);
    if (name != 0) {
      n->class_member = true;
      return bcname_text_str(n, name);
    }
  }
  return bcname_text_name(n, var);
}

/* A store's key; *s becomes the table. */
static bool add_store_key(struct namer *n, const struct sink *k,
                          struct source *s, unsigned depth)
{
  uint32_t ins = bcname_ins(n, k->pc);
  struct source key = {.before = s->before, .reg = bc_c(ins)};
  if (k->kind == SINK_VALUE_KEY && k->key_writer >= key.before)
    key.before = k->key_writer + 1;
  s->reg = bc_b(ins);
  switch (k->kind) {
  case SINK_STRING_KEY:
    return add_field(n, key_string(n, bc_c(ins)));
  case SINK_BYTE_KEY:
    return add_index(n, bc_c(ins));
  default:
    return add_key(n, k->key_writer, key, depth);
  }
}

static enum link root_if(bool named)
{
  return named ? LINK_ROOT : LINK_LOST;
}

/* Adds the place's last part; for a table's field, *s becomes the table. */
static enum link add_sink(struct namer *n, const struct sink *k,
                          struct source *s, unsigned depth)
{
  uint32_t ins = bcname_ins(n, k->pc);
  switch (k->kind) {
  case SINK_NONE:
    return LINK_LOST;
  case SINK_LOCAL:
    return root_if(add_local(n, k->var));
  case SINK_UPVALUE:
    return root_if(bcname_text_name(n, bcname_upvalue(n, bc_a(ins))));
  case SINK_GLOBAL:
    return root_if(bcname_text_str(n, key_string(n, bc_d(ins))));
  default:
    return add_store_key(n, k, s, depth) ? LINK_FIELD : LINK_LOST;
  }
}

/* Adds what the instruction at pc loaded. */
static enum link add_load(struct namer *n, uint32_t pc, struct source *s,
                          unsigned depth)
{
  uint32_t ins = bcname_ins(n, pc);
  struct source loaded = *s;
  *s = (struct source){.before = pc, .reg = bc_b(ins)};
  switch (bc_op(ins)) {
  case BC_GGET:
    return root_if(bcname_text_str(n, key_string(n, bc_d(ins))));
  case BC_UGET:
    return root_if(bcname_text_name(n, bcname_upvalue(n, bc_d(ins))));
  case BC_MOV:
    s->reg = bc_d(ins);
    s->alive = loaded.alive;
    return LINK_FIELD;
  case BC_TGETS:
    return add_field(n, key_string(n, bc_c(ins))) ? LINK_FIELD : LINK_LOST;
  case BC_TGETB:
    return add_index(n, bc_c(ins)) ? LINK_FIELD : LINK_LOST;
  case BC_TGETV: {
    struct source key = {.before = pc, .reg = bc_c(ins)};
    uint32_t writer = bcname_writer(n, pc, key.reg);
    return add_key(n, writer, key, depth) ? LINK_FIELD : LINK_LOST;
  }
  case BC_TNEW:
  case BC_TDUP:
    n->constructed = true;
    s->alive = loaded.alive; /* so is the table that this one goes into */
    if (loaded.alive == 0)
      return LINK_LOST;
    return add_sink(n, bcname_table_sink(n, pc, loaded.reg, loaded.alive), s,
                    depth);
  default:
    return LINK_LOST;
  }
}

/* Adds what is in s, up to its root; false: it has none. */
static bool add_chain(struct namer *n, struct source s, unsigned depth)
{
  for (unsigned i = 0; i < PATH_LINKS; i++) {
    uint32_t var = bcname_var_at(n, n->at, s.reg);
    if (var != 0)
      return !bcname_var_hidden(n, var) && add_local(n, var);
    uint32_t pc = bcname_writer(n, s.before, s.reg);
    if (pc == 0 || conditional(n, pc, s.before))
      return false;
    enum link l = add_load(n, pc, &s, depth);
    if (l != LINK_FIELD)
      return l == LINK_ROOT;
  }
  return false;
}

/* A path within a key: says nothing about the fields around it. */
static bool add_path(struct namer *n, struct source s, unsigned depth)
{
  struct text *t = &n->text;
  uint32_t separator = t->separator, field = t->field;
  bool constructed = n->constructed;
  bool named = add_chain(n, s, depth);
  t->separator = separator;
  t->field = field;
  n->constructed = constructed;
  return named;
}

/* A field of a table that has no name (an argument, a call's result) keeps the
 * name of the field; an index alone says nothing. */
static bool keep_fields(struct text *t)
{
  t->start = t->field;
  if (t->separator < t->start)
    t->separator = 0;
  return t->start < VM_NAME_MAX;
}

bool bcname_place(struct namer *n, const struct sink *k)
{
  struct text *t = &n->text;
  struct source s = {.before = n->at, .alive = k->pc};
  bcname_text_clear(t);
  n->constructed = false;
  n->class_member = false;
  n->rooted = false;
  switch (add_sink(n, k, &s, 0)) {
  case LINK_ROOT:
    return true;
  case LINK_FIELD:
    n->rooted = add_chain(n, s, 0);
    return n->rooted || keep_fields(t);
  default:
    return keep_fields(t);
  }
}
