/* SPDX-License-Identifier: MIT
 *
 * A moment at which a thread may call the dynamic loader.  What could go wrong
 * is a thread that is inside of malloc or the loader already: their locks are
 * not made for that, and their data are half changed.
 *
 * Neither calls back into the program in the middle of its work (constructors
 * and callbacks of dl_iterate_phdr run with the loader's lock held, and that is
 * looked at).  So it is enough to know where the thread is now, and that it is
 * not in a signal handler, which may have interrupted anything.
 */
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "inject/inject_internal.h"

enum {
  STACK_UNWOUND = 65536,    /* bytes, through the C library's own frames */
  STACK_SEARCHED = 1 << 20, /* for signal frames */
  MUTEX_SIZE = 40,          /* pthread_mutex_t */
  MUTEX_RECURSIVE = 1,      /* PTHREAD_MUTEX_RECURSIVE_NP */
  LOADER_DATA_MAX = 1 << 16,
  TCB_SELF = 16,     /* glibc's tcbhead_t (sysdeps/x86_64/nptl/tls.h) */
  PTHREAD_TID = 720, /* struct pthread (nptl/descr.h), all versions so far */
};

static bool is_libc(const struct places *p, const struct module *mod)
{
  for (unsigned i = 0; mod && i < p->libc_count; i++)
    if (p->libc[i] == mod)
      return true;
  return mod && module_is_vdso(mod);
}

static bool is_allocator(const struct places *p, const struct module *mod)
{
  for (unsigned i = 0; mod && i < p->allocator_count; i++)
    if (p->allocator[i] == mod)
      return true;
  return false;
}

/* ---- the loader's locks ---- */

struct mutex { /* sysdeps/x86/nptl/bits/struct_mutex.h */
  uint32_t lock, count;
  int32_t owner;
  uint32_t users;
  int32_t kind;
};

static bool is_thread(const struct target_tids *inner, int32_t tid)
{
  for (size_t i = 0; i < inner->count; i++)
    if (inner->tid[i] == tid)
      return true;
  return false;
}

/* Where in _rtld_global they are differs; a recursive mutex that one of this
 * process's threads holds once or a few times looks like nothing else. */
pid_t moment_loader_owner(struct places *p)
{
  static uint8_t data[LOADER_DATA_MAX];
  struct target_tids tids = {0};
  pid_t owner = 0;
  size_t size =
      p->loader_data_size < sizeof data ? p->loader_data_size : sizeof data;
  if (target_threads(p->t, &tids) == RESULT_OK &&
      target_read(p->t, p->loader_data, data, size) == RESULT_OK) {
    for (size_t i = 0; i < tids.count; i++) /* its own numbers */
      tids.tid[i] = target_thread_ns_tid(p->t, tids.tid[i]);
    for (size_t at = 0; at + MUTEX_SIZE <= size && !owner; at += 8) {
      struct mutex m;
      memcpy(&m, data + at, sizeof m);
      if ((m.lock == 1 || m.lock == 2) && m.count && m.count < 256 && m.users &&
          m.users < 256 && m.kind == MUTEX_RECURSIVE &&
          is_thread(&tids, m.owner))
        owner = m.owner;
    }
  }
  target_tids_free(&tids);
  return owner;
}

/* ---- the thread itself ---- */

/* Made by the C library, which keeps what it needs behind the thread pointer?
 * Threads of a raw clone may share another's. */
static bool has_identity(struct places *p, pid_t tid, uint64_t tp)
{
  uint64_t self = 0;
  int32_t number = 0;
  return target_read(p->t, tp + TCB_SELF, &self, 8) == RESULT_OK &&
         self == tp &&
         target_read(p->t, tp + PTHREAD_TID, &number, 4) == RESULT_OK &&
         number == target_thread_ns_tid(p->t, tid);
}

static bool is_sigreturn(struct places *p, uint64_t addr)
{
  static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  uint8_t b[sizeof code];
  return addr == p->sigreturn ||
         (target_read(p->t, addr, b, sizeof b) == RESULT_OK &&
          !memcmp(b, code, sizeof b));
}

/* A handler blocks its own signal while it runs (but for SA_NODEFER), so a
 * thread that blocks none is in none: what looks like a signal frame then is an
 * old one, left in memory that was not written since. */
static bool in_handler(struct places *p, const struct frame_state *s,
                       const uint8_t *stack, size_t n)
{
  for (size_t at = 0; s->mask && at + 8 <= n; at += 8) {
    uint64_t restorer, rip, rsp;
    memcpy(&restorer, stack + at, 8);
    if (restorer && frame_at(stack + at, n - at, &rip, &rsp) &&
        is_sigreturn(p, restorer))
      return true;
  }
  return false;
}

static bool is_entry(const struct places *p, uint64_t addr)
{
  for (unsigned k = 0; k < p->entry_count; k++) {
    const struct export *x = &p->entry[k];
    if (x->start && addr >= x->start && addr - x->start < x->size)
      return true;
  }
  return false;
}

static uint64_t word_at(struct places *p, uint64_t addr)
{
  uint64_t v = 0;
  target_read(p->t, addr, &v, sizeof v);
  return v;
}

/* What `jmp *slot(%rip)` at addr jumps to, as the linker's stubs do it, behind
 * endbr64 and a bnd prefix where they have them; else addr itself. */
static uint64_t through_stub(struct places *p, uint64_t addr)
{
  static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
  uint8_t b[16];
  size_t at = 0;
  int32_t slot;
  if (target_read(p->t, addr, b, sizeof b) != RESULT_OK)
    return addr;
  at += memcmp(b, endbr64, sizeof endbr64) ? 0 : sizeof endbr64;
  at += b[at] == 0xf2;
  if (b[at] != 0xff || b[at + 1] != 0x25)
    return addr;
  memcpy(&slot, b + at + 2, sizeof slot);
  return word_at(p, addr + at + 6 + (uint64_t)(int64_t)slot);
}

/* What the call in front of a return address called: `call rel32` or
 * `call *slot(%rip)`; 0: another kind of call.  (The function that returns
 * there need not be that one: pthread_join ends in a jump.) */
static uint64_t called_before(struct places *p, uint64_t ret)
{
  uint8_t b[6];
  int32_t distance;
  if (target_read(p->t, ret - 6, b, sizeof b) != RESULT_OK)
    return 0;
  memcpy(&distance, b + 2, sizeof distance);
  uint64_t to = ret + (uint64_t)(int64_t)distance;
  if (b[0] == 0xff && b[1] == 0x15)
    return word_at(p, to);
  return b[1] == 0xe8 ? through_stub(p, to) : 0;
}

/* The C library's function that the program called, when the thread is in the
 * C library: its innermost frames are unwound. */
static const char *library_hindrance(struct places *p,
                                     const struct unwind_stack *u)
{
  const struct unwind_frame *f = u->frame, *entry = NULL;
  size_t i = 0;
  for (; i < u->count && f[i].kind == UNWIND_NATIVE && is_libc(p, f[i].mod);
       i++)
    entry = &f[i];
  if (i == u->count || !entry)
    return "in the C library";
  if (f[i].kind == UNWIND_SIGNAL)
    return "in a signal handler";
  if (f[i].mod == p->loader)
    return "in the dynamic loader";
  if (is_allocator(p, f[i].mod))
    return "in its memory allocator";
  if (is_entry(p, entry->ip) || is_entry(p, called_before(p, f[i].ip + 1)))
    return NULL;
  return "in the C library";
}

static void make_sample(const struct frame_state *s, struct tecs_sample *out)
{
  const struct user_regs_struct *r = &s->regs;
  const uint64_t reg[TECS_REGS] = {
      r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi, r->rbp, r->rsp, r->r8,
      r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15, r->rip};
  *out = (struct tecs_sample){.native_form = TECS_NATIVE_STACK,
                              .stack_base = r->rsp};
  memcpy(out->reg, reg, sizeof reg);
}

static const char *inside_library(struct places *p, const struct frame_state *s,
                                  const uint8_t *stack, size_t n)
{
  static struct unwind_stack unwound;
  struct tecs_sample sample;
  make_sample(s, &sample);
  sample.stack_len = (uint32_t)(n < STACK_UNWOUND ? n : STACK_UNWOUND);
  struct sample_view view = {.sample = &sample, .stack = stack};
  unwind_sample(p->unwinder, &view, NULL, &unwound);
  return library_hindrance(p, &unwound);
}

static const char *by_place(struct places *p, const struct frame_state *s,
                            const uint8_t *stack, size_t n)
{
  const struct module *mod = modules_find(p->modules, s->regs.rip);
  if (mod && mod == p->loader)
    return "in the dynamic loader";
  if (is_allocator(p, mod))
    return "in its memory allocator";
  if (in_handler(p, s, stack, n))
    return "in a signal handler";
  return is_libc(p, mod) ? inside_library(p, s, stack, n) : NULL;
}

const char *moment_hindrance(struct places *p, pid_t tid,
                             const struct frame_state *s)
{
  const struct target_map *map = places_map(p, s->regs.rsp);
  if (!map || !map->w || s->regs.rsp % 8)
    return "on a stack that is not known";
  if (!has_identity(p, tid, s->regs.fs_base))
    return "a thread that the C library did not make";
  size_t n = (size_t)(map->end - s->regs.rsp);
  if (n > STACK_SEARCHED)
    n = STACK_SEARCHED;
  uint8_t *stack = malloc(n);
  const char *why = "on a stack that can't be read";
  if (stack && target_read(p->t, s->regs.rsp, stack, n) == RESULT_OK)
    why = by_place(p, s, stack, n);
  free(stack);
  if (!why && moment_loader_owner(p))
    why = "waiting for the dynamic loader, which is busy";
  return why;
}
