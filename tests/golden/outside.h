/* SPDX-License-Identifier: MIT
 *
 * Samples of a program without an agent, as the ptrace engine takes them.
 */
#ifndef GOLDEN_OUTSIDE_H
#define GOLDEN_OUTSIDE_H

#include <stdbool.h>
#include <sys/types.h>

#include "shm/shm.h"
#include "target/target.h"

struct from_outside;

/* shm: a private segment, which gets the records.  NULL: cannot. */
struct from_outside *from_outside_open(struct target *t, struct shm *shm);
void from_outside_close(struct from_outside *o);
/* One sample of that thread into its slot's ring; false: it could not be
 * stopped, or there was no room. */
bool from_outside_take(struct from_outside *o, unsigned slot, pid_t tid);

#endif
