/* SPDX-License-Identifier: MIT */
#include "symbols/symbols_internal.h"

#include <lzma.h>
#include <stdlib.h>
#include <string.h>

/* Far above what distributions ship (libc: half a megabyte). */
#define UNPACKED_MAX (64u << 20)
#define MEMORY_MAX (256u << 20) /* of the decoder */

/* NULL: damaged, or larger than the limits. */
static uint8_t *unpack(const uint8_t *in, size_t size, size_t *len)
{
  uint8_t *out = NULL, *p;
  size_t cap = 0;
  lzma_stream z = LZMA_STREAM_INIT;
  lzma_ret r = lzma_stream_decoder(&z, MEMORY_MAX, 0);

  z.next_in = in;
  z.avail_in = size;
  for (*len = 0; r == LZMA_OK && cap < UNPACKED_MAX; *len = cap - z.avail_out) {
    p = realloc(out, cap + (cap == 0 ? 1u << 16 : cap));
    if (p == NULL)
      break;
    out = p;
    z.next_out = out + *len;
    z.avail_out = (cap == 0 ? 1u << 16 : cap * 2) - *len;
    cap = cap == 0 ? 1u << 16 : cap * 2;
    r = lzma_code(&z, LZMA_FINISH);
  }
  lzma_end(&z);
  if (r == LZMA_STREAM_END)
    return out;
  free(out);
  return NULL;
}

bool debugdata_open(Elf *elf, struct sym_source *out)
{
  Elf_Data *data = elf_section_data(elf, ".gnu_debugdata");
  size_t len = 0;

  *out = (struct sym_source){.fd = -1};
  if (data == NULL)
    return false;
  out->bytes = unpack(data->d_buf, data->d_size, &len);
  if (out->bytes != NULL)
    out->elf = elf_memory((char *)out->bytes, len);
  if (out->elf != NULL && elf_kind(out->elf) == ELF_K_ELF &&
      elf64_getehdr(out->elf) != NULL)
    return true;
  source_close(out);
  return false;
}
