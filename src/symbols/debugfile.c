/* SPDX-License-Identifier: MIT
 *
 * Separate debug files: by build-id, else by .gnu_debuglink.  A file is used
 * only when its own build-id or its checksum says that it belongs.
 */
#include "symbols/symbols_internal.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEBUG_DIR "/usr/lib/debug"
#define BUILD_ID_MAX 64

struct build_id {
  uint8_t byte[BUILD_ID_MAX];
  size_t len;
};

static bool find_in_notes(Elf_Data *data, struct build_id *id)
{
  size_t at = 0, next, name, desc;
  GElf_Nhdr nh;

  while ((next = gelf_getnote(data, at, &nh, &name, &desc)) > 0) {
    if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 &&
        memcmp((char *)data->d_buf + name, "GNU", 4) == 0 && nh.n_descsz > 1 &&
        nh.n_descsz <= BUILD_ID_MAX) {
      memcpy(id->byte, (char *)data->d_buf + desc, nh.n_descsz);
      id->len = nh.n_descsz;
      return true;
    }
    at = next;
  }
  return false;
}

static bool read_build_id(Elf *elf, struct build_id *id)
{
  Elf_Scn *scn = NULL;

  while ((scn = elf_nextscn(elf, scn)) != NULL) {
    Elf64_Shdr *sh = elf64_getshdr(scn);
    if (sh == NULL || sh->sh_type != SHT_NOTE)
      continue;
    Elf_Data *data = elf_getdata(scn, NULL);
    if (data != NULL && data->d_buf != NULL && find_in_notes(data, id))
      return true;
  }
  return false;
}

/* ---- opening ---- */

static void close_source(struct sym_source *s)
{
  if (s->elf != NULL)
    elf_end(s->elf);
  if (s->fd >= 0)
    close(s->fd);
  *s = (struct sym_source){.fd = -1};
}

static bool open_source(const char *path, struct sym_source *out)
{
  *out = (struct sym_source){.fd = open(path, O_RDONLY | O_CLOEXEC)};
  if (out->fd < 0)
    return false;
  out->elf = elf_begin(out->fd, ELF_C_READ, NULL);
  if (out->elf != NULL && elf_kind(out->elf) == ELF_K_ELF)
    return true;
  close_source(out);
  return false;
}

static bool open_by_build_id(const struct build_id *id, const char *root,
                             struct sym_source *out)
{
  char path[sizeof DEBUG_DIR + 64 + 2 * BUILD_ID_MAX + 32];
  struct build_id found;
  int n = snprintf(path, sizeof path, "%s" DEBUG_DIR "/.build-id/%02x/", root,
                   id->byte[0]);

  for (size_t i = 1; i < id->len; i++)
    n += snprintf(path + n, sizeof path - (size_t)n, "%02x", id->byte[i]);
  snprintf(path + n, sizeof path - (size_t)n, ".debug");
  if (!open_source(path, out))
    return false;
  if (read_build_id(out->elf, &found) && found.len == id->len &&
      memcmp(found.byte, id->byte, id->len) == 0)
    return true;
  close_source(out);
  return false;
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

/* The name of the debug file and its checksum; NULL: no such section. */
static const char *read_debuglink(Elf *elf, uint32_t *crc)
{
  size_t names, len, at;
  Elf_Scn *scn = NULL;

  if (elf_getshdrstrndx(elf, &names) != 0)
    return NULL;
  while ((scn = elf_nextscn(elf, scn)) != NULL) {
    Elf64_Shdr *sh = elf64_getshdr(scn);
    const char *name = sh ? elf_strptr(elf, names, sh->sh_name) : NULL;
    if (name == NULL || strcmp(name, ".gnu_debuglink") != 0)
      continue;
    Elf_Data *data = elf_getdata(scn, NULL);
    if (data == NULL || data->d_buf == NULL || data->d_size < 8)
      return NULL;
    len = strnlen(data->d_buf, data->d_size);
    at = (len + 4) & ~(size_t)3;
    if (len == 0 || at + 4 > data->d_size ||
        memchr(data->d_buf, '/', len) != NULL)
      return NULL;
    memcpy(crc, (char *)data->d_buf + at, 4);
    return data->d_buf;
  }
  return NULL;
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
    close_source(out);
  }
  return false;
}

bool debugfile_open(Elf *elf, const char *path, pid_t pid,
                    struct sym_source *out)
{
  char root[2][64] = {"", ""};
  struct build_id id;
  bool has_id = read_build_id(elf, &id);
  uint32_t crc = 0;
  const char *link = read_debuglink(elf, &crc);

  snprintf(root[1], sizeof root[1], "/proc/%d/root", (int)pid);
  for (size_t i = 0; i < 2; i++) {
    if (has_id && open_by_build_id(&id, root[i], out))
      return true;
    if (link != NULL && open_by_link(link, crc, path, root[i], out))
      return true;
  }
  return false;
}
