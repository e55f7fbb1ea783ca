/* SPDX-License-Identifier: MIT
 *
 * Where the sections of the segment stand.  Only the creator needs these; a
 * reader takes them from the section table.
 */
#ifndef SHM_SHM_INTERNAL_H
#define SHM_SHM_INTERNAL_H

#include <stddef.h>

#include "shm/shm.h"
#include "tecs/abi.h"

#define SEGMENT_CONTROL_OFFSET 1024u
#define SEGMENT_VMS_OFFSET 4096u
#define SEGMENT_SLOTS_OFFSET 16384u
#define SEGMENT_RINGS_OFFSET 65536u /* page aligned: backed ring by ring */
#define SEGMENT_FIXED_SIZE SEGMENT_RINGS_OFFSET
#define SEGMENT_ABORTS_OFFSET                                                  \
  (SEGMENT_RINGS_OFFSET + (uint64_t)TECS_SLOTS * TECS_RING_BYTES)
#define SEGMENT_ABORT_ROWS_OFFSET (SEGMENT_ABORTS_OFFSET + 4096u)
/* backed when a trace session begins (shm_back_aborts) */
#define SEGMENT_ABORTS_SIZE                                                    \
  (4096u + (uint64_t)TECS_ABORT_ROWS * sizeof(struct tecs_abort))
#define SEGMENT_LOG_OFFSET (SEGMENT_ABORTS_OFFSET + SEGMENT_ABORTS_SIZE)
/* backed when a VM comes, its bytes as they fill (shm_log_back) */
#define SEGMENT_SIZE (SEGMENT_LOG_OFFSET + sizeof(struct tecs_log))

_Static_assert(sizeof(struct tecs_section) == 32, "abi");
_Static_assert(sizeof(struct tecs_header) == 384, "abi");
_Static_assert(sizeof(struct tecs_control) == 64, "abi");
_Static_assert(sizeof(struct tecs_aborts) == 64, "abi");
_Static_assert(sizeof(struct tecs_abort) == 640, "abi");
_Static_assert(sizeof(struct tecs_log_vm) == 64, "abi");
_Static_assert(sizeof(struct tecs_log_trace) == 64, "abi");
_Static_assert(sizeof(struct tecs_log_proto) == 16, "abi");
_Static_assert(sizeof(struct tecs_log_event) == 12, "abi");
_Static_assert(offsetof(struct tecs_log, vm) == 64, "abi");
_Static_assert(offsetof(struct tecs_log, bytes) % 4096 == 64, "abi");
_Static_assert(SHM_LOG_TRACE_MAX < TECS_LOG_BYTES / 8, "abi");
_Static_assert(SEGMENT_LOG_OFFSET % 4096 == 0, "whole pages are backed");
_Static_assert(sizeof(struct tecs_vm) == 64, "abi");
_Static_assert(sizeof(struct tecs_slot) == 128, "abi");
_Static_assert(sizeof(struct tecs_record) == 8, "abi");
_Static_assert(sizeof(struct tecs_sample) == 200, "abi");
_Static_assert(sizeof(struct tecs_sample_vm) == 48, "abi");
_Static_assert(sizeof(struct tecs_frame) == 16, "abi");
_Static_assert(sizeof(struct tecs_zone) == 16, "abi");
_Static_assert(sizeof(struct tecs_native) == 16, "abi");
_Static_assert(sizeof(struct tecs_string) == 24, "abi");
_Static_assert(sizeof(struct tecs_proto) == 64, "abi");
_Static_assert(sizeof(struct tecs_range) == 16, "abi");
_Static_assert(sizeof(struct tecs_mcode) == 24, "abi");
_Static_assert(sizeof(struct tecs_bytecode) == 32, "abi");
_Static_assert(sizeof(struct tecs_snap) == 12, "abi");
_Static_assert(sizeof(struct tecs_trace_object) == 16, "abi");
_Static_assert(sizeof(struct tecs_trace) == 80, "abi");

_Static_assert(sizeof(struct tecs_header) <= SEGMENT_CONTROL_OFFSET, "fit");
_Static_assert(SEGMENT_VMS_OFFSET + sizeof(struct tecs_vm) * TECS_VMS <=
                   SEGMENT_SLOTS_OFFSET,
               "fit");
_Static_assert(SEGMENT_SLOTS_OFFSET + sizeof(struct tecs_slot) * TECS_SLOTS <=
                   SEGMENT_RINGS_OFFSET,
               "fit");

/* Puts memory behind [from, to).  FULL: there is none left. */
enum result shm_back(struct shm *s, const void *from, const void *to);

#endif
