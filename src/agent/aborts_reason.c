/* SPDX-License-Identifier: MIT
 *
 * Why: LuaJIT's own text for the error, with the name of the bytecode or
 * function that it is about, and how bad that is.
 */
#include <string.h>

#include "agent/aborts_internal.h"
#include "vmcore/discover.h"
#include "vmcore/value.h"

enum {
  MESSAGE_MAX = 256, /* bytes of a thrown message that are looked at */
  FF_C = 1,          /* lj_obj.h */
};

bool aborts_int(const struct vm_layout *lay, uint64_t tv, int64_t *v)
{
  double d;
  uint32_t tag = vm_value_type(lay, tv);
  if (tag == VM_TYPE_INT) {
    *v = (int32_t)tv;
    return true;
  }
  memcpy(&d, &tv, sizeof d);
  if (tag < VM_TYPE_INT || !(d >= -0x1p31 && d < 0x1p32) ||
      d != (double)(int64_t)d)
    return false;
  *v = (int64_t)d;
  return true;
}

static const char *name_at(const char *const *names, unsigned count, int64_t i)
{
  return i >= 0 && i < count ? names[i] : NULL;
}

/* What %s stands for: the function that could not be recorded, by its ffid; 1
 * is FF_C, any function that is no builtin (lj_obj.h). */
static void add_function(struct vm_mem *m, const struct vm_layout *lay,
                         const struct vm_ffnames *words, uint64_t info,
                         struct abort_text *t)
{
  uint64_t fn = vm_value_as(lay, info, VM_GCT_FUNC);
  if (!vm_plausible(fn)) {
    abort_text_add_str(t, "?");
    return;
  }
  uint32_t ffid = vm_load1(m, fn + lay->fn_ffid);
  const char *name = ffid == FF_C ? "C" : vm_ffname(words, ffid);
  if (name) {
    abort_text_add_str(t, name);
  } else { /* as tostring shows it (lj_strfmt.c, lj_strfmt_obj) */
    abort_text_add_str(t, "builtin#");
    abort_text_add_number(t, ffid);
  }
}

static void add_detail(struct vm_mem *m, const struct vm_layout *lay,
                       const struct vm_ffnames *words, const char *text,
                       uint64_t info, struct abort_text *t)
{
  const struct vm_texts *texts = words->texts;
  int64_t v;
  const char *name = NULL;
  bool bytecode = strstr(text, "bytecode") != NULL; /* %s since 2024 */
  if (strstr(text, "%s") && !bytecode) {
    add_function(m, lay, words, info, t);
    return;
  }
  if (!aborts_int(lay, info, &v)) {
    abort_text_add_str(t, "?");
    return;
  }
  if (bytecode)
    name = name_at(texts->bcname, texts->bcnames, v);
  else if (strstr(text, "IR instruction"))
    name = name_at(texts->irname, texts->irnames, v);
  if (name)
    abort_text_add_str(t, name);
  else
    abort_text_add_number(t, v);
}

static void add_known(struct vm_mem *m, const struct vm_layout *lay,
                      const struct vm_ffnames *words, const char *text,
                      uint64_t info, struct abort_text *t)
{
  const char *percent = strchr(text, '%');
  if (!percent) {
    abort_text_add_str(t, text);
    return;
  }
  abort_text_add(t, text, (size_t)(percent - text));
  add_detail(m, lay, words, text, info, t);
  abort_text_add_str(t, percent + 2);
}

/* An error that is not the recorder's own, thrown while it worked: a message
 * (jit/v.lua, fmterr, prints it as it is). */
static void add_thrown(struct vm_mem *m, const struct vm_layout *lay,
                       uint64_t err, struct abort_text *t)
{
  char message[MESSAGE_MAX];
  uint32_t full;
  uint64_t str = vm_value_as(lay, err, VM_GCT_STR);
  if (!vm_plausible(str)) {
    abort_text_add_str(t, vm_type_text(vm_value_type(lay, err)));
    return;
  }
  abort_text_add(t, message,
                 abort_text_load(m, lay, str, ABORT_TEXT_HEAD, message,
                                 sizeof message, &full));
}

enum tecs_severity aborts_reason(struct vm_mem *m, const struct vm_layout *lay,
                                 const struct vm_ffnames *words, uint64_t err,
                                 uint64_t info, struct tecs_abort *row)
{
  const struct vm_texts *texts = words->texts;
  struct abort_text t = {.to = row->reason, .max = sizeof row->reason};
  enum tecs_severity severity = TECS_SEVERITY_WARN;
  int64_t e;
  if (!aborts_int(lay, err, &e)) {
    add_thrown(m, lay, err, &t);
  } else if (e >= 0 && e < texts->traceerrs) {
    add_known(m, lay, words, texts->traceerr[e].text, info, &t);
    severity = texts->traceerr[e].severity;
  } else {
    abort_text_add_str(&t, "unknown trace error ");
    abort_text_add_number(&t, e);
  }
  row->reason_len = (uint16_t)abort_text_end(&t);
  return severity;
}

/* lj_trace.c, blacklist_pc: FORL, ITERL, LOOP, FUNCF become IFORL, ..., and
 * ITERN becomes ITERC. */
bool aborts_gave_up(const struct vm_texts *texts, uint8_t start, uint8_t now)
{
  const char *was = name_at(texts->bcname, texts->bcnames, start);
  const char *is = name_at(texts->bcname, texts->bcnames, now);
  if (!was || !is)
    return false;
  if (!strcmp(was, "ITERN"))
    return !strcmp(is, "ITERC");
  return is[0] == 'I' && !strcmp(is + 1, was);
}
