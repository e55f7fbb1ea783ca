/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "profile/categories_internal.h"
#include "profile/profile.h"
#include "util/strbuf.h"

struct rule {
  uint32_t category;
  enum category_where where;
  char *pattern;
};

struct categories {
  char **name;
  size_t count;
  struct rule *rule;
  size_t rule_count;
};

struct categories *categories_new(void)
{
  return calloc(1, sizeof(struct categories));
}

void categories_free(struct categories *c)
{
  if (!c)
    return;
  for (size_t i = 0; i < c->count; i++)
    free(c->name[i]);
  for (size_t i = 0; i < c->rule_count; i++)
    free(c->rule[i].pattern);
  free(c->name);
  free(c->rule);
  free(c);
}

/* ---- the table's text ---- */

struct parser {
  struct categories *c;
  size_t line;
  uint32_t category;
  bool begun;
  struct error *e;
};

static enum result wrong(struct parser *p, const char *what)
{
  return error_set(p->e, RESULT_USAGE, "line %zu: %s", p->line, what);
}

static enum result nomem(struct parser *p)
{
  return error_set(p->e, RESULT_NOMEM, "no memory");
}

static enum result begin_category(struct parser *p, const char *name,
                                  size_t len)
{
  struct categories *c = p->c;
  p->begun = true;
  for (p->category = 0; p->category < c->count; p->category++)
    if (strlen(c->name[p->category]) == len &&
        !memcmp(c->name[p->category], name, len))
      return RESULT_OK;
  char **names = realloc(c->name, (c->count + 1) * sizeof *names);
  if (!names)
    return nomem(p);
  c->name = names;
  names[c->count] = strndup(name, len);
  if (!names[c->count])
    return nomem(p);
  c->count++;
  return RESULT_OK;
}

static enum result add_rule(struct parser *p, enum category_where where,
                            const char *pattern, size_t len)
{
  struct categories *c = p->c;
  struct rule *rule = realloc(c->rule, (c->rule_count + 1) * sizeof *rule);
  if (!rule)
    return nomem(p);
  c->rule = rule;
  rule[c->rule_count] =
      (struct rule){p->category, where, strndup(pattern, len)};
  if (!rule[c->rule_count].pattern)
    return nomem(p);
  c->rule_count++;
  return RESULT_OK;
}

static bool is_blank(char c)
{
  return c == ' ' || c == '\t';
}

/* The next word of a line; its length, 0 at the end. */
static size_t word(const char **at, const char *end)
{
  const char *w = *at;
  while (w < end && is_blank(*w))
    w++;
  *at = w;
  while (w < end && !is_blank(*w))
    w++;
  return (size_t)(w - *at);
}

static bool where_of(const char *text, size_t len, enum category_where *where)
{
  static const char *const name[] = {"self", "any", "lua", "state", "named"};
  for (unsigned i = 0; i < sizeof name / sizeof *name; i++) {
    if (strlen(name[i]) == len && !memcmp(name[i], text, len)) {
      *where = (enum category_where)i;
      return true;
    }
  }
  return false;
}

static enum result parse_rules(struct parser *p, const char *at,
                               const char *end)
{
  enum category_where where = CATEGORY_SELF;
  size_t n = word(&at, end), rules = 0;
  if (!p->begun)
    return wrong(p, "a rule before the first category (`name:`)");
  if (!where_of(at, n, &where))
    return wrong(p, "a rule begins with self, named, any, lua or state");
  for (at += n; (n = word(&at, end)); at += n, rules++) {
    enum result r = add_rule(p, where, at, n);
    if (r != RESULT_OK)
      return r;
  }
  return rules ? RESULT_OK : wrong(p, "a rule without a pattern");
}

static enum result parse_line(struct parser *p, const char *line,
                              const char *end)
{
  const char *comment = memchr(line, '#', (size_t)(end - line));
  if (comment)
    end = comment;
  while (end > line && (is_blank(end[-1]) || end[-1] == '\r'))
    end--;
  if (end == line)
    return RESULT_OK;
  if (memchr(line, 0, (size_t)(end - line)))
    return wrong(p, "a NUL byte: this is no table of categories");
  if (is_blank(*line))
    return parse_rules(p, line, end);
  if (end[-1] != ':' || end - line < 2)
    return wrong(p, "neither `name:` nor, indented, a rule");
  return begin_category(p, line, (size_t)(end - 1 - line));
}

enum result categories_add(struct categories *c, const char *text, size_t len,
                           struct error *e)
{
  struct parser p = {.c = c, .e = e};
  for (const char *at = text, *end = text + len; at < end;) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    p.line++;
    enum result r = parse_line(&p, at, stop ? stop : end);
    if (r != RESULT_OK)
      return r;
    at = stop ? stop + 1 : end;
  }
  return RESULT_OK;
}

/* ---- the built-in table ---- */

/* gcc and clang for ELF: the file's bytes, as they are. */
__asm__(".section .rodata\n"
        "categories_text:\n"
        ".incbin \"" TECS_SHARE "/categories.txt\"\n"
        "categories_text_end:\n"
        ".previous\n");
extern const char categories_text[] __attribute__((visibility("hidden")));
extern const char categories_text_end[] __attribute__((visibility("hidden")));

const char *categories_default(size_t *len)
{
  *len = (size_t)(categories_text_end - categories_text);
  return categories_text;
}

/* ---- matching ---- */

/* `*` may stand for nothing; going back to the last one is enough. */
static bool matches(const char *pattern, const char *text, size_t len)
{
  const char *star = NULL;
  size_t i = 0, again = 0;
  while (i < len) {
    if (*pattern == '*') {
      star = pattern++;
      again = i;
    } else if (*pattern && (*pattern == '?' || *pattern == text[i])) {
      pattern++;
      i++;
    } else if (star) {
      pattern = star + 1;
      i = ++again;
    } else {
      return false;
    }
  }
  while (*pattern == '*')
    pattern++;
  return !*pattern;
}

uint32_t categories_first(const struct categories *c, enum category_where where,
                          const char *text, size_t len)
{
  uint32_t first = CATEGORY_NONE;
  for (size_t i = 0; i < c->rule_count; i++)
    if (c->rule[i].where == where && c->rule[i].category < first &&
        matches(c->rule[i].pattern, text, len))
      first = c->rule[i].category;
  return first;
}

const char *categories_name(const struct categories *c, uint32_t category)
{
  return category < c->count ? c->name[category] : "";
}
