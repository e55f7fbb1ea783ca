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
dist_check_SCRIPTS += tests/layers.test
dist_check_SCRIPTS += tests/man.test
TESTS += $(dist_check_SCRIPTS)
EXTRA_DIST += \
	.ci/run \
	demo/clock.lua \
	demo/conf.lua \
	demo/main.lua \
	demo/meter.lua \
	demo/schedule.lua \
	demo/systems/collide.lua \
	demo/systems/label.lua \
	demo/systems/sort.lua \
	demo/systems/sparks.lua \
	demo/systems/steer.lua \
	demo/systems/think.lua \
	demo/world.lua \
	scripts/check-format \
	scripts/check-layers \
	scripts/check-size \
	scripts/common.sh \
	scripts/gen-ffnames.lua \
	scripts/quickstart \
	scripts/test \
	tests/README.md \
	tests/skips.txt

if HAVE_CHECK
unit_tests =
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)

.PHONY: unit
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

unit_tests += tests/unit/check_target
tests_unit_check_target_SOURCES = tests/unit/check_target.c
tests_unit_check_target_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_check_target_LDADD = \
	src/libroom-target.la \
	src/libroom-util.la \
	src/libroom-base.la \
	$(CHECK_LIBS)

endif
