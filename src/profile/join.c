/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "profile/profile.h"

/* Ids of `to` for the frames of a stack of `from`. */
static bool translate(struct profile *to, const struct profile *from,
                      const struct profile_stack *s, uint32_t *out)
{
  for (size_t i = 0; i < s->count; i++) {
    out[i] = interner_add_str(profile_frames(to),
                              profile_frame_text(from, s->frame[i]));
    if (out[i] == INTERNER_NONE)
      return false;
  }
  return true;
}

static bool grow(uint32_t **frame, size_t *cap, size_t want)
{
  if (want <= *cap)
    return true;
  uint32_t *grown = realloc(*frame, 2 * want * sizeof *grown);
  if (!grown)
    return false;
  *frame = grown;
  *cap = 2 * want;
  return true;
}

enum result profile_join(struct profile *to, struct profile *from,
                         const char *root)
{
  const struct profile_stack *s = profile_sorted(from);
  size_t count = profile_stack_count(from), cap = 0, before = root != NULL;
  uint32_t *frame = NULL;
  enum result r = count && !s ? RESULT_NOMEM : RESULT_OK;
  for (size_t i = 0; i < count && r == RESULT_OK; i++) {
    if (!grow(&frame, &cap, s[i].count + 1) ||
        !translate(to, from, &s[i], frame + before)) {
      r = RESULT_NOMEM;
      break;
    }
    if (root)
      frame[0] = interner_add_str(profile_frames(to), root);
    r = root && frame[0] == INTERNER_NONE
            ? RESULT_NOMEM
            : profile_add(to, frame, s[i].count + before, s[i].weight);
  }
  free(frame);
  return r;
}
