/* SPDX-License-Identifier: MIT
 *
 * One cell of a CSV file as RFC 4180 has it.  The agent and the collector both
 * write the table of trace aborts, and write the same bytes.
 *
 * A text that a spreadsheet would take for a formula (it begins with = + - @,
 * a tab or a carriage return) gets an apostrophe in front: chunk and zone names
 * come from the program that is watched.
 */
#ifndef BASE_CSV_H
#define BASE_CSV_H

#include <stddef.h>

/* Room that a cell of len bytes needs at most. */
#define CSV_CELL_MAX(len) (2 * (len) + 3)

/* Writes the cell (no comma, no line end, no NUL) and returns its length. */
size_t csv_cell(char *to, const char *text, size_t len);

#endif
