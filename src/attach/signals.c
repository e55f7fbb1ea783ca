/* SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "attach/attach_internal.h"

volatile sig_atomic_t signals_stop;
static volatile sig_atomic_t seen;

static struct {
  int signo;
  struct sigaction old;
} kept[] = {{.signo = SIGINT},
            {.signo = SIGTERM},
            {.signo = SIGHUP},
            {.signo = SIGPIPE},
            {.signo = SIGXFSZ}};
#define KEPT (sizeof kept / sizeof kept[0])

/* Those that a failing call reports as well. */
static bool is_ignored(int signo)
{
  return signo == SIGPIPE || signo == SIGXFSZ;
}

static void on_stop(int signo)
{
  signals_stop = 1;
  seen = signo;
}

void signals_install(void)
{
  for (size_t i = 0; i < KEPT; i++) {
    struct sigaction sa = {0};
    sa.sa_handler = is_ignored(kept[i].signo) ? SIG_IGN : on_stop;
    sigemptyset(&sa.sa_mask);
    sigaction(kept[i].signo, &sa, &kept[i].old);
    /* nohup: a hang-up is not to end us. */
    if (kept[i].signo == SIGHUP && kept[i].old.sa_handler == SIG_IGN)
      sigaction(SIGHUP, &kept[i].old, NULL);
  }
}

void signals_restore(void)
{
  for (size_t i = 0; i < KEPT; i++)
    if (!is_ignored(kept[i].signo))
      sigaction(kept[i].signo, &kept[i].old, NULL);
}

void signals_defaults(sigset_t *set)
{
  sigemptyset(set);
  for (size_t i = 0; i < KEPT; i++)
    if (kept[i].old.sa_handler != SIG_IGN)
      sigaddset(set, kept[i].signo);
}

int signals_seen(void)
{
  return seen;
}
