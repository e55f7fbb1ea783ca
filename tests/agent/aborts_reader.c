/* SPDX-License-Identifier: MIT
 *
 * aborts_reader PID: a trace session from outside, as small as it can be.
 * Prints `on`, waits for the end of its input, ends the session and prints the
 * totals and the rows, tab-separated, control characters and backslashes as
 * \xx.  For tests of the agent alone.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomics.h"
#include "reader.h"
#include "shm/shm.h"

static void print_text(const char *text, unsigned len)
{
  putchar('\t');
  for (unsigned i = 0; i < len; i++)
    if ((unsigned char)text[i] < ' ' || text[i] == '\\')
      printf("\\%02x", (unsigned char)text[i]);
    else
      putchar(text[i]);
}

static void print_row(const struct tecs_abort *r)
{
  static const char *const names[] = {"?", "info", "warn", "blacklist"};
  printf("row\t%s\t%llu", names[r->severity & 3], (unsigned long long)r->count);
  print_text(r->reason, r->reason_len);
  print_text(r->location, r->location_len);
  print_text(r->zone, r->zone_len);
  putchar('\n');
}

static void print_all(const struct shm *s, uint32_t session)
{
  const struct tecs_aborts *a = s->aborts;
  if (a->session != session) {
    puts("total none");
    return;
  }
  printf("total starts %llu\ntotal stops %llu\ntotal aborts %llu\n",
         (unsigned long long)a->starts, (unsigned long long)a->stops,
         (unsigned long long)a->aborts);
  printf("total flushes %llu\ntotal overflow %llu\ntotal blacklists %llu\n",
         (unsigned long long)a->flushes, (unsigned long long)a->overflow,
         (unsigned long long)a->blacklists);
  for (uint32_t i = 0; i < a->rows && i < TECS_ABORT_ROWS; i++)
    print_row(&s->abort_rows[i]);
}

/* As a collector does: the agent listens from now on, or no longer. */
static void tell_agent(const struct shm *s, const char *pid)
{
  siginfo_t si;
  memset(&si, 0, sizeof si);
  si.si_signo = SIGURG;
  si.si_code = SI_QUEUE;
  uint64_t value = (uint64_t)s->header->cookie << 32 | TECS_TICK_TRACE;
  si.si_value.sival_ptr = (void *)(uintptr_t)value;
  syscall(SYS_rt_tgsigqueueinfo, atoi(pid), atoi(pid), SIGURG, &si);
}

int main(int argc, char **argv)
{
  struct shm s;
  struct shm_attach_info info;
  if (argc < 2 || shm_attach(&s, open_segment(argv[1]), &info) != RESULT_OK)
    return 3;
  struct flock claim = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
  if (fcntl(s.fd, F_OFD_SETLK, &claim) || shm_back_aborts(&s) != RESULT_OK)
    return 1;
  uint32_t session = (s.aborts->session + 1) | 1;
  s.control->trace_paused = 0;
  s.control->trace_owner = (uint32_t)getpid();
  atomic_release(&s.control->trace_session, session);
  tell_agent(&s, argv[1]);
  usleep(20000);
  puts("on");
  fflush(stdout);
  while (getchar() != EOF)
    ;
  atomic_release(&s.control->trace_session, 0u);
  tell_agent(&s, argv[1]);
  for (int i = 0; i < TECS_VMS; i++)
    if (s.vms[i].state == TECS_VM_LIVE)
      printf("vm events %u\n", s.vms[i].events);
  print_all(&s, session);
  shm_detach(&s);
  return 0;
}
