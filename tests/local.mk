# SPDX-License-Identifier: MIT
# Everything speaks TAP.  See tests/README.md.
TEST_EXTENSIONS = .test
TEST_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) \
	$(top_srcdir)/scripts/build-aux/tap-driver.sh
LOG_DRIVER = $(TEST_LOG_DRIVER)
AM_TESTS_ENVIRONMENT = \
	top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
	top_builddir='$(abs_top_builddir)'; export top_builddir; \
	CC='$(CC)'; export CC; \
	LUAJIT='$(LUAJIT)'; export LUAJIT; \
	LUAJIT_CFLAGS='$(LUAJIT_CFLAGS)'; export LUAJIT_CFLAGS; \
	LUAJIT_LIBS='$(LUAJIT_LIBS)'; export LUAJIT_LIBS;

dist_check_SCRIPTS =
dist_check_SCRIPTS += tests/agent/aborts.test
dist_check_SCRIPTS += tests/agent/reclog.test
dist_check_SCRIPTS += tests/agent/exports.test
dist_check_SCRIPTS += tests/agent/harmless.test
dist_check_SCRIPTS += tests/agent/profile.test
dist_check_SCRIPTS += tests/agent/symtab.test
dist_check_SCRIPTS += tests/agent/zones.test
dist_check_SCRIPTS += tests/e2e/accounting.test
dist_check_SCRIPTS += tests/e2e/bad-input.test
dist_check_SCRIPTS += tests/e2e/cases-prove.test
dist_check_SCRIPTS += tests/e2e/cases.test
dist_check_SCRIPTS += tests/e2e/demo.test
dist_check_SCRIPTS += tests/e2e/flamegraph.test
dist_check_SCRIPTS += tests/e2e/follow.test
dist_check_SCRIPTS += tests/e2e/host.test
dist_check_SCRIPTS += tests/e2e/inline.test
dist_check_SCRIPTS += tests/e2e/inject.test
dist_check_SCRIPTS += tests/e2e/launch.test
dist_check_SCRIPTS += tests/e2e/lines.test
dist_check_SCRIPTS += tests/e2e/love.test
dist_check_SCRIPTS += tests/e2e/luajit.test
dist_check_SCRIPTS += tests/e2e/native.test
dist_check_SCRIPTS += tests/e2e/neovim.test
dist_check_SCRIPTS += tests/e2e/no-agent-accounting.test
dist_check_SCRIPTS += tests/e2e/no-agent-cases.test
dist_check_SCRIPTS += tests/e2e/no-agent-demo.test
dist_check_SCRIPTS += tests/e2e/no-agent-host.test
dist_check_SCRIPTS += tests/e2e/no-agent-lines.test
dist_check_SCRIPTS += tests/e2e/no-agent-love.test
dist_check_SCRIPTS += tests/e2e/no-agent-luajit.test
dist_check_SCRIPTS += tests/e2e/no-agent-neovim.test
dist_check_SCRIPTS += tests/e2e/no-agent-wrk.test
dist_check_SCRIPTS += tests/e2e/no-agent.test
dist_check_SCRIPTS += tests/e2e/pictures.test
dist_check_SCRIPTS += tests/e2e/report.test
dist_check_SCRIPTS += tests/e2e/rust.test
dist_check_SCRIPTS += tests/e2e/status-traces.test
dist_check_SCRIPTS += tests/e2e/steer.test
dist_check_SCRIPTS += tests/e2e/symbols.test
dist_check_SCRIPTS += tests/e2e/trace.test
dist_check_SCRIPTS += tests/e2e/wall.test
dist_check_SCRIPTS += tests/e2e/wrk.test
dist_check_SCRIPTS += tests/golden/record.test
dist_check_SCRIPTS += tests/layers.test
dist_check_SCRIPTS += tests/lines/tables.test
dist_check_SCRIPTS += tests/man.test
dist_check_SCRIPTS += tests/tree/tree.test
dist_check_SCRIPTS += tests/vms/core.test
dist_check_SCRIPTS += tests/vms/layouts.test
dist_check_SCRIPTS += tests/vms/lines.test
TESTS += $(dist_check_SCRIPTS)
EXTRA_DIST += \
	tests/README.md \
	tests/agent/guest.c \
	tests/unit/suite.h \
	tests/bench/aborts \
	tests/bench/beat.lua \
	tests/bench/ccalls.lua \
	tests/bench/compiled.lua \
	tests/bench/collector \
	tests/bench/coroutines.lua \
	tests/bench/deep.lua \
	tests/bench/demo.lua \
	tests/bench/ffi.lua \
	tests/bench/interpreted.lua \
	tests/bench/measure.py \
	tests/bench/run \
	tests/bench/reclog \
	tests/bench/threads \
	tests/bench/threads.c \
	tests/bench/threads.lua \
	tests/bench/zones \
	tests/bench/zones.lua \
	tests/cases/01.py \
	tests/cases/02.py \
	tests/cases/03.py \
	tests/cases/05.py \
	tests/cases/08.py \
	tests/cases/09.py \
	tests/cases/10.py \
	tests/cases/11.py \
	tests/cases/12.py \
	tests/cases/18.py \
	tests/cases/19.py \
	tests/cases/21.py \
	tests/cases/23.py \
	tests/cases/24.py \
	tests/cases/27.py \
	tests/cases/28.py \
	tests/cases/29.py \
	tests/cases/31.py \
	tests/cases/32.py \
	tests/cases/34.py \
	tests/cases/36.py \
	tests/cases/37.py \
	tests/cases/38.py \
	tests/cases/40.py \
	tests/cases/41.py \
	tests/cases/42.py \
	tests/cases/46.py \
	tests/cases/47.py \
	tests/cases/49.py \
	tests/cases/50.py \
	tests/cases/51.py \
	tests/cases/53.py \
	tests/cases/55.py \
	tests/cases/58.py \
	tests/cases/59.py \
	tests/cases/61.py \
	tests/cases/66.py \
	tests/cases/67.py \
	tests/cases/caselib.py \
	tests/cases/run \
	tests/cases/timed.lua \
	tests/e2e/gdbtruth.py \
	tests/golden/README.md \
	tests/golden/abi-1.txt \
	tests/lib/aborts.py \
	tests/golden/calls/expected.folded \
	tests/golden/calls/expected.lines.folded \
	tests/golden/calls/expected.md \
	tests/golden/calls/expected.zone.folded \
	tests/golden/calls/maps \
	tests/golden/calls/root/golden/host \
	tests/golden/calls/root/golden/libtecs-agent.so \
	tests/golden/calls/root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 \
	tests/golden/calls/root/usr/lib/x86_64-linux-gnu/libc.so.6 \
	tests/golden/calls/root/usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2.1.0 \
	tests/golden/calls/stream \
	tests/golden/calls/truth \
	tests/golden/calls/vms \
	tests/golden/compiled/expected.folded \
	tests/golden/compiled/expected.md \
	tests/golden/compiled/maps \
	tests/golden/compiled/root/golden/host \
	tests/golden/compiled/root/golden/libtecs-agent.so \
	tests/golden/compiled/root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 \
	tests/golden/compiled/root/usr/lib/x86_64-linux-gnu/libc.so.6 \
	tests/golden/compiled/stream \
	tests/golden/compiled/truth \
	tests/golden/compiled/vms \
	tests/golden/engine/expected.folded \
	tests/golden/engine/expected.md \
	tests/golden/engine/maps \
	tests/golden/engine/root/golden/host \
	tests/golden/engine/root/usr/lib/x86_64-linux-gnu/libc.so.6 \
	tests/golden/engine/stream \
	tests/golden/engine/symbols \
	tests/golden/engine/truth \
	tests/golden/engine/vms \
	tests/golden/head/expected.folded \
	tests/golden/head/expected.md \
	tests/golden/head/maps \
	tests/golden/head/root/golden/host \
	tests/golden/head/root/usr/lib/x86_64-linux-gnu/libc.so.6 \
	tests/golden/head/stream \
	tests/golden/head/truth \
	tests/golden/head/vms \
	tests/golden/host.c \
	tests/golden/make-recordings \
	tests/golden/native/expected.depth.folded \
	tests/golden/native/expected.folded \
	tests/golden/native/expected.md \
	tests/golden/native/maps \
	tests/golden/native/root/golden/host \
	tests/golden/native/root/usr/lib/x86_64-linux-gnu/libc.so.6 \
	tests/golden/native/stream \
	tests/golden/native/truth \
	tests/golden/native/vms \
	tests/golden/nogc64/expected.folded \
	tests/golden/nogc64/expected.md \
	tests/golden/nogc64/maps \
	tests/golden/nogc64/root/golden/host \
	tests/golden/nogc64/root/usr/lib/x86_64-linux-gnu/libc.so.6 \
	tests/golden/nogc64/stream \
	tests/golden/nogc64/truth \
	tests/golden/nogc64/vms \
	tests/golden/outside/expected.folded \
	tests/golden/outside/expected.md \
	tests/golden/outside/maps \
	tests/golden/outside/root/golden/host \
	tests/golden/outside/root/usr/lib/x86_64-linux-gnu/libc.so.6 \
	tests/golden/outside/stream \
	tests/golden/outside/truth \
	tests/golden/outside/vms \
	tests/golden/scenes/calls.lua \
	tests/golden/scenes/compiled.lua \
	tests/golden/scenes/engine.lua \
	tests/golden/scenes/layout.lua \
	tests/golden/scenes/native.lua \
	tests/golden/scenes/signals.lua \
	tests/golden/signals/expected.folded \
	tests/golden/signals/expected.md \
	tests/golden/signals/maps \
	tests/golden/signals/root/golden/host \
	tests/golden/signals/root/golden/libtecs-agent.so \
	tests/golden/signals/root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 \
	tests/golden/signals/root/usr/lib/x86_64-linux-gnu/libc.so.6 \
	tests/golden/signals/stream \
	tests/golden/signals/truth \
	tests/golden/signals/vms \
	tests/lib/fold.py \
	tests/lib/lines.py \
	tests/lib/lines.sh \
	tests/lib/tap.sh \
	tests/lib/traces.py \
	tests/lib/zones.py \
	tests/lines/README.md \
	tests/lines/pack \
	tests/lines/learned/A.lnf \
	tests/lines/learned/B.lnf \
	tests/lines/learned/C.lnf \
	tests/lines/learned/D.lnf \
	tests/lines/learned/E.lnf \
	tests/lines/learned/ack.lnf \
	tests/lines/learned/clos2.lnf \
	tests/lines/learned/closures.lnf \
	tests/lines/learned/conv.lnf \
	tests/lines/learned/ffirec.lnf \
	tests/lines/learned/life.lnf \
	tests/lines/learned/shapes.lnf \
	tests/lines/learned/stack.lnf \
	tests/lines/learned/vec2.lnf \
	tests/lines/learned/words.lnf \
	tests/lines/unseen/iters.lnf \
	tests/lines/unseen/nbody.lnf \
	tests/lines/unseen/nsieve.lnf \
	tests/lines/unseen/recur.lnf \
	tests/lines/unseen/strings.lnf \
	tests/lines/unseen/vec3.lnf \
	tests/names/measure \
	tests/names/measure.c \
	tests/names/truth.py \
	tests/skips.txt \
	tests/targets/aborts.lua \
	tests/targets/straight.c \
	tests/targets/areas.lua \
	tests/targets/attach.lua \
	tests/targets/callback.lua \
	tests/targets/contractgame/conf.lua \
	tests/targets/contractgame/main.lua \
	tests/targets/embed.c \
	tests/targets/exec.lua \
	tests/targets/host.c \
	tests/targets/hotaborts.lua \
	tests/targets/idle.lua \
	tests/targets/kin.lua \
	tests/targets/latesig.c \
	tests/targets/lines/arith.lua \
	tests/targets/lines/branches.lua \
	tests/targets/lines/closures.lua \
	tests/targets/lines/coroutines.lua \
	tests/targets/lines/ffi.lua \
	tests/targets/lines/format.lua \
	tests/targets/lines/iterators.lua \
	tests/targets/lines/methods.lua \
	tests/targets/lines/recursion.lua \
	tests/targets/lines/strings.lua \
	tests/targets/lines/sunk.lua \
	tests/targets/lines/tables.lua \
	tests/targets/lovegame/conf.lua \
	tests/targets/lovegame/main.lua \
	tests/targets/native.c \
	tests/targets/nvim.lua \
	tests/targets/inline.cc \
	tests/targets/compiled.lua \
	tests/targets/phases.lua \
	tests/targets/recorded.lua \
	tests/targets/profile_contract.lua \
	tests/targets/profile_steps.lua \
	tests/targets/reused.lua \
	tests/targets/rust/Cargo.toml \
	tests/targets/rust/src/engine.rs \
	tests/targets/rust/src/game.lua \
	tests/targets/rust/src/main.rs \
	tests/targets/segment.py \
	tests/targets/soon.lua \
	tests/targets/storm.c \
	tests/targets/threads.c \
	tests/targets/vms.c \
	tests/targets/waits.c \
	tests/targets/wrk.lua \
	tests/targets/zonecompat.lua \
	tests/targets/zonehost.c \
	tests/targets/zones.lua \
	tests/targets/zonetraces.lua \
	tests/tree/tree.py \
	tests/vms/build \
	tests/vms/host.c \
	tests/vms/lupahost.py

# What rust.test builds.
clean-local:
	rm -rf tests/rust

check_PROGRAMS += tests/agent/aborts_reader
tests_agent_aborts_reader_SOURCES = tests/agent/aborts_reader.c \
	tests/agent/reader.h
tests_agent_aborts_reader_LDADD = src/libroom-shm.la src/libroom-base.la
check_PROGRAMS += tests/agent/reclog_reader
tests_agent_reclog_reader_SOURCES = tests/agent/reclog_reader.c \
	tests/agent/reader.h
tests_agent_reclog_reader_LDADD = src/libroom-shm.la src/libroom-base.la

# Speed and memory, see tests/README.md; not part of check.
.PHONY: bench fuzz fuzz-lines unit
bench: all
	python3 -B $(srcdir)/tests/bench/run --build . \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(FREQ),--freq $(FREQ)) \
		$(if $(JSON),--json $(JSON)) \
		$(foreach w,$(WORKLOADS),--workload $(w))

# A script beside a source of the same name: not made from it.
tests/names/measure: ;

# Recordings: the recorder, and what prints one.
replay_sources = \
	tests/golden/files.c \
	tests/golden/recording.h \
	tests/golden/replay.c \
	tests/golden/replay.h
replay_libs = \
	src/libroom-output.la \
	src/libroom-merge.la \
	src/libroom-profile.la \
	src/libroom-unwind.la \
	src/libroom-vm.la \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-shm.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(UNWIND_LIBS) \
	$(symbols_libs)

check_PROGRAMS += tests/golden/record
tests_golden_record_SOURCES = \
	tests/golden/files.c \
	tests/golden/outside.c \
	tests/golden/outside.h \
	tests/golden/record.c \
	tests/golden/recording.h \
	tests/golden/reduce.c
tests_golden_record_LDADD = \
	src/libroom-session.la \
	src/libroom-merge.la \
	src/libroom-profile.la \
	src/libroom-unwind.la \
	src/libroom-vm.la \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-capture.la \
	src/libroom-shm.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(UNWIND_LIBS) \
	$(symbols_libs)

check_PROGRAMS += tests/golden/show
tests_golden_show_SOURCES = tests/golden/show.c $(replay_sources)
tests_golden_show_LDADD = $(replay_libs)

# Single samples, held against gdb's stacks.
check_PROGRAMS += tests/e2e/frozen
tests_e2e_frozen_SOURCES = tests/e2e/frozen.c
tests_e2e_frozen_LDADD = $(replay_libs)

# Traces with their truth: tests/lines/README.md.
lines_fixture = tests/lines/fixture.c tests/lines/fixture.h
lines_exercise = tests/lines/exercise.c tests/lines/exercise.h $(lines_fixture)
lines_test_libs = \
	src/libroom-lines.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(lines_libs)

check_PROGRAMS += tests/lines/learn tests/lines/measure
tests_lines_learn_SOURCES = tests/lines/learn.c $(lines_fixture)
tests_lines_learn_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_lines_learn_LDADD = $(lines_test_libs)
tests_lines_measure_SOURCES = \
	tests/lines/measure.c \
	tests/lines/score.c \
	tests/lines/score.h \
	$(lines_fixture)
tests_lines_measure_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_lines_measure_LDADD = $(lines_test_libs)

# make fuzz [RECORDING=calls] [FUZZ_TIME=60] [CORPUS=folder], see tests/README.md
EXTRA_PROGRAMS = tests/fuzz/fuzz_replay
tests_fuzz_fuzz_replay_SOURCES = \
	tests/fuzz/fuzz_replay.c \
	tests/fuzz/mutate.c \
	tests/fuzz/mutate.h \
	$(replay_sources)
tests_fuzz_fuzz_replay_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_fuzz_fuzz_replay_LDFLAGS = -fsanitize=fuzzer
tests_fuzz_fuzz_replay_LDADD = $(replay_libs)
# make fuzz-lines [FUZZ_TIME=60] [CORPUS=folder]
EXTRA_PROGRAMS += tests/fuzz/fuzz_lines
tests_fuzz_fuzz_lines_SOURCES = tests/fuzz/fuzz_lines.c $(lines_exercise)
tests_fuzz_fuzz_lines_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_fuzz_fuzz_lines_LDFLAGS = -fsanitize=fuzzer
tests_fuzz_fuzz_lines_LDADD = $(lines_test_libs)
if FUZZ
fuzz-lines: tests/fuzz/fuzz_lines
	tests/fuzz/fuzz_lines $(CORPUS) $(srcdir)/tests/lines/learned \
		-max_len=70000 -max_total_time=$(or $(FUZZ_TIME),60)
fuzz: tests/fuzz/fuzz_replay
	tests/fuzz/fuzz_replay \
		$(srcdir)/tests/golden/$(or $(RECORDING),calls) $(CORPUS) \
		-max_len=100000 -max_total_time=$(or $(FUZZ_TIME),60)
endif

if HAVE_CHECK
unit_tests =
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)

unit: $(unit_tests)
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(unit_tests)'

unit_tests += tests/unit/check_aborts
tests_unit_check_aborts_SOURCES = tests/unit/check_aborts.c
tests_unit_check_aborts_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_aborts_LDADD = \
	src/libagent-aborts.la \
	src/libroom-vmcore.la \
	src/libroom-base.la \
	$(CHECK_LIBS)
unit_tests += tests/fuzz/check_mutations
tests_fuzz_check_mutations_SOURCES = \
	tests/fuzz/check_mutations.c \
	tests/fuzz/mutate.c \
	tests/fuzz/mutate.h \
	$(replay_sources)
tests_fuzz_check_mutations_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_fuzz_check_mutations_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_fuzz_check_mutations_LDADD = $(replay_libs) $(CHECK_LIBS)

unit_tests += tests/golden/check_golden
tests_golden_check_golden_SOURCES = tests/golden/check_golden.c $(replay_sources)
tests_golden_check_golden_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_golden_check_golden_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_golden_check_golden_LDADD = $(replay_libs) $(CHECK_LIBS)

unit_tests += tests/unit/check_attach
tests_unit_check_attach_SOURCES = tests/unit/check_attach.c
tests_unit_check_attach_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_attach_LDADD = \
	src/libroom-attach.la \
	src/libroom-output.la \
	src/libroom-session.la \
	src/libroom-merge.la \
	src/libroom-profile.la \
	src/libroom-inject.la \
	src/libroom-unwind.la \
	src/libroom-vm.la \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-capture.la \
	src/libroom-shm.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(UNWIND_LIBS) \
	$(symbols_libs) \
	$(CHECK_LIBS)

if HAVE_LUAJIT
unit_tests += tests/unit/check_bcname
tests_unit_check_bcname_SOURCES = tests/unit/check_bcname.c tests/unit/bc_event.h \
	tests/unit/this_layout.h
tests_unit_check_bcname_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(LUAJIT_CFLAGS)
tests_unit_check_bcname_LDADD = \
	src/libroom-vmcore.la \
	src/libroom-base.la \
	$(LUAJIT_LIBS) \
	$(CHECK_LIBS)
endif

if HAVE_LUAJIT
unit_tests += tests/unit/check_bcname_bounds
tests_unit_check_bcname_bounds_SOURCES = tests/unit/check_bcname_bounds.c tests/unit/bc_event.h \
	tests/unit/this_layout.h
tests_unit_check_bcname_bounds_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(LUAJIT_CFLAGS)
tests_unit_check_bcname_bounds_LDADD = \
	src/libroom-vmcore.la \
	src/libroom-base.la \
	$(LUAJIT_LIBS) \
	$(CHECK_LIBS)
endif

unit_tests += tests/unit/check_layout
tests_unit_check_layout_SOURCES = tests/unit/check_layout.c
tests_unit_check_layout_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_layout_LDADD = \
	src/libroom-vmcore.la \
	src/libroom-base.la \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_inject
tests_unit_check_inject_SOURCES = tests/unit/check_inject.c
tests_unit_check_inject_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_inject_LDADD = \
	src/libroom-inject.la \
	src/libroom-unwind.la \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-shm.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(UNWIND_LIBS) \
	$(symbols_libs) \
	$(CHECK_LIBS) -lpthread

if HAVE_LUAJIT
unit_tests += tests/unit/check_late
tests_unit_check_late_SOURCES = tests/unit/check_late.c tests/unit/records.h \
	tests/unit/this_layout.h
tests_unit_check_late_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(LUAJIT_CFLAGS)
tests_unit_check_late_LDADD = \
	src/libroom-vm.la \
	src/libroom-target.la \
	src/libroom-shm.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(LUAJIT_LIBS) \
	$(CHECK_LIBS)
endif

unit_tests += tests/unit/check_lines
tests_unit_check_lines_SOURCES = \
	tests/unit/check_lines.c \
	tests/lines/score.c \
	tests/lines/score.h \
	$(lines_fixture)
tests_unit_check_lines_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_unit_check_lines_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_lines_LDADD = $(lines_test_libs) $(CHECK_LIBS)

unit_tests += tests/fuzz/check_lines_mutations
tests_fuzz_check_lines_mutations_SOURCES = \
	tests/fuzz/check_lines_mutations.c \
	$(lines_exercise)
tests_fuzz_check_lines_mutations_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_fuzz_check_lines_mutations_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_fuzz_check_lines_mutations_LDADD = $(lines_test_libs) $(CHECK_LIBS)

unit_tests += tests/unit/check_log
tests_unit_check_log_SOURCES = tests/unit/check_log.c
tests_unit_check_log_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_log_LDADD = \
	src/libroom-shm.la \
	src/libroom-base.la \
	$(CHECK_LIBS) -lpthread

unit_tests += tests/unit/check_merge
tests_unit_check_merge_SOURCES = tests/unit/check_merge.c tests/unit/fake_sample.h
tests_unit_check_merge_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_merge_LDADD = \
	src/libroom-merge.la \
	src/libroom-profile.la \
	src/libroom-unwind.la \
	src/libroom-vm.la \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-shm.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(UNWIND_LIBS) \
	$(symbols_libs) \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_traces
tests_unit_check_traces_SOURCES = tests/unit/check_traces.c tests/unit/records.h
tests_unit_check_traces_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_traces_LDADD = \
	src/libroom-merge.la \
	src/libroom-profile.la \
	src/libroom-unwind.la \
	src/libroom-vm.la \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-shm.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(UNWIND_LIBS) \
	$(symbols_libs) \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_output
tests_unit_check_output_SOURCES = tests/unit/check_output.c
tests_unit_check_output_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_output_LDADD = \
	src/libroom-output.la \
	src/libroom-profile.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_profile
tests_unit_check_profile_SOURCES = tests/unit/check_profile.c
tests_unit_check_profile_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_profile_LDADD = \
	src/libroom-profile.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_summary
tests_unit_check_summary_SOURCES = tests/unit/check_summary.c
tests_unit_check_summary_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_summary_LDADD = \
	src/libroom-profile.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_remote
tests_unit_check_remote_SOURCES = tests/unit/check_remote.c
tests_unit_check_remote_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_remote_LDADD = \
	src/libroom-session.la \
	src/libroom-merge.la \
	src/libroom-profile.la \
	src/libroom-unwind.la \
	src/libroom-vm.la \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-capture.la \
	src/libroom-shm.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(UNWIND_LIBS) \
	$(symbols_libs) \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_session
tests_unit_check_session_SOURCES = tests/unit/check_session.c tests/unit/fake_agent.h
tests_unit_check_session_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_session_LDADD = \
	src/libroom-session.la \
	src/libroom-merge.la \
	src/libroom-profile.la \
	src/libroom-unwind.la \
	src/libroom-vm.la \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-capture.la \
	src/libroom-shm.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(UNWIND_LIBS) \
	$(symbols_libs) \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_shm
tests_unit_check_shm_SOURCES = tests/unit/check_shm.c
tests_unit_check_shm_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_shm_LDADD = \
	src/libroom-shm.la \
	src/libroom-base.la \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_family
tests_unit_check_family_SOURCES = tests/unit/check_family.c tests/unit/fake_agent.h
tests_unit_check_family_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_family_LDADD = \
	src/libroom-session.la \
	src/libroom-merge.la \
	src/libroom-profile.la \
	src/libroom-unwind.la \
	src/libroom-vm.la \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-capture.la \
	src/libroom-shm.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(UNWIND_LIBS) \
	$(symbols_libs) \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_steer
tests_unit_check_steer_SOURCES = tests/unit/check_steer.c tests/unit/fake_agent.h
tests_unit_check_steer_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_steer_LDADD = \
	src/libroom-session.la \
	src/libroom-merge.la \
	src/libroom-profile.la \
	src/libroom-unwind.la \
	src/libroom-vm.la \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-capture.la \
	src/libroom-shm.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(UNWIND_LIBS) \
	$(symbols_libs) \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_symbols
tests_unit_check_symbols_SOURCES = tests/unit/check_symbols.c
tests_unit_check_symbols_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_symbols_LDADD = \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(symbols_libs) \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_stop
tests_unit_check_stop_SOURCES = tests/unit/check_stop.c
tests_unit_check_stop_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_stop_LDADD = \
	src/libroom-target.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_symtab
tests_unit_check_symtab_SOURCES = tests/unit/check_symtab.c
tests_unit_check_symtab_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_symtab_LDADD = src/libagent-symtab.la $(CHECK_LIBS)

unit_tests += tests/unit/check_target
tests_unit_check_target_SOURCES = tests/unit/check_target.c
tests_unit_check_target_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_target_LDADD = \
	src/libroom-target.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(CHECK_LIBS)

if HAVE_LUAJIT
unit_tests += tests/unit/check_texts
tests_unit_check_texts_SOURCES = tests/unit/check_texts.c tests/unit/this_layout.h
tests_unit_check_texts_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(LUAJIT_CFLAGS)
tests_unit_check_texts_LDADD = \
	src/libroom-vmcore.la \
	src/libroom-base.la \
	$(LUAJIT_LIBS) \
	$(CHECK_LIBS)
endif

unit_tests += tests/unit/check_unwind
tests_unit_check_unwind_SOURCES = tests/unit/check_unwind.c
tests_unit_check_unwind_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_unwind_LDADD = \
	src/libroom-unwind.la \
	src/libroom-symbols.la \
	src/libroom-target.la \
	src/libroom-shm.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(UNWIND_LIBS) \
	$(symbols_libs) \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_util
tests_unit_check_util_SOURCES = tests/unit/check_util.c
tests_unit_check_util_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_util_LDADD = \
	src/libroom-util.la \
	src/libroom-base.la \
	$(CHECK_LIBS)

unit_tests += tests/unit/check_vm
tests_unit_check_vm_SOURCES = tests/unit/check_vm.c tests/unit/records.h
tests_unit_check_vm_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_vm_LDADD = \
	src/libroom-vm.la \
	src/libroom-target.la \
	src/libroom-shm.la \
	src/libroom-vmcore.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(CHECK_LIBS)

if HAVE_LUAJIT
unit_tests += tests/unit/check_vmcore
tests_unit_check_vmcore_SOURCES = tests/unit/check_vmcore.c tests/unit/this_layout.h
tests_unit_check_vmcore_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(LUAJIT_CFLAGS)
tests_unit_check_vmcore_LDADD = \
	src/libroom-vmcore.la \
	src/libroom-base.la \
	$(LUAJIT_LIBS) \
	$(CHECK_LIBS)
endif

endif
