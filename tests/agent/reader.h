/* SPDX-License-Identifier: MIT
 *
 * What the small readers of a target's segment share.
 */
#ifndef AGENT_READER_H
#define AGENT_READER_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/shm.h"

/* A descriptor of the segment of process `pid`, the caller's; -1: there is
 * none. */
static int open_segment(const char *pid)
{
  char path[512], link[256];
  snprintf(path, sizeof path, "/proc/%s/fd", pid);
  DIR *d = opendir(path);
  int fd = -1;
  for (struct dirent *e; d && fd < 0 && (e = readdir(d));) {
    snprintf(path, sizeof path, "/proc/%s/fd/%s", pid, e->d_name);
    ssize_t n = readlink(path, link, sizeof link - 1);
    link[n > 0 ? n : 0] = 0;
    if (strstr(link, TECS_SEGMENT_NAME))
      fd = open(path, O_RDWR | O_CLOEXEC);
  }
  if (d)
    closedir(d);
  return fd;
}

#endif
