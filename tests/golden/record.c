/* SPDX-License-Identifier: MIT
 *
 * record [-o] DIR PROGRAM [ARGUMENT...]: plays a program that announces its
 * stages (host.c) under the agent and makes a recording of it in DIR; -o:
 * without an agent, sampled from outside.
 *
 * The program starts with nothing in its environment but the agent, called
 * ./libtecs-agent.so: nothing of the place where it was recorded stands on its
 * stack.  One sample is asked for at a time and waited for.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "outside.h"
#include "recording.h"
#include "shm/shm.h"
#include "target/target.h"

/* CPU time from a line to the place that it announces, far more than needed:
 * a thread that waits for a CPU meanwhile must not be sampled on its way. */
#define SETTLE_NS 10000000u
#define STAGE_MAX_S 10 /* a scene that does not go on ends the recorder */
#define STACK_MAX 65536u
#define DEPTH_MAX 4096u

struct recorder {
  pid_t pid;
  FILE *says; /* the program's stdout */
  struct target *target;
  struct shm shm;
  bool outside;
  struct from_outside *from_outside;
  FILE *stream, *truth;
  pid_t tid[TECS_SLOTS];
  unsigned threads;
  struct tecs_vm vm[TECS_VMS];
  unsigned vms;
  char *maps;
};

__attribute__((noreturn, format(printf, 1, 2))) static void
die(const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  fputs("record: ", stderr);
  vfprintf(stderr, format, ap);
  fputc('\n', stderr);
  va_end(ap);
  exit(1);
}

static void pause_ms(long ms)
{
  struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&ts, NULL);
}

/* ---- the program ---- */

/* CPU time of a thread; 0: the kernel does not say. */
static uint64_t run_time(const struct recorder *r, pid_t tid)
{
  char path[64];
  unsigned long ns = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)r->pid,
           (int)tid);
  FILE *f = fopen(path, "r");
  if (f && fscanf(f, "%lu", &ns) != 1)
    ns = 0;
  if (f)
    fclose(f);
  return ns;
}

static void settle(const struct recorder *r, pid_t tid)
{
  uint64_t start = run_time(r, tid), now = start;
  for (int i = 0; now - start < SETTLE_NS && (start || i < 25); i++) {
    pause_ms(2);
    now = run_time(r, tid);
  }
}

static void start(struct recorder *r, char **argv)
{
  char *env[] = {r->outside ? NULL : "LD_PRELOAD=./libtecs-agent.so", NULL};
  int fd[2];
  if (pipe(fd) || (r->pid = fork()) < 0)
    die("cannot start %s", argv[0]);
  if (r->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(fd[1], 1);
    close(fd[0]);
    close(fd[1]);
    execve(argv[0], argv, env);
    _exit(127);
  }
  close(fd[1]);
  r->says = fdopen(fd[0], "r");
}

/* ---- the segment ---- */

static void open_segment(struct recorder *r)
{
  struct shm_attach_info info;
  struct error e;
  int fd;
  if (target_segment_open(r->target, &fd, &e) != RESULT_OK)
    die("%s", e.text);
  if (shm_attach(&r->shm, fd, &info) != RESULT_OK)
    die("the segment: %s", info.what);
}

static void open_session(struct recorder *r)
{
  struct error e;
  if (target_open(r->pid, &r->target, &e) != RESULT_OK)
    die("%s", e.text);
  if (!r->outside)
    open_segment(r);
  else if (shm_private(&r->shm) != RESULT_OK ||
           !(r->from_outside = from_outside_open(r->target, &r->shm)))
    die("no memory for a session");
  struct tecs_control *c = r->shm.control;
  atomic_set(&c->stack_max, STACK_MAX);
  atomic_set(&c->depth_max, DEPTH_MAX);
  atomic_set(&c->owner, (uint32_t)getpid());
  atomic_release(&c->session, 1u);
}

static unsigned slot_of(struct recorder *r, pid_t tid)
{
  for (unsigned i = 0; i < r->threads; i++)
    if (r->tid[i] == tid)
      return i;
  unsigned i = r->threads++;
  struct tecs_slot *slot = &r->shm.slots[i];
  if (shm_back_rings(&r->shm, i + 1) != RESULT_OK)
    die("no memory for rings");
  r->tid[i] = tid;
  atomic_release(&slot->generation, slot->generation + 1);
  atomic_release(&slot->tid, (uint32_t)tid);
  return i;
}

static void send_tick(struct recorder *r, unsigned slot)
{
  siginfo_t si = {.si_signo = SIGURG, .si_code = SI_QUEUE};
  uint32_t generation = r->shm.slots[slot].generation;
  uint64_t value = (uint64_t)r->shm.header->cookie << 32 |
                   (uint64_t)(generation & 0xffff) << 16 | slot;
  si.si_pid = getpid();
  si.si_uid = getuid();
  si.si_value.sival_ptr = (void *)(uintptr_t)value;
  if (syscall(SYS_rt_tgsigqueueinfo, r->pid, r->tid[slot], SIGURG, &si))
    die("cannot signal thread %d", (int)r->tid[slot]);
}

static uint64_t answered(const struct tecs_slot *slot)
{
  if (atomic_acquire(&slot->generation_seen) != slot->generation)
    return 0;
  return atomic_acquire(&slot->calls);
}

static void take_sample(struct recorder *r, unsigned slot)
{
  struct tecs_slot *s = &r->shm.slots[slot];
  uint64_t before = answered(s);
  send_tick(r, slot);
  for (int i = 0; answered(s) == before; i++) {
    if (i == 2000)
      die("thread %d does not answer", (int)r->tid[slot]);
    pause_ms(1);
  }
  if (atomic_get(&s->lost))
    die("a sample was lost");
}

static void take_from_outside(struct recorder *r, unsigned slot)
{
  if (!from_outside_take(r->from_outside, slot, r->tid[slot]))
    die("thread %d gives no sample", (int)r->tid[slot]);
}

static void drain(struct recorder *r, unsigned slot)
{
  const struct tecs_record *rec;
  uint64_t bad = 0;
  while ((rec = shm_ring_peek(&r->shm, slot, &bad))) {
    struct frame_head h = {slot, rec->len};
    fwrite(&h, sizeof h, 1, r->stream);
    fwrite(rec, rec->len, 1, r->stream);
    shm_ring_consume(&r->shm, slot, rec);
  }
  if (bad)
    die("the ring is damaged");
}

/* ---- what else a replay needs ---- */

static void keep_vm(struct recorder *r, const struct tecs_vm *vm)
{
  for (unsigned i = 0; i < r->vms; i++)
    if (r->vm[i].g == vm->g)
      return;
  if (r->vms < TECS_VMS)
    r->vm[r->vms++] = *vm;
}

static void look_around(struct recorder *r)
{
  char path[64];
  struct bytes maps;
  for (unsigned i = 0; i < TECS_VMS; i++)
    if (atomic_acquire(&r->shm.vms[i].state) == TECS_VM_LIVE)
      keep_vm(r, &r->shm.vms[i]);
  snprintf(path, sizeof path, "/proc/%d/maps", (int)r->pid);
  if (!bytes_read(path, &maps))
    die("cannot read %s", path);
  free(r->maps);
  maps.data[maps.len] = '\0'; /* bytes_read leaves room */
  r->maps = (char *)maps.data;
}

/* ---- stages ---- */

static void play_stage(struct recorder *r, const char *line)
{
  char label[64], how[32] = "";
  int tid, count;
  if (sscanf(line, "stage %63s %d %d %31s", label, &tid, &count, how) < 3)
    die("not understood: %s", line);
  if (!r->target)
    open_session(r);
  unsigned slot = slot_of(r, tid);
  settle(r, tid);
  if (strcmp(how, "interrupted") == 0) {
    syscall(SYS_tgkill, r->pid, tid, SIGUSR2);
    settle(r, tid);
  }
  for (int i = 0; i < count; i++) {
    (r->outside ? take_from_outside : take_sample)(r, slot);
    pause_ms(1);
  }
  drain(r, slot);
  look_around(r);
  fprintf(r->truth, "stage %s %d\n", label, count);
  printf("%-24s %d\n", label, count);
  fflush(stdout);
  syscall(SYS_tgkill, r->pid, tid, SIGUSR1);
  alarm(STAGE_MAX_S);
}

static void play(struct recorder *r)
{
  char line[8192];
  int status;
  while (fgets(line, sizeof line, r->says)) {
    if (strncmp(line, "stage ", 6) == 0)
      play_stage(r, line);
    else
      fputs(line, r->truth);
  }
  if (waitpid(r->pid, &status, 0) != r->pid || status != 0)
    die("the program failed (status %x)", (unsigned)status);
  if (!r->maps)
    die("the program announced no stage");
}

static FILE *create(const char *dir, const char *name)
{
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = make_folders(path) ? fopen(path, "wb") : NULL;
  if (!f)
    die("cannot write %s", path);
  return f;
}

static void finish(FILE *f)
{
  if (fclose(f))
    die("cannot write");
}

int main(int argc, char **argv)
{
  static struct recorder r;
  char home[PATH_MAX], why[256];
  r.outside = argc > 1 && strcmp(argv[1], "-o") == 0;
  argc -= r.outside;
  argv += r.outside;
  if (argc < 3 || !getcwd(home, sizeof home))
    die("usage: record [-o] DIR PROGRAM [ARGUMENT...]");
  r.stream = create(argv[1], "stream");
  r.truth = create(argv[1], "truth");
  alarm(STAGE_MAX_S);
  start(&r, argv + 2);
  play(&r);
  FILE *vms = create(argv[1], "vms");
  fwrite(r.vm, sizeof *r.vm, r.vms, vms);
  finish(r.stream);
  finish(r.truth);
  finish(vms);
  if (!recording_reduce(argv[1], r.maps, home, why, sizeof why))
    die("%s", why);
  from_outside_close(r.from_outside);
  shm_detach(&r.shm);
  target_close(r.target);
  free(r.maps);
  return 0;
}
