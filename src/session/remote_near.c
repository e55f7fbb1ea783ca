/* SPDX-License-Identifier: MIT
 *
 * Where we run while a thread is stopped.
 *
 * On the thread's own CPU its stop is a switch from it to us and back; from
 * another one it is two wake-ups across CPUs, in which the thread stands still
 * and nobody works: measured in a virtual machine, 19 us against 110.  And with
 * contended cores a stopped thread waits until we get a CPU.  So where we may,
 * we are first in line for as long as that, and only then go there: an ordinary
 * thread that comes to a busy CPU gets its turn when the running one returns
 * from a system call (lazy preemption), and every sample would be of that
 * moment.
 */
#include "session/remote_internal.h"

static bool is_realtime(int policy)
{
  return policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE;
}

/* Not where a real-time thread might never let us run. */
static void move(struct remote_near *n, struct target *t, pid_t tid)
{
  cpu_set_t there;
  int cpu, policy;
  if (!target_thread_cpu(t, tid, &cpu, &policy) || is_realtime(policy) ||
      cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof n->cpus, &n->cpus) != 0)
    return;
  CPU_ZERO(&there);
  CPU_SET(cpu, &there);
  n->moved = sched_setaffinity(0, sizeof there, &there) == 0;
}

void remote_near_begin(struct remote_near *n, struct target *t, pid_t tid)
{
  struct sched_param first = {.sched_priority =
                                  sched_get_priority_min(SCHED_FIFO)};
  n->moved = n->raised = false;
  n->policy = sched_getscheduler(0);
  n->raised = !n->may_not && !is_realtime(n->policy) &&
              sched_setscheduler(0, SCHED_FIFO, &first) == 0;
  n->may_not = !n->raised;
  if (n->raised)
    move(n, t, tid);
}

void remote_near_end(struct remote_near *n)
{
  struct sched_param none = {0};
  if (n->raised)
    sched_setscheduler(0, n->policy, &none);
  if (n->moved)
    sched_setaffinity(0, sizeof n->cpus, &n->cpus);
}
