/* SPDX-License-Identifier: MIT */
#ifndef PROFILE_CATEGORIES_INTERNAL_H
#define PROFILE_CATEGORIES_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

struct categories;

enum category_where {
  CATEGORY_SELF = 0,
  CATEGORY_ANY = 1,
  CATEGORY_LUA = 2,
  CATEGORY_STATE = 3,
  CATEGORY_NAMED = 4,
};

#define CATEGORY_NONE UINT32_MAX

/* The first category with a rule about `where` that fits the text, as a number
 * that grows in their order; CATEGORY_NONE. */
uint32_t categories_first(const struct categories *c, enum category_where where,
                          const char *text, size_t len);
const char *categories_name(const struct categories *c, uint32_t category);

#endif
