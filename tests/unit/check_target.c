/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "target/target.h"
#include "tecs/abi.h"

/* ---- a child that plays the process looked at ---- */

struct child {
  pid_t pid;
  int up; /* what the child tells */
};

/* body runs in the child, ends its set-up with ready() and then waits. */
static int to_parent;

static void ready(uint64_t word)
{
  if (write(to_parent, &word, sizeof word) != sizeof word)
    _exit(9);
}

static void wait_forever(void)
{
  for (;;)
    pause();
}

static struct child start(void (*body)(void), uint64_t *word)
{
  struct child c;
  int p[2];
  uint64_t got = 0;
  ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
  c.pid = fork();
  ck_assert_int_ge(c.pid, 0);
  if (c.pid == 0) {
    alarm(30); /* never outlives a failed test by much */
    to_parent = p[1];
    body();
    _exit(0);
  }
  close(p[1]);
  c.up = p[0];
  ck_assert_int_eq(read(c.up, &got, sizeof got), sizeof got);
  if (word)
    *word = got;
  return c;
}

static void stop(struct child c)
{
  kill(c.pid, SIGKILL);
  waitpid(c.pid, NULL, 0);
  close(c.up);
}

static struct target *open_ok(pid_t pid)
{
  struct target *t = NULL;
  struct error e = {0};
  ck_assert_msg(target_open(pid, &t, &e) == RESULT_OK, "%s", e.text);
  return t;
}

static char *temp_dir(void)
{
  char *dir = strdup("/tmp/check_target.XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(dir));
  return dir;
}

static void write_file(const char *dir, const char *name, const void *data,
                       size_t n, mode_t mode)
{
  char path[256];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(write(fd, data, n), (ssize_t)n);
  close(fd);
}

static void remove_file(const char *dir, const char *name)
{
  char path[256];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  ck_assert_int_eq(remove(path), 0);
}

/* ---- opening ---- */

START_TEST(test_open_self)
{
  struct target *t = open_ok(getpid());
  char comm[16];
  ck_assert_int_eq(target_pid(t), getpid());
  ck_assert(target_alive(t));
  ck_assert_uint_gt(target_start_time(t), 0);
  ck_assert_int_eq(target_word_bits(t), sizeof(void *) * 8);
  target_comm(t, comm);
  ck_assert_str_eq(comm, program_invocation_short_name);
  target_close(t);
}
END_TEST

static void body_wait(void)
{
  ready(0);
  wait_forever();
}

START_TEST(test_open_gone)
{
  struct child c = start(body_wait, NULL);
  struct target *t, *before = open_ok(c.pid);
  struct error e;
  char number[16];
  ck_assert(target_alive(before));
  stop(c);
  ck_assert(!target_alive(before));
  ck_assert_int_eq(target_open(c.pid, &t, &e), RESULT_GONE);
  snprintf(number, sizeof number, "%d", (int)c.pid);
  ck_assert_ptr_nonnull(strstr(e.text, number));
  ck_assert_ptr_null(t);
  ck_assert_int_eq(target_open(0, &t, &e), RESULT_GONE);
  ck_assert_int_eq(target_open(-1, &t, NULL), RESULT_GONE);
  target_close(before);
}
END_TEST

START_TEST(test_open_zombie)
{
  struct child c = start(body_wait, NULL);
  struct target *t;
  struct error e;
  siginfo_t si;
  struct target *before = open_ok(c.pid);
  kill(c.pid, SIGKILL);
  waitid(P_PID, (id_t)c.pid, &si, WEXITED | WNOWAIT);
  ck_assert(!target_alive(before));
  ck_assert_int_eq(target_open(c.pid, &t, &e), RESULT_GONE);
  ck_assert_ptr_nonnull(strstr(e.text, "zombie"));
  target_close(before);
  stop(c);
}
END_TEST

static void *sleeper(void *arg)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGURG);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  ready((uint64_t)syscall(SYS_gettid));
  wait_forever();
  return arg;
}

static void body_thread(void)
{
  pthread_t th;
  pthread_create(&th, NULL, sleeper, NULL);
  wait_forever();
}

START_TEST(test_open_thread_id)
{
  uint64_t tid;
  struct target *t;
  struct error e;
  char cure[64];
  struct child c = start(body_thread, &tid);
  ck_assert_int_eq(target_open((pid_t)tid, &t, &e), RESULT_GONE);
  snprintf(cure, sizeof cure, "tecs-attach %d", (int)c.pid);
  ck_assert_ptr_nonnull(strstr(e.text, cure));
  stop(c);
}
END_TEST

/* The question is asked by a child with another uid. */
static void body_other_user(void)
{
  struct target *t;
  struct error e;
  pid_t parent = getppid();
  if (setgid(12345) != 0 || setuid(12345) != 0)
    _exit(9);
  bool right = target_open(parent, &t, &e) == RESULT_PERM &&
               strstr(e.text, "uid 0") && strstr(e.text, "uid 12345") &&
               strstr(e.text, "CAP_SYS_PTRACE");
  ready(right);
  wait_forever();
}

START_TEST(test_open_other_user)
{
  uint64_t right;
  if (geteuid() != 0)
    return; /* nobody else to be */
  struct child c = start(body_other_user, &right);
  ck_assert_uint_eq(right, 1);
  stop(c);
}
END_TEST

/* ---- threads ---- */

static bool has_tid(const struct target_tids *tids, pid_t tid)
{
  for (size_t i = 0; i < tids->count; i++)
    if (tids->tid[i] == tid)
      return true;
  return false;
}

/* A name may hold a line break; only the file's own last one goes. */
START_TEST(test_comm_with_line_break)
{
  char before[16], comm[16];
  prctl(PR_GET_NAME, before);
  prctl(PR_SET_NAME, "ab\ncd");
  struct target *t = open_ok(getpid());
  target_comm(t, comm);
  ck_assert_str_eq(comm, "ab\ncd");
  target_thread_comm(t, getpid(), comm);
  ck_assert_str_eq(comm, "ab\ncd");
  target_close(t);
  prctl(PR_SET_NAME, before);
}
END_TEST

START_TEST(test_threads)
{
  uint64_t tid;
  struct child c = start(body_thread, &tid);
  struct target *t = open_ok(c.pid);
  struct target_tids tids = {0};
  ck_assert_int_eq(target_threads(t, &tids), RESULT_OK);
  ck_assert_uint_eq(tids.count, 2);
  ck_assert(has_tid(&tids, c.pid));
  ck_assert(has_tid(&tids, (pid_t)tid));
  ck_assert(target_thread_blocks(t, (pid_t)tid, SIGURG));
  ck_assert(!target_thread_blocks(t, (pid_t)tid, SIGUSR1));
  /* pthread_create blocks everything for a moment */
  for (int i = 0; i < 1000 && target_thread_blocks(t, c.pid, SIGURG); i++)
    usleep(1000);
  ck_assert(!target_thread_blocks(t, c.pid, SIGURG));
  ck_assert_int_eq(target_thread_ns_tid(t, (pid_t)tid), (pid_t)tid);
  ck_assert_int_eq(target_thread_state(t, getpid()), 0);
  target_tids_free(&tids);
  target_close(t);
  stop(c);
}
END_TEST

static void body_growing(void)
{
  pthread_t th;
  ready(0);
  usleep(200000);
  pthread_create(&th, NULL, sleeper, NULL);
  wait_forever();
}

START_TEST(test_status_and_auxv)
{
  char text[64];
  uint64_t number = 0;
  struct target *t = open_ok(getpid());
  pid_t me = getpid();
  ck_assert(target_thread_status(t, me, "Tgid", text, sizeof text));
  ck_assert_int_eq(atoi(text), me);
  ck_assert_ptr_null(strchr(text, '\n'));
  ck_assert(target_thread_status(t, me, "Uid", text, 4)); /* cut */
  ck_assert_uint_le(strlen(text), 3);
  ck_assert(!target_thread_status(t, me, "Tg", text, sizeof text));
  ck_assert(!target_thread_status(t, 1 << 30, "Tgid", text, sizeof text));
  ck_assert(target_thread_number(t, me, "PPid", 10, &number));
  ck_assert_uint_eq(number, (uint64_t)getppid());
  ck_assert(!target_thread_number(t, me, "State", 10, &number));
  ck_assert(target_auxv(t, AT_ENTRY, &number));
  ck_assert_uint_eq(number, getauxval(AT_ENTRY));
  ck_assert(target_auxv(t, AT_SECURE, &number));
  ck_assert_uint_eq(number, 0);
  ck_assert(!target_auxv(t, 9999, &number));
  target_close(t);
}
END_TEST

START_TEST(test_thread_mark)
{
  uint64_t word;
  struct child c = start(body_growing, NULL);
  struct target *t = open_ok(c.pid);
  unsigned long before = target_thread_mark(t);
  ck_assert_uint_eq(before, target_thread_mark(t));
  ck_assert_int_eq(read(c.up, &word, sizeof word), sizeof word);
  ck_assert_uint_ne(before, target_thread_mark(t));
  target_close(t);
  stop(c);
}
END_TEST

static uint64_t magic_word = UINT64_C(0x1122334455667788);

static void *survivor(void *arg)
{
  char path[64], text[256];
  /* Until the main thread is seen as a zombie. */
  snprintf(path, sizeof path, "/proc/%d/stat", (int)getpid());
  for (;;) {
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *end = strrchr(text, ')');
    if (end && end[2] == 'Z')
      break;
    usleep(1000);
  }
  ready((uint64_t)(uintptr_t)&magic_word);
  wait_forever();
  return arg;
}

static void body_leader_ends(void)
{
  pthread_t th;
  pthread_create(&th, NULL, survivor, NULL);
  pthread_exit(NULL);
}

START_TEST(test_leader_gone)
{
  uint64_t addr, got = 0;
  struct child c = start(body_leader_ends, &addr);
  struct target *t = open_ok(c.pid);
  struct target_maps maps;
  struct error e;
  ck_assert(target_alive(t));
  ck_assert_msg(!target_maps_read(t, &maps, &e), "%s", e.text);
  ck_assert_uint_gt(maps.count, 3);
  ck_assert_int_eq(target_read(t, addr, &got, sizeof got), RESULT_OK);
  ck_assert_uint_eq(got, magic_word);
  ck_assert_int_eq(target_word_bits(t), 64);
  target_maps_free(&maps);
  target_close(t);
  stop(c);
}
END_TEST

/* ---- memory and maps ---- */

START_TEST(test_read)
{
  struct child c = start(body_wait, NULL);
  struct target *t = open_ok(c.pid);
  uint64_t got = 0, addr = (uint64_t)(uintptr_t)&magic_word;
  char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert_int_eq(target_read(t, addr, &got, sizeof got), RESULT_OK);
  ck_assert_uint_eq(got, magic_word);
  ck_assert_int_ne(target_read(t, 8, &got, sizeof got), RESULT_OK);
  ck_assert_int_ne(target_read(t, UINT64_MAX - 3, &got, sizeof got), RESULT_OK);
  ck_assert_int_eq(target_read(t, 8, &got, 0), RESULT_OK);
  target_close(t);
  /* A read that begins well and ends in nothing is no success. */
  t = open_ok(getpid());
  munmap(edge + 4096, 4096);
  char part[16];
  addr = (uint64_t)(uintptr_t)edge + 4096 - 8;
  ck_assert_int_ne(target_read(t, addr, part, sizeof part), RESULT_OK);
  ck_assert_int_eq(target_read(t, addr, part, 8), RESULT_OK);
  munmap(edge, 4096);
  target_close(t);
  stop(c);
}
END_TEST

START_TEST(test_maps_text)
{
  static const char text[] =
      "00400000-00401000 r-xp 00002000 fe:01 1234   /opt/a game/run\n"
      "00401000-00402000 rw-p 00000000 00:00 0 \n"
      "7f0000000000-7f0000001000 r--p 00001000 08:11 77 /x/new\\012line\n"
      "7f0000001000-7f0000002000 rw-s 00000000 00:01 9 /memfd:a (deleted)\n"
      "not a mapping\n"
      "7fff00000000-7fff00001000 r-xp 00000000 00:00 0 [vdso]\n"
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";
  char *dir = temp_dir();
  struct target *t;
  struct target_maps m;
  struct error e;
  write_file(dir, "maps", text, sizeof text - 1, 0600);
  ck_assert_int_eq(target_open_recorded(dir, &t, &e), RESULT_OK);
  ck_assert_int_eq(target_maps_read(t, &m, &e), RESULT_OK);
  ck_assert_uint_eq(m.count, 6);
  ck_assert_uint_eq(m.map[0].start, 0x400000);
  ck_assert_uint_eq(m.map[0].end, 0x401000);
  ck_assert_uint_eq(m.map[0].offset, 0x2000);
  ck_assert_uint_eq(m.map[0].inode, 1234);
  ck_assert_uint_eq(m.map[0].dev_major, 0xfe);
  ck_assert_uint_eq(m.map[0].dev_minor, 1);
  ck_assert(m.map[0].r && !m.map[0].w && m.map[0].x && !m.map[0].deleted);
  ck_assert_str_eq(m.map[0].path, "/opt/a game/run");
  ck_assert_str_eq(m.map[1].path, "");
  ck_assert(m.map[1].r && m.map[1].w && !m.map[1].x);
  ck_assert_str_eq(m.map[2].path, "/x/new\nline");
  ck_assert_str_eq(m.map[3].path, "/memfd:a");
  ck_assert(m.map[3].deleted);
  ck_assert_str_eq(m.map[4].path, "[vdso]");
  ck_assert_uint_eq(m.map[5].start, 0xffffffffff600000);
  ck_assert(!m.map[5].r);
  target_maps_free(&m);
  ck_assert(!target_alive(t));
  ck_assert_int_eq(target_read(t, 0x400000, dir, 1), RESULT_GONE);
  target_close(t);
  remove_file(dir, "maps");
  rmdir(dir);
  free(dir);
}
END_TEST

static char *exec_path;

static void body_exec(void)
{
  ready(0);
  close(to_parent);
  execl(exec_path, exec_path, "30", (char *)NULL);
  _exit(9);
}

static bool maps_find_exec(struct target *t, const char *path,
                           struct target_maps *maps, struct target_map *out)
{
  if (target_maps_read(t, maps, NULL) != RESULT_OK)
    return false;
  for (size_t i = 0; i < maps->count; i++)
    if (maps->map[i].x && strcmp(maps->map[i].path, path) == 0) {
      *out = maps->map[i];
      return true;
    }
  target_maps_free(maps);
  return false;
}

/* Waits for the exec to have happened. */
static struct target_map wait_exec(struct target *t, const char *path,
                                   struct target_maps *maps)
{
  struct target_map m;
  for (int i = 0; i < 2000; i++) {
    if (maps_find_exec(t, path, maps, &m))
      return m;
    usleep(1000);
  }
  ck_abort_msg("%s is not mapped", path);
}

START_TEST(test_deleted_file)
{
  char *dir = temp_dir(), path[256], head[64] = {0};
  char *copy = NULL;
  struct stat st;
  int in = open("/bin/sleep", O_RDONLY | O_CLOEXEC);
  ck_assert_int_ge(in, 0);
  fstat(in, &st);
  copy = malloc((size_t)st.st_size);
  ck_assert_int_eq(read(in, copy, (size_t)st.st_size), st.st_size);
  close(in);
  write_file(dir, "game", copy, (size_t)st.st_size, 0700);
  snprintf(path, sizeof path, "%s/game", dir);
  exec_path = path;
  struct child c = start(body_exec, NULL);
  struct target *t = open_ok(c.pid);
  struct target_maps maps;
  struct target_map m = wait_exec(t, path, &maps);
  ck_assert(!m.deleted);
  int fd = target_map_open(t, &m);
  ck_assert_int_ge(fd, 0);
  close(fd);
  target_maps_free(&maps);

  remove_file(dir, "game");
  write_file(dir, "game", "another program", 15, 0700);
  m = wait_exec(t, path, &maps);
  ck_assert(m.deleted);
  fd = target_map_open(t, &m);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(pread(fd, head, sizeof head, 0), sizeof head);
  ck_assert_mem_eq(head, copy, sizeof head);
  ck_assert_int_eq(target_word_bits(t), 64);
  ck_assert_int_eq(target_has_luajit(t), TARGET_LUAJIT_NO);
  close(fd);

  /* A mapping that no file answers to. */
  m.inode ^= UINT64_C(1) << 40;
  ck_assert_int_eq(target_map_open(t, &m), -1);
  target_maps_free(&maps);
  target_close(t);
  stop(c);
  remove_file(dir, "game");
  rmdir(dir);
  free(dir);
  free(copy);
}
END_TEST

/* A program with the version text across a boundary of any small buffer. */
START_TEST(test_luajit_static)
{
  static const char maps[] = "00400000-00500000 r-xp 00000000 fe:01 7 /game\n";
  char *dir = temp_dir(), root[256], version[TARGET_LUAJIT_VERSION];
  size_t n = 400000;
  char *bytes = calloc(1, n);
  struct target *t;
  memcpy(bytes + 131072 - 4, "LuaJIT 2.1.99", 13);
  snprintf(root, sizeof root, "%s/root", dir);
  ck_assert_int_eq(mkdir(root, 0700), 0);
  write_file(dir, "maps", maps, sizeof maps - 1, 0600);
  write_file(root, "game", bytes, n, 0600);
  ck_assert_int_eq(target_open_recorded(dir, &t, NULL), RESULT_OK);
  ck_assert_int_eq(target_has_luajit(t), TARGET_LUAJIT_STATIC);
  target_luajit_version(t, version);
  ck_assert_str_eq(version, "LuaJIT 2.1.99");
  remove_file(root, "game");
  memset(bytes, 0, n);
  write_file(root, "game", bytes, n, 0600);
  ck_assert_int_eq(target_has_luajit(t), TARGET_LUAJIT_NO);
  target_luajit_version(t, version);
  ck_assert_str_eq(version, "");
  target_close(t);
  remove_file(root, "game");
  remove_file(dir, "maps");
  rmdir(root);
  rmdir(dir);
  free(dir);
  free(bytes);
}
END_TEST

/* ---- relatives ---- */

static void body_family(void)
{
  pid_t child = fork();
  if (child == 0) {
    alarm(30);
    pid_t grandchild = fork();
    if (grandchild == 0) {
      alarm(30);
      wait_forever();
    }
    ready((uint64_t)grandchild);
    wait_forever();
  }
  ready((uint64_t)child);
  wait_forever();
}

START_TEST(test_children)
{
  uint64_t a, b;
  struct child c = start(body_family, &a);
  struct target *t = open_ok(c.pid);
  struct target_tids tids = {0};
  ck_assert_int_eq(read(c.up, &b, sizeof b), sizeof b);
  ck_assert_int_eq(target_children(t, &tids), RESULT_OK);
  ck_assert_uint_eq(tids.count, 2);
  struct target *first = open_ok(tids.tid[0]);
  struct target_tids below = {0};
  ck_assert_int_eq(target_children(first, &below), RESULT_OK);
  ck_assert_uint_eq(below.count, 1);
  ck_assert_int_eq(below.tid[0], tids.tid[1]);
  ck_assert(has_tid(&tids, (pid_t)a) && has_tid(&tids, (pid_t)b));
  target_close(first);
  target_close(t);
  kill(tids.tid[0], SIGKILL);
  kill(tids.tid[1], SIGKILL);
  target_tids_free(&tids);
  target_tids_free(&below);
  stop(c);
}
END_TEST

static void body_vfork(void)
{
  ready((uint64_t)getpid());
  pid_t pid = vfork();
  if (pid == 0) {
    for (;;) /* as one that hangs before its exec */
      syscall(SYS_pause);
  }
  wait_forever();
}

START_TEST(test_relatives)
{
  uint64_t a, b;
  pid_t before = target_newest_pid();
  ck_assert_int_gt(before, 0);
  struct child c = start(body_family, &a);
  ck_assert_int_ne(target_newest_pid(), before);
  ck_assert_int_eq(read(c.up, &b, sizeof b), sizeof b);
  struct target_tids all = {0};
  ck_assert_int_eq(target_processes(&all), RESULT_OK);
  ck_assert(has_tid(&all, c.pid) && has_tid(&all, getpid()) &&
            has_tid(&all, (pid_t)a));
  target_tids_free(&all);
  ck_assert_int_eq(target_parent(c.pid), getpid());
  ck_assert_int_eq(target_parent(INT32_MAX), 0);
  ck_assert(!target_shares_memory(c.pid, getpid())); /* forked */
  kill((pid_t)a, SIGKILL);
  kill((pid_t)b, SIGKILL);
  stop(c);
}
END_TEST

START_TEST(test_vforked)
{
  uint64_t pid;
  struct child c = start(body_vfork, &pid);
  struct target *t = open_ok(c.pid);
  struct target_tids kids = {0};
  for (int i = 0; i < 1000 && !kids.count; i++) {
    usleep(1000);
    ck_assert_int_eq(target_children(t, &kids), RESULT_OK);
  }
  ck_assert_uint_eq(kids.count, 1);
  ck_assert(target_shares_memory(kids.tid[0], c.pid));
  kill(kids.tid[0], SIGKILL);
  target_tids_free(&kids);
  target_close(t);
  stop(c);
}
END_TEST

START_TEST(test_environment)
{
  pid_t pid = fork();
  if (pid == 0)
    execle("/bin/sleep", "sleep", "20", NULL,
           (char *[]){"A=1", "TECS_FOLLOW=12.3f", "Z=", NULL});
  bool found = false;
  for (int i = 0; i < 1000 && !found; i++, usleep(1000))
    found = target_started_with(pid, "TECS_FOLLOW=12.3f");
  ck_assert(found);
  ck_assert(target_started_with(pid, "Z="));
  ck_assert(!target_started_with(pid, "TECS_FOLLOW=12.3"));
  ck_assert(!target_started_with(pid, "ECS_FOLLOW=12.3f"));
  ck_assert(!target_started_with(pid, "TECS_FOLLOW=12.3ff"));
  ck_assert(!target_started_with(INT32_MAX, "Z="));
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}
END_TEST

/* ---- the segment ---- */

static int make_segment(pid_t pid)
{
  struct tecs_header h = {.pid = (uint32_t)pid};
  int fd = memfd_create(TECS_SEGMENT_NAME, MFD_CLOEXEC);
  if (fd < 0 || write(fd, &h, sizeof h) != sizeof h ||
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
    _exit(9);
  return fd;
}

static void body_segment(void)
{
  make_segment(getpid());
  ready(0);
  wait_forever();
}

START_TEST(test_segment)
{
  struct child c = start(body_segment, NULL);
  struct target *t = open_ok(c.pid);
  struct tecs_header h;
  struct error e;
  int fd = -1;
  ck_assert_msg(!target_segment_open(t, &fd, &e), "%s", e.text);
  ck_assert_int_eq(pread(fd, &h, sizeof h, 0), sizeof h);
  ck_assert_uint_eq(h.pid, (uint32_t)c.pid);
  ck_assert_int_eq(pwrite(fd, &h, sizeof h, 0), sizeof h);
  close(fd);
  target_close(t);
  stop(c);
}
END_TEST

static void body_closed_descriptor(void)
{
  close(make_segment(getpid()));
  ready(0);
  wait_forever();
}

START_TEST(test_segment_closed_descriptor)
{
  struct child c = start(body_closed_descriptor, NULL);
  struct target *t = open_ok(c.pid);
  struct error e;
  int fd = -1;
  enum result r = target_segment_open(t, &fd, &e);
  if (geteuid() == 0) {
    ck_assert_msg(r == RESULT_OK, "%s", e.text);
    close(fd);
  } else {
    ck_assert_int_eq(r, RESULT_PERM);
    ck_assert_int_eq(fd, -1);
  }
  target_close(t);
  stop(c);
}
END_TEST

/* The parent's descriptor, and no mapping of it. */
static void body_inherited(void)
{
  struct tecs_header h = {.pid = (uint32_t)getpid()};
  int fd = memfd_create(TECS_SEGMENT_NAME, 0);
  if (write(fd, &h, sizeof h) != sizeof h)
    _exit(9);
  ready(0);
  wait_forever();
}

START_TEST(test_segment_inherited_descriptor)
{
  struct child c = start(body_inherited, NULL);
  struct target *t = open_ok(c.pid);
  struct error e;
  int fd = 0;
  ck_assert_int_eq(target_segment_open(t, &fd, &e), RESULT_NOAGENT);
  ck_assert_int_eq(fd, -1);
  ck_assert_ptr_nonnull(strstr(e.text, "LD_PRELOAD=libtecs-agent.so"));
  target_close(t);
  stop(c);
}
END_TEST

/* Both are mapped: a fork without exec that made its own. */
static void body_two_segments(void)
{
  make_segment(getppid());
  make_segment(getpid());
  make_segment(getppid());
  ready(0);
  wait_forever();
}

START_TEST(test_segment_own_first)
{
  struct child c = start(body_two_segments, NULL);
  struct target *t = open_ok(c.pid);
  struct tecs_header h;
  struct error e;
  int fd = -1;
  ck_assert_msg(!target_segment_open(t, &fd, &e), "%s", e.text);
  ck_assert_int_eq(pread(fd, &h, sizeof h, 0), sizeof h);
  ck_assert_uint_eq(h.pid, (uint32_t)c.pid);
  close(fd);
  target_close(t);
  stop(c);
}
END_TEST

static Suite *target_suite(void)
{
  Suite *s = suite_create("target");
  TCase *tc = tcase_create("target");
  tcase_set_timeout(tc, 20);
  tcase_add_test(tc, test_open_self);
  tcase_add_test(tc, test_open_gone);
  tcase_add_test(tc, test_open_zombie);
  tcase_add_test(tc, test_open_thread_id);
  tcase_add_test(tc, test_open_other_user);
  tcase_add_test(tc, test_comm_with_line_break);
  tcase_add_test(tc, test_threads);
  tcase_add_test(tc, test_status_and_auxv);
  tcase_add_test(tc, test_thread_mark);
  tcase_add_test(tc, test_leader_gone);
  tcase_add_test(tc, test_read);
  tcase_add_test(tc, test_maps_text);
  tcase_add_test(tc, test_deleted_file);
  tcase_add_test(tc, test_luajit_static);
  tcase_add_test(tc, test_children);
  tcase_add_test(tc, test_relatives);
  tcase_add_test(tc, test_vforked);
  tcase_add_test(tc, test_environment);
  tcase_add_test(tc, test_segment);
  tcase_add_test(tc, test_segment_closed_descriptor);
  tcase_add_test(tc, test_segment_inherited_descriptor);
  tcase_add_test(tc, test_segment_own_first);
  suite_add_tcase(s, tc);
  return s;
}

int main(void)
{
  return suite_run(target_suite());
}
