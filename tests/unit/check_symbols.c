/* SPDX-License-Identifier: MIT
 *
 * Symbols and unwind tables against programs whose truth is known: this one
 * (addresses of its own functions), and small ones that are compiled here,
 * print the addresses of their functions and wait.
 */
#include <check.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "symbols/symbols.h"

/* ---- functions with a known shape ---- */

int sized_function(int);
int visible_alias(int);
int covered_outer(int);
int shared_page(int);
extern char zero_size_start[], padding_start[], nested_start[], label_start[],
    mangled_start[];

/* clang-format off */
__asm__(".text\n"
        /* 4 bytes are claimed, 4 are padding, then a label without a size */
        ".globl sized_function\n.type sized_function,@function\n"
        "sized_function:\n.byte 0xcc,0xcc,0xcc,0xcc\n"
        ".size sized_function,4\n"
        ".globl padding_start\npadding_start:\n.byte 0xcc,0xcc,0xcc,0xcc\n"
        ".globl zero_size_start\n.type zero_size_start,@function\n"
        "zero_size_start:\n.byte 0xcc,0xcc,0xcc,0xcc\n"
        ".size zero_size_start,0\n"
        /* three names for one place */
        ".globl __visible_alias\n.type __visible_alias,@function\n"
        ".globl visible_alias\n.type visible_alias,@function\n"
        ".type a_local_alias,@function\n"
        "a_local_alias:\n__visible_alias:\nvisible_alias:\n"
        ".byte 0xcc,0xcc,0xcc,0xcc\n"
        ".size a_local_alias,4\n.size __visible_alias,4\n"
        ".size visible_alias,4\n"
        /* a label with a size inside a function */
        ".globl covered_outer\n.type covered_outer,@function\n"
        "covered_outer:\n.byte 0xcc,0xcc\n"
        ".globl nested_start\n.type nested_start,@function\n"
        "nested_start:\n.byte 0xcc,0xcc\n.size nested_start,2\n"
        ".byte 0xcc,0xcc,0xcc,0xcc\n.size covered_outer,8\n"
        ".globl mangled_start\nmangled_start:\n"
        ".globl _ZN4game6Player6updateEf\n"
        ".type _ZN4game6Player6updateEf,@function\n"
        "_ZN4game6Player6updateEf:\n.byte 0xcc,0xcc,0xcc,0xcc\n"
        ".size _ZN4game6Player6updateEf,4\n"
        ".globl label_start\nlabel_start:\n.byte 0xcc,0xcc,0xcc,0xcc\n");
/* clang-format on */

__attribute__((noinline)) static int local_function(int x)
{
  __asm__ volatile("" : "+r"(x));
  return x * 3;
}

static struct target *target;
static struct modules *modules;

static void open_self(void)
{
  struct error e;

  ck_assert_msg(target_open(getpid(), &target, &e) == RESULT_OK, "%s", e.text);
  ck_assert_msg(modules_new(target, &modules, &e) == RESULT_OK, "%s", e.text);
}

static void close_self(void)
{
  modules_free(modules);
  target_close(target);
}

static const char *name_at(struct modules *m, uint64_t addr)
{
  const struct module *mod = modules_find(m, addr);
  struct symbol s;

  if (mod == NULL || !module_symbol(mod, addr, &s))
    return "(none)";
  ck_assert(addr >= s.start && addr - s.start < s.size);
  return s.name;
}

static const char *own_name(const void *p, size_t offset)
{
  return name_at(modules, (uint64_t)(uintptr_t)p + offset);
}

START_TEST(test_own_functions)
{
  const struct module *mod = modules_find(modules, (uintptr_t)local_function);

  ck_assert_int_eq(local_function(2), 6);
  ck_assert_ptr_nonnull(mod);
  ck_assert(!module_is_vdso(mod));
  ck_assert_str_eq(own_name(local_function, 0), "local_function");
  ck_assert_str_eq(own_name(local_function, 1), "local_function");
  ck_assert_str_eq(own_name(open_self, 3), "open_self");
  ck_assert_ptr_null(modules_find(modules, 16));
  ck_assert_ptr_null(modules_find(modules, UINT64_MAX));
}
END_TEST

START_TEST(test_size_is_a_limit)
{
  ck_assert_str_eq(own_name(sized_function, 0), "sized_function");
  ck_assert_str_eq(own_name(sized_function, 3), "sized_function");
  ck_assert_str_eq(own_name(sized_function, 4), "(none)");
  ck_assert_str_eq(own_name(padding_start, 0), "(none)");
  ck_assert_str_eq(own_name(padding_start, 3), "(none)");
  ck_assert_str_eq(own_name(zero_size_start, 0), "(none)");
  ck_assert_str_eq(own_name(label_start, 0), "(none)");
}
END_TEST

START_TEST(test_best_name_wins)
{
  ck_assert_str_eq(own_name(visible_alias, 0), "visible_alias");
  ck_assert_str_eq(own_name(visible_alias, 3), "visible_alias");
  ck_assert_str_eq(own_name(covered_outer, 1), "covered_outer");
  ck_assert_str_eq(own_name(covered_outer, 2), "nested_start");
  ck_assert_str_eq(own_name(covered_outer, 3), "nested_start");
  ck_assert_str_eq(own_name(covered_outer, 4), "covered_outer");
  ck_assert_str_eq(own_name(covered_outer, 7), "covered_outer");
  ck_assert_str_eq(own_name(mangled_start, 2), "game::Player::update(float)");
}
END_TEST

START_TEST(test_library_functions)
{
  const struct module *libc = modules_find(modules, (uintptr_t)puts);

  /* PLT-free address, and a weak alias with fewer underscores */
  ck_assert_str_eq(name_at(modules, (uintptr_t)dlsym(RTLD_DEFAULT, "qsort")),
                   "qsort");
  ck_assert_str_eq(name_at(modules, (uintptr_t)dlsym(RTLD_DEFAULT, "__write")),
                   "write");
  ck_assert_ptr_nonnull(libc);
}
END_TEST

START_TEST(test_exports)
{
  const struct module *libc =
      modules_find(modules, (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "abort"));
  struct export want[] = {{.name = "abort"},
                          {.name = "no_such_function"},
                          {.name = "environ"},
                          {.name = "elf_begin"}}; /* another library's */

  ck_assert_ptr_nonnull(libc);
  ck_assert_uint_eq(module_exports(libc, want, 4), 2);
  ck_assert_uint_eq(want[0].start,
                    (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "abort"));
  ck_assert_uint_gt(want[0].size, 8);
  ck_assert_uint_eq(want[1].start, 0);
  ck_assert_uint_eq(want[2].size, sizeof(char **));
  ck_assert_uint_eq(want[3].start, 0);
}
END_TEST

START_TEST(test_function_range)
{
  const struct module *mod = modules_find(modules, (uintptr_t)local_function);
  uint64_t start, end;

  ck_assert(
      module_function_range(mod, (uintptr_t)local_function + 1, &start, &end));
  ck_assert_uint_eq(start, (uintptr_t)local_function);
  ck_assert_uint_gt(end, start + 1);
  ck_assert(!module_function_range(mod, (uintptr_t)sized_function, &start,
                                   &end)); /* no .cfi there */
  ck_assert(module_eh_frame_hdr(mod, &start, &end));
  ck_assert(module_eh_frame(mod, &start, &end));
}
END_TEST

START_TEST(test_read_image)
{
  const struct module *mod = modules_find(modules, (uintptr_t)local_function);
  uint8_t bytes[16];

  ck_assert(module_read(mod, (uintptr_t)local_function, bytes, sizeof bytes));
  ck_assert_mem_eq(bytes, (const void *)local_function, sizeof bytes);
  ck_assert(!module_read(mod, 16, bytes, sizeof bytes));
  ck_assert(!module_read(mod, UINT64_MAX - 3, bytes, sizeof bytes));
}
END_TEST

START_TEST(test_entry)
{
  const struct module *mod = modules_find(modules, (uintptr_t)local_function);
  const struct module *libc = modules_find(
      modules, (uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));

  ck_assert_uint_eq(module_entry(mod), getauxval(AT_ENTRY));
  ck_assert_str_eq(name_at(modules, module_entry(mod)), "_start");
  ck_assert_str_eq(module_name(libc), "libc.so.6");
  ck_assert_str_eq(strrchr(module_path(libc), '/'), "/libc.so.6");
}
END_TEST

START_TEST(test_vdso_from_memory)
{
  uint64_t base = getauxval(AT_SYSINFO_EHDR);
  const struct module *mod = modules_find(modules, base);
  void *h = dlopen("linux-vdso.so.1", RTLD_NOLOAD | RTLD_LAZY);
  void *fn = h != NULL ? dlsym(h, "__vdso_clock_gettime") : NULL;
  uint64_t start, end;

  ck_assert_ptr_nonnull(mod);
  ck_assert(module_is_vdso(mod));
  ck_assert_str_eq(module_name(mod), "[vdso]");
  ck_assert_uint_eq(module_bias(mod), base);
  ck_assert_uint_eq(module_entry(mod), 0);
  ck_assert_ptr_nonnull(fn);
  ck_assert_str_eq(own_name(fn, 0), "clock_gettime");
  ck_assert(module_function_range(mod, (uintptr_t)fn, &start, &end));
  ck_assert_uint_eq(start, (uintptr_t)fn);
  dlclose(h);
}
END_TEST

/* Without descriptors no file can be reached: everything comes from memory. */
START_TEST(test_library_from_memory)
{
  struct rlimit saved, few;
  uint64_t version = (uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
  uint64_t start, end;
  uint8_t bytes[8];
  struct modules *m;
  struct error e;
  int next = dup(0);

  close(next);
  getrlimit(RLIMIT_NOFILE, &saved);
  few = saved;
  few.rlim_cur = (rlim_t)next + 1; /* one: the maps themselves */
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
  enum result r = modules_new(target, &m, &e);
  setrlimit(RLIMIT_NOFILE, &saved);
  ck_assert_msg(r == RESULT_OK, "%s", e.text);

  const struct module *libc = modules_find(m, version);
  ck_assert_ptr_nonnull(libc);
  ck_assert_uint_eq(module_bias(libc),
                    module_bias(modules_find(modules, version)));
  ck_assert_str_eq(name_at(m, version), "gnu_get_libc_version");
  ck_assert(module_function_range(libc, version, &start, &end));
  ck_assert_uint_eq(start, version);
  ck_assert(module_eh_frame(libc, &start, &end)); /* by the header */
  ck_assert(module_read(libc, version, bytes, sizeof bytes));
  ck_assert_mem_eq(bytes, (const void *)(uintptr_t)version, sizeof bytes);
  modules_free(m);
}
END_TEST

START_TEST(test_refresh_keeps_pointers)
{
  const struct module *self = modules_find(modules, (uintptr_t)local_function);
  void *anon, *lib;

  ck_assert(!modules_refresh(modules));
  anon = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
              -1, 0);
  ck_assert(anon != MAP_FAILED);
  ck_assert(!modules_is_anon_exec(modules, (uintptr_t)anon));
  lib = dlopen("libBrokenLocale.so.1", RTLD_NOW); /* a small part of glibc */
  ck_assert_ptr_nonnull(lib);
  void *fn = dlsym(lib, "__ctype_get_mb_cur_max");
  ck_assert_ptr_nonnull(fn);
  ck_assert_ptr_null(modules_find(modules, (uintptr_t)fn));

  ck_assert(modules_refresh(modules));
  ck_assert_ptr_eq(modules_find(modules, (uintptr_t)local_function), self);
  ck_assert(modules_is_anon_exec(modules, (uintptr_t)anon));
  ck_assert(!modules_is_anon_exec(modules, (uintptr_t)local_function));
  const struct module *mod = modules_find(modules, (uintptr_t)fn);
  ck_assert_ptr_nonnull(mod);
  ck_assert_str_eq(own_name(fn, 0), "__ctype_get_mb_cur_max");

  dlclose(lib);
  munmap(anon, 4096);
  ck_assert(modules_refresh(modules));
  ck_assert_ptr_null(modules_find(modules, (uintptr_t)fn));
  ck_assert_str_eq(module_name(mod), "libBrokenLocale.so.1"); /* still there */
  ck_assert(!modules_refresh(modules));
}
END_TEST

/* Code that is loaded again and again does not use up descriptors. */
START_TEST(test_reloading_leaves_no_descriptors)
{
  int before = 0, after;

  for (int round = 0; round < 20; round++) {
    void *lib = dlopen("libBrokenLocale.so.1", RTLD_NOW);
    ck_assert_ptr_nonnull(lib);
    void *fn = dlsym(lib, "__ctype_get_mb_cur_max");
    ck_assert(modules_refresh(modules));
    ck_assert_str_eq(own_name(fn, 0), "__ctype_get_mb_cur_max");
    dlclose(lib);
    ck_assert(modules_refresh(modules));
    after = dup(0);
    close(after);
    if (round == 1)
      before = after;
  }
  ck_assert_int_le(after, before);
}
END_TEST

/* ---- names for people ---- */

static void demangles(const char *mangled, const char *want)
{
  char *got = symbols_demangle(mangled);

  if (want == NULL)
    ck_assert_ptr_null(got);
  else
    ck_assert_str_eq(got, want);
  free(got);
}

START_TEST(test_demangle)
{
  demangles("_ZN4game6Player6updateEf", "game::Player::update(float)");
  demangles("_ZSt4sortIPiEvT_S1_", "void std::sort<int*>(int*, int*)");
  demangles("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write");
  demangles("_ZN66_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop.."
            "Drop$GT$4drop17h0123456789abcdefE",
            "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop");
  demangles("_RNvC6_123foo3bar", "123foo::bar"); /* RFC 2603 */
  demangles("main", NULL);
  demangles("_Read", NULL);
  demangles("_Zebra", NULL);
  demangles("", NULL);
}
END_TEST

/* ---- programs made here ---- */

static const char program[] =
    "#include <stdio.h>\n"
    "#include <unistd.h>\n"
    "__attribute__((noinline)) static int hidden(int x)\n"
    "{ __asm__ volatile(\"\" : \"+r\"(x)); return x + 1; }\n"
    "__attribute__((noinline)) int shown(int x)\n"
    "{ __asm__ volatile(\"\" : \"+r\"(x)); return x + 2; }\n"
    "int main(void) {\n"
    "  printf(\"%p %p %p\\n\", (void *)hidden, (void *)shown, (void *)main);\n"
    "  fflush(stdout); return hidden(0) + shown(0) == 3 ? pause() : 1; }\n";

struct child {
  char dir[64];
  pid_t pid;
  uint64_t hidden, shown, main_fn;
  struct target *target;
  struct modules *modules;
};

static void run(const char *fmt, const char *dir)
{
  char cmd[1024];

  ck_assert_int_lt(snprintf(cmd, sizeof cmd, "cd '%s' && %s", dir, fmt),
                   (int)sizeof cmd);
  ck_assert_msg(system(cmd) == 0, "failed: %s", cmd);
}

static void make_dir(char *dir, size_t size)
{
  const char *tmp = getenv("TMPDIR");

  snprintf(dir, size, "%.40s/symbolsXXXXXX", tmp != NULL ? tmp : "/tmp");
  ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void prepare_with(struct child *c, const char *text,
                         const char *commands)
{
  char path[128];

  memset(c, 0, sizeof *c);
  make_dir(c->dir, sizeof c->dir);
  snprintf(path, sizeof path, "%s/p.c", c->dir);
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  fputs(text, f);
  fclose(f);
  run(commands, c->dir);
}

static void prepare(struct child *c, const char *commands)
{
  prepare_with(c, program, commands);
}

static void start(struct child *c)
{
  int fd[2];
  char path[128], line[128] = "";
  void *p[3];

  ck_assert_int_eq(pipe(fd), 0);
  snprintf(path, sizeof path, "%s/p", c->dir);
  c->pid = fork();
  if (c->pid == 0) {
    dup2(fd[1], 1);
    close(fd[0]);
    close(fd[1]);
    execl(path, path, (char *)NULL);
    _exit(127);
  }
  close(fd[1]);
  ck_assert_int_gt(read(fd[0], line, sizeof line - 1), 0);
  close(fd[0]);
  ck_assert_int_eq(sscanf(line, "%p %p %p", &p[0], &p[1], &p[2]), 3);
  c->hidden = (uintptr_t)p[0];
  c->shown = (uintptr_t)p[1];
  c->main_fn = (uintptr_t)p[2];
}

static void look(struct child *c)
{
  struct error e;

  ck_assert_msg(target_open(c->pid, &c->target, &e) == RESULT_OK, "%s", e.text);
  ck_assert_msg(modules_new(c->target, &c->modules, &e) == RESULT_OK, "%s",
                e.text);
}

static void finish(struct child *c)
{
  char cmd[128];

  modules_free(c->modules);
  target_close(c->target);
  kill(c->pid, SIGKILL);
  waitpid(c->pid, NULL, 0);
  snprintf(cmd, sizeof cmd, "rm -r '%s'", c->dir);
  ck_assert_int_eq(system(cmd), 0);
}

static void check_ranges(struct child *c)
{
  const uint64_t fn[] = {c->hidden, c->shown, c->main_fn};
  uint64_t start_addr, end;

  for (size_t i = 0; i < 3; i++) {
    const struct module *mod = modules_find(c->modules, fn[i]);
    ck_assert_ptr_nonnull(mod);
    ck_assert(module_function_range(mod, fn[i] + 2, &start_addr, &end));
    ck_assert_uint_eq(start_addr, fn[i]);
  }
}

START_TEST(test_plain_program)
{
  struct child c;

  prepare(&c, "cc -O1 -o p p.c");
  start(&c);
  look(&c);
  ck_assert_str_eq(name_at(c.modules, c.hidden), "hidden");
  ck_assert_str_eq(name_at(c.modules, c.shown + 1), "shown");
  ck_assert_str_eq(module_name(modules_find(c.modules, c.shown)), "p");
  check_ranges(&c);
  finish(&c);
}
END_TEST

START_TEST(test_static_without_header)
{
  struct child c;
  uint64_t addr, size;

  prepare(&c, "cc -O1 -static -no-pie -Wl,--no-eh-frame-hdr -o p p.c");
  start(&c);
  look(&c);
  const struct module *mod = modules_find(c.modules, c.main_fn);
  ck_assert_uint_eq(module_bias(mod), 0);
  ck_assert(!module_eh_frame_hdr(mod, &addr, &size));
  ck_assert(module_eh_frame(mod, &addr, &size));
  ck_assert_str_eq(name_at(c.modules, c.hidden), "hidden");
  ck_assert_str_eq(name_at(c.modules, module_entry(mod)), "_start");
  check_ranges(&c);
  finish(&c);
}
END_TEST

START_TEST(test_stripped)
{
  struct child c;

  prepare(&c, "cc -O1 -rdynamic -s -o p p.c");
  start(&c);
  look(&c);
  ck_assert_str_eq(name_at(c.modules, c.shown), "shown"); /* .dynsym */
  ck_assert_str_eq(name_at(c.modules, c.hidden), "(none)");
  check_ranges(&c);
  finish(&c);
}
END_TEST

#define SPLIT                                                                  \
  "cc -O1 -o p p.c && objcopy --only-keep-debug p p.debug && strip p && "      \
  "objcopy --add-gnu-debuglink=p.debug p"

START_TEST(test_debuglink)
{
  struct child c;

  prepare(&c, SPLIT);
  start(&c);
  look(&c);
  ck_assert_str_eq(name_at(c.modules, c.hidden), "hidden");
  ck_assert_str_eq(name_at(c.modules, c.shown), "shown");
  finish(&c);
}
END_TEST

START_TEST(test_debuglink_of_another_build)
{
  struct child c;

  prepare(&c, SPLIT " && printf x >>p.debug");
  start(&c);
  look(&c);
  ck_assert_str_eq(name_at(c.modules, c.hidden), "(none)");
  finish(&c);
}
END_TEST

/* The section headers' place, number and index of names in the ELF header. */
#define NO_SECTIONS                                                            \
  "dd if=/dev/zero of=p bs=1 seek=40 count=8 conv=notrunc 2>/dev/null && "     \
  "dd if=/dev/zero of=p bs=1 seek=60 count=4 conv=notrunc 2>/dev/null"

static void check_sectionless(const char *commands)
{
  struct child c;

  prepare(&c, commands);
  start(&c);
  look(&c);
  ck_assert_str_eq(name_at(c.modules, c.shown), "shown"); /* DT_GNU_HASH */
  ck_assert_str_eq(name_at(c.modules, c.hidden), "(none)");
  check_ranges(&c);
  finish(&c);
}

START_TEST(test_without_section_headers)
{
  check_sectionless("cc -O1 -rdynamic -o p p.c && " NO_SECTIONS);
  check_sectionless(
      "cc -O1 -rdynamic -Wl,--hash-style=sysv -o p p.c && " NO_SECTIONS);
}
END_TEST

/* As distributions make it: gdb manual, "MiniDebugInfo". */
#define MINI                                                                   \
  "cc -O1 -rdynamic -o p p.c && nm p --format=posix --defined-only | "         \
  "awk '$2 ~ /^[tT]$/ { print $1 }' >keep && objcopy --only-keep-debug p d "   \
  "&& objcopy -S --remove-section .comment --keep-symbols=keep d m && strip "  \
  "p && "

START_TEST(test_mini_debug_info)
{
  struct child c;

  prepare(&c, MINI "xz -k m && objcopy --add-section .gnu_debugdata=m.xz p");
  start(&c);
  look(&c);
  ck_assert_str_eq(name_at(c.modules, c.hidden), "hidden");
  ck_assert_str_eq(name_at(c.modules, c.shown), "shown"); /* .dynsym */
  finish(&c);
  /* cut off, and not an archive at all */
  prepare(&c, MINI "xz -k m && head -c 200 m.xz >x && objcopy --add-section "
                   ".gnu_debugdata=x p");
  start(&c);
  look(&c);
  ck_assert_str_eq(name_at(c.modules, c.hidden), "(none)");
  ck_assert_str_eq(name_at(c.modules, c.shown), "shown");
  finish(&c);
  prepare(&c, MINI "objcopy --add-section .gnu_debugdata=m p");
  start(&c);
  look(&c);
  ck_assert_str_eq(name_at(c.modules, c.hidden), "(none)");
  finish(&c);
}
END_TEST

/* ---- inlined functions ---- */

/* Each function's body is inlined in one place, where it leaves a label. */
static const char inlining[] =
    "#include <stdio.h>\n"
    "#include <unistd.h>\n"
    "#ifdef __cplusplus\n"
    "extern \"C\" {\n"
    "#endif\n"
    "extern char in_leaf[], in_middle[];\n"
    "#ifdef __cplusplus\n"
    "}\n"
    "#define IN static\n"
    "#else\n"
    "#define IN static inline\n"
    "#endif\n"
    "#define INLINE __attribute__((always_inline))\n"
    "#define MARK(x) __asm__ volatile(\".globl \" #x \"\\n\" #x \": nop\")\n"
    "#ifdef __cplusplus\n"
    "namespace game {\n"
    "namespace {\n"
    "INLINE inline int leaf(int x) { { MARK(in_leaf); } return x * 3; }\n"
    "}\n"
    "struct Player { int hp; INLINE int hit(int x)\n"
    "  { if (x < 100) { int y = leaf(x); hp -= y; } MARK(in_middle);\n"
    "    return hp; } };\n"
    "}\n"
    "static int middle(int x) { game::Player p = {7}; return p.hit(x); }\n"
    "#else\n"
    "INLINE IN int leaf(int x) { { MARK(in_leaf); } return x * 3; }\n"
    "INLINE IN int middle(int x)\n"
    "{ if (x < 100) { int y = leaf(x); x += y; } MARK(in_middle);\n"
    "  return x; }\n"
    "#endif\n"
    "__attribute__((noinline)) int outer(int x)\n"
    "{ __asm__ volatile(\"\" : \"+r\"(x)); return middle(x) + 1; }\n"
    "int main(int argc, char **argv) { (void)argv;\n"
    "  printf(\"%p %p %p\\n\", (void *)in_leaf, (void *)in_middle,\n"
    "         (void *)main);\n"
    "  fflush(stdout); return outer(argc) ? pause() : 1; }\n";

static size_t inlined_at(struct child *c, uint64_t addr, const char **name)
{
  const struct module *mod = modules_find(c->modules, addr);

  ck_assert_ptr_nonnull(mod);
  ck_assert_str_eq(name_at(c->modules, addr), "outer");
  return module_inlined(mod, addr, name, 8);
}

static void check_inlined(const char *commands)
{
  const char *name[8];
  struct child c;

  prepare_with(&c, inlining, commands);
  start(&c);
  look(&c);
  ck_assert_msg(inlined_at(&c, c.hidden, name) == 2, "%s", commands);
  ck_assert_str_eq(name[0], "middle");
  ck_assert_str_eq(name[1], "leaf");
  ck_assert_uint_eq(inlined_at(&c, c.shown, name), 1);
  ck_assert_str_eq(name[0], "middle");
  ck_assert_uint_eq(
      module_inlined(modules_find(c.modules, c.main_fn), c.main_fn, name, 8),
      0);
  ck_assert_uint_eq(inlined_at(&c, c.hidden, name), 2); /* once more */
  /* no room for both */
  ck_assert_uint_eq(
      module_inlined(modules_find(c.modules, c.hidden), c.hidden, name, 1), 1);
  ck_assert_str_eq(name[0], "middle");
  finish(&c);
}

START_TEST(test_inlined)
{
  check_inlined("cc -O2 -g -o p p.c");
  check_inlined("cc -O2 -g -gdwarf-4 -no-pie -o p p.c");
  check_inlined("cc -O2 -g -gz -o p p.c");
  check_inlined("cc -O2 -g -gsplit-dwarf -o p p.c");
  check_inlined("cc -O2 -g -ffunction-sections -freorder-functions -o p p.c");
}
END_TEST

START_TEST(test_inlined_by_debug_file)
{
  check_inlined("cc -O2 -g -o p p.c && objcopy --only-keep-debug "
                "--compress-debug-sections p p.debug && strip p && "
                "objcopy --add-gnu-debuglink=p.debug p");
}
END_TEST

START_TEST(test_inlined_without_aranges)
{
  if (system("clang --version >/dev/null 2>&1") == 0)
    check_inlined("clang -O2 -g -o p p.c");
  check_inlined("cc -O2 -g -o p p.c && objcopy --remove-section "
                ".debug_aranges p");
}
END_TEST

START_TEST(test_inlined_cplusplus)
{
  const char *name[8];
  struct child c;

  prepare_with(&c, inlining, "c++ -x c++ -O2 -g -o p p.c");
  start(&c);
  look(&c);
  const struct module *mod = modules_find(c.modules, c.hidden);
  ck_assert_uint_eq(module_inlined(mod, c.hidden, name, 8), 3);
  ck_assert_str_eq(name[0], "middle");
  ck_assert_str_eq(name[1], "game::Player::hit(int)");
  ck_assert_str_eq(name[2], "game::(anonymous namespace)::leaf");
  ck_assert_uint_eq(module_inlined(mod, c.shown, name, 8), 2);
  ck_assert_str_eq(name[1], "game::Player::hit(int)");
  finish(&c);
}
END_TEST

START_TEST(test_nothing_inlined_without_debug_info)
{
  const char *name[8];
  struct child c;

  prepare_with(&c, inlining, "cc -O2 -o p p.c");
  start(&c);
  look(&c);
  ck_assert(!module_has_debug_info(modules_find(c.modules, c.hidden)));
  ck_assert_uint_eq(inlined_at(&c, c.hidden, name), 0);
  finish(&c);
}
END_TEST

/* The path names another program by now: the mapped one is read. */
START_TEST(test_replaced_file)
{
  struct child c;

  prepare(&c, "cc -O1 -o p p.c");
  start(&c);
  run("rm p && cp /bin/true p", c.dir);
  look(&c);
  ck_assert_str_eq(name_at(c.modules, c.hidden), "hidden");
  ck_assert_str_eq(name_at(c.modules, c.shown), "shown");
  check_ranges(&c);
  finish(&c);
}
END_TEST

/* Truncated under our hands: no names, no signal. */
START_TEST(test_truncated_file)
{
  struct child c;
  char path[128];

  prepare(&c, "cc -O1 -fPIC -shared -o lib.so p.c -Dmain=unused && "
              "cc -O1 -o p p.c -L. -Wl,--no-as-needed -l:lib.so "
              "-Wl,-rpath,'$ORIGIN'");
  start(&c);
  look(&c);
  snprintf(path, sizeof path, "%s/lib.so", c.dir);
  ck_assert_int_eq(truncate(path, 128), 0);
  struct target_maps maps;
  ck_assert_int_eq(target_maps_read(c.target, &maps, NULL), RESULT_OK);
  size_t seen = 0;
  for (size_t i = 0; i < maps.count; i++) {
    if (strstr(maps.map[i].path, "/lib.so") != NULL && maps.map[i].x) {
      struct symbol s;
      const struct module *mod = modules_find(c.modules, maps.map[i].start);
      ck_assert_ptr_nonnull(mod);
      ck_assert(!module_symbol(mod, maps.map[i].start + 64, &s));
      seen++;
    }
  }
  target_maps_free(&maps);
  ck_assert_uint_eq(seen, 1);
  finish(&c);
}
END_TEST

/* ---- damaged files ---- */

#define FILE_MAX (64u << 10)

static uint64_t random_state = 20240502;

static uint64_t next_random(void)
{
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

/* Maps the segments of the whole file as ld.so does, from the damaged one. */
static void *map_segments(const uint8_t *whole, int fd, size_t size)
{
  const Elf64_Ehdr *eh = (const void *)whole;
  const Elf64_Phdr *ph = (const void *)(whole + eh->e_phoff);
  size_t span = (size + 65535) & ~(size_t)65535;
  char *base = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  ck_assert(base != MAP_FAILED);
  for (size_t i = 0; i < eh->e_phnum; i++) {
    uint64_t skew = ph[i].p_vaddr & 4095;
    int prot = PROT_READ | ((ph[i].p_flags & PF_X) != 0 ? PROT_EXEC : 0);
    if (ph[i].p_type == PT_LOAD)
      ck_assert(mmap(base + ph[i].p_vaddr - skew, ph[i].p_filesz + skew, prot,
                     MAP_PRIVATE | MAP_FIXED, fd,
                     (off_t)(ph[i].p_offset - skew)) != MAP_FAILED);
  }
  return base;
}

static void damage(uint8_t *bytes, size_t size)
{
  static const uint64_t odd[] = {0, 1, 0x7fffffff, 0xffffffff, UINT64_MAX};
  /* headers and tables are small: half of the damage goes there */
  for (int k = 0; k < 12; k++) {
    size_t within = k % 2 == 0 ? 1024 : size - 8;
    uint64_t v = k % 3 == 0 ? odd[next_random() % 5] : next_random();
    memcpy(bytes + next_random() % within, &v, 1u << next_random() % 4);
  }
}

START_TEST(test_damaged_files)
{
  static uint8_t whole[FILE_MAX], bytes[FILE_MAX];
  void *lib = dlopen("libBrokenLocale.so.1", RTLD_NOW);
  char dir[64], path[96];
  Dl_info info;
  uint64_t found = 0;

  ck_assert(dladdr(dlsym(lib, "__ctype_get_mb_cur_max"), &info) != 0);
  FILE *f = fopen(info.dli_fname, "r");
  ck_assert_ptr_nonnull(f);
  size_t size = fread(whole, 1, sizeof whole, f);
  fclose(f);
  ck_assert_uint_lt(size, sizeof whole);
  make_dir(dir, sizeof dir);
  snprintf(path, sizeof path, "%s/damaged", dir);
  for (int round = 0; round < 400; round++) {
    memcpy(bytes, whole, size);
    damage(bytes + (round % 2 == 0 ? 0 : 64), size - 64);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fwrite(bytes, 1, size, f);
    fclose(f);
    int fd = open(path, O_RDONLY);
    char *base = map_segments(whole, fd, size);
    close(fd);
    modules_refresh(modules);
    for (size_t at = 0; at < size + 4096; at += 7) {
      uint64_t addr = (uint64_t)(uintptr_t)base + at, start, end;
      const struct module *mod = modules_find(modules, addr);
      struct symbol sym;
      if (mod != NULL && module_symbol(mod, addr, &sym))
        found += strlen(sym.name) > 0;
      if (mod != NULL && module_function_range(mod, addr, &start, &end))
        ck_assert(addr >= start && addr < end);
    }
    munmap(base, (size + 65535) & ~(size_t)65535);
    unlink(path);
  }
  ck_assert_uint_gt(found, 0);
  ck_assert_int_eq(rmdir(dir), 0);
  dlclose(lib);
}
END_TEST

/* Damage in sections that are not loaded: debug information and the rest. */
static void damage_from(uint8_t *bytes, size_t from, size_t size)
{
  static const uint64_t odd[] = {0, 1, 0x7f, 0xff, 0x7fffffff, UINT64_MAX};

  for (int k = 0; k < 24; k++) {
    uint64_t v = k % 3 == 0 ? odd[next_random() % 6] : next_random();
    memcpy(bytes + from + next_random() % (size - 8 - from), &v,
           1u << next_random() % 4);
  }
}

static uint64_t ask_all(const char *base, size_t size)
{
  const char *name[8];
  uint64_t found = 0;

  for (size_t at = 0; at < size; at += 3) {
    uint64_t addr = (uint64_t)(uintptr_t)base + at;
    const struct module *mod = modules_find(modules, addr);
    struct symbol sym;
    size_t n = mod != NULL ? module_inlined(mod, addr, name, 8) : 0;
    ck_assert_uint_le(n, 8);
    for (size_t i = 0; i < n; i++)
      found += strlen(name[i]) > 0;
    if (mod != NULL && module_symbol(mod, addr, &sym))
      found += strlen(sym.name) > 0;
  }
  return found;
}

static void ask_damaged(const char *path, const uint8_t *whole, size_t size,
                        uint64_t *found)
{
  static uint8_t bytes[FILE_MAX];
  const Elf64_Ehdr *eh = (const void *)whole;
  const Elf64_Phdr *ph = (const void *)(whole + eh->e_phoff);
  size_t loaded = 0;

  for (size_t i = 0; i < eh->e_phnum; i++) {
    if (ph[i].p_type == PT_LOAD && ph[i].p_offset + ph[i].p_filesz > loaded)
      loaded = ph[i].p_offset + ph[i].p_filesz;
  }
  memcpy(bytes, whole, size);
  damage_from(bytes, loaded, size);
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  fwrite(bytes, 1, size, f);
  fclose(f);
  int fd = open(path, O_RDONLY);
  char *base = map_segments(whole, fd, size);
  close(fd);
  modules_refresh(modules);
  *found += ask_all(base, loaded);
  munmap(base, (size + 65535) & ~(size_t)65535);
  unlink(path);
}

static void damage_program(const char *commands)
{
  static uint8_t whole[FILE_MAX];
  struct child c;
  char path[128];
  uint64_t found = 0;

  prepare_with(&c, inlining, commands);
  snprintf(path, sizeof path, "%s/p", c.dir);
  FILE *f = fopen(path, "r");
  ck_assert_ptr_nonnull(f);
  size_t size = fread(whole, 1, sizeof whole, f);
  fclose(f);
  ck_assert_uint_lt(size, sizeof whole);
  for (int round = 0; round < 150; round++)
    ask_damaged(path, whole, size, &found);
  ck_assert_uint_gt(found, 0);
  snprintf(path, sizeof path, "rm -r '%s'", c.dir);
  ck_assert_int_eq(system(path), 0);
}

START_TEST(test_damaged_debug_info)
{
  damage_program("cc -O2 -g -fPIC -shared -Dmain=unused -o p p.c");
  damage_program("cc -O2 -g -gdwarf-4 -fPIC -shared -Dmain=unused -o p p.c");
  damage_program("cc -O2 -g -gz -fPIC -shared -Dmain=unused -o p p.c");
  damage_program("cc -O2 -fPIC -shared -Dmain=unused -o m p.c && xz -k m && "
                 "strip -o p m && objcopy --add-section .gnu_debugdata=m.xz p");
}
END_TEST

int main(void)
{
  Suite *s = suite_create("symbols");
  TCase *self = tcase_create("self");
  TCase *made = tcase_create("programs");

  tcase_add_checked_fixture(self, open_self, close_self);
  tcase_add_test(self, test_own_functions);
  tcase_add_test(self, test_size_is_a_limit);
  tcase_add_test(self, test_best_name_wins);
  tcase_add_test(self, test_library_functions);
  tcase_add_test(self, test_exports);
  tcase_add_test(self, test_function_range);
  tcase_add_test(self, test_read_image);
  tcase_add_test(self, test_entry);
  tcase_add_test(self, test_vdso_from_memory);
  tcase_add_test(self, test_library_from_memory);
  tcase_add_test(self, test_refresh_keeps_pointers);
  tcase_add_test(self, test_reloading_leaves_no_descriptors);
  tcase_add_test(self, test_demangle);
  tcase_add_test(self, test_damaged_files);
  tcase_add_test(self, test_damaged_debug_info);
  tcase_set_timeout(self, 60);
  suite_add_tcase(s, self);
  tcase_set_timeout(made, 60);
  tcase_add_test(made, test_plain_program);
  tcase_add_test(made, test_static_without_header);
  tcase_add_test(made, test_stripped);
  tcase_add_test(made, test_debuglink);
  tcase_add_test(made, test_debuglink_of_another_build);
  tcase_add_test(made, test_without_section_headers);
  tcase_add_test(made, test_mini_debug_info);
  tcase_add_test(made, test_inlined);
  tcase_add_test(made, test_inlined_by_debug_file);
  tcase_add_test(made, test_inlined_without_aranges);
  tcase_add_test(made, test_inlined_cplusplus);
  tcase_add_test(made, test_nothing_inlined_without_debug_info);
  tcase_add_test(made, test_replaced_file);
  tcase_add_test(made, test_truncated_file);
  suite_add_tcase(s, made);
  return suite_run(s);
}
