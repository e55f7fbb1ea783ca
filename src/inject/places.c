/* SPDX-License-Identifier: MIT
 *
 * Where things are in the process: the C library's functions, the loader's
 * locks, and two pieces of code that are in every C library for x86-64.  All of
 * it is found by name or by its bytes, in what is mapped there now.
 */
#include <stdlib.h>
#include <string.h>

#include "inject/inject_internal.h"

#define PIECE ((size_t)65536)

/* Functions of the C library in which a thread may wait, or be met, and that
 * hold none of the library's own locks while another thread's work is awaited
 * (glibc 2.36: none of them is called by malloc or by the loader, which have
 * copies of their own of those that they need: __read_nocancel and the like).
 * So a thread that the program itself sent into one of them may call dlopen. */
static const char *const entry_names[] = {
    "accept",
    "accept4",
    "clock_nanosleep",
    "connect",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "flock",
    "ioctl",
    "nanosleep",
    "pause",
    "poll",
    "ppoll",
    "pread",
    "pread64",
    "pselect",
    "pthread_barrier_wait",
    "pthread_clockjoin_np",
    "pthread_cond_clockwait",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_join",
    "pthread_mutex_lock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "pthread_timedjoin_np",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sched_yield",
    "select",
    "sem_clockwait",
    "sem_timedwait",
    "sem_wait",
    "send",
    "sendmsg",
    "sendto",
    "sigsuspend",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    "sleep",
    "syscall",
    "usleep",
    "wait",
    "wait3",
    "wait4",
    "waitid",
    "waitpid",
};
enum { ENTRY_NAMES = sizeof entry_names / sizeof *entry_names };

enum { LIBC, LOADER, THREADS, MALLOC, DLOPEN, PROBES };

static void add_module(const struct module **list, unsigned *count,
                       unsigned max, const struct module *mod)
{
  if (*count < max)
    list[(*count)++] = mod;
}

/* What a module is, by what it exports: file names differ. */
static void sort_in(struct places *p, const struct module *mod, unsigned *libcs)
{
  struct export probe[PROBES] = {[LIBC] = {.name = "gnu_get_libc_version"},
                                 [LOADER] = {.name = "_rtld_global"},
                                 [THREADS] = {.name = "pthread_create"},
                                 [MALLOC] = {.name = "malloc"},
                                 [DLOPEN] = {.name = "dlopen"}};
  if (!module_exports(mod, probe, PROBES))
    return;
  bool old_dl = probe[DLOPEN].start && !strncmp(module_name(mod), "libdl", 5);
  bool old_threads =
      probe[THREADS].start && !strncmp(module_name(mod), "libpthread", 10);
  if (probe[LOADER].start) {
    p->loader = mod;
    p->loader_data = probe[LOADER].start;
    p->loader_data_size = probe[LOADER].size;
  } else if (probe[LIBC].start || old_dl || old_threads) {
    *libcs += probe[LIBC].start != 0;
    add_module(p->libc, &p->libc_count, PLACES_LIBC_MAX, mod);
  } else if (probe[MALLOC].start) {
    add_module(p->allocator, &p->allocator_count, PLACES_MALLOC_MAX, mod);
  }
  if (probe[DLOPEN].start && (probe[LIBC].start || (old_dl && !p->dlopen)))
    p->dlopen = probe[DLOPEN].start;
}

static void find_modules(struct places *p, unsigned *libcs)
{
  const struct module *last = NULL;
  for (size_t i = 0; i < p->maps.count; i++) {
    const struct target_map *map = &p->maps.map[i];
    const struct module *mod =
        map->x && *map->path ? modules_find(p->modules, map->start) : NULL;
    if (mod && mod != last && !module_is_vdso(mod))
      sort_in(p, mod, libcs);
    last = mod ? mod : last;
  }
}

static uint64_t search_map(struct places *p, const struct target_map *map,
                           const uint8_t *code, size_t n, uint8_t *piece)
{
  for (uint64_t at = map->start; at < map->end; at += PIECE - 16) {
    size_t len = map->end - at < PIECE ? (size_t)(map->end - at) : PIECE;
    if (target_read(p->t, at, piece, len) != RESULT_OK)
      continue;
    const uint8_t *hit = memmem(piece, len, code, n);
    if (hit)
      return at + (uint64_t)(hit - piece);
  }
  return 0;
}

/* The first of the C library's own bytes that are these instructions. */
static uint64_t find_code(struct places *p, const uint8_t *code, size_t n)
{
  uint8_t *piece = malloc(PIECE);
  uint64_t found = 0;
  for (size_t i = 0; piece && i < p->maps.count && !found; i++) {
    const struct target_map *map = &p->maps.map[i];
    const struct module *mod =
        map->x ? modules_find(p->modules, map->start) : NULL;
    if (mod && (mod == p->loader || mod == p->libc[0]))
      found = search_map(p, map, code, n, piece);
  }
  free(piece);
  return found;
}

static void find_functions(struct places *p)
{
  struct export f[] = {{.name = "dlerror"},
                       {.name = "__errno_location"},
                       {.name = "__libc_dlopen_mode"}};
  for (unsigned i = 0; i < p->libc_count; i++) {
    module_exports(p->libc[i], f, 3);
    p->dlerror = p->dlerror ? p->dlerror : f[0].start;
    p->errno_location = p->errno_location ? p->errno_location : f[1].start;
    if (!p->dlopen) /* glibc before 2.34, without libdl: no error text */
      p->dlopen = f[2].start;
  }
}

static bool find_entries(struct places *p)
{
  p->entry = calloc((size_t)p->libc_count * ENTRY_NAMES, sizeof *p->entry);
  if (!p->entry)
    return false;
  for (unsigned i = 0; i < p->libc_count; i++) {
    struct export *e = p->entry + p->entry_count;
    for (unsigned k = 0; k < ENTRY_NAMES; k++)
      e[k].name = entry_names[k];
    module_exports(p->libc[i], e, ENTRY_NAMES);
    p->entry_count += ENTRY_NAMES;
  }
  return true;
}

static bool has_path(const struct places *p, const char *part)
{
  for (size_t i = 0; i < p->maps.count; i++) {
    const char *name = strrchr(p->maps.map[i].path, '/');
    if (name && strstr(name, part))
      return true;
  }
  return false;
}

static enum result unfit(struct places *p, unsigned libcs, struct error *e)
{
  int pid = (int)target_pid(p->t);
  if (!target_alive(p->t) || !p->maps.count)
    return error_set(e, RESULT_GONE, "process %d has ended", pid);
  if (has_path(p, "musl"))
    return error_set(e, RESULT_UNSUPPORTED,
                     "process %d uses the C library musl; the agent is made "
                     "for the GNU C library",
                     pid);
  if (!p->loader)
    return error_set(e, RESULT_UNSUPPORTED,
                     "process %d is linked fully statically: it has no dynamic "
                     "loader to load the agent with",
                     pid);
  if (libcs > 1)
    return error_set(e, RESULT_UNSUPPORTED,
                     "process %d holds %u C libraries (dlmopen): the agent is "
                     "not loaded into such",
                     pid, libcs);
  return error_set(e, RESULT_UNSUPPORTED,
                   "process %d has no GNU C library with a dlopen in it", pid);
}

static enum result find_all(struct places *p, struct error *e)
{
  static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0,
                                      0,    0,    0x0f, 0x05};
  static const uint8_t syscall_ret[] = {0x0f, 0x05, 0xc3};
  unsigned libcs = 0;
  find_modules(p, &libcs);
  if (!p->loader || libcs != 1)
    return unfit(p, libcs, e);
  find_functions(p);
  p->sigreturn = find_code(p, sigreturn, sizeof sigreturn);
  p->syscall = find_code(p, syscall_ret, sizeof syscall_ret);
  if (!p->dlopen || !p->errno_location || !p->sigreturn || !p->syscall)
    return unfit(p, libcs, e);
  return find_entries(p) ? RESULT_OK : error_set(e, RESULT_NOMEM, "no memory");
}

enum result places_find(struct target *t, struct places *p, struct error *e)
{
  *p = (struct places){.t = t};
  enum result r = target_maps_read(t, &p->maps, e);
  if (r == RESULT_OK)
    r = modules_new(t, &p->modules, e);
  if (r == RESULT_OK)
    r = unwinder_new(p->modules, &p->unwinder, e);
  if (r == RESULT_OK)
    r = find_all(p, e);
  return r;
}

void places_free(struct places *p)
{
  unwinder_free(p->unwinder);
  if (p->modules)
    modules_free(p->modules);
  target_maps_free(&p->maps);
  free(p->entry);
}

bool places_refresh(struct places *p)
{
  struct target_maps now = {0};
  if (target_maps_read(p->t, &now, NULL) != RESULT_OK)
    return false;
  target_maps_free(&p->maps);
  p->maps = now;
  return true;
}

const struct target_map *places_map(const struct places *p, uint64_t addr)
{
  size_t lo = 0, hi = p->maps.count;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (p->maps.map[mid].end <= addr)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < p->maps.count && p->maps.map[lo].start <= addr ? &p->maps.map[lo]
                                                             : NULL;
}
