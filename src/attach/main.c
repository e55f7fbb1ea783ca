/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "attach/attach_internal.h"
#include "output/output.h"

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
  output_guard_standard_fds();
  signals_install();
  if (options_parse(argc, argv, &o, &e) != RESULT_OK) {
    say("%s", e.text);
    return STATUS_USAGE;
  }
  int status = run(&o);
  if (o.from_inside && !o.keep_own) /* we are nobody's child there */
    say("status %d", status);
  return status;
}
