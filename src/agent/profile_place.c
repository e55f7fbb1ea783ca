/* SPDX-License-Identifier: MIT
 *
 * What sampling and trace sessions of the game have in common: there is one
 * place for a session of each kind.  Who has it is a number, so that the object
 * of an ended session, or a fork child's copy of its parent's, does not reach
 * another one's.
 */
#include <string.h>

#include "agent/profile_internal.h"
#include "base/atomics.h"

uint32_t place_take(struct place *p)
{
  uint32_t id = atomic_add(&p->last, 1) + 1, none = 0;
  return __atomic_compare_exchange_n(&p->id, &none, id, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)
             ? id
             : 0;
}

void place_release(struct place *p)
{
  atomic_release(&p->id, 0u);
}

bool place_is_of(const struct place *p, const struct session *s)
{
  return s->id && s->id == atomic_acquire(&p->id);
}

static void busy(const struct api *api, lua_State *L, const struct place *p)
{
  char started[PLACE_MAX]; /* it may be another thread's */
  struct text t = text_in(started, sizeof started);
  text_add(&t, p->started);
  api->luaL_error(L,
                  "%s: a %s session is running already, started %s; stop it "
                  "first (there is one at a time)",
                  p->function, p->kind, started);
}

struct session *place_begin(const struct api *api, lua_State *L,
                            struct place *p, size_t size, uint32_t *id)
{
  char started[PLACE_MAX];
  struct text t = text_in(started, sizeof started);
  if (!agent_ready())
    api->luaL_error(L,
                    "%s: the agent is off in this process (it got no memory "
                    "when the process began)",
                    p->function);
  text_add(&t, "at ");
  args_place(api, L, &t);
  struct session *s = session_new(api, L, size);
  *id = place_take(p);
  if (!*id)
    busy(api, L, p);
  memcpy(p->started, started, sizeof started);
  return s;
}

struct session *place_session(const struct api *api, lua_State *L,
                              const struct place *p, const char *method)
{
  struct session *s = session_check(api, L, method);
  if (!place_is_of(p, s))
    api->luaL_error(L, "%s: the session has ended already", method);
  return s;
}

int place_steer(lua_State *L, const struct place *p, bool paused,
                void (*steer)(bool paused))
{
  const struct api *api = luaapi_running(L);
  if (!api)
    return 0;
  place_session(api, L, p, paused ? "session:pause" : "session:resume");
  steer(paused);
  return 0;
}
