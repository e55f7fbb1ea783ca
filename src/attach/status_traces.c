/* SPDX-License-Identifier: MIT
 *
 * status --verbose: the traces of a VM, one line each.
 */
#include <inttypes.h>
#include <string.h>

#include "attach/attach_internal.h"

struct lines {
  struct strbuf text;
  unsigned vm, count;
};

static void add_origin(struct strbuf *b, const struct session_compiled *t)
{
  if (t->root)
    strbuf_printf(b, "side of %u at exit %u, root %u", t->parent, t->exitno,
                  t->root);
  else if (t->stitched)
    strbuf_printf(b, "root, stitched to %u", t->stitched);
  else
    strbuf_add_str(b, "root");
}

static void add_inlined(struct strbuf *b, const struct session_compiled *t)
{
  strbuf_add_str(b, "; inlined ");
  if (!t->log)
    strbuf_add_str(b, "not known");
  else if (*t->inlined)
    status_add_plain(b, t->inlined, strlen(t->inlined));
  else
    strbuf_add_str(b, "none");
}

static void add_trace(void *ctx, const struct session_compiled *t)
{
  struct lines *l = ctx;
  struct strbuf *b = &l->text;
  l->count++;
  strbuf_printf(b, "vm.%u.trace.%u: ", l->vm, t->traceno);
  add_origin(b, t);
  strbuf_printf(b, "; link %s", t->linktype);
  if (t->link)
    strbuf_printf(b, " %u", t->link);
  strbuf_printf(b, "; code 0x%" PRIx64 ", %u bytes; log %s; start ", t->mcode,
                t->szmcode, t->log ? "yes" : "no");
  status_add_plain(b, t->start, strlen(t->start));
  add_inlined(b, t);
  strbuf_add_str(b, "\n");
}

void status_traces(struct strbuf *out, struct target *t, const struct shm *shm,
                   unsigned n, const struct session_vm *vm)
{
  struct lines l = {.text = STRBUF_INIT, .vm = n};
  struct error e = {0};
  unsigned changed = 0;
  enum result r =
      session_compiled_each(t, shm, vm, add_trace, &l, &changed, &e);
  strbuf_printf(out, "vm.%u.traces: ", n);
  if (r == RESULT_UNSUPPORTED)
    strbuf_printf(out, "none: %s\n", e.text);
  else if (r != RESULT_OK)
    strbuf_printf(out, "not read: %s\n", e.text);
  else if (changed)
    strbuf_printf(out, "%u, and %u that changed while they were read\n",
                  l.count, changed);
  else
    strbuf_printf(out, "%u\n", l.count);
  if (r == RESULT_OK)
    strbuf_add(out, strbuf_text(&l.text), l.text.len);
  out->failed |= l.text.failed;
  strbuf_free(&l.text);
}
