/* SPDX-License-Identifier: MIT
 *
 * For threads.lua: threads that sleep nearly all of the time.
 */
#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Awake for some microseconds, ten times a second at most. */
static void *doze(void *arg)
{
  struct timespec pause = {0, 100000000 + 3000000 * (long)(intptr_t)arg};
  for (;;)
    nanosleep(&pause, NULL);
  return NULL;
}

int dozing_threads(int count);
int dozing_threads(int count)
{
  pthread_t th;
  int made = 0;
  while (made < count &&
         pthread_create(&th, NULL, doze, (void *)(intptr_t)made) == 0)
    made++;
  return made;
}
