/* SPDX-License-Identifier: MIT
 *
 * Late names, the store's side: which functions want one, in which VM, and when
 * it is worth another walk.
 */
#include <stdlib.h>

#include "vm/late_internal.h"
#include "vm/vm_internal.h"
#include "vmcore/discover.h"

#define CALL_NS UINT64_C(50000000) /* CPU time of one call */
#define REST_MAX 8 /* at most 2^8 calls between fruitless walks */
#define TRIES 8    /* at a VM's layout */

struct late_vm {
  struct late late;
  bool gone;
  uint64_t next_call; /* not before, unless a new function wants a name */
  unsigned fruitless; /* walks in a row that found no name */
};

struct late_names {
  struct late_cache *cache;
  struct late_vm **vm;
  size_t vm_count;
  struct idmap asked; /* images that were looked at, by address */
  uint64_t call;
};

static void end(void *p)
{
  struct late_names *n = p;
  for (size_t i = 0; i < n->vm_count; i++) {
    late_free(&n->vm[i]->late);
    free(n->vm[i]);
  }
  free(n->vm);
  idmap_free(&n->asked);
  late_cache_free(n->cache);
  free(n);
}

static struct late_names *of_store(struct vm_store *s)
{
  if (s->late)
    return s->late;
  struct late_names *n = calloc(1, sizeof *n);
  if (!n)
    return NULL;
  n->cache = late_cache_new(s->target);
  if (!n->cache) {
    free(n);
    return NULL;
  }
  s->late = n;
  s->late_end = end;
  return n;
}

/* ---- VMs ---- */

/* The VM runs on: what it changes just now, as its traces, fits no layout for a
 * moment. */
static const struct vm_layout *layout_of(struct late_names *n, uint64_t g)
{
  uint32_t id = VM_LAYOUT_UNKNOWN;
  for (unsigned i = 0; i < TRIES && id == VM_LAYOUT_UNKNOWN; i++)
    id = vm_identify_global(late_cache_begin(n->cache), g);
  return vm_layout_get(id);
}

static struct late_vm *add_vm(struct late_names *n, uint64_t g)
{
  const struct vm_layout *lay = layout_of(n, g);
  struct late_vm **vm = realloc(n->vm, (n->vm_count + 1) * sizeof *vm);
  if (!vm)
    return NULL;
  n->vm = vm;
  struct late_vm *v = calloc(1, sizeof *v);
  if (!v)
    return NULL;
  late_init(&v->late, lay, g);
  v->gone = lay == NULL;
  return n->vm[n->vm_count++] = v;
}

static struct late_vm *vm_of(struct late_names *n, uint64_t g)
{
  for (size_t i = 0; i < n->vm_count; i++)
    if (n->vm[i]->late.g == g)
      return n->vm[i];
  return add_vm(n, g);
}

/* ---- functions ---- */

static void ask(struct late_names *n, struct vm_mem *m, struct vm_store *s,
                struct vm_image *im)
{
  struct late_vm *v = vm_of(n, im->g);
  struct late_want w = {
      .proto = im->addr,
      .firstline = im->firstline,
      .numline = im->numline,
      .sizebc = im->sizebc,
      .chunk = vm_image_chunk(s, im),
      .chunk_tail = im->flags & TECS_PROTO_CHUNK_TAIL,
      .user = im,
  };
  if (!idmap_put(&n->asked, (uintptr_t)im, 1) || !v || v->gone)
    return;
  v->late.m = m;
  if (!late_same(&v->late, &w))
    return; /* collected already */
  if (late_want(&v->late, &w) != SIZE_MAX) {
    v->next_call = n->call;
    v->fruitless = 0;
  }
}

static void found(void *ctx, const struct late_want *w, const char *name,
                  size_t len)
{
  vm_image_set_name(ctx, w->user, name, len);
}

static void walk(struct late_names *n, struct vm_mem *m, struct vm_store *s,
                 struct late_vm *v, uint64_t cpu_ns)
{
  size_t left = v->late.left;
  switch (late_run(&v->late, m, cpu_ns, found, s)) {
  case LATE_MORE:
    break;
  case LATE_DONE:
    v->fruitless = v->late.left < left ? 0 : v->fruitless + 1;
    v->next_call =
        n->call +
        (UINT64_C(1) << (v->fruitless < REST_MAX ? v->fruitless : REST_MAX));
    break;
  case LATE_FAIL:
    v->gone = true;
    break;
  }
}

static void ask_all(struct late_names *n, struct vm_mem *m, struct vm_store *s)
{
  struct vm_image *im;
  size_t cursor = 0;
  uint32_t there;
  while ((im = vm_image_next_unnamed(s, &cursor)))
    if (!idmap_get(&n->asked, (uintptr_t)im, &there))
      ask(n, m, s, im);
}

/* true: some walk is not at its end. */
static bool walk_all(struct late_names *n, struct vm_mem *m, struct vm_store *s,
                     uint64_t deadline)
{
  bool more = false;
  for (size_t i = 0; i < n->vm_count; i++) {
    struct late_vm *v = n->vm[(i + n->call) % n->vm_count];
    uint64_t now = late_clock();
    if (now < deadline && !v->gone && v->late.left > 0 &&
        (v->late.walking || n->call >= v->next_call))
      walk(n, m, s, v, deadline - now);
    more |= v->late.walking;
  }
  return more;
}

void vm_store_name_late(struct vm_store *s)
{
  struct late_names *n = s->target ? of_store(s) : NULL;
  if (!n)
    return;
  n->call++;
  struct vm_mem *m = late_cache_begin(n->cache);
  uint64_t deadline = late_clock() + CALL_NS;
  ask_all(n, m, s);
  if (!walk_all(n, m, s, deadline))
    late_cache_empty(n->cache);
}
