/* SPDX-License-Identifier: MIT
 *
 * A stopped thread, as room capture wants to know it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/user.h>

#include "session/remote_internal.h"

#define CHUNK (UINT64_C(1) << 18)
#define CODE_MAX                                                               \
  (UINT64_C(64) << 20) /* bytes of code that are looked through */

/* mov $SYS_rt_sigreturn,%rax; syscall: where signal handlers return to, in
 * every C library.  Debuggers know it by these bytes. */
static const uint8_t return_code[] = {0x48, 0xc7, 0xc0, 0x0f, 0,
                                      0,    0,    0x0f, 0x05};

static void search_map(struct target *t, const struct target_map *m,
                       uint8_t *buf, struct remote_program *p)
{
  enum { KEEP = sizeof return_code - 1 };
  for (uint64_t at = m->start; at < m->end; at += CHUNK - KEEP) {
    uint64_t n = m->end - at < CHUNK ? m->end - at : CHUNK;
    const uint8_t *end = buf + n, *hit = buf;
    if (target_read(t, at, buf, n) != RESULT_OK)
      return;
    while (p->restorers < RESTORERS_MAX &&
           (hit = memmem(hit, (size_t)(end - hit), return_code,
                         sizeof return_code))) {
      p->restorer[p->restorers++] = at + (uint64_t)(hit - buf);
      hit++;
    }
  }
}

static bool is_c_library(const struct target_map *m)
{
  static const char *const name[] = {"libc.so", "libc-", "libpthread",
                                     "ld-musl"};
  const char *slash = strrchr(m->path, '/');
  for (size_t i = 0; slash && i < sizeof name / sizeof *name; i++)
    if (strncmp(slash + 1, name[i], strlen(name[i])) == 0)
      return true;
  return false;
}

/* In the C library; in the program itself when that is linked statically. */
static void find_restorers(struct target *t, const struct target_maps *maps,
                           struct remote_program *p)
{
  uint8_t *buf = malloc(CHUNK);
  uint64_t left = CODE_MAX;
  for (int own = 0; buf && own < 2 && !p->restorers; own++)
    for (size_t i = 0; i < maps->count; i++) {
      const struct target_map *m = &maps->map[i];
      uint64_t size = m->end - m->start;
      if (!m->x || !m->r || !m->inode || is_c_library(m) == own || size > left)
        continue;
      left -= size;
      search_map(t, m, buf, p);
    }
  free(buf);
}

void remote_program_read(struct target *t, struct remote_program *p)
{
  struct target_maps maps = {0};
  *p = (struct remote_program){.stack_end = target_stack_end(t)};
  if (target_maps_read(t, &maps, NULL) == RESULT_OK)
    find_restorers(t, &maps, p);
  target_maps_free(&maps);
}

/* DWARF numbering (System V ABI, figure 3.36). */
static void registers(const struct user_regs_struct *u, uint64_t *reg)
{
  const uint64_t in_order[TECS_REGS] = {
      u->rax, u->rdx, u->rcx, u->rbx, u->rsi, u->rdi, u->rbp, u->rsp, u->r8,
      u->r9,  u->r10, u->r11, u->r12, u->r13, u->r14, u->r15, u->rip};
  memcpy(reg, in_order, sizeof in_order);
}

enum result remote_thread_read(const struct remote_program *p,
                               const struct target_stop *stop,
                               struct capture_thread *out)
{
  struct user_regs_struct regs;
  uint64_t blocked = 0;
  enum result r = target_stop_regs(stop, &regs);
  if (r != RESULT_OK)
    return r;
  *out = (struct capture_thread){
      .pointer = regs.fs_base,
      .main_stack_end = p->stack_end,
      /* a running handler blocks its own signal at least */
      .in_handler =
          target_stop_blocked(stop, &blocked) == RESULT_OK && blocked != 0,
      .in_syscall = (int64_t)regs.orig_rax >= 0,
      .restorer = p->restorer,
      .restorers = p->restorers,
  };
  registers(&regs, out->reg);
  return RESULT_OK;
}
