/* SPDX-License-Identifier: MIT
 *
 * Sampling sessions of the game itself.
 *
 * The game steers through control of the segment, as tecs-attach does from
 * outside.  Starting does not wait for the collector: what it meets (a session
 * of someone else, say) comes out at stop.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/profile_internal.h"
#include "base/atomics.h"

#define SEC UINT64_C(1000000000)
#define END_WAIT (30 * SEC)    /* for a collector that was asked to end */
#define LEAVING_WAIT (2 * SEC) /* for one that nobody waited for */

enum { WHY_MAX = 1024, ARGS_MAX = 20 };

/* The userdata. */
struct sampling {
  struct session session;
  void *text; /* mapped, while it is handed over */
  size_t len;
};

static struct place place = {.function = "profile.sample", .kind = "sampling"};
static struct collector running = COLLECTOR_NONE; /* of who has the place */
static volatile uint32_t autostart_id; /* of the session of TECS_AGENT */
static struct collector leaving = COLLECTOR_NONE; /* of a forgotten session */

/* ---- the place ---- */

static void release(void)
{
  collector_forget(&running);
  place_release(&place);
}

/* The session of TECS_AGENT has nobody who would stop it. */
static void free_ended_autostart(void)
{
  uint32_t old = autostart_id;
  if (!old || atomic_acquire(&place.id) != old || !collector_gone(&running) ||
      !__atomic_compare_exchange_n(&autostart_id, &old, 0u, false,
                                   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return;
  release();
}

void sample_drop_autostart(void)
{
  autostart_id = 0;
  release();
}

/* Another tecs-attach holds the lock on the segment (session/claim.c). */
static bool held_outside(void)
{
  struct flock range = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
  struct stat st;
  int fd = agent.shm.fd;
  if (fd < 0 || fstat(fd, &st) || st.st_ino != agent.shm.inode)
    return false; /* the game closed it: the collector will find out */
  return fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

/* Whoever starts a session from inside clears what steers it, not the
 * collector: a pause right after the start must not be lost. */
static void clear_steering(void)
{
  struct tecs_control *control = agent.shm.control;
  atomic_set(&control->paused, 0u);
  atomic_release(&control->stop, 0u);
}

bool sample_claim_autostart(struct collector **c)
{
  uint32_t id = place_take(&place);
  if (!id)
    return false;
  struct text started = text_in(place.started, sizeof place.started);
  text_add(&started, "by TECS_AGENT");
  if (!held_outside())
    clear_steering();
  autostart_id = id;
  *c = &running;
  return true;
}

/* The collector of a session that was collected as garbage may still write. */
static void see_off(void)
{
  if (!leaving.pid)
    return;
  if (!collector_wait(&leaving, LEAVING_WAIT)) {
    collector_kill(&leaving);
    collector_wait(&leaving, LEAVING_WAIT);
  }
  collector_forget(&leaving);
}

/* ---- start ---- */

static uint64_t global_of(lua_State *L)
{
  const struct vm_layout *lay;
  uint64_t g;
  return luaapi_vm(L, &lay, &g) ? g : 0;
}

struct command {
  char *argv[ARGS_MAX];
  size_t argc;
  char numbers[160];
  struct text text;
};

static void add(struct command *c, const char *word)
{
  c->argv[c->argc++] = (char *)word;
}

/* A number as a word of its own, within numbers. */
static void add_number(struct command *c, const char *before, uint64_t v,
                       unsigned base, const char *after)
{
  add(c, c->numbers + c->text.len);
  text_add(&c->text, before);
  text_add_number(&c->text, v, base);
  text_add(&c->text, after);
  text_add_bytes(&c->text, "", 1);
}

static void compose(struct command *c, const struct sample_options *o,
                    uint64_t g)
{
  c->argc = 0;
  c->text = text_in(c->numbers, sizeof c->numbers);
  add(c, "tecs-attach");
  add(c, "record");
  add(c, "--lines");
  add(c, "-i");
  add_number(c, "", (uint64_t)o->interval_ms, 10, "ms");
  add(c, "-D");
  add_number(c, "", (uint64_t)o->depth, 10, "");
  if (o->has_zone) {
    add(c, "-z");
    add(c, o->zone);
  }
  add(c, "-o");
  add(c, "-");
  add(c, "--vm");
  add_number(c, "0x", g, 16, "@");
  c->text.len--; /* goes on */
  text_add_number(&c->text, agent.cookie, 16);
  text_add_bytes(&c->text, "", 1);
  add_number(c, "", (uint64_t)getpid(), 10, "");
  c->argv[c->argc] = NULL;
}

static bool start(const struct sample_options *o, uint64_t g, struct text *why)
{
  struct command c;
  compose(&c, o, g);
  clear_steering();
  return collector_start(&running, c.argv, false, why);
}

static void raise_if_held_outside(const struct api *api, lua_State *L)
{
  if (!held_outside())
    return;
  int pid = (int)atomic_get(&agent.shm.control->owner);
  release();
  api->luaL_error(L,
                  "profile.sample: tecs-attach (process %d) is sampling this "
                  "program already; stop it first (tecs-attach stop %d)",
                  pid, (int)getpid());
}

int profile_sample(lua_State *L)
{
  const struct api *api = luaapi_running(L);
  struct sample_options o;
  char message[WHY_MAX];
  struct text why = text_in(message, sizeof message);
  uint32_t id;
  if (!api)
    return 0;
  args_sample(api, L, &o);
  see_off();
  free_ended_autostart();
  struct session *s = place_begin(api, L, &place, sizeof(struct sampling), &id);
  raise_if_held_outside(api, L);
  if (!start(&o, o.process ? 0 : global_of(L), &why)) {
    release();
    api->luaL_error(L, "profile.sample: %s", message);
  }
  s->id = id;
  return 1;
}

/* A collector that has ended steers nothing; what control says is another's. */
static void set_paused(bool paused)
{
  if (!collector_gone(&running))
    atomic_release(&agent.shm.control->paused, paused ? 1u : 0u);
}

int sample_pause(lua_State *L)
{
  return place_steer(L, &place, true, set_paused);
}

int sample_resume(lua_State *L)
{
  return place_steer(L, &place, false, set_paused);
}

/* ---- stop ---- */

static void ask_to_end(const struct collector *c)
{
  uint32_t *stop = &agent.shm.control->stop;
  if (collector_gone(c))
    return;
  atomic_release(stop, 1u);
  syscall(SYS_futex, stop, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool end(const struct collector *c, struct text *why)
{
  ask_to_end(c);
  if (collector_wait(c, END_WAIT))
    return collector_verdict(c, why);
  collector_kill(c);
  text_add(why, "the collector did not answer for 30 s and was ended");
  return false;
}

static bool map_text(struct sampling *s, const struct collector *c,
                     struct text *why)
{
  int64_t size = collector_result_size(c);
  if (size < 0) {
    text_add(why, "this program has closed the collector's result");
    return false;
  }
  s->len = (size_t)size;
  if (!s->len)
    return true;
  void *p = mmap(NULL, s->len, PROT_READ, MAP_PRIVATE, c->out, 0);
  if (p == MAP_FAILED) {
    text_add(why, "no memory for its result");
    return false;
  }
  s->text = p;
  return true;
}

static void unmap_text(struct sampling *s)
{
  if (s->text)
    munmap(s->text, s->len);
  s->text = NULL;
}

int sample_stop(lua_State *L)
{
  const struct api *api = luaapi_running(L);
  char message[WHY_MAX];
  struct text why = text_in(message, sizeof message);
  if (!api)
    return 0;
  session_check(api, L, "session:stop");
  const char *filename = args_filename(api, L, "session:stop");
  struct sampling *s =
      (struct sampling *)place_session(api, L, &place, "session:stop");
  bool good = end(&running, &why) && map_text(s, &running, &why);
  s->session.id = 0;
  release();
  if (!good)
    api->luaL_error(L, "session:stop: no profile: %s", message);
  const char *text = s->text ? s->text : "";
  int err = filename ? file_write(filename, text, s->len) : 0;
  api->lua_pushlstring(L, text, s->len); /* no memory: sample_gc unmaps */
  unmap_text(s);
  if (err)
    api->luaL_error(L, "session:stop: cannot write %s: %s", filename,
                    strerror(err));
  return 1;
}

/* ---- ends without stop ---- */

int sample_gc(lua_State *L)
{
  const struct api *api = luaapi_running(L);
  if (!api)
    return 0;
  struct sampling *s = session_check(api, L, "session");
  unmap_text(s);
  if (!place_is_of(&place, &s->session))
    return 0;
  ask_to_end(&running);
  s->session.id = 0;
  collector_forget(&leaving);
  leaving = running;
  running = (struct collector)COLLECTOR_NONE;
  release();
  return 0;
}

void sample_forked(void)
{
  collector_forget(&leaving);
  autostart_id = 0;
  release();
}
