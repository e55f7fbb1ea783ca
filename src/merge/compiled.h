/* SPDX-License-Identifier: MIT
 *
 * Lines of compiled code: shared by compiled.c and maker.c.
 */
#ifndef MERGE_COMPILED_H
#define MERGE_COMPILED_H

#include <stdbool.h>

#include "lines/lines.h"
#include "vm/vm.h"

struct maker;
struct maker_job;

/* The store's; NULL: no memory. */
struct maker *maker_of(struct vm_store *vm);
/* Asks for the lines of a trace, of which it keeps a copy.  NULL: not now. */
struct maker_job *maker_ask(struct maker *mk, struct vm_store *vm,
                            const struct vm_trace *t);
/* Waits within the budget.  true: it is done, *out is the caller's (NULL: it
 * has no lines) and the job is gone.  false: not yet. */
bool maker_take(struct maker *mk, struct maker_job *j, struct lines_map **out);
/* Gives a job up. */
void maker_drop(struct maker *mk, struct maker_job *j);

#endif
