/* SPDX-License-Identifier: MIT
 *
 * Trace sessions of the game itself: the agent counts aborts (aborts.h), here
 * they become a report.
 */
#include <string.h>

#include "agent/aborts.h"
#include "agent/events.h"
#include "agent/profile_internal.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "base/csv.h"

#define CSV_HEADER "severity,count,reason,location,zone\r\n"

/* The userdata. */
struct trace {
  struct session session;
  bool benign;
  uint64_t start_ns;
};

static struct place place = {.function = "profile.trace", .kind = "trace"};

/* ---- start ---- */

static void begin_or_raise(const struct api *api, lua_State *L)
{
  uint32_t owner = 0;
  enum result r = aborts_begin(L, &owner);
  if (r == RESULT_OK)
    return;
  place_release(&place);
  if (r == RESULT_BUSY)
    api->luaL_error(L,
                    "profile.trace: tecs-attach (process %d) is tracing this "
                    "program already; stop it first",
                    (int)owner);
  if (r == RESULT_FULL)
    api->luaL_error(L, "profile.trace: no memory for the table of aborts");
  api->luaL_error(L, "profile.trace: the program has closed the agent's file");
}

int profile_trace(lua_State *L)
{
  const struct api *api = luaapi_running(L);
  uint32_t id;
  if (!api)
    return 0;
  bool benign = args_include_benign(api, L);
  struct session *s = place_begin(api, L, &place, sizeof(struct trace), &id);
  struct trace *t = (struct trace *)s;
  unheard_begin();
  begin_or_raise(api, L);
  t->benign = benign;
  t->start_ns = clock_mono_ns();
  s->id = id;
  return 1;
}

int trace_pause(lua_State *L)
{
  return place_steer(L, &place, true, aborts_pause);
}

int trace_resume(lua_State *L)
{
  return place_steer(L, &place, false, aborts_pause);
}

/* ---- the rows that are shown, in order ---- */

struct rows {
  const struct tecs_abort *all;
  uint32_t *order; /* indices of those that are shown */
  uint32_t count;
  uint64_t left_out; /* aborts in rows that are not */
  size_t csv_max;
};

static const char *severity_name(uint32_t severity)
{
  if (severity >= TECS_SEVERITY_BLACKLIST)
    return "blacklist";
  return severity == TECS_SEVERITY_WARN ? "warn" : "info";
}

static int compare_text(const char *a, size_t a_len, const char *b,
                        size_t b_len)
{
  int c = memcmp(a, b, a_len < b_len ? a_len : b_len);
  return c ? c : (a_len > b_len) - (a_len < b_len);
}

/* Worst first, then most, then by text. */
static int compare(const struct tecs_abort *a, const struct tecs_abort *b)
{
  if (a->severity != b->severity)
    return a->severity < b->severity ? 1 : -1;
  if (a->count != b->count)
    return a->count < b->count ? 1 : -1;
  int c = compare_text(a->reason, a->reason_len, b->reason, b->reason_len);
  if (!c)
    c = compare_text(a->location, a->location_len, b->location,
                     b->location_len);
  return c ? c : compare_text(a->zone, a->zone_len, b->zone, b->zone_len);
}

/* Heapsort: the C library's qsort allocates. */
static void sift(struct rows *r, uint32_t at, uint32_t count)
{
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= count)
      return;
    if (child + 1 < count &&
        compare(&r->all[r->order[child + 1]], &r->all[r->order[child]]) > 0)
      child++;
    if (compare(&r->all[r->order[child]], &r->all[r->order[at]]) <= 0)
      return;
    uint32_t swap = r->order[at];
    r->order[at] = r->order[child];
    r->order[child] = swap;
    at = child;
  }
}

static void sort(struct rows *r)
{
  for (uint32_t i = r->count / 2; i-- > 0;)
    sift(r, i, r->count);
  for (uint32_t n = r->count; n > 1; n--) {
    uint32_t swap = r->order[0];
    r->order[0] = r->order[n - 1];
    r->order[n - 1] = swap;
    sift(r, 0, n - 1);
  }
}

static void choose(struct rows *r, uint32_t total, bool benign)
{
  r->csv_max = sizeof CSV_HEADER;
  for (uint32_t i = 0; i < total; i++) {
    const struct tecs_abort *a = &r->all[i];
    if (atomic_acquire(&a->state) != 2 || !a->count)
      continue;
    if (a->severity <= TECS_SEVERITY_INFO && !benign) {
      r->left_out += a->count;
      continue;
    }
    r->order[r->count++] = i;
    r->csv_max += 64 + CSV_CELL_MAX((size_t)a->reason_len) +
                  CSV_CELL_MAX((size_t)a->location_len) +
                  CSV_CELL_MAX((size_t)a->zone_len);
  }
  sort(r);
}

/* ---- the report ---- */

static void add_cell(struct text *t, const char *cell, size_t len)
{
  text_add(t, ",");
  t->len += csv_cell(t->buf + t->len, cell, len);
}

/* Pushes the CSV as a string. */
static void push_csv(const struct api *api, lua_State *L, const struct rows *r)
{
  struct text t = text_in(api->lua_newuserdata(L, r->csv_max), r->csv_max);
  text_add(&t, CSV_HEADER);
  for (uint32_t i = 0; i < r->count; i++) {
    const struct tecs_abort *a = &r->all[r->order[i]];
    text_add(&t, severity_name(a->severity));
    text_add(&t, ",");
    text_add_number(&t, a->count, 10);
    add_cell(&t, a->reason, a->reason_len);
    add_cell(&t, a->location, a->location_len);
    add_cell(&t, a->zone, a->zone_len);
    text_add(&t, "\r\n");
  }
  api->lua_pushlstring(L, t.buf, t.len);
}

static void set_text(const struct api *api, lua_State *L, const char *key,
                     const char *s, size_t len)
{
  api->lua_pushlstring(L, s, len);
  api->lua_setfield(L, -2, key);
}

static void set_number(const struct api *api, lua_State *L, const char *key,
                       double v)
{
  api->lua_pushnumber(L, v);
  api->lua_setfield(L, -2, key);
}

static void push_sites(const struct api *api, lua_State *L,
                       const struct rows *r)
{
  api->lua_createtable(L, (int)r->count, 0);
  for (uint32_t i = 0; i < r->count; i++) {
    const struct tecs_abort *a = &r->all[r->order[i]];
    const char *severity = severity_name(a->severity);
    api->lua_createtable(L, 0, 5);
    set_text(api, L, "severity", severity, strlen(severity));
    set_number(api, L, "count", (double)a->count);
    set_text(api, L, "reason", a->reason, a->reason_len);
    set_text(api, L, "location", a->location, a->location_len);
    set_text(api, L, "zone", a->zone, a->zone_len);
    api->lua_rawseti(L, -2, (int)i + 1);
  }
}

static int report_text(lua_State *L)
{
  const struct api *api = luaapi_running(L);
  if (!api)
    return 0;
  api->lua_pushvalue(L, lua_upvalueindex(1));
  return 1;
}

/* Pushes the CSV, then the report.  Its totals are what the closing line of
 * tecs-attach trace says: blacklisted are aborts by which LuaJIT gave code up,
 * not all of those in a row that had one. */
static void push_report(const struct api *api, lua_State *L,
                        const struct trace *s)
{
  struct tecs_aborts totals;
  struct rows r = {.all = aborts_read(&totals)};
  uint32_t total = r.all ? totals.rows : 0;
  r.order = api->lua_newuserdata(L, (total + 1) * sizeof *r.order);
  choose(&r, total, s->benign);
  push_csv(api, L, &r);
  api->lua_createtable(L, 0, 6);
  set_number(api, L, "durationSec",
             (double)(clock_mono_ns() - s->start_ns) / 1e9);
  set_number(api, L, "totalAborts", (double)(totals.aborts - r.left_out));
  set_number(api, L, "blacklisted", (double)totals.blacklists);
  set_number(api, L, "overflow", (double)totals.overflow);
  push_sites(api, L, &r);
  api->lua_setfield(L, -2, "sites");
  unheard_push(api, L);
  api->lua_setfield(L, -2, "unheard");
  api->lua_createtable(L, 0, 1); /* its metatable */
  api->lua_pushvalue(L, -3);
  api->lua_pushcclosure(L, report_text, 1);
  api->lua_setfield(L, -2, "__tostring");
  api->lua_setmetatable(L, -2);
}

static void finish(struct session *s)
{
  aborts_end();
  s->id = 0;
  place_release(&place);
}

int trace_stop(lua_State *L)
{
  const struct api *api = luaapi_running(L);
  size_t len;
  if (!api)
    return 0;
  session_check(api, L, "session:stop");
  const char *filename = args_filename(api, L, "session:stop");
  struct session *s = place_session(api, L, &place, "session:stop");
  aborts_pause(true);
  events_check(L); /* is the listener still in its place? */
  push_report(api, L,
              (const struct trace *)s); /* no memory: trace_gc ends it */
  finish(s);
  const char *csv = api->lua_tolstring(L, -2, &len);
  int err = filename ? file_write(filename, csv, len) : 0;
  if (err)
    api->luaL_error(L, "session:stop: cannot write %s: %s", filename,
                    strerror(err));
  return 1;
}

int trace_gc(lua_State *L)
{
  const struct api *api = luaapi_running(L);
  if (!api)
    return 0;
  struct session *s = session_check(api, L, "session");
  if (place_is_of(&place, s))
    finish(s);
  return 0;
}

void trace_forked(void)
{
  place.id = 0;
}
