/* SPDX-License-Identifier: MIT
 *
 * frozen PID: unwinds single samples of a program's main thread, which runs
 * with the agent.  At each line on stdin it sends a tick and says `sent`; once
 * the thread has answered (it may be stopped meanwhile), it prints the
 * registers and frames of that sample, innermost first, and `end`.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "shm/shm.h"
#include "symbols/symbols.h"
#include "target/target.h"
#include "unwind/unwind.h"
#include "vm/vm.h"

#define STACK_MAX 65536u
#define DEPTH_MAX 1024u

static struct target *target;
static struct shm shm;
static struct modules *modules;
static struct unwinder *unwinder;
static struct vm_store *vms;
static struct unwind_stack stack;
static struct unwind_vm unwind_vm[UINT8_MAX];

__attribute__((noreturn, format(printf, 1, 2))) static void
die(const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  fputs("frozen: ", stderr);
  vfprintf(stderr, format, ap);
  fputc('\n', stderr);
  va_end(ap);
  exit(1);
}

static void open_all(pid_t pid)
{
  struct shm_attach_info info;
  struct error e;
  int fd;
  if (target_open(pid, &target, &e) != RESULT_OK ||
      target_segment_open(target, &fd, &e) != RESULT_OK ||
      modules_new(target, &modules, &e) != RESULT_OK ||
      unwinder_new(modules, &unwinder, &e) != RESULT_OK)
    die("%s", e.text);
  if (shm_attach(&shm, fd, &info) != RESULT_OK)
    die("the segment: %s", info.what);
  if (vm_store_new(NULL, &vms) != RESULT_OK ||
      shm_back_rings(&shm, 1) != RESULT_OK)
    die("no memory");
}

static void begin_session(pid_t tid)
{
  struct tecs_control *c = shm.control;
  struct tecs_slot *slot = &shm.slots[0];
  atomic_set(&c->stack_max, STACK_MAX);
  atomic_set(&c->depth_max, DEPTH_MAX);
  atomic_set(&c->owner, (uint32_t)getpid());
  atomic_release(&c->session, 1u);
  atomic_release(&slot->generation, slot->generation + 1);
  atomic_release(&slot->tid, (uint32_t)tid);
}

static void send_tick(pid_t pid)
{
  siginfo_t si = {.si_signo = SIGURG, .si_code = SI_QUEUE};
  uint32_t generation = shm.slots[0].generation;
  uint64_t value = (uint64_t)shm.header->cookie << 32 |
                   (uint64_t)(generation & 0xffff) << 16;
  si.si_pid = getpid();
  si.si_uid = getuid();
  si.si_value.sival_ptr = (void *)(uintptr_t)value;
  if (syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGURG, &si))
    die("cannot signal %d", (int)pid);
}

static uint64_t answered(void)
{
  const struct tecs_slot *s = &shm.slots[0];
  if (atomic_acquire(&s->generation_seen) != s->generation)
    return 0;
  return atomic_acquire(&s->calls);
}

static void await(uint64_t before)
{
  struct timespec ms = {.tv_nsec = 1000000};
  for (int i = 0; answered() == before; i++) {
    if (i == 20000)
      die("no answer");
    nanosleep(&ms, NULL);
  }
}

/* As session/drain.c does it. */
static void describe_vm(const struct tecs_sample_vm *v, struct unwind_vm *u)
{
  *u = (struct unwind_vm){.g = v->g};
  u->mcode = vm_mcode(vms, v->g, &u->mcode_count);
  u->cframe_size = vm_cframe_size(v->layout);
  for (unsigned i = 0; i < TECS_VMS; i++) {
    struct tecs_vm vm = shm.vms[i];
    const struct module *mod;
    if (vm.state != TECS_VM_LIVE || vm.g != v->g)
      continue;
    mod = modules_find(modules, vm.asm_pc);
    if (!mod || !module_function_range(mod, vm.asm_pc, &u->asm_lo, &u->asm_hi))
      die("the VM's code has no unwind table");
  }
}

static void print_sample(const struct sample_view *v)
{
  static const char *const end[] = {[UNWIND_END_ENTRY] = "entry",
                                    [UNWIND_END_THREAD] = "thread",
                                    [UNWIND_END_PARTIAL] = "partial",
                                    [UNWIND_END_FULL] = "full"};
  static const char *const kind[] = {[UNWIND_NATIVE] = "native",
                                     [UNWIND_VM] = "vm",
                                     [UNWIND_SIGNAL] = "signal",
                                     [UNWIND_GAP] = "gap"};
  for (unsigned i = 0; i < v->sample->vm_count; i++)
    describe_vm(&v->vm[i], &unwind_vm[i]);
  unwind_sample(unwinder, v, unwind_vm, &stack);
  printf("at %lx %lx %s\n", v->sample->reg[TECS_REG_RIP],
         v->sample->reg[TECS_REG_RSP], end[stack.end]);
  for (size_t i = 0; i < stack.count; i++)
    printf("frame %s %lx %s\n", kind[stack.frame[i].kind], stack.frame[i].ip,
           stack.frame[i].mod ? module_name(stack.frame[i].mod) : "-");
}

static void drain(void)
{
  const struct tecs_record *rec;
  uint64_t bad = 0;
  while ((rec = shm_ring_peek(&shm, 0, &bad))) {
    struct sample_view v;
    if (rec->type != TECS_RECORD_SAMPLE)
      vm_store_record(vms, 0, rec);
    else if (record_sample(rec, &v) == RESULT_OK)
      print_sample(&v);
    else
      bad++;
    shm_ring_consume(&shm, 0, rec);
  }
  if (bad)
    die("the ring is damaged");
}

int main(int argc, char **argv)
{
  char line[64];
  pid_t pid = argc == 2 ? atoi(argv[1]) : 0;
  if (pid <= 0)
    die("usage: frozen PID");
  setvbuf(stdout, NULL, _IOLBF, 0);
  open_all(pid);
  begin_session(pid);
  while (fgets(line, sizeof line, stdin)) {
    uint64_t before = answered();
    if (modules_refresh(modules))
      unwinder_flush(unwinder);
    send_tick(pid);
    puts("sent");
    await(before);
    drain();
    puts("end");
  }
  atomic_release(&shm.control->session, 0u);
  vm_store_free(vms);
  unwinder_free(unwinder);
  modules_free(modules);
  shm_detach(&shm);
  target_close(target);
  return 0;
}
