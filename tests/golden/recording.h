/* SPDX-License-Identifier: MIT
 *
 * What a recording of a process is on disk: a folder with
 *   maps      text of its maps, as far as the samples need them
 *   root/...  the mapped files, reduced (below), by their paths
 *   vms       array of struct tecs_vm, the segment's table
 *   stream    the records as they came out of the rings, each behind a struct
 *             frame_head
 *   truth     for each stage of the program its Lua frames (host.c) and the
 *             number of samples: lines `truth LABEL FRAME...` and `stage LABEL
 *             COUNT`
 *
 * A reduced file has the bytes that a sample may need in their old places and
 * nothing else: REDUCED_MAGIC, its size (uint64_t), then pieces: a struct
 * piece_head and its bytes.  What is left out is zero.
 */
#ifndef GOLDEN_RECORDING_H
#define GOLDEN_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tecs/abi.h"

#define REDUCED_MAGIC "reduced\n"
#define RECORDED_HOME "/golden" /* stands for the folder it was recorded in */

struct frame_head {
  uint32_t slot;
  uint32_t len; /* of the record */
};

struct piece_head {
  uint64_t offset;
  uint64_t len;
};

struct bytes {
  uint8_t *data; /* malloc'ed, suitably aligned */
  size_t len;
};

/* false: can't be read. */
bool bytes_read(const char *path, struct bytes *out);
void bytes_free(struct bytes *b);
/* Writes data as the file; false with errno. */
bool bytes_write(const char *path, const void *data, size_t len);
/* Makes the folders above path. */
bool make_folders(const char *path);

/* A folder as target_open_recorded wants it, made from a recording: the files
 * of root/ as large as they were. */
bool recording_unpack(const char *from, const char *to);
/* Removes what recording_unpack has made. */
void recording_remove(const char *dir);

/* Makes maps and root/ from the whole maps and the files that they name;
 * home: folder that becomes RECORDED_HOME.  false: text says why. */
bool recording_reduce(const char *dir, const char *maps, const char *home,
                      char *text, size_t cap);

#endif
