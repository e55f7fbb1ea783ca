/* SPDX-License-Identifier: MIT
 *
 * Separate debug files: by build-id, else by .gnu_debuglink.  A file is used
 * only when its own build-id or its checksum says that it belongs.
 */
#include "symbols/symbols_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEBUG_DIR "/usr/lib/debug"
#define ROOTS 2

/* Where a debug file may be: here, and where the target sees its files. */
struct root {
  char path[32];
};

static void find_roots(const struct module *mod, struct root out[ROOTS])
{
  out[0].path[0] = '\0';
  snprintf(out[1].path, sizeof out[1].path, "/proc/%d/root",
           (int)target_pid(mod->im.target));
}

/* ---- opening ---- */

void source_close(struct sym_source *s)
{
  if (s->elf != NULL)
    elf_end(s->elf);
  if (s->fd >= 0)
    close(s->fd);
  free(s->path);
  free(s->bytes);
  *s = (struct sym_source){.fd = -1};
}

/* NONBLOCK: what stands at a path in the target's files may be a FIFO. */
static bool open_source(const char *path, struct sym_source *out)
{
  struct stat st;

  *out = (struct sym_source){
      .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (out->fd >= 0 && fstat(out->fd, &st) == 0 && S_ISREG(st.st_mode)) {
    out->elf = elf_begin(out->fd, ELF_C_READ, NULL);
    out->path = strdup(path);
  }
  if (out->path != NULL && out->elf != NULL &&
      elf_kind(out->elf) == ELF_K_ELF && elf64_getehdr(out->elf) != NULL)
    return true;
  source_close(out);
  return false;
}

static bool open_with_id(const char *path, const struct build_id *id,
                         struct sym_source *out)
{
  struct build_id found;

  if (!open_source(path, out))
    return false;
  if (build_id_of_file(out->elf, &found) && build_id_same(&found, id))
    return true;
  source_close(out);
  return false;
}

static bool open_by_build_id(const struct build_id *id, const char *root,
                             struct sym_source *out)
{
  char path[sizeof DEBUG_DIR + 64 + 2 * BUILD_ID_MAX + 32];
  int n = snprintf(path, sizeof path, "%s" DEBUG_DIR "/.build-id/%02x/", root,
                   id->byte[0]);

  for (size_t i = 1; i < id->len; i++)
    n += snprintf(path + n, sizeof path - (size_t)n, "%02x", id->byte[i]);
  snprintf(path + n, sizeof path - (size_t)n, ".debug");
  return open_with_id(path, id, out);
}

/* ---- .gnu_debuglink ---- */

/* CRC-32 as in the gdb manual, "Separate Debug Files". */
static void crc32_table(uint32_t table[256])
{
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int k = 0; k < 8; k++)
      c = (c & 1) != 0 ? (c >> 1) ^ UINT32_C(0xedb88320) : c >> 1;
    table[i] = c;
  }
}

static bool file_has_crc(int fd, uint32_t want)
{
  uint8_t buf[16384];
  uint32_t table[256], crc = UINT32_MAX;
  off_t at = 0;
  ssize_t n;

  crc32_table(table);
  while ((n = pread(fd, buf, sizeof buf, at)) > 0) {
    for (ssize_t i = 0; i < n; i++)
      crc = table[(crc ^ buf[i]) & 255] ^ (crc >> 8);
    at += n;
  }
  return n == 0 && ~crc == want;
}

Elf_Data *elf_section_data(Elf *elf, const char *want)
{
  Elf_Scn *scn = NULL;
  size_t names;

  if (elf_getshdrstrndx(elf, &names) != 0)
    return NULL;
  while ((scn = elf_nextscn(elf, scn)) != NULL) {
    Elf64_Shdr *sh = elf64_getshdr(scn);
    const char *name = sh ? elf_strptr(elf, names, sh->sh_name) : NULL;
    if (name == NULL || strcmp(name, want) != 0 || sh->sh_type == SHT_NOBITS)
      continue;
    Elf_Data *data = elf_rawdata(scn, NULL);
    return data != NULL && data->d_buf != NULL ? data : NULL;
  }
  return NULL;
}

/* The name of the debug file and its checksum; NULL: no such section. */
static const char *read_debuglink(Elf *elf, uint32_t *crc)
{
  Elf_Data *data = elf_section_data(elf, ".gnu_debuglink");
  size_t len, at;

  if (data == NULL || data->d_size < 8)
    return NULL;
  len = strnlen(data->d_buf, data->d_size);
  at = (len + 4) & ~(size_t)3;
  if (len == 0 || at + 4 > data->d_size ||
      memchr(data->d_buf, '/', len) != NULL)
    return NULL;
  memcpy(crc, (char *)data->d_buf + at, 4);
  return data->d_buf;
}

static bool open_by_link(const char *link, uint32_t crc, const char *path,
                         const char *root, struct sym_source *out)
{
  static const char *const form[] = {"%s%.*s/%s", "%s%.*s/.debug/%s",
                                     "%s" DEBUG_DIR "%.*s/%s"};
  const char *slash = strrchr(path, '/');
  char file[4096];

  if (slash == NULL)
    return false;
  for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
    int n = snprintf(file, sizeof file, form[i], root, (int)(slash - path),
                     path, link);
    if (n < 0 || (size_t)n >= sizeof file || !open_source(file, out))
      continue;
    if (file_has_crc(out->fd, crc))
      return true;
    source_close(out);
  }
  return false;
}

bool debugfile_open(struct module *mod, struct sym_source *out)
{
  Elf *elf = module_elf(mod);
  struct root root[ROOTS];
  uint32_t crc = 0;
  const char *link = elf != NULL ? read_debuglink(elf, &crc) : NULL;

  find_roots(mod, root);
  for (size_t i = 0; i < ROOTS; i++) {
    if (mod->id.len > 0 && open_by_build_id(&mod->id, root[i].path, out))
      return true;
    if (link != NULL && open_by_link(link, crc, mod->path, root[i].path, out))
      return true;
  }
  return false;
}

/* ---- .gnu_debugaltlink ---- */

bool debugfile_open_alt(struct module *mod, const char *of, const char *name,
                        const struct build_id *id, struct sym_source *out)
{
  const char *slash = strrchr(of, '/');
  struct root root[ROOTS];
  char file[4096];

  if (id->len == 0)
    return false;
  if (name[0] != '/') {
    int n = snprintf(file, sizeof file, "%.*s/%s",
                     slash != NULL ? (int)(slash - of) : 0, of, name);
    return n > 0 && (size_t)n < sizeof file && open_with_id(file, id, out);
  }
  find_roots(mod, root);
  for (size_t i = 0; i < ROOTS; i++) {
    int n = snprintf(file, sizeof file, "%s%s", root[i].path, name);
    if ((n > 0 && (size_t)n < sizeof file && open_with_id(file, id, out)) ||
        open_by_build_id(id, root[i].path, out))
      return true;
  }
  return false;
}
