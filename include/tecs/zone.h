/* SPDX-License-Identifier: MIT
 *
 * Zones from native code: parts of a thread's time, by name, for tecs-attach.
 *
 *   #include <tecs/zone.h>
 *
 *   tecs_zone_begin("physics");
 *   step(world);
 *   tecs_zone_end();
 *
 * This header is all there is to link: the names below are looked up in the
 * agent, libtecs-agent.so, when it is preloaded; without it, a zone costs one
 * test of a pointer.  C11, C++98 or later, GCC or clang, ELF.
 *
 *  - Each thread has zones of its own.  They are the outermost frames of a
 *    stack, before those of jit.zone.
 *  - The name is kept by its address, not copied: it must stay as it is until
 *    the zone has ended.  A string literal does.  NUL-terminated; NULL gives a
 *    zone without a name, which has to be ended like any other.
 *  - Deeper than TECS_ZONE_DEPTH the zones are counted and not named.
 *  - What leaves a zone without its end - longjmp, an error of Lua that
 *    unwinds past a C frame - leaves it open.  In C++ tecs_zone_scope ends it
 *    in its destructor, which LuaJIT's errors run as well.  Where a thread is
 *    in no zone for sure, as between two frames, tecs_zone_reset() repairs.
 *  - All of it may be called from any thread, and costs about 2 ns.
 *
 * An executable that clang compiles without -fPIE or -fPIC and that calls these
 * functions itself needs -fno-plt, or its linker takes them for missing.
 *
 * From other languages: dlsym(RTLD_DEFAULT, "tecs_zone_push"), once, and the
 * same for "tecs_zone_pop".  In Rust, with the crate libc:
 *
 *   let push: Option<unsafe extern "C" fn(*const c_char)> =
 *       transmute(libc::dlsym(libc::RTLD_DEFAULT, c"tecs_zone_push".as_ptr()));
 */
#ifndef TECS_ZONE_H
#define TECS_ZONE_H

#define TECS_ZONE_DEPTH 64

/* noplt: through the table of addresses also in code that is not position
 * independent, where the linker would put 0 into the code. */
#ifdef TECS_ZONE_API
#elif defined(__clang__)
#define TECS_ZONE_API __attribute__((weak, visibility("default")))
#else
#define TECS_ZONE_API __attribute__((weak, visibility("default"), noplt))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The agent's own functions; NULL where it is not loaded. */
TECS_ZONE_API void tecs_zone_push(const char *name);
TECS_ZONE_API void tecs_zone_pop(void); /* none open: nothing happens */
TECS_ZONE_API void tecs_zone_clear(void);

#ifdef __cplusplus
}
#endif

#ifndef TECS_ZONE_NO_INLINE

static inline void tecs_zone_begin(const char *name)
{
  if (tecs_zone_push)
    tecs_zone_push(name);
}

static inline void tecs_zone_end(void)
{
  if (tecs_zone_pop)
    tecs_zone_pop();
}

/* Ends all zones of this thread. */
static inline void tecs_zone_reset(void)
{
  if (tecs_zone_clear)
    tecs_zone_clear();
}

#ifdef __cplusplus
/* tecs_zone_scope zone("physics"); until the end of the block */
class tecs_zone_scope
{
public:
  explicit tecs_zone_scope(const char *name)
  {
    tecs_zone_begin(name);
  }
  ~tecs_zone_scope()
  {
    tecs_zone_end();
  }

private:
  tecs_zone_scope(const tecs_zone_scope &);
  tecs_zone_scope &operator=(const tecs_zone_scope &);
};
#endif

#endif
#endif
