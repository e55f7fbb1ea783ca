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
dist_check_SCRIPTS += tests/agent/exports.test
dist_check_SCRIPTS += tests/agent/harmless.test
dist_check_SCRIPTS += tests/e2e/accounting.test
dist_check_SCRIPTS += tests/e2e/bad-input.test
dist_check_SCRIPTS += tests/e2e/cases-prove.test
dist_check_SCRIPTS += tests/e2e/cases.test
dist_check_SCRIPTS += tests/e2e/demo.test
dist_check_SCRIPTS += tests/e2e/flamegraph.test
dist_check_SCRIPTS += tests/e2e/host.test
dist_check_SCRIPTS += tests/e2e/launch.test
dist_check_SCRIPTS += tests/e2e/love.test
dist_check_SCRIPTS += tests/e2e/luajit.test
dist_check_SCRIPTS += tests/e2e/neovim.test
dist_check_SCRIPTS += tests/e2e/wrk.test
dist_check_SCRIPTS += tests/layers.test
dist_check_SCRIPTS += tests/man.test
TESTS += $(dist_check_SCRIPTS)
EXTRA_DIST += \
	tests/README.md \
	tests/agent/guest.c \
	tests/bench/beat.lua \
	tests/bench/ccalls.lua \
	tests/bench/compiled.lua \
	tests/bench/coroutines.lua \
	tests/bench/demo.lua \
	tests/bench/ffi.lua \
	tests/bench/interpreted.lua \
	tests/bench/measure.py \
	tests/bench/run \
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
	tests/cases/27.py \
	tests/cases/40.py \
	tests/cases/41.py \
	tests/cases/47.py \
	tests/cases/49.py \
	tests/cases/50.py \
	tests/cases/51.py \
	tests/cases/53.py \
	tests/cases/66.py \
	tests/cases/caselib.py \
	tests/cases/run \
	tests/cases/timed.lua \
	tests/golden/abi-1.txt \
	tests/lib/fold.py \
	tests/lib/tap.sh \
	tests/names/measure \
	tests/names/measure.c \
	tests/names/truth.py \
	tests/skips.txt \
	tests/targets/host.c \
	tests/targets/idle.lua \
	tests/targets/lovegame/conf.lua \
	tests/targets/lovegame/main.lua \
	tests/targets/nvim.lua \
	tests/targets/phases.lua \
	tests/targets/segment.py \
	tests/targets/wrk.lua

# Speed and memory, see tests/README.md; not part of check.
.PHONY: bench unit
bench: all
	python3 -B $(srcdir)/tests/bench/run --build . \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(FREQ),--freq $(FREQ)) \
		$(if $(JSON),--json $(JSON)) \
		$(foreach w,$(WORKLOADS),--workload $(w))

# A script beside a source of the same name: not made from it.
tests/names/measure: ;

if HAVE_CHECK
unit_tests =
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)

unit: $(unit_tests)
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(unit_tests)'

unit_tests += tests/unit/check_attach
tests_unit_check_attach_SOURCES = tests/unit/check_attach.c
tests_unit_check_attach_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_attach_LDADD = \
	src/libroom-attach.la \
	src/libroom-output.la \
	src/libroom-session.la \
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

if HAVE_LUAJIT
unit_tests += tests/unit/check_bcname
tests_unit_check_bcname_SOURCES = tests/unit/check_bcname.c tests/unit/bc_event.h
tests_unit_check_bcname_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(LUAJIT_CFLAGS)
tests_unit_check_bcname_LDADD = \
	src/libroom-vmcore.la \
	src/libroom-base.la \
	$(LUAJIT_LIBS) \
	$(CHECK_LIBS)
endif

if HAVE_LUAJIT
unit_tests += tests/unit/check_bcname_bounds
tests_unit_check_bcname_bounds_SOURCES = tests/unit/check_bcname_bounds.c tests/unit/bc_event.h
tests_unit_check_bcname_bounds_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(LUAJIT_CFLAGS)
tests_unit_check_bcname_bounds_LDADD = \
	src/libroom-vmcore.la \
	src/libroom-base.la \
	$(LUAJIT_LIBS) \
	$(CHECK_LIBS)
endif

if HAVE_LUAJIT
unit_tests += tests/unit/check_late
tests_unit_check_late_SOURCES = tests/unit/check_late.c tests/unit/records.h
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

unit_tests += tests/unit/check_session
tests_unit_check_session_SOURCES = tests/unit/check_session.c
tests_unit_check_session_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_session_LDADD = \
	src/libroom-session.la \
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

unit_tests += tests/unit/check_shm
tests_unit_check_shm_SOURCES = tests/unit/check_shm.c
tests_unit_check_shm_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_shm_LDADD = \
	src/libroom-shm.la \
	src/libroom-base.la \
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

unit_tests += tests/unit/check_target
tests_unit_check_target_SOURCES = tests/unit/check_target.c
tests_unit_check_target_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_target_LDADD = \
	src/libroom-target.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(CHECK_LIBS)

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
tests_unit_check_vmcore_SOURCES = tests/unit/check_vmcore.c
tests_unit_check_vmcore_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(LUAJIT_CFLAGS)
tests_unit_check_vmcore_LDADD = \
	src/libroom-vmcore.la \
	src/libroom-base.la \
	$(LUAJIT_LIBS) \
	$(CHECK_LIBS)
endif

endif
