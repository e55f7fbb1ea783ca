/* SPDX-License-Identifier: MIT
 *
 * A profile in, bytes out.
 */
#ifndef OUTPUT_OUTPUT_H
#define OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"
#include "util/error.h"
#include "util/strbuf.h"

/* Collapsed stacks: `frame;frame count` lines, appended to *out.  Frame texts
 * are made fit here:
 *  - `;`, tabs and line breaks (Unicode's too) become `_`, other control
 *    characters `?`;
 *  - a byte that is no UTF-8 becomes U+FFFD;
 *  - a text without a visible character becomes `?`;
 *  - where this makes two different texts equal, the changed ones get `#` and
 *    a hash of their original bytes, the same in every run;
 *  - the last frame never ends in a space and a number.
 * A `_[N]` at the end of a frame stays at its end.  Lines that are equal add
 * up: there is one line for a stack.  A stack without frames is `?`.
 * OK or NOMEM. */
enum result output_collapsed(struct profile *p, struct strbuf *out);

/* The same as a profile of such texts, for the other writers: all of them take
 * one that has passed here or been read from a file.  NULL: no memory. */
struct profile *output_printable(struct profile *p);

/* What a reader asks first: categories, VM states, zones and the hottest
 * functions, at most `rows` rows of each of these two, as text.  The tables are
 * put into another order.  OK or NOMEM. */
enum result output_report(struct summary *s, unsigned rows, struct strbuf *out);
/* What grew and what shrank between two profiles, in points of percent.  noise:
 * two standard deviations of the difference of two such shares, if samples were
 * drawn by chance.  Zones and functions that moved by less are left out; of
 * those that grew and shrank there are at most `rows` each.  The tables are put
 * into another order.  OK or NOMEM. */
enum result output_diff(struct summary *old, struct summary *new, unsigned rows,
                        struct strbuf *out);

/* One self-contained page with an interactive flame graph of a printable
 * profile.  title is plain text.  OK or NOMEM. */
enum result output_html(const struct profile *p, const char *title,
                        struct strbuf *out);

/* The table of trace aborts as CSV (RFC 4180; cells as base/csv.h has them):
 * severity,count,reason,location,zone, then what is asked for besides.  A count
 * that is not known is empty.  OK or NOMEM. */
struct output_aborts {
  bool benign;  /* rows of severity info as well */
  bool samples; /* columns cpu_percent and state */
  bool by_cost; /* order by cpu_percent within a severity */
  bool source;  /* column source: where a row is from */
};
enum result output_aborts(struct aborts *a, const struct output_aborts *o,
                          struct strbuf *out);

/* First thing in a program: remembers whether stdout is open, and puts
 * /dev/null in the place of closed standard descriptors, so that no other file
 * gets their numbers. */
void output_guard_standard_fds(void);

/* Where a result goes: a file that appears complete or not at all, or stdout.
 * Opened before sampling, so that a path that can't be written is refused
 * first.  A file that exists already keeps its permissions; a path that is no
 * regular file (a fifo, /dev/full) is opened and written directly. */
struct output_file;
enum result output_file_open(const char *path, struct output_file **out,
                             struct error *e); /* NULL or "-": stdout */
/* What was written there since then (CLOCK_REALTIME) is not replaced: the
 * result goes to the next free number, FILE.2, FILE.3 and so on, with the
 * number in front of the name's last suffix.  For regular files alone. */
void output_file_keep_since(struct output_file *f, uint64_t since_ns);
/* A pipe that nobody reads any more: the result has no use. */
bool output_file_reader_gone(const struct output_file *f);
/* Writes everything and closes.  END: the reader of a pipe has gone.  Frees
 * the handle in every case.  SIGPIPE and SIGXFSZ are ignored meanwhile: an
 * error is reported instead. */
enum result output_file_finish(struct output_file *f, const struct strbuf *b,
                               struct error *e);
/* Leaves what stood there before. */
void output_file_abandon(struct output_file *f);

#endif
