/* SPDX-License-Identifier: MIT
 *
 * Which files may have the symbols of an object: its own, then debug files
 * where distributions and .gnu_debuglink put them (gdb's manual, "Debugging
 * Information in Separate Files"), here taken by their build-id alone.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/symtab_internal.h"

#define DEBUG_DIR "/usr/lib/debug"

struct holder {
  uint64_t code;
  struct symtab_image image;
};

static int holds(struct dl_phdr_info *info, size_t size, void *arg)
{
  struct holder *h = arg;
  (void)size;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
    if (ph->p_type != PT_LOAD ||
        h->code - info->dlpi_addr - ph->p_vaddr >= ph->p_memsz)
      continue;
    h->image = (struct symtab_image){info->dlpi_name, info->dlpi_addr,
                                     info->dlpi_phdr, info->dlpi_phnum};
    return 1;
  }
  return 0;
}

static bool complete(const struct symtab_wanted *wanted, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (!wanted[i].address)
      return false;
  return true;
}

/* NONBLOCK: what stands there may be a FIFO. */
static int open_path(const char *path)
{
  return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* The name in .gnu_debuglink of the file that s has open; "": none. */
static void read_link(struct scratch *s)
{
  static const char name[] = ".gnu_debuglink";
  const struct elf_file *f = &s->file;
  ElfW(Shdr) names, sh;
  char section[sizeof name];
  s->link[0] = '\0';
  if (!elf_file_section(f, f->ehdr.e_shstrndx, &names))
    return;
  for (uint64_t i = 0; elf_file_section(f, i, &sh); i++)
    if (sh.sh_type == SHT_PROGBITS && sh.sh_name < names.sh_size &&
        sh.sh_size > 4 && sh.sh_size < LINK_MAX && names.sh_offset < f->size &&
        elf_file_read(f, names.sh_offset + sh.sh_name, section,
                      sizeof section) &&
        !memcmp(section, name, sizeof name) &&
        elf_file_read(f, sh.sh_offset, s->link, sh.sh_size))
      break;
  s->link[LINK_MAX - 1] = '\0';
}

static void in_program(struct scratch *s, const char *path,
                       const struct symtab_image *im,
                       struct symtab_wanted *wanted, size_t n)
{
  int fd = open_path(path);
  if (fd < 0)
    return;
  search(s, fd, SYMTAB_PROGRAM, im, wanted, n);
  if (!s->link[0] && elf_file_open(&s->file, fd))
    read_link(s);
  close(fd);
}

static void in_debug_file(struct scratch *s, const struct symtab_image *im,
                          struct symtab_wanted *wanted, size_t n)
{
  int fd = complete(wanted, n) ? -1 : open_path(s->path);
  if (fd < 0)
    return;
  search(s, fd, SYMTAB_DEBUG, im, wanted, n);
  close(fd);
}

static void by_build_id(struct scratch *s, const struct symtab_image *im,
                        struct symtab_wanted *wanted, size_t n)
{
  struct file_id id;
  image_build_id(im, &id);
  if (id.len < 2)
    return;
  int at = snprintf(s->path, sizeof s->path, DEBUG_DIR "/.build-id/%02x/",
                    id.byte[0]);
  for (uint32_t i = 1; i < id.len; i++)
    at +=
        snprintf(s->path + at, sizeof s->path - (size_t)at, "%02x", id.byte[i]);
  snprintf(s->path + at, sizeof s->path - (size_t)at, ".debug");
  in_debug_file(s, im, wanted, n);
}

/* The folder of the object's file, into s->dir. */
static bool folder(struct scratch *s, const char *path)
{
  ssize_t n = readlink(path, s->dir, sizeof s->dir - 1);
  if (n <= 0 || s->dir[0] != '/') /* no link, or one within its folder */
    n = snprintf(s->dir, sizeof s->dir, "%s", path);
  if (n >= (ssize_t)sizeof s->dir)
    return false;
  s->dir[n] = '\0';
  char *slash = strrchr(s->dir, '/');
  if (slash)
    *slash = '\0';
  return slash && path[0] == '/';
}

static void by_link(struct scratch *s, const char *path,
                    const struct symtab_image *im, struct symtab_wanted *wanted,
                    size_t n)
{
  static const char *const where[][2] = {
      {"", "/"}, {"", "/.debug/"}, {DEBUG_DIR, "/"}};
  if (!s->link[0] || strchr(s->link, '/') || !folder(s, path))
    return;
  for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
    snprintf(s->path, sizeof s->path, "%s%s%s%s", where[i][0], s->dir,
             where[i][1], s->link);
    in_debug_file(s, im, wanted, n);
  }
}

/* The program by /proc/self/exe: its path may name another file by now. */
void symtab_find(uint64_t code, struct symtab_wanted *wanted, size_t n)
{
  int saved = errno;
  struct holder h = {.code = code};
  struct scratch *s = dl_iterate_phdr(holds, &h) ? scratch_map() : NULL;
  if (s) {
    const char *path = *h.image.path ? h.image.path : "/proc/self/exe";
    in_program(s, path, &h.image, wanted, n);
    by_build_id(s, &h.image, wanted, n);
    by_link(s, path, &h.image, wanted, n);
    scratch_unmap(s);
  }
  errno = saved;
}
