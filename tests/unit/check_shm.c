/* SPDX-License-Identifier: MIT
 *
 * The segment: its golden layout, the ring, and what an attacher refuses.
 */
#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/shm.h"
#include "suite.h"

/* ---- golden layout ---- */

#define FIELD(s, f)                                                            \
  n += snprintf(out + n, sizeof out - (size_t)n, "%s.%s %zu %zu\n", #s, #f,    \
                offsetof(struct s, f), sizeof(((struct s *)0)->f))
#define SIZE(s)                                                                \
  n += snprintf(out + n, sizeof out - (size_t)n, "%s %zu\n", #s,               \
                sizeof(struct s))

static char out[16384];

static void list_segment(void)
{
  int n = (int)strlen(out);
  SIZE(tecs_header);
  FIELD(tecs_header, magic);
  FIELD(tecs_header, endian);
  FIELD(tecs_header, word_bytes);
  FIELD(tecs_header, major);
  FIELD(tecs_header, oldest);
  FIELD(tecs_header, minor);
  FIELD(tecs_header, header_size);
  FIELD(tecs_header, segment_size);
  FIELD(tecs_header, pid);
  FIELD(tecs_header, uid);
  FIELD(tecs_header, start_time);
  FIELD(tecs_header, cookie);
  FIELD(tecs_header, section_count);
  FIELD(tecs_header, state);
  FIELD(tecs_header, reason);
  FIELD(tecs_header, flags);
  FIELD(tecs_header, fault);
  FIELD(tecs_header, fault_at);
  FIELD(tecs_header, fault_len);
  FIELD(tecs_header, build);
  FIELD(tecs_header, section);
  SIZE(tecs_section);
  FIELD(tecs_section, tag);
  FIELD(tecs_section, offset);
  FIELD(tecs_section, size);
  FIELD(tecs_section, stride);
  FIELD(tecs_section, count);
  SIZE(tecs_control);
  FIELD(tecs_control, session);
  FIELD(tecs_control, owner);
  FIELD(tecs_control, owner_start);
  FIELD(tecs_control, rings_backed);
  FIELD(tecs_control, flags);
  FIELD(tecs_control, stack_max);
  FIELD(tecs_control, depth_max);
  FIELD(tecs_control, paused);
  FIELD(tecs_control, stop);
  FIELD(tecs_control, vm);
  FIELD(tecs_control, trace_session);
  FIELD(tecs_control, trace_owner);
  FIELD(tecs_control, trace_paused);
  FIELD(tecs_control, trace_stop);
}

static void list_tables(void)
{
  int n = (int)strlen(out);
  SIZE(tecs_vm);
  FIELD(tecs_vm, state);
  FIELD(tecs_vm, layout);
  FIELD(tecs_vm, g);
  FIELD(tecs_vm, asm_pc);
  FIELD(tecs_vm, asm_lo);
  FIELD(tecs_vm, asm_hi);
  FIELD(tecs_vm, tid);
  FIELD(tecs_vm, found);
  FIELD(tecs_vm, zone_table);
  FIELD(tecs_vm, events);
  FIELD(tecs_vm, replaced_s);
  SIZE(tecs_slot);
  FIELD(tecs_slot, tid);
  FIELD(tecs_slot, generation);
  FIELD(tecs_slot, tail);
  FIELD(tecs_slot, head);
  FIELD(tecs_slot, calls);
  FIELD(tecs_slot, lost);
  FIELD(tecs_slot, generation_seen);
  FIELD(tecs_slot, fault_count);
}

static void list_samples(void)
{
  int n = (int)strlen(out);
  SIZE(tecs_record);
  SIZE(tecs_sample);
  FIELD(tecs_sample, time_ns);
  FIELD(tecs_sample, tid);
  FIELD(tecs_sample, seq);
  FIELD(tecs_sample, flags);
  FIELD(tecs_sample, cost_ns);
  FIELD(tecs_sample, native_form);
  FIELD(tecs_sample, vm_count);
  FIELD(tecs_sample, lua_count);
  FIELD(tecs_sample, zone_count);
  FIELD(tecs_sample, native_count);
  FIELD(tecs_sample, stack_len);
  FIELD(tecs_sample, outer_len);
  FIELD(tecs_sample, stack_base);
  FIELD(tecs_sample, outer_base);
  FIELD(tecs_sample, reg);
  SIZE(tecs_sample_vm);
  FIELD(tecs_sample_vm, g);
  FIELD(tecs_sample_vm, L);
  FIELD(tecs_sample_vm, cframe);
  FIELD(tecs_sample_vm, mcode_pc);
  FIELD(tecs_sample_vm, vmstate);
  FIELD(tecs_sample_vm, layout);
  FIELD(tecs_sample_vm, trace);
  FIELD(tecs_sample_vm, snapshot);
  FIELD(tecs_sample_vm, vm_class);
  FIELD(tecs_sample_vm, rule);
  FIELD(tecs_sample_vm, error);
  SIZE(tecs_frame);
  FIELD(tecs_frame, value);
  FIELD(tecs_frame, pc);
  FIELD(tecs_frame, kind);
  FIELD(tecs_frame, flags);
  FIELD(tecs_frame, vm);
  SIZE(tecs_zone);
  FIELD(tecs_zone, value);
  FIELD(tecs_zone, kind);
  FIELD(tecs_zone, vm);
  SIZE(tecs_native);
  FIELD(tecs_native, ip);
  FIELD(tecs_native, cfa);
}

static void list_images(void)
{
  int n = (int)strlen(out);
  SIZE(tecs_string);
  FIELD(tecs_string, id);
  FIELD(tecs_string, full_len);
  FIELD(tecs_string, len);
  SIZE(tecs_proto);
  FIELD(tecs_proto, id);
  FIELD(tecs_proto, flags);
  FIELD(tecs_proto, addr);
  FIELD(tecs_proto, g);
  FIELD(tecs_proto, firstline);
  FIELD(tecs_proto, numline);
  FIELD(tecs_proto, sizebc);
  FIELD(tecs_proto, opcode_hash);
  FIELD(tecs_proto, chunk_len);
  FIELD(tecs_proto, name_len);
  FIELD(tecs_proto, lines_len);
  FIELD(tecs_proto, line_width);
  SIZE(tecs_range);
  SIZE(tecs_mcode);
  FIELD(tecs_mcode, g);
  FIELD(tecs_mcode, count);
}

static void list_aborts(void)
{
  int n = (int)strlen(out);
  SIZE(tecs_aborts);
  FIELD(tecs_aborts, session);
  FIELD(tecs_aborts, rows);
  FIELD(tecs_aborts, starts);
  FIELD(tecs_aborts, stops);
  FIELD(tecs_aborts, aborts);
  FIELD(tecs_aborts, flushes);
  FIELD(tecs_aborts, overflow);
  FIELD(tecs_aborts, blacklists);
  SIZE(tecs_abort);
  FIELD(tecs_abort, state);
  FIELD(tecs_abort, severity);
  FIELD(tecs_abort, count);
  FIELD(tecs_abort, pt);
  FIELD(tecs_abort, firstline);
  FIELD(tecs_abort, numline);
  FIELD(tecs_abort, reason_len);
  FIELD(tecs_abort, location_len);
  FIELD(tecs_abort, zone_len);
  FIELD(tecs_abort, reason);
  FIELD(tecs_abort, location);
  FIELD(tecs_abort, zone);
}

static void list_log(void)
{
  int n = (int)strlen(out);
  SIZE(tecs_log_vm);
  FIELD(tecs_log_vm, g);
  FIELD(tecs_log_vm, floor);
  FIELD(tecs_log_vm, state);
  FIELD(tecs_log_vm, since_s);
  FIELD(tecs_log_vm, logged);
  FIELD(tecs_log_vm, missed);
  SIZE(tecs_log);
  FIELD(tecs_log, head);
  FIELD(tecs_log, tail);
  FIELD(tecs_log, backed);
  FIELD(tecs_log, vm);
  FIELD(tecs_log, bucket);
  FIELD(tecs_log, bytes);
  SIZE(tecs_log_trace);
  FIELD(tecs_log_trace, len);
  FIELD(tecs_log_trace, dropped);
  FIELD(tecs_log_trace, position);
  FIELD(tecs_log_trace, prev);
  FIELD(tecs_log_trace, g);
  FIELD(tecs_log_trace, mcode);
  FIELD(tecs_log_trace, szmcode);
  FIELD(tecs_log_trace, traceno);
  FIELD(tecs_log_trace, nproto);
  FIELD(tecs_log_trace, nevent);
  SIZE(tecs_log_proto);
  FIELD(tecs_log_proto, addr);
  FIELD(tecs_log_proto, firstline);
  FIELD(tecs_log_proto, sizebc);
  SIZE(tecs_log_event);
  FIELD(tecs_log_event, pc);
  FIELD(tecs_log_event, ref);
  FIELD(tecs_log_event, depth);
  FIELD(tecs_log_event, proto);
}

/* tests/golden/abi-1.txt is what readers of major version 1 rely on. */
START_TEST(test_layout_is_golden)
{
  char path[4096], want[sizeof out];
  const char *top = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/tests/golden/abi-%d.txt", top ? top : ".",
           TECS_ABI_MAJOR);
  FILE *f = fopen(path, "r");
  ck_assert_ptr_nonnull(f);
  size_t n = fread(want, 1, sizeof want - 1, f);
  fclose(f);
  want[n] = 0;
  out[0] = 0;
  list_segment();
  list_tables();
  list_samples();
  list_images();
  list_aborts();
  list_log();
  ck_assert_str_eq(out, want);
}
END_TEST

/* ---- ring ---- */

static struct shm agent_side, reader;
static struct shm_attach_info info;

static void open_pair(void)
{
  ck_assert_int_eq(shm_create(&agent_side, "test-build", 77), RESULT_OK);
  shm_publish(&agent_side, TECS_STATE_READY, TECS_REASON_NONE);
  ck_assert_int_eq(shm_attach(&reader, dup(agent_side.fd), &info), RESULT_OK);
  ck_assert_int_eq(shm_back_rings(&reader, 2), RESULT_OK);
}

static void close_pair(void)
{
  shm_detach(&reader);
  shm_destroy(&agent_side);
}

static uint8_t *ring_of(unsigned slot)
{
  return agent_side.rings + (size_t)slot * TECS_RING_BYTES;
}

static bool produce(unsigned slot, uint32_t len, uint64_t mark)
{
  struct tecs_slot *s = &agent_side.slots[slot];
  uint8_t *at = shm_ring_reserve(s, ring_of(slot), len);
  if (!at)
    return false;
  struct tecs_record rec = {.len = len, .type = TECS_RECORD_STRING};
  memcpy(at, &rec, sizeof rec);
  memcpy(at + len - 8, &mark, 8);
  shm_ring_commit(s, len);
  return true;
}

/* Reads one record; returns its mark, 0 when there is none. */
static uint64_t consume(unsigned slot, uint64_t *bad)
{
  const struct tecs_record *rec = shm_ring_peek(&reader, slot, bad);
  uint64_t mark;
  if (!rec)
    return 0;
  memcpy(&mark, (const uint8_t *)rec + rec->len - 8, 8);
  shm_ring_consume(&reader, slot, rec);
  return mark;
}

START_TEST(test_header_says_who)
{
  open_pair();
  ck_assert_uint_eq(reader.header->pid, (unsigned)getpid());
  ck_assert_uint_eq(reader.header->cookie, 77);
  ck_assert_uint_eq(reader.header->major, TECS_ABI_MAJOR);
  ck_assert_str_eq(reader.header->build, "test-build");
  ck_assert_uint_eq(reader.header->state, TECS_STATE_READY);
  close_pair();
}
END_TEST

START_TEST(test_records_come_out_in_order)
{
  open_pair();
  uint64_t bad = 0, next = 1;
  /* lengths that do not divide the ring: every way of wrapping */
  for (uint64_t i = 1; i <= 20000; i++) {
    uint32_t len = (uint32_t)(16 + 8 * (i * 37 % 500));
    while (!produce(1, len, i))
      ck_assert_uint_eq(consume(1, &bad), next++);
  }
  while (next <= 20000)
    ck_assert_uint_eq(consume(1, &bad), next++);
  ck_assert_uint_eq(consume(1, &bad), 0);
  ck_assert_uint_eq(bad, 0);
  close_pair();
}
END_TEST

START_TEST(test_a_full_ring_refuses)
{
  open_pair();
  uint32_t n = 0;
  while (produce(0, 4096, n + 1))
    n++;
  ck_assert_uint_eq(n, TECS_RING_BYTES / 4096);
  uint64_t bad = 0;
  ck_assert_uint_eq(consume(0, &bad), 1);
  ck_assert(produce(0, 4096, n + 1));
  ck_assert(!produce(0, 4096, n + 2));
  close_pair();
}
END_TEST

START_TEST(test_producer_distrusts_the_tail)
{
  open_pair();
  ck_assert(produce(0, 64, 1));
  reader.slots[0].tail = agent_side.slots[0].head + 8; /* ahead of the head */
  ck_assert(!produce(0, 64, 2));
  reader.slots[0].tail = 4; /* not a record's place */
  ck_assert(!produce(0, 64, 2));
  reader.slots[0].tail = UINT64_MAX - TECS_RING_BYTES - 7;
  ck_assert(!produce(0, 64, 2));
  close_pair();
}
END_TEST

/* A record whose framing lies is counted and the ring goes on behind it. */
START_TEST(test_consumer_distrusts_lengths)
{
  static const uint32_t lies[] = {0, 4, 7, 12, 65, 72, 1u << 31, UINT32_MAX};
  open_pair();
  for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
    uint64_t bad = 0;
    ck_assert(produce(0, 64, 5));
    uint64_t at = agent_side.slots[0].head - 64;
    struct tecs_record *rec =
        (struct tecs_record *)(ring_of(0) + (at & (TECS_RING_BYTES - 1)));
    rec->len = lies[i];
    ck_assert_uint_eq(consume(0, &bad), 0);
    ck_assert_uint_eq(bad, 1);
    ck_assert(produce(0, 64, 6));
    ck_assert_uint_eq(consume(0, &bad), 6);
  }
  close_pair();
}
END_TEST

START_TEST(test_consumer_distrusts_the_head)
{
  open_pair();
  uint64_t bad = 0;
  agent_side.slots[0].head = TECS_RING_BYTES + 64;
  ck_assert_ptr_null(shm_ring_peek(&reader, 0, &bad));
  ck_assert_uint_eq(bad, 1);
  close_pair();
}
END_TEST

/* ---- attach ---- */

static enum result attach_copy(void (*spoil)(struct tecs_header *))
{
  struct shm a, b;
  ck_assert_int_eq(shm_create(&a, "t", 1), RESULT_OK);
  shm_publish(&a, TECS_STATE_READY, TECS_REASON_NONE);
  spoil(a.header);
  enum result r = shm_attach(&b, dup(a.fd), &info);
  if (r == RESULT_OK)
    shm_detach(&b);
  else
    ck_assert_int_eq(b.fd, -1);
  shm_destroy(&a);
  return r;
}

static void keep(struct tecs_header *h)
{
  (void)h;
}
static void no_magic(struct tecs_header *h)
{
  h->magic = 0;
}
static void newer(struct tecs_header *h)
{
  h->major = h->oldest = TECS_ABI_MAJOR + 1;
}
static void newer_but_readable(struct tecs_header *h)
{
  h->major = TECS_ABI_MAJOR + 1;
}
static void older(struct tecs_header *h)
{
  h->major = 0;
}
static void big_endian(struct tecs_header *h)
{
  h->endian = 0x04030201;
}
static void words_of_4(struct tecs_header *h)
{
  h->word_bytes = 4;
}
static void too_many_sections(struct tecs_header *h)
{
  h->section_count = TECS_SECTIONS + 1;
}
static void missing_section(struct tecs_header *h)
{
  h->section[1].tag = 99;
}
static void section_outside(struct tecs_header *h)
{
  h->section[2].offset = h->segment_size;
}
static void section_wraps(struct tecs_header *h)
{
  h->section[2].offset = UINT64_MAX - 63;
}
static void other_stride(struct tecs_header *h)
{
  h->section[2].stride += 8;
}
static void huge(struct tecs_header *h)
{
  h->segment_size = UINT64_MAX;
}
static void short_rings(struct tecs_header *h)
{
  h->segment_size = 65536 + 1024; /* also without the abort table */
}

START_TEST(test_attach_accepts_and_refuses)
{
  ck_assert_int_eq(attach_copy(keep), RESULT_OK);
  ck_assert_int_eq(attach_copy(newer_but_readable), RESULT_OK);
  ck_assert_int_eq(attach_copy(newer), RESULT_VERSION);
  ck_assert_uint_eq(info.found_major, TECS_ABI_MAJOR + 1);
  ck_assert_int_eq(attach_copy(older), RESULT_VERSION);
  ck_assert_int_eq(attach_copy(big_endian), RESULT_VERSION);
  ck_assert_int_eq(attach_copy(words_of_4), RESULT_VERSION);
  ck_assert_int_eq(attach_copy(no_magic), RESULT_CORRUPT);
  ck_assert_int_eq(attach_copy(too_many_sections), RESULT_CORRUPT);
  ck_assert_int_eq(attach_copy(missing_section), RESULT_CORRUPT);
  ck_assert_int_eq(attach_copy(section_outside), RESULT_CORRUPT);
  ck_assert_int_eq(attach_copy(section_wraps), RESULT_CORRUPT);
  ck_assert_int_eq(attach_copy(other_stride), RESULT_CORRUPT);
  ck_assert_int_eq(attach_copy(huge), RESULT_CORRUPT);
  ck_assert_int_eq(attach_copy(short_rings), RESULT_CORRUPT);
}
END_TEST

/* Any file of the user's could bear the name; one that can be cut short would
 * kill its readers with SIGBUS. */
START_TEST(test_attach_wants_the_seal)
{
  struct shm b;
  int fd = memfd_create("tecs-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(ftruncate(fd, 65536), 0);
  ck_assert_int_eq(shm_attach(&b, fd, &info), RESULT_CORRUPT);
}
END_TEST

START_TEST(test_segment_is_private_and_can_not_shrink)
{
  struct shm a;
  struct stat st;
  ck_assert_int_eq(shm_create(&a, "t", 1), RESULT_OK);
  ck_assert_int_eq(fstat(a.fd, &st), 0);
  ck_assert_int_eq(st.st_mode & 0777, 0600);
  ck_assert_int_ne(ftruncate(a.fd, 4096), 0);
  ck_assert_int_ne(fcntl(a.fd, F_GETFD) & FD_CLOEXEC, 0);
  shm_destroy(&a);
}
END_TEST

START_TEST(test_rings_are_backed_and_released)
{
  struct stat st;
  open_pair();
  ck_assert_uint_eq(agent_side.control->rings_backed, 2);
  ck_assert_int_eq(shm_back_rings(&reader, 1), RESULT_OK);
  ck_assert_uint_eq(agent_side.control->rings_backed, 2);
  ck_assert_int_eq(shm_back_rings(&reader, TECS_SLOTS + 1), RESULT_FULL);
  memset(ring_of(1), 1, TECS_RING_BYTES);
  shm_release_rings(&reader);
  ck_assert_uint_eq(agent_side.control->rings_backed, 0);
  ck_assert_int_eq(fstat(agent_side.fd, &st), 0);
  ck_assert_int_le(st.st_blocks * 512, 65536);
  ring_of(1)[0] = 1; /* a late write of the agent's is harmless */
  close_pair();
}
END_TEST

/* The file grows with the rows that have memory. */
START_TEST(test_abort_rows_are_backed_step_by_step)
{
  struct stat st;
  struct shm a;
  ck_assert_int_eq(shm_create(&a, "t", 1), RESULT_OK);
  off_t rows = (uint8_t *)a.abort_rows - a.base;
  off_t row = sizeof(struct tecs_abort);
  ck_assert_int_eq(shm_back_aborts(&a), RESULT_OK);
  ck_assert_int_eq(fstat(a.fd, &st), 0);
  ck_assert_int_ge(st.st_size, rows + SHM_ABORT_STEP * row);
  ck_assert_int_lt(st.st_size, rows + 2 * SHM_ABORT_STEP * row);
  memset(a.aborts, 1, sizeof *a.aborts);
  memset(a.abort_rows, 1, SHM_ABORT_STEP * sizeof *a.abort_rows);
  ck_assert_int_eq(shm_back_abort_rows(&a, SHM_ABORT_STEP, 2 * SHM_ABORT_STEP),
                   RESULT_OK);
  memset(a.abort_rows, 1, 2 * SHM_ABORT_STEP * sizeof *a.abort_rows);
  ck_assert_int_eq(shm_back_abort_rows(&a, 8, 8), RESULT_FULL);
  ck_assert_int_eq(shm_back_abort_rows(&a, 0, TECS_ABORT_ROWS + 1),
                   RESULT_FULL);
  ck_assert_int_eq(TECS_ABORT_ROWS % SHM_ABORT_STEP, 0);
  shm_destroy(&a);
}
END_TEST

/* ---- records ---- */

START_TEST(test_sample_counts_are_checked)
{
  union {
    uint8_t bytes[1024];
    struct tecs_sample s;
  } r;
  struct sample_view v;
  memset(&r, 0, sizeof r);
  r.s.rec.type = TECS_RECORD_SAMPLE;
  r.s.vm_count = 1;
  r.s.lua_count = 2;
  r.s.zone_count = 1;
  r.s.native_form = TECS_NATIVE_STACK;
  r.s.stack_len = 16;
  r.s.rec.len = sizeof r.s + 48 + 2 * 16 + 16 + 16;
  ck_assert_int_eq(record_sample(&r.s.rec, &v), RESULT_OK);
  ck_assert_ptr_eq(v.vm, r.bytes + sizeof r.s);
  ck_assert_ptr_eq(v.lua, r.bytes + sizeof r.s + 48);
  ck_assert_ptr_eq(v.zone, r.bytes + sizeof r.s + 48 + 32);
  ck_assert_ptr_eq(v.stack, r.bytes + sizeof r.s + 48 + 48);
  r.s.rec.len -= 8;
  ck_assert_int_eq(record_sample(&r.s.rec, &v), RESULT_CORRUPT);
  r.s.rec.len += 8;
  r.s.outer_len = 8;
  ck_assert_int_eq(record_sample(&r.s.rec, &v), RESULT_CORRUPT);
  r.s.rec.len += 8;
  ck_assert_int_eq(record_sample(&r.s.rec, &v), RESULT_OK);
  ck_assert_ptr_eq(v.outer, v.stack + 16);
  r.s.outer_len = 0;
  r.s.lua_count = 65535;
  ck_assert_int_eq(record_sample(&r.s.rec, &v), RESULT_CORRUPT);
  r.s.lua_count = 2;
  struct tecs_frame *f = (struct tecs_frame *)(r.bytes + sizeof r.s + 48);
  f[1].vm = 1; /* there is no second VM */
  ck_assert_int_eq(record_sample(&r.s.rec, &v), RESULT_CORRUPT);
  f[1].vm = 0;
  struct tecs_zone *z = (struct tecs_zone *)(f + 2);
  z->vm = 1;
  ck_assert_int_eq(record_sample(&r.s.rec, &v), RESULT_CORRUPT);
  z->vm = TECS_ZONE_NATIVE; /* which needs no VM */
  ck_assert_int_eq(record_sample(&r.s.rec, &v), RESULT_OK);
  r.s.stack_len = UINT32_MAX & ~7u;
  ck_assert_int_eq(record_sample(&r.s.rec, &v), RESULT_CORRUPT);
  r.s.stack_len = 16;
  r.s.rec.len = sizeof r.s - 8;
  ck_assert_int_eq(record_sample(&r.s.rec, &v), RESULT_CORRUPT);
}
END_TEST

START_TEST(test_image_lengths_are_checked)
{
  union {
    uint8_t bytes[256];
    struct tecs_proto p;
  } r;
  struct proto_view v;
  memset(&r, 0, sizeof r);
  r.p.rec.type = TECS_RECORD_PROTO;
  r.p.chunk_len = 9; /* padded to 16 */
  r.p.name_len = 3;
  r.p.lines_len = 5;
  r.p.line_width = 1;
  r.p.rec.len = sizeof r.p + 16 + 8 + 8;
  ck_assert_int_eq(record_proto(&r.p.rec, &v), RESULT_OK);
  ck_assert_ptr_eq(v.name, r.bytes + sizeof r.p + 16);
  ck_assert_ptr_eq(v.lines, r.bytes + sizeof r.p + 24);
  r.p.lines_len = 9;
  ck_assert_int_eq(record_proto(&r.p.rec, &v), RESULT_CORRUPT);
  r.p.lines_len = UINT32_MAX;
  ck_assert_int_eq(record_proto(&r.p.rec, &v), RESULT_CORRUPT);
  r.p.lines_len = 5;
  r.p.line_width = 3;
  ck_assert_int_eq(record_proto(&r.p.rec, &v), RESULT_CORRUPT);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("shm");
  TCase *c = tcase_create("core");
  tcase_add_test(c, test_layout_is_golden);
  tcase_add_test(c, test_header_says_who);
  tcase_add_test(c, test_records_come_out_in_order);
  tcase_add_test(c, test_a_full_ring_refuses);
  tcase_add_test(c, test_producer_distrusts_the_tail);
  tcase_add_test(c, test_consumer_distrusts_lengths);
  tcase_add_test(c, test_consumer_distrusts_the_head);
  tcase_add_test(c, test_attach_accepts_and_refuses);
  tcase_add_test(c, test_attach_wants_the_seal);
  tcase_add_test(c, test_segment_is_private_and_can_not_shrink);
  tcase_add_test(c, test_rings_are_backed_and_released);
  tcase_add_test(c, test_abort_rows_are_backed_step_by_step);
  tcase_add_test(c, test_sample_counts_are_checked);
  tcase_add_test(c, test_image_lengths_are_checked);
  suite_add_tcase(s, c);
  return suite_run(s);
}
