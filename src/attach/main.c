/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "attach/attach_internal.h"

/* A descriptor of a closed stdin, stdout or stderr would be given to the next
 * file that is opened, and text would end up there.  /dev/null opened the wrong
 * way round keeps the place and still fails as a closed one does. */
static void fill_std_descriptors(void)
{
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0 &&
        open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
      _exit(STATUS_FAILED);
}

static int print(const struct strbuf *b)
{
  if (b->failed || fputs(strbuf_text(b), stdout) < 0 || fflush(stdout))
    return STATUS_FAILED;
  return STATUS_DONE;
}

static int run(const struct options *o)
{
  struct strbuf b = STRBUF_INIT;
  int status;
  switch (o->action) {
  case OPTIONS_HELP:
    options_help(&b);
    status = print(&b);
    break;
  case OPTIONS_VERSION:
    strbuf_add_str(&b, ATTACH_NAME " " TECS_VERSION "\n");
    status = print(&b);
    break;
  default:
    status = o->verb->run(o);
  }
  strbuf_free(&b);
  return status;
}

int main(int argc, char **argv)
{
  struct options o;
  struct error e;
  fill_std_descriptors();
  signals_install();
  if (options_parse(argc, argv, &o, &e) != RESULT_OK) {
    say("%s", e.text);
    return STATUS_USAGE;
  }
  return run(&o);
}
