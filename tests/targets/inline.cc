/* SPDX-License-Identifier: MIT
 *
 * inline SECONDS: C++ -> Lua -> C++, where most functions are inlined.  Each
 * part spins for a fixed share of a frame by the thread's CPU clock; what it
 * got is printed as `truth PART share`.
 */
#include <lua.hpp>

#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace engine {

static double cpu()
{
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

#define INLINED [[gnu::always_inline]] inline
#define CALLED [[gnu::noinline]]

struct Sink {
  volatile double value = 0;
};

namespace {

/* inlined two levels deep, in two places */
template <typename T> INLINED void integrate(T &sink)
{
  for (int i = 1; i < 3000; i++)
    sink.value = sink.value + 1.0 / (i + sink.value * 1e-9);
}

} // namespace

class World {
public:
  CALLED void frame(double seconds)
  {
    step(seconds);
  }
  CALLED void turn(double seconds)
  {
    simulate(seconds);
  }
  double frame_time = 0, turn_time = 0;

private:
  INLINED void step(double seconds)
  {
    double begin = cpu(), now;
    do
      integrate(sink);
    while ((now = cpu()) - begin < seconds);
    frame_time += now - begin;
  }
  INLINED void simulate(double seconds)
  {
    double begin = cpu(), now;
    do
      integrate(sink);
    while ((now = cpu()) - begin < seconds);
    turn_time += now - begin;
  }
  Sink sink;
};

static int api_turn(lua_State *L)
{
  static_cast<World *>(lua_touserdata(L, lua_upvalueindex(1)))->turn(4e-3);
  return 0;
}

} // namespace engine

int main(int argc, char **argv)
{
  engine::World world;
  double end = engine::cpu() + (argc > 1 ? atof(argv[1]) : 5);
  lua_State *L = luaL_newstate();

  setvbuf(stdout, nullptr, _IONBF, 0);
  luaL_openlibs(L);
  lua_pushlightuserdata(L, &world);
  lua_pushcclosure(L, engine::api_turn, 1);
  lua_setglobal(L, "turn");
  if (luaL_loadstring(L, "function tick() turn() return 1 end") ||
      lua_pcall(L, 0, 0, 0))
    return 3;
  puts("ready");
  while (engine::cpu() < end) {
    world.frame(6e-3);
    lua_getglobal(L, "tick");
    if (lua_pcall(L, 0, 0, 0))
      return 3;
  }
  lua_close(L);
  double sum = world.frame_time + world.turn_time;
  printf("truth frame %.4f\ntruth turn %.4f\n", world.frame_time / sum,
         world.turn_time / sum);
  return 0;
}
