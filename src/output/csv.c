/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "output/output.h"
#include "tecs/abi.h"

#define LINE_END "\r\n"

static const char *severity_text(uint32_t severity)
{
  if (severity == TECS_SEVERITY_BLACKLIST)
    return "blacklist";
  return severity == TECS_SEVERITY_WARN ? "warn" : "info";
}

static const char *source_text(enum aborts_source source)
{
  if (source == ABORTS_PENALTY)
    return "penalty-cache";
  return source == ABORTS_BYTECODE ? "bytecode" : "events";
}

static void add_cell(struct strbuf *out, const char *text)
{
  size_t len = strlen(text);
  char *cell = malloc(CSV_CELL_MAX(len));
  strbuf_add(out, ",", 1);
  if (cell)
    strbuf_add(out, cell, csv_cell(cell, text, len));
  else
    out->failed = true;
  free(cell);
}

static void add_header(struct strbuf *out, const struct output_aborts *o)
{
  strbuf_add_str(out, "severity,count,reason,location,zone");
  if (o->samples)
    strbuf_add_str(out, ",cpu_percent,state");
  if (o->source)
    strbuf_add_str(out, ",source");
  strbuf_add_str(out, LINE_END);
}

static void add_row(struct strbuf *out, const struct output_aborts *o,
                    const struct aborts_row *row)
{
  strbuf_printf(out, "%s,", severity_text(row->severity));
  if (row->source != ABORTS_BYTECODE)
    strbuf_printf(out, "%" PRIu64, row->count);
  add_cell(out, row->reason);
  add_cell(out, row->location);
  add_cell(out, row->zone);
  if (o->samples) {
    strbuf_printf(out, ",%.2f,", row->cpu_percent);
    strbuf_add(out, &row->state, row->state != 0);
  }
  if (o->source)
    strbuf_printf(out, ",%s", source_text(row->source));
  strbuf_add_str(out, LINE_END);
}

enum result output_aborts(struct aborts *a, const struct output_aborts *o,
                          struct strbuf *out)
{
  size_t count;
  const struct aborts_row *row;
  if (aborts_sorted(a, o->by_cost, &row, &count) != RESULT_OK)
    return RESULT_NOMEM;
  add_header(out, o);
  for (size_t i = 0; i < count; i++)
    if (o->benign || row[i].severity != TECS_SEVERITY_INFO)
      add_row(out, o, &row[i]);
  return out->failed ? RESULT_NOMEM : RESULT_OK;
}
