/* SPDX-License-Identifier: MIT
 *
 * Functions that are in .symtab alone: this program's own, read from its file
 * and from copies with damage.
 */
#include <check.h>
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/symtab.h"
#include "suite.h"

#define KEPT __attribute__((noinline, used))

/* What there is to find; calls, so that no two are alike. */
KEPT int lua_unit_alpha(int n)
{
  return n * 3 + 1;
}
KEPT int lua_unit_beta(int n)
{
  return n * 5 - 2;
}
/* Names share their ends in a string table. */
KEPT int not_lua_unit_beta(int n)
{
  return n * 7 - 4;
}
static KEPT int lua_unit_of_file(int n)
{
  return n * 11 - 8;
}
int lua_unit_data[4] = {1, 2, 3, 4};

enum { ALPHA, BETA, OF_FILE, DATA, NOWHERE, WANTED };
static struct symtab_wanted wanted[WANTED];
static struct symtab_image image;
static uint8_t *file, *damaged;
static size_t size;

static int program(struct dl_phdr_info *info, size_t n, void *arg)
{
  (void)n, (void)arg; /* the first is the program */
  image = (struct symtab_image){info->dlpi_name, info->dlpi_addr,
                                info->dlpi_phdr, info->dlpi_phnum};
  return 1;
}

static void want(void)
{
  static const char *const names[WANTED] = {"lua_unit_alpha", "lua_unit_beta",
                                            "lua_unit_of_file", "lua_unit_data",
                                            "lua_unit_nowhere"};
  for (int i = 0; i < WANTED; i++)
    wanted[i] = (struct symtab_wanted){names[i], 0};
}

static void setup(void)
{
  struct stat st;
  int fd = open("/proc/self/exe", O_RDONLY);
  ck_assert_int_eq(fstat(fd, &st), 0);
  size = (size_t)st.st_size;
  file = malloc(size), damaged = malloc(size);
  ck_assert_int_eq(read(fd, file, size), (ssize_t)size);
  memcpy(damaged, file, size);
  close(fd);
  dl_iterate_phdr(program, NULL);
  want();
}

static void search(size_t n, enum symtab_kind kind)
{
  int fd = memfd_create("damaged", 0);
  ck_assert_int_eq(write(fd, damaged, n), (ssize_t)n);
  want();
  symtab_search(fd, kind, &image, wanted, WANTED);
  close(fd);
}

static void nothing_found(void)
{
  for (int i = 0; i < WANTED; i++)
    ck_assert_uint_eq(wanted[i].address, 0);
}

static Elf64_Ehdr *ehdr(void)
{
  return (Elf64_Ehdr *)damaged;
}

static Elf64_Shdr *section(uint32_t type)
{
  Elf64_Shdr *sh = (Elf64_Shdr *)(damaged + ehdr()->e_shoff);
  for (int i = 0; i < ehdr()->e_shnum; i++)
    if (sh[i].sh_type == type)
      return &sh[i];
  ck_abort_msg("no section of type %u", type);
  return NULL;
}

static Elf64_Sym *symbol(const char *name)
{
  Elf64_Shdr *tab = section(SHT_SYMTAB);
  Elf64_Shdr *str = (Elf64_Shdr *)(damaged + ehdr()->e_shoff) + tab->sh_link;
  Elf64_Sym *sym = (Elf64_Sym *)(damaged + tab->sh_offset);
  for (size_t i = 0; i < tab->sh_size / sizeof *sym; i++)
    if (!strcmp((char *)damaged + str->sh_offset + sym[i].st_name, name))
      return &sym[i];
  ck_abort_msg("no symbol %s", name);
  return NULL;
}

static uint8_t *code(const Elf64_Sym *sym)
{
  for (unsigned i = 0; i < image.phnum; i++)
    if (image.phdr[i].p_type == PT_LOAD &&
        sym->st_value - image.phdr[i].p_vaddr < image.phdr[i].p_filesz)
      return damaged + image.phdr[i].p_offset + sym->st_value -
             image.phdr[i].p_vaddr;
  ck_abort_msg("not loaded");
  return NULL;
}

/* ---- */

static void found_what_there_is(void)
{
  ck_assert_uint_eq(wanted[ALPHA].address, (uint64_t)lua_unit_alpha);
  ck_assert_uint_eq(wanted[BETA].address, (uint64_t)lua_unit_beta);
  ck_assert_uint_eq(wanted[OF_FILE].address, 0);
  ck_assert_uint_eq(wanted[DATA].address, 0);
  ck_assert_uint_eq(wanted[NOWHERE].address, 0);
}

START_TEST(test_own)
{
  symtab_find((uint64_t)lua_unit_alpha, wanted, WANTED);
  found_what_there_is();
  search(size, SYMTAB_PROGRAM);
  found_what_there_is();
}
END_TEST

START_TEST(test_found_already)
{
  wanted[ALPHA].address = 0x1234;
  symtab_find((uint64_t)lua_unit_alpha, wanted, WANTED);
  ck_assert_uint_eq(wanted[ALPHA].address, 0x1234);
  ck_assert_uint_eq(wanted[BETA].address, (uint64_t)lua_unit_beta);
}
END_TEST

START_TEST(test_no_object)
{
  symtab_find(4096, wanted, WANTED);
  nothing_found();
}
END_TEST

START_TEST(test_another_build)
{
  *code(symbol("lua_unit_alpha")) ^= 1;
  search(size, SYMTAB_PROGRAM);
  ck_assert_uint_eq(wanted[ALPHA].address, 0);
  ck_assert_uint_eq(wanted[BETA].address, (uint64_t)lua_unit_beta);
}
END_TEST

START_TEST(test_one_name_twice)
{
  symbol("not_lua_unit_beta")->st_name = symbol("lua_unit_beta")->st_name;
  search(size, SYMTAB_PROGRAM);
  ck_assert_uint_eq(wanted[ALPHA].address, (uint64_t)lua_unit_alpha);
  ck_assert_uint_eq(wanted[BETA].address, 0);
}
END_TEST

/* Those that the linker made local stand at a file without a name. */
START_TEST(test_made_local)
{
  Elf64_Sym *sym = symbol("lua_unit_of_file"), *of = sym;
  while (ELF64_ST_TYPE(of->st_info) != STT_FILE)
    of--;
  of->st_name = 0;
  search(size, SYMTAB_PROGRAM);
  ck_assert_uint_eq(wanted[OF_FILE].address, (uint64_t)lua_unit_of_file);
}
END_TEST

/* Bad values of the symbol's own fields. */
START_TEST(test_bad_symbol)
{
  const uint64_t values[] = {0,
                             1,
                             UINT64_MAX,
                             UINT64_MAX - 8,
                             (uint64_t)lua_unit_data - image.bias,
                             1u << 31};
  Elf64_Sym *sym = symbol("lua_unit_alpha"), was = *sym;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    sym->st_value = values[i];
    search(size, SYMTAB_PROGRAM);
    ck_assert_uint_eq(wanted[ALPHA].address, 0);
    *sym = was;
    if (!values[i] || values[i] > INT32_MAX) {
      sym->st_size = values[i];
      search(size, SYMTAB_PROGRAM);
      ck_assert_uint_eq(wanted[ALPHA].address, 0);
      *sym = was;
    }
  }
  sym->st_shndx = SHN_UNDEF;
  search(size, SYMTAB_PROGRAM);
  ck_assert_uint_eq(wanted[ALPHA].address, 0);
  ck_assert_uint_eq(wanted[BETA].address, (uint64_t)lua_unit_beta);
}
END_TEST

START_TEST(test_bad_tables)
{
  const uint64_t bad[] = {UINT64_MAX, UINT64_MAX - 23, size, size - 1,
                          1ull << 62};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    for (int what = 0; what < 5; what++) {
      memcpy(damaged, file, size);
      Elf64_Shdr *tab = section(SHT_SYMTAB);
      Elf64_Shdr *str =
          (Elf64_Shdr *)(damaged + ehdr()->e_shoff) + tab->sh_link;
      switch (what) {
      case 0:
        tab->sh_offset = bad[i];
        break;
      case 1:
        tab->sh_size = bad[i];
        break;
      case 2:
        str->sh_offset = bad[i];
        break;
      case 3:
        str->sh_size = bad[i];
        break;
      default:
        ehdr()->e_shoff = bad[i];
      }
      search(size, SYMTAB_PROGRAM);
      nothing_found();
    }
}
END_TEST

START_TEST(test_bad_links)
{
  section(SHT_SYMTAB)->sh_link = 60000;
  search(size, SYMTAB_PROGRAM);
  nothing_found();
  memcpy(damaged, file, size);
  section(SHT_SYMTAB)->sh_entsize = 0;
  search(size, SYMTAB_PROGRAM);
  nothing_found();
  memcpy(damaged, file, size);
  ehdr()->e_shnum = 0; /* stands in the first section then, where 0 is */
  search(size, SYMTAB_PROGRAM);
  nothing_found();
}
END_TEST

/* A debug file is known by its build-id, and has no code to compare. */
START_TEST(test_debug_file)
{
  static const char gnu[] = {4, 0, 0, 0, 20,  0,   0,  0,
                             3, 0, 0, 0, 'G', 'N', 'U'};
  uint8_t *note = memmem(damaged, size, gnu, sizeof gnu);
  *code(symbol("lua_unit_alpha")) ^= 1;
  search(size, SYMTAB_DEBUG);
  if (!note) { /* built without: nothing says that it belongs */
    nothing_found();
    return;
  }
  found_what_there_is();
  note[16] ^= 1;
  search(size, SYMTAB_DEBUG);
  nothing_found();
}
END_TEST

START_TEST(test_cut)
{
  for (size_t n = 0; n < size; n += n < 4096 ? 97 : size / 61) {
    search(n, SYMTAB_PROGRAM); /* the sections' table stands at the end */
    nothing_found();
  }
}
END_TEST

static uint32_t random_state;
static uint32_t next_random(uint32_t below)
{
  random_state = random_state * 1664525 + 1013904223;
  return (random_state >> 8) % below;
}

static void damage(void)
{
  Elf64_Shdr *tab = section(SHT_SYMTAB);
  Elf64_Shdr *str = (Elf64_Shdr *)(damaged + ehdr()->e_shoff) + tab->sh_link;
  const struct {
    uint64_t at, len;
  } places[] = {
      {0, sizeof(Elf64_Ehdr)},
      {ehdr()->e_shoff, ehdr()->e_shnum * sizeof *tab},
      {tab->sh_offset, tab->sh_size},
      {str->sh_offset, str->sh_size},
      {(uint64_t)((uint8_t *)symbol("lua_unit_alpha") - damaged),
       sizeof(Elf64_Sym)},
  };
  unsigned place = next_random(5);
  uint64_t at = places[place].at, len = places[place].len;
  for (unsigned i = 0; i < 1 + next_random(8); i++)
    damaged[at + next_random((uint32_t)len)] = (uint8_t)next_random(256);
}

/* Whatever a file says: no fault, and nothing but code of the program. */
START_TEST(test_damage)
{
  random_state = (uint32_t)_i;
  for (int run = 0; run < 200; run++) {
    memcpy(damaged, file, size);
    damage();
    search(size, run % 2 ? SYMTAB_PROGRAM : SYMTAB_DEBUG);
    for (int i = 0; i < WANTED; i++) {
      bool in_code = !wanted[i].address;
      for (unsigned k = 0; k < image.phnum; k++)
        in_code |= image.phdr[k].p_type == PT_LOAD &&
                   image.phdr[k].p_flags & PF_X &&
                   wanted[i].address - image.bias - image.phdr[k].p_vaddr <
                       image.phdr[k].p_filesz;
      ck_assert_msg(in_code, "%s at %#lx", wanted[i].name,
                    (unsigned long)wanted[i].address);
    }
  }
}
END_TEST

int main(void)
{
  Suite *s = suite_create("symtab");
  TCase *tc = tcase_create("symtab");
  tcase_add_checked_fixture(tc, setup, NULL);
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, test_own);
  tcase_add_test(tc, test_found_already);
  tcase_add_test(tc, test_no_object);
  tcase_add_test(tc, test_another_build);
  tcase_add_test(tc, test_one_name_twice);
  tcase_add_test(tc, test_made_local);
  tcase_add_test(tc, test_bad_symbol);
  tcase_add_test(tc, test_bad_tables);
  tcase_add_test(tc, test_bad_links);
  tcase_add_test(tc, test_debug_file);
  tcase_add_test(tc, test_cut);
  tcase_add_loop_test(tc, test_damage, 0, 8);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
