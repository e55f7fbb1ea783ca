/* SPDX-License-Identifier: MIT
 *
 * Waiting for a VM, and saying why there is none.
 */
#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
#include "session/session_internal.h"

#define CHECK_EVERY (100 * MS)
#define DEEP_EVERY 5 /* of the checks: files are searched, too */
/* Even who does not want to wait gives running threads the time to be asked:
 * a statically linked VM shows itself in a sample. */
#define GRACE (250 * MS)

static bool segment_has_vm(struct target *t)
{
  struct shm shm;
  struct shm_attach_info info;
  int fd;
  bool found = false;
  if (target_segment_open(t, &fd, NULL) != RESULT_OK ||
      shm_attach(&shm, fd, &info) != RESULT_OK)
    return false;
  for (unsigned i = 0; i < TECS_VMS && !found; i++)
    found = atomic_acquire(&shm.vms[i].state) == TECS_VM_LIVE;
  shm_detach(&shm);
  return found;
}

pid_t wait_find_child(struct target *t, bool deep, char comm[16])
{
  struct target_tids children = {0};
  pid_t vm = 0, files = 0;
  if (target_children(t, &children) != RESULT_OK)
    children.count = 0;
  for (size_t i = 0; i < children.count && !vm; i++) {
    struct target *child;
    if (target_open(children.tid[i], &child, NULL) != RESULT_OK)
      continue;
    bool has_vm = segment_has_vm(child);
    if (has_vm)
      vm = children.tid[i];
    else if (deep && !files && target_has_luajit(child) != TARGET_LUAJIT_NO)
      files = children.tid[i];
    if (vm || files == children.tid[i])
      target_comm(child, comm);
    target_close(child);
  }
  target_tids_free(&children);
  return vm ? vm : files;
}

enum result wait_name_child(struct session *s, pid_t child, const char *comm)
{
  return error_set(s->e, RESULT_NOVM,
                   "no LuaJIT VM in %d (%s); its child %d (%s) has one: "
                   "tecs-attach %d",
                   (int)target_pid(s->t), s->comm, (int)child, comm,
                   (int)child);
}

enum result wait_failed(struct session *s, uint64_t now)
{
  double waited = (double)(now - s->wait_start) / 1e9;
  /* the agent meets VMs that run, the other engine looks for them in memory */
  const char *cure = !s->engine || s->engine->search
                         ? ""
                         : ", or use --no-agent, which finds idle VMs too";
  int pid = (int)target_pid(s->t);
  if (!target_alive(s->t))
    return error_set(s->e, RESULT_NOVM,
                     "process %d (%s) ended before a LuaJIT VM appeared in it",
                     pid, s->comm);
  if (s->has_luajit && s->acc->sent == 0)
    return error_set(s->e, RESULT_NOVM,
                     "no LuaJIT VM seen in %d (%s) in %.1f s: LuaJIT is "
                     "there, but all threads slept the whole time; wait "
                     "longer (--wait) until it works%s",
                     pid, s->comm, waited, cure);
  if (s->has_luajit)
    return error_set(s->e, RESULT_NOVM,
                     "no LuaJIT VM appeared in %d (%s) in %.1f s, although "
                     "LuaJIT is loaded; wait longer (--wait) if it starts "
                     "its VM late%s",
                     pid, s->comm, waited, cure);
  return error_set(s->e, RESULT_NOVM,
                   "no LuaJIT VM appeared in %d (%s) in %.1f s, and no LuaJIT "
                   "is loaded in it or in a child of it; is that the right "
                   "process? wait longer (--wait) if it loads LuaJIT late",
                   pid, s->comm, waited);
}

bool wait_last_resort(struct session *s)
{
  if (!s->has_luajit)
    s->has_luajit = target_has_luajit(s->t) != TARGET_LUAJIT_NO;
  if (s->has_luajit && s->engine->search) {
    s->engine->search(s);
    drain_vms(s);
  }
  s->waiting = !s->acc->vms && !s->acc->unknown_vms;
  return !s->waiting;
}

enum result wait_check(struct session *s, uint64_t now)
{
  char comm[16];
  bool deep = s->wait_round++ % DEEP_EVERY == 0;
  s->next_wait = now + CHECK_EVERY;
  drain_vms(s);
  if (s->acc->vms) {
    s->waiting = false;
    return RESULT_OK;
  }
  if (deep)
    s->has_luajit = target_has_luajit(s->t) != TARGET_LUAJIT_NO;
  pid_t child = s->has_luajit ? 0 : wait_find_child(s->t, deep, comm);
  if (child)
    return wait_name_child(s, child, comm);
  uint64_t limit = s->o->vm_wait_ns > GRACE ? s->o->vm_wait_ns : GRACE;
  if (now - s->wait_start < limit)
    return RESULT_OK;
  return wait_last_resort(s) ? RESULT_OK : wait_failed(s, now);
}
