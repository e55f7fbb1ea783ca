/* SPDX-License-Identifier: MIT
 *
 * As session/remote.c samples: the thread is stopped, room capture looks at it
 * through the cache of pages, it goes on.
 */
#include <stdlib.h>

#include "outside.h"
#include "session/remote_internal.h"

#define STOP_WAIT UINT64_C(2000000000)

struct from_outside {
  struct target *target;
  struct shm *shm;
  struct modules *modules;
  struct pages *pages;
  struct remote_program program;
  struct capture_vms vms;
  struct capture_host host;
  struct capture capture[TECS_SLOTS];
};

static size_t copy(struct capture *c, void *to, uint64_t from, size_t n)
{
  return pages_copy(c->mem.ctx, to, from, n);
}

static uint64_t unwind_table(void *ctx, uint64_t pc)
{
  struct from_outside *o = ctx;
  uint64_t addr, size;
  const struct module *mod = modules_find(o->modules, pc);
  return mod && module_eh_frame_hdr(mod, &addr, &size) ? addr : 0;
}

struct from_outside *from_outside_open(struct target *t, struct shm *shm)
{
  struct error e;
  struct from_outside *o = calloc(1, sizeof *o);
  if (!o)
    return NULL;
  o->target = t;
  o->shm = shm;
  o->pages = pages_new(t);
  if (!o->pages || modules_new(t, &o->modules, &e) != RESULT_OK) {
    from_outside_close(o);
    return NULL;
  }
  remote_program_read(t, &o->program);
  o->vms.published = shm->vms;
  o->vms.unwind_table = unwind_table;
  o->vms.ctx = o;
  o->host = (struct capture_host){
      .vms = &o->vms, .control = shm->control, .copy = copy};
  return o;
}

void from_outside_close(struct from_outside *o)
{
  if (!o)
    return;
  modules_free(o->modules);
  pages_free(o->pages);
  free(o);
}

static struct capture *capture_of(struct from_outside *o, unsigned slot)
{
  struct capture *c = &o->capture[slot];
  if (!c->host) {
    c->host = &o->host;
    c->slot = &o->shm->slots[slot];
    c->ring = o->shm->rings + (size_t)slot * TECS_RING_BYTES;
    pages_mem(o->pages, &c->mem);
    capture_reset(c, c->slot->generation);
  }
  return c;
}

bool from_outside_take(struct from_outside *o, unsigned slot, pid_t tid)
{
  struct capture *c = capture_of(o, slot);
  struct target_stop stop = {0};
  struct capture_thread th;
  struct error e;
  bool taken = false;
  pages_begin(o->pages);
  c->mem.faults = 0;
  if (target_stop(o->target, tid, STOP_WAIT, &stop, &e) == RESULT_OK)
    taken = remote_thread_read(&o->program, &stop, &th) == RESULT_OK &&
            capture_take(c, &th);
  c->seq++;
  target_stop_end(o->target, &stop, STOP_WAIT);
  return taken;
}
