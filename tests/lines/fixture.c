/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines/fixture.h"

enum {
  MANY = 1 << 17 /* of anything; sizes are exact, so that a sanitizer
                     sees what is read beyond */
};

static void *get(FILE *f, size_t n, size_t size)
{
  if (n > MANY)
    return NULL;
  void *p = calloc(n ? n : 1, size);
  if (p && fread(p, size, n, f) == n)
    return p;
  free(p);
  return NULL;
}

static bool get_protos(FILE *f, struct fixture *x)
{
  x->proto = calloc((size_t)x->nproto + 1, sizeof *x->proto);
  if (!x->proto)
    return false;
  for (uint32_t i = 0; i < x->nproto; i++) {
    struct fixture_proto *p = &x->proto[i];
    if (fread(p, 16, 1, f) != 1 || !(p->bc = get(f, p->nbc, 4)) ||
        !(p->line = get(f, p->nbc, 4)))
      return false;
  }
  return true;
}

struct head {
  uint32_t no, link, linktype, startins, start_proto, start_pc, nk, nins,
      nmcode, nsnap, nsnapmap, nlog;
  uint64_t mcode_addr;
  uint32_t ntruth, nrec;
};
struct snap {
  uint32_t mapofs;
  uint16_t ref, mcofs;
  uint8_t nslots, nent;
  uint16_t unused;
};

static struct lines_snap *get_snaps(FILE *f, uint32_t n)
{
  struct snap *in = get(f, n, sizeof *in);
  struct lines_snap *out = in ? calloc(n ? n : 1, sizeof *out) : NULL;
  for (uint32_t i = 0; out && i < n; i++)
    out[i] =
        (struct lines_snap){in[i].mapofs, in[i].ref, in[i].mcofs, in[i].nent};
  free(in);
  return out;
}

static bool get_trace(FILE *f, struct fixture_trace *x)
{
  struct head h;
  struct lines_trace *t = &x->t;
  if (fread(&h, sizeof h, 1, f) != 1)
    return false;
  *t = (struct lines_trace){.irset = LINES_IR_21,
                            .has_mcofs = true,
                            .gc64 = true,
                            .traceno = h.no,
                            .szmcode = h.nmcode,
                            .nk = h.nk,
                            .nins = h.nins,
                            .nsnap = h.nsnap,
                            .nsnapmap = h.nsnapmap,
                            .nevent = h.nlog};
  x->link = h.link;
  x->linktype = h.linktype;
  x->startins = h.startins;
  x->start_proto = h.start_proto;
  x->start_pc = h.start_pc;
  x->mcode_addr = h.mcode_addr;
  x->ntruth = h.ntruth;
  x->nrec = h.nrec;
  return (t->mcode = get(f, h.nmcode, 1)) && h.nk <= h.nins &&
         (t->ir = get(f, h.nins - h.nk, 8)) &&
         (t->snap = get_snaps(f, h.nsnap)) &&
         (t->snapmap = get(f, h.nsnapmap, 4)) &&
         (t->event = get(f, h.nlog, sizeof *t->event)) &&
         (x->truth = get(f, h.ntruth, sizeof *x->truth)) &&
         (x->rec = get(f, h.nrec, sizeof *x->rec));
}

enum { SIZEOF_GCPROTO = 104 /* of the VM that told */ };

static bool make_code(struct fixture *x)
{
  struct lines_proto *p = calloc(x->nproto + 1, sizeof *p);
  struct lines_func *f = calloc(x->nfunc + 1, sizeof *f);
  struct lines_start *s = calloc(x->ntrace + 1, sizeof *s);
  x->code = (struct lines_code){LINES_BC_21, p, f, s, x->nproto, x->nfunc, 0};
  if (!p || !f || !s)
    return false;
  for (uint32_t i = 0; i < x->nproto; i++)
    p[i] = (struct lines_proto){.id = i,
                                .addr = x->proto[i].bcaddr - SIZEOF_GCPROTO,
                                .bcaddr = x->proto[i].bcaddr,
                                .bc = x->proto[i].bc,
                                .line = x->proto[i].line,
                                .nbc = x->proto[i].nbc};
  for (uint32_t i = 0; i < x->nfunc; i++)
    f[i] = (struct lines_func){x->func[i].addr, x->func[i].proto};
  for (uint32_t i = 0; i < x->ntrace; i++)
    s[x->code.nstart++] =
        (struct lines_start){x->trace[i].t.traceno, x->trace[i].startins};
  return true;
}

bool fixture_parse(FILE *f, struct fixture *out)
{
  char magic[4];
  uint32_t n[3];
  memset(out, 0, sizeof *out);
  if (fread(magic, 4, 1, f) != 1 || memcmp(magic, "LNF1", 4) ||
      fread(n, 4, 3, f) != 3 || n[0] > MANY || n[1] > MANY || n[2] > MANY)
    return false;
  out->nproto = n[0];
  out->nfunc = n[1];
  out->ntrace = n[2];
  out->trace = calloc((size_t)n[2] + 1, sizeof *out->trace);
  bool ok = get_protos(f, out) &&
            (out->func = get(f, n[1], sizeof *out->func)) && out->trace;
  for (uint32_t i = 0; ok && i < n[2]; i++)
    ok = get_trace(f, &out->trace[i]);
  return ok && fgetc(f) == EOF && make_code(out);
}

bool fixture_read(const char *path, struct fixture *out)
{
  FILE *f = fopen(path, "rb");
  memset(out, 0, sizeof *out);
  bool ok = f && fixture_parse(f, out);
  if (f)
    fclose(f);
  return ok;
}

void fixture_free(struct fixture *x)
{
  for (uint32_t i = 0; x->proto && i < x->nproto; i++) {
    free(x->proto[i].bc);
    free(x->proto[i].line);
  }
  for (uint32_t i = 0; x->trace && i < x->ntrace; i++) {
    struct fixture_trace *t = &x->trace[i];
    free((void *)t->t.mcode);
    free((void *)t->t.ir);
    free((void *)t->t.snap);
    free((void *)t->t.snapmap);
    free((void *)t->t.event);
    free(t->truth);
    free(t->rec);
  }
  free((void *)x->code.proto);
  free((void *)x->code.func);
  free((void *)x->code.start);
  free(x->proto);
  free(x->func);
  free(x->trace);
}
