/* SPDX-License-Identifier: MIT
 *
 * The record log in the segment: what a reader finds, what it refuses, what is
 * forgotten.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "shm/shm.h"
#include "suite.h"

#define G UINT64_C(0x7f0000001000)
#define OTHER UINT64_C(0x7f0000002000)

static struct shm agent_side, reader;
static struct shm_attach_info info;
static uint64_t buffer[SHM_LOG_TRACE_MAX / 8 + 1];
static struct shm_log found;

static void open_pair(void)
{
  ck_assert_int_eq(shm_create(&agent_side, "test", 7), RESULT_OK);
  ck_assert_int_eq(shm_log_back(&agent_side), RESULT_OK);
  shm_log_vm_made(&agent_side, 3, G, TECS_LOG_ON, 12);
  shm_publish(&agent_side, TECS_STATE_READY, TECS_REASON_NONE);
  ck_assert_int_eq(shm_attach(&reader, dup(agent_side.fd), &info), RESULT_OK);
}

static void close_pair(void)
{
  shm_detach(&reader);
  shm_destroy(&agent_side);
}

static struct shm_log_key key_of(uint32_t traceno)
{
  return (struct shm_log_key){G, 0x1000 + traceno, 100 + traceno, traceno};
}

static enum result find(uint32_t traceno)
{
  struct shm_log_key k = key_of(traceno);
  return shm_log_find(&reader, &k, buffer, &found);
}

/* A log of n events in two prototypes; each event's pc is n plus its place. */
static enum result put(uint32_t traceno, uint32_t n)
{
  static struct tecs_log_event event[TECS_LOG_EVENTS_MAX + 1];
  struct tecs_log_proto proto[2] = {{0x11, 1, 10}, {0x22, 2, 20}};
  struct shm_log_key k = key_of(traceno);
  struct tecs_log_trace head = {.g = k.g,
                                .mcode = k.mcode,
                                .szmcode = k.szmcode,
                                .traceno = traceno,
                                .nproto = 2,
                                .nevent = n};
  for (uint32_t i = 0; i < n; i++)
    event[i] = (struct tecs_log_event){n + i, (uint16_t)(0x8001 + i), 0,
                                       (uint16_t)(i & 1), 0};
  return shm_log_put(&agent_side, &head, proto, event);
}

static void check_found(uint32_t n)
{
  ck_assert_uint_eq(found.nproto, 2);
  ck_assert_uint_eq(found.nevent, n);
  ck_assert_uint_eq(found.proto[1].addr, 0x22);
  ck_assert_uint_eq(found.proto[1].sizebc, 20);
  for (uint32_t i = 0; i < n; i++) {
    ck_assert_uint_eq(found.event[i].pc, n + i);
    ck_assert_uint_eq(found.event[i].ref, (uint16_t)(0x8001 + i));
    ck_assert_uint_eq(found.event[i].proto, i & 1);
  }
}

/* Byte by byte as abi.h has it, without our writer. */
START_TEST(test_reads_a_log_written_by_hand)
{
  static const uint8_t log[] = {
      104,  0,    0,    0,    0,    0,    0, 0, /* len, dropped */
      0,    0,    0x40, 0,    0,    0,    0, 0, /* position: 4 MB */
      0,    0,    0,    0,    0,    0,    0, 0, /* prev */
      0x00, 0x10, 0,    0,    0,    0x7f, 0, 0, /* g */
      0x40, 0x30, 0x20, 0x10, 0,    0,    0, 0, /* mcode */
      200,  0,    0,    0,    9,    0,    0, 0, /* szmcode, traceno */
      1,    0,    0,    0,    2,    0,    0, 0, /* nproto, nevent */
      0,    0,    0,    0,    0,    0,    0, 0, /* reserved */
      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0, 0, /* addr */
      5,    0,    0,    0,    30,   0,    0, 0, /* firstline, sizebc */
      17,   0,    0,    0,    0x02, 0x80, 1, 0, /* pc, ref, depth */
      0,    0,    0,    0,                      /* proto */
      0,    0,    0,    0,    0x05, 0x80, 2, 0, /* the second: */
      0xff, 0xff, 0,    0,                      /* a builtin */
  };
  open_pair();
  struct tecs_log *l = agent_side.log;
  memcpy(l->bytes, log, sizeof log);
  l->bucket[tecs_log_bucket(G, 9)] = 0x400000;
  l->head = 0x400000 + sizeof log;
  struct shm_log_key k = {G, 0x10203040, 200, 9};
  ck_assert_int_eq(shm_log_find(&reader, &k, buffer, &found), RESULT_OK);
  ck_assert_uint_eq(found.position, 0x400000);
  ck_assert_uint_eq(found.nproto, 1);
  ck_assert_uint_eq(found.proto[0].addr, UINT64_C(0x334455667788));
  ck_assert_uint_eq(found.proto[0].firstline, 5);
  ck_assert_uint_eq(found.proto[0].sizebc, 30);
  ck_assert_uint_eq(found.nevent, 2);
  ck_assert_uint_eq(found.event[0].pc, 17);
  ck_assert_uint_eq(found.event[0].ref, 0x8002);
  ck_assert_uint_eq(found.event[0].depth, 1);
  ck_assert_uint_eq(found.event[0].proto, 0);
  ck_assert_uint_eq(found.event[1].ref, 0x8005);
  ck_assert_uint_eq(found.event[1].depth, 2);
  ck_assert_uint_eq(found.event[1].proto, TECS_LOG_NO_PROTO);
  close_pair();
}
END_TEST

START_TEST(test_all_of_a_key_counts)
{
  open_pair();
  ck_assert_int_eq(put(1, 5), RESULT_OK);
  struct shm_log_key k = key_of(1);
  ck_assert_int_eq(find(1), RESULT_OK);
  check_found(5);
  k.g = OTHER;
  ck_assert_int_eq(shm_log_find(&reader, &k, buffer, &found), RESULT_NOTFOUND);
  k = key_of(1);
  k.mcode++;
  ck_assert_int_eq(shm_log_find(&reader, &k, buffer, &found), RESULT_NOTFOUND);
  k = key_of(1);
  k.szmcode++;
  ck_assert_int_eq(shm_log_find(&reader, &k, buffer, &found), RESULT_NOTFOUND);
  ck_assert_int_eq(find(2), RESULT_NOTFOUND);
  close_pair();
}
END_TEST

/* More traces than buckets: each is found through its chain. */
START_TEST(test_chains_hold_many)
{
  open_pair();
  for (uint32_t i = 1; i <= 3 * TECS_LOG_BUCKETS; i++)
    ck_assert_int_eq(put(i, i % 7), RESULT_OK);
  for (uint32_t i = 1; i <= 3 * TECS_LOG_BUCKETS; i++) {
    ck_assert_int_eq(find(i), RESULT_OK);
    check_found(i % 7);
  }
  close_pair();
}
END_TEST

/* Each of another length: the end of the ring is met in every way. */
START_TEST(test_the_oldest_go_first)
{
  open_pair();
  uint32_t n = 0;
  for (uint32_t i = 1; i <= 60000; i++, n = (n + 997) % 2000)
    ck_assert_int_eq(put(i, n), RESULT_OK);
  uint32_t first = 60000;
  for (; find(first) == RESULT_OK; first--) {
    n = (n + 2000 - 997) % 2000;
    check_found(n);
  }
  for (uint32_t i = 1; i <= first; i++)
    ck_assert_int_eq(find(i), RESULT_NOTFOUND);
  /* 12 bytes an event, 96 a log: 4 MB of 1000 events on average */
  ck_assert_uint_gt(60000 - first, 320);
  ck_assert_uint_lt(60000 - first, 360);
  close_pair();
}
END_TEST

START_TEST(test_of_one_number_the_newest_counts)
{
  open_pair();
  ck_assert_int_eq(put(4, 3), RESULT_OK);
  ck_assert_int_eq(put(4, 8), RESULT_OK);
  ck_assert_int_eq(find(4), RESULT_OK);
  check_found(8);
  shm_log_drop(&agent_side, G, 4);
  ck_assert_int_eq(find(4), RESULT_NOTFOUND); /* not the older one */
  ck_assert_int_eq(put(4, 2), RESULT_OK);
  ck_assert_int_eq(find(4), RESULT_OK);
  check_found(2);
  close_pair();
}
END_TEST

START_TEST(test_flush_and_a_new_vm_drop_all)
{
  open_pair();
  ck_assert_int_eq(put(1, 3), RESULT_OK);
  ck_assert_int_eq(put(2, 3), RESULT_OK);
  shm_log_vm_made(&agent_side, 4, OTHER, TECS_LOG_ON, 1);
  ck_assert_int_eq(find(1), RESULT_OK); /* of another VM */
  shm_log_flush(&agent_side, 3);
  ck_assert_int_eq(find(1), RESULT_NOTFOUND);
  ck_assert_int_eq(find(2), RESULT_NOTFOUND);
  ck_assert_int_eq(put(1, 6), RESULT_OK);
  ck_assert_int_eq(find(1), RESULT_OK);
  check_found(6);
  shm_log_vm_made(&agent_side, 3, G, TECS_LOG_ON, 2); /* at its address */
  ck_assert_int_eq(find(1), RESULT_NOTFOUND);
  close_pair();
}
END_TEST

START_TEST(test_bounds_are_kept)
{
  open_pair();
  ck_assert_int_eq(put(1, TECS_LOG_EVENTS_MAX + 1), RESULT_FULL);
  ck_assert_int_eq(find(1), RESULT_NOTFOUND);
  ck_assert_int_eq(put(1, TECS_LOG_EVENTS_MAX), RESULT_OK);
  ck_assert_int_eq(find(1), RESULT_OK);
  check_found(TECS_LOG_EVENTS_MAX);
  close_pair();
}
END_TEST

START_TEST(test_says_of_a_vm_what_there_is)
{
  struct tecs_log_vm v;
  open_pair();
  ck_assert_int_eq(shm_log_vm(&reader, OTHER, &v), RESULT_NOTFOUND);
  ck_assert_int_eq(shm_log_vm(&reader, 0, &v), RESULT_NOTFOUND);
  ck_assert_int_eq(shm_log_vm(&reader, G, &v), RESULT_OK);
  ck_assert_uint_eq(v.state, TECS_LOG_ON);
  ck_assert_uint_eq(v.since_s, 12);
  close_pair();
}
END_TEST

/* No memory behind it, as before a VM comes: a load from there would kill. */
START_TEST(test_no_log_before_it_has_memory)
{
  struct tecs_log_vm v;
  ck_assert_int_eq(shm_create(&agent_side, "test", 7), RESULT_OK);
  shm_publish(&agent_side, TECS_STATE_READY, TECS_REASON_NONE);
  ck_assert_int_eq(shm_attach(&reader, dup(agent_side.fd), &info), RESULT_OK);
  ck_assert_int_eq(find(1), RESULT_UNSUPPORTED);
  ck_assert_int_eq(shm_log_vm(&reader, G, &v), RESULT_UNSUPPORTED);
  close_pair();
  ck_assert_int_eq(shm_private(&reader), RESULT_OK);
  ck_assert_int_eq(find(1), RESULT_UNSUPPORTED);
  shm_detach(&reader);
}
END_TEST

/* ---- nothing is believed ---- */

START_TEST(test_reader_distrusts_every_word)
{
  static const uint64_t lies[] = {0,
                                  1,
                                  7,
                                  8,
                                  TECS_LOG_START - 8,
                                  TECS_LOG_START + 4,
                                  TECS_LOG_START + 8,
                                  TECS_LOG_START + 65536 - 8,
                                  2 * TECS_LOG_START - 8,
                                  TECS_LOG_BYTES + 1,
                                  UINT32_MAX,
                                  UINT64_MAX - 7,
                                  UINT64_MAX};
  open_pair();
  ck_assert_int_eq(put(1, 3), RESULT_OK);
  ck_assert_int_eq(put(1, 3), RESULT_OK);
  struct tecs_log *l = agent_side.log;
  uint64_t *bucket = &l->bucket[tecs_log_bucket(G, 1)];
  uint64_t *word = (uint64_t *)(l->bytes + (*bucket & (TECS_LOG_BYTES - 1)));
  uint64_t *at[] = {&l->head, &l->tail, &l->backed, &l->vm[3].floor, bucket,
                    word,     word + 1, word + 2,   word + 3,        word + 4,
                    word + 5, word + 6, word + 13};
  unsigned refused = 0;
  for (size_t i = 0; i < sizeof at / sizeof *at; i++)
    for (size_t k = 0; k < sizeof lies / sizeof *lies; k++) {
      uint64_t was = *at[i];
      *at[i] = lies[k];
      refused += find(1) != RESULT_OK;
      *at[i] = was;
    }
  ck_assert_uint_gt(refused, 100);
  word[8 + 2 * 2 + 1] |= 0x00050000; /* proto of the first event */
  ck_assert_int_eq(find(1), RESULT_OK);
  word[8 + 2 * 2 + 1] = 5;
  ck_assert_int_eq(find(1), RESULT_CORRUPT);
  close_pair();
}
END_TEST

/* A chain in a circle ends. */
START_TEST(test_reader_leaves_a_circle)
{
  open_pair();
  ck_assert_int_eq(put(1, 0), RESULT_OK);
  struct tecs_log *l = agent_side.log;
  uint64_t *bucket = &l->bucket[tecs_log_bucket(G, 2)];
  *bucket = TECS_LOG_START;
  ((struct tecs_log_trace *)l->bytes)->prev = TECS_LOG_START;
  ck_assert_int_eq(find(2), RESULT_NOTFOUND);
  close_pair();
}
END_TEST

/* What a collector writes there does not lead the agent astray. */
START_TEST(test_writer_distrusts_the_segment)
{
  open_pair();
  ck_assert_int_eq(put(1, 3), RESULT_OK);
  memset(reader.log->bucket, 0xf8, sizeof reader.log->bucket);
  reader.log->head = reader.log->tail = UINT64_MAX - 7;
  reader.log->backed = TECS_LOG_BYTES; /* its memory ends after 64 KB */
  shm_log_drop(&agent_side, G, 1);
  for (uint32_t i = 1; i < 100; i++) {
    shm_log_drop(&agent_side, G, i);
    ck_assert_int_eq(put(i, 500), RESULT_OK);
  }
  for (uint32_t i = 1; i < 100; i++) {
    ck_assert_int_eq(find(i), RESULT_OK);
    check_found(500);
  }
  close_pair();
}
END_TEST

/* ---- while it is written ---- */

static volatile int stop;

static void *write_on(void *arg)
{
  (void)arg;
  for (uint32_t i = 0; !stop; i++) {
    if (i % 50 == 49)
      shm_log_drop(&agent_side, G, 1 + i % 5);
    put(1 + i % 5, 1000 + i % 5);
  }
  return NULL;
}

/* What is found is whole: each number always has the same length. */
START_TEST(test_no_torn_log)
{
  open_pair();
  pthread_t t;
  unsigned seen = 0, tries = 0;
  stop = 0;
  ck_assert_int_eq(pthread_create(&t, NULL, write_on, NULL), 0);
  for (; seen < 2000 && tries < 2000000; tries++) {
    uint32_t i = 1 + tries % 5;
    enum result r = find(i);
    ck_assert(r == RESULT_OK || r == RESULT_NOTFOUND);
    if (r == RESULT_OK) {
      seen++;
      check_found(1000 + i - 1);
    }
  }
  stop = 1;
  pthread_join(t, NULL);
  ck_assert_uint_gt(seen, 100);
  close_pair();
}
END_TEST

int main(void)
{
  TCase *t = tcase_create("log");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, test_reads_a_log_written_by_hand);
  tcase_add_test(t, test_all_of_a_key_counts);
  tcase_add_test(t, test_chains_hold_many);
  tcase_add_test(t, test_the_oldest_go_first);
  tcase_add_test(t, test_of_one_number_the_newest_counts);
  tcase_add_test(t, test_flush_and_a_new_vm_drop_all);
  tcase_add_test(t, test_bounds_are_kept);
  tcase_add_test(t, test_says_of_a_vm_what_there_is);
  tcase_add_test(t, test_no_log_before_it_has_memory);
  tcase_add_test(t, test_reader_distrusts_every_word);
  tcase_add_test(t, test_reader_leaves_a_circle);
  tcase_add_test(t, test_writer_distrusts_the_segment);
  tcase_add_test(t, test_no_torn_log);
  Suite *s = suite_create("log");
  suite_add_tcase(s, t);
  return suite_run(s);
}
