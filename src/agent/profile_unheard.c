/* SPDX-License-Identifier: MIT
 *
 * VMs whose aborts a trace session of the game's own missed, all or some: what
 * the segment says of those that are there (tecs_vm.events), and of those that
 * were closed meanwhile, which nobody else remembers.  Where the program's
 * lua_close is not ours the entry of a closed VM stays; its memory tells.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/profile_internal.h"
#include "base/atomics.h"
#include "vmcore/discover.h"

#define CLOSED "closed since: "

enum unheard { HEARD, REPLACED, WITHDRAWN, WAITING, MUTE, UNKNOWN, KINDS };

static volatile uint32_t closed[KINDS];
static uint64_t gone_before; /* bit: entry of a VM that was closed before */
_Static_assert(TECS_VMS == 64, "gone_before");

static enum unheard kind_of(const struct capture_vm *e)
{
  uint32_t state = atomic_acquire(&e->state);
  if (state == TECS_VM_UNKNOWN)
    return UNKNOWN;
  if (state != TECS_VM_LIVE || e->events & TECS_VM_LISTENING)
    return HEARD;
  if (e->events & TECS_VM_REPLACED)
    return REPLACED;
  if (e->events & TECS_VM_WITHDRAWN)
    return WITHDRAWN;
  return e->events & TECS_VM_WAITING ? WAITING : MUTE;
}

/* Without a fault, which would kill where SIGSEGV is blocked: the kernel reads
 * the set before it refuses the unknown operation (kernel/signal.c). */
static bool is_readable(uint64_t addr)
{
  int saved = errno;
  bool bad = syscall(SYS_rt_sigprocmask, -1, addr, NULL, 8) && errno == EFAULT;
  errno = saved;
  return !bad;
}

/* What vm_is_global looks at lies in one block: the main thread, then g. */
static bool is_gone(const struct capture_vm *e)
{
  struct vm_mem mem;
  const struct vm_layout *lay = vm_layout_get(e->layout);
  if (!lay)
    return false;
  uint64_t L = e->g - lay->gg_g;
  if (!is_readable(L) || !is_readable(L + lay->L_sizeof) ||
      !is_readable(e->g + lay->g_mainthref))
    return true;
  struct vm_mem *previous = guard_enter(&mem);
  bool gone = !vm_is_global(&mem, lay, e->g);
  guard_leave(previous);
  return gone;
}

void unheard_begin(void)
{
  gone_before = 0;
  for (unsigned i = 0; i < capture_vm_count(&registry); i++)
    if (kind_of(&registry.entry[i]) != HEARD && is_gone(&registry.entry[i]))
      gone_before |= UINT64_C(1) << i;
  for (unsigned i = 0; i < KINDS; i++)
    atomic_set(&closed[i], 0u);
}

void unheard_vm_closes(uint64_t g)
{
  const struct capture_vm *e = registry_find(g);
  if (e)
    atomic_add(&closed[kind_of(e)], 1);
}

static void add(const struct api *api, lua_State *L, int *n, enum unheard kind,
                const char *which)
{
  static const char *const why[KINDS] = {
      [REPLACED] = "the program has put its own listener in the place of the "
                   "agent's",
      [WITHDRAWN] = "its thread blocks SIGSEGV, or takes it on too small a "
                    "stack, and a fault of LuaJIT's could not be mended",
      [WAITING] = "the agent came late, and waits for a moment at which the "
                  "Lua API may be called",
      [MUTE] = "its LuaJIT exports no Lua API to listen with",
      [UNKNOWN] = "the layout of its LuaJIT is not known",
  };
  char buf[192];
  struct text t = text_in(buf, sizeof buf);
  text_add(&t, which);
  text_add(&t, why[kind]);
  api->lua_pushlstring(L, t.buf, t.len);
  api->lua_rawseti(L, -2, ++*n);
}

void unheard_push(const struct api *api, lua_State *L)
{
  int n = 0;
  api->lua_createtable(L, 0, 0);
  for (unsigned i = 0; i < capture_vm_count(&registry); i++) {
    const struct capture_vm *e = &registry.entry[i];
    enum unheard kind = kind_of(e);
    if (kind != HEARD && !(gone_before >> i & 1))
      add(api, L, &n, kind, is_gone(e) ? CLOSED : "");
  }
  for (enum unheard kind = REPLACED; kind < KINDS; kind++)
    for (uint32_t i = 0; i < atomic_get(&closed[kind]); i++)
      add(api, L, &n, kind, CLOSED);
}
