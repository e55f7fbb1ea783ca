/* SPDX-License-Identifier: MIT
 *
 * reclog_reader PID: for each line `NUMBER ADDRESS SIZE` of its input (the
 * last two in hexadecimal and decimal) the record log of that trace, as lines
 *
 *   NUMBER log POSITION EVENTS     or    NUMBER none
 *   NUMBER EVENT REF DEPTH PROTO FIRSTLINE INSTRUCTIONS PC
 *
 * with `builtin` after DEPTH for one; then for each VM
 *
 *   vm STATE LOGGED MISSED
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "reader.h"
#include "shm/shm.h"

static struct shm shm;
static uint64_t buffer[SHM_LOG_TRACE_MAX / 8 + 1];

static void print_events(const struct shm_log *l, unsigned traceno)
{
  printf("%u log %llu %u\n", traceno, (unsigned long long)l->position,
         l->nevent);
  for (uint32_t i = 0; i < l->nevent; i++) {
    const struct tecs_log_event *e = &l->event[i];
    printf("%u %u %u %u ", traceno, i + 1, e->ref, e->depth);
    if (e->proto == TECS_LOG_NO_PROTO) {
      puts("builtin");
      continue;
    }
    const struct tecs_log_proto *p = &l->proto[e->proto];
    printf("%llx %u %u %u\n", (unsigned long long)p->addr, p->firstline,
           p->sizebc, e->pc);
  }
}

static void print_log(struct shm_log_key key)
{
  struct shm_log l;
  for (unsigned i = 0; i < TECS_VMS; i++) {
    if (atomic_acquire(&shm.vms[i].state) != TECS_VM_LIVE)
      continue;
    key.g = shm.vms[i].g;
    if (shm_log_find(&shm, &key, buffer, &l) == RESULT_OK) {
      print_events(&l, key.traceno);
      return;
    }
  }
  printf("%u none\n", key.traceno);
}

static void print_vms(void)
{
  static const char *const names[] = {"none",     "on",        "off",
                                      "replaced", "withdrawn", "unsafe"};
  for (unsigned i = 0; i < TECS_VMS; i++) {
    struct tecs_log_vm v;
    if (atomic_acquire(&shm.vms[i].state) != TECS_VM_LIVE)
      continue;
    enum result r = shm_log_vm(&shm, shm.vms[i].g, &v);
    if (r == RESULT_OK && v.state < sizeof names / sizeof *names)
      printf("vm %s %llu %llu\n", names[v.state], (unsigned long long)v.logged,
             (unsigned long long)v.missed);
    else
      puts("vm unknown");
  }
}

int main(int argc, char **argv)
{
  struct shm_attach_info info;
  struct shm_log_key key;
  unsigned long long mcode;
  int fd = argc == 2 ? open_segment(argv[1]) : -1;
  if (fd < 0 || shm_attach(&shm, fd, &info) != RESULT_OK) {
    fprintf(stderr, "reclog_reader: no segment\n");
    return 1;
  }
  while (scanf("%u %llx %u", &key.traceno, &mcode, &key.szmcode) == 3) {
    key.mcode = mcode;
    print_log(key);
  }
  print_vms();
  shm_detach(&shm);
  return 0;
}
