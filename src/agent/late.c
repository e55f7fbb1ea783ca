/* SPDX-License-Identifier: MIT
 *
 * The agent in a process that was running already (tecs-attach --inject).  VMs
 * are there before us, and nothing that we stand in front of elsewhere leads
 * here: what the program calls was bound before.  So VMs are found in samples,
 * and a VM is installed into from a debug hook, set for one instruction: that
 * is a moment at which its API may be called.
 */
#include <link.h>

#include "agent/agent_internal.h"
#include "agent/luaapi.h"
#include "base/atomics.h"
#include "vmcore/discover.h"

enum {
  /* lua.h, LUA_MASKCALL and LUA_MASKCOUNT: the next instruction of the
   * interpreter, or the next call, which is all that is left to it where
   * compiled code is stitched together */
  NEXT = 1 | 8,
  HOOK_IN_USE = 0x7f, /* lj_obj.h: the program's events, or one is running */
  TRIES_MAX = 8,
  TRY_EVERY = 64, /* samples in which the VM could be asked */
};

/* ---- how we were loaded ---- */

struct order {
  bool loader_seen, late;
};

/* Objects come in the order in which they were loaded; what is there from the
 * start stands before the loader, which the C library needs. */
static int in_order(struct dl_phdr_info *info, size_t size, void *arg)
{
  struct order *o = arg;
  uint64_t own = (uint64_t)&agent;
  (void)size;
  o->loader_seen |= info->dlpi_addr == _r_debug.r_ldbase;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
    uint64_t start = info->dlpi_addr + ph->p_vaddr;
    if (ph->p_type == PT_LOAD && own - start < ph->p_memsz) {
      o->late = o->loader_seen;
      return 1;
    }
  }
  return 0;
}

void late_look(void)
{
  struct order o = {false, false};
  dl_iterate_phdr(in_order, &o);
  agent.late = o.late;
  if (agent.late)
    luaapi_look();
}

/* ---- a moment in the VM ---- */

static struct asked {
  uint64_t g;
  volatile uint32_t samples; /* in which it could have been asked */
} asked[TECS_VMS];

/* The hook's thread is the one that runs; its Lua stack has room for a hook's
 * own needs (lj_dispatch.c, callhook). */
static void on_hook(lua_State *L, void *ar)
{
  const struct api *api = luaapi_running(L);
  (void)ar;
  if (!api)
    return;
  api->lua_sethook(L, NULL, 0, 0);
  install_into(L, TECS_FOUND_SCAN);
}

/* Is it time?  Now and then: the program may set a hook of its own over ours,
 * and compiled code may be long in coming back to the interpreter. */
static bool due(const struct capture_vm *e)
{
  struct asked *a = &asked[e - registry.entry];
  if (a->g != e->g) {
    a->g = e->g;
    a->samples = 0;
  }
  uint32_t n = a->samples++;
  return n % TRY_EVERY == 0 && n / TRY_EVERY < TRIES_MAX;
}

/* From the interpreter's own code, from compiled code and from system calls:
 * nowhere in there is the dispatch table changed, which lua_sethook changes too
 * (lj_dispatch.c, lj_dispatch_update; luajit.c sets a hook from a signal
 * handler as well).  A handler of the program's may have interrupted that. */
static bool is_moment(const struct tecs_sample_vm *vm,
                      const struct capture_thread *th)
{
  return vm->vm_class == TECS_CLASS_VMASM || vm->vm_class == TECS_CLASS_TRACE ||
         (th->in_syscall && !th->in_handler);
}

static void await_moment(struct capture_vm *e)
{
  if (!e->events)
    registry_events(e, TECS_VM_WAITING);
}

void late_visit(struct capture *c, const struct capture_thread *th)
{
  const struct tecs_sample_vm *vm = &c->vm[0];
  struct capture_vm *e =
      c->vm_count && !vm->error ? registry_find(vm->g) : NULL;
  if (!e || atomic_acquire(&e->state) != TECS_VM_LIVE ||
      atomic_acquire(&e->installed))
    return;
  const struct vm_layout *lay = vm_layout_get(e->layout);
  const struct api *api = luaapi_found(e->asm_pc);
  if (!api || !api->lua_sethook)
    return;
  await_moment(e);
  if (!is_moment(vm, th) || !vm_is_global(&c->mem, lay, e->g) ||
      vm_load1(&c->mem, e->g + lay->g_hookmask) & HOOK_IN_USE || !due(e))
    return;
  api->lua_sethook((lua_State *)vm->L, on_hook, NEXT, 1);
}
