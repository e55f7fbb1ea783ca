# SPDX-License-Identifier: MIT
# One convenience library a room (src/README.md), so that each unit test links
# only the rooms that its own may use.

noinst_LTLIBRARIES += src/libroom-base.la
src_libroom_base_la_SOURCES = \
	src/base/atomics.h \
	src/base/clock.h \
	src/base/csv.c \
	src/base/csv.h \
	src/base/result.c \
	src/base/result.h \
	src/base/utf8.c \
	src/base/utf8.h

noinst_LTLIBRARIES += src/libroom-shm.la
src_libroom_shm_la_SOURCES = \
	src/shm/attach.c \
	src/shm/create.c \
	src/shm/log.c \
	src/shm/records.c \
	src/shm/ring.c \
	src/shm/shm.h \
	src/shm/shm_internal.h

noinst_LTLIBRARIES += src/libroom-vmcore.la
src_libroom_vmcore_la_SOURCES = \
	src/vmcore/bcname.c \
	src/vmcore/bcname.h \
	src/vmcore/bcname_internal.h \
	src/vmcore/bcname_path.c \
	src/vmcore/bcname_proto.c \
	src/vmcore/bcname_query.c \
	src/vmcore/bcname_sink.c \
	src/vmcore/bcname_text.c \
	src/vmcore/bcname_vars.c \
	src/vmcore/discover.c \
	src/vmcore/discover.h \
	src/vmcore/ffnames.c \
	src/vmcore/ffnames.h \
	src/vmcore/layout.c \
	src/vmcore/layout.h \
	src/vmcore/layout_openresty_gc64.h \
	src/vmcore/layout_openresty_nogc64.h \
	src/vmcore/layout_tarantool_gc64.h \
	src/vmcore/layout_tarantool_nogc64.h \
	src/vmcore/layout_v2_0.h \
	src/vmcore/layout_v2_1_gc64.h \
	src/vmcore/layout_v2_1_gc64_options.h \
	src/vmcore/layout_v2_1_gc64_options_later.h \
	src/vmcore/layout_v2_1_nogc64.h \
	src/vmcore/layout_v2_1_nogc64_options.h \
	src/vmcore/layout_v2_1_nogc64_options_later.h \
	src/vmcore/leaf.c \
	src/vmcore/live.c \
	src/vmcore/mem.h \
	src/vmcore/moved.c \
	src/vmcore/snap.c \
	src/vmcore/snapno.c \
	src/vmcore/table.c \
	src/vmcore/table.h \
	src/vmcore/texts.c \
	src/vmcore/texts.h \
	src/vmcore/texts_internal.h \
	src/vmcore/texts_20220320.c \
	src/vmcore/texts_2026.c \
	src/vmcore/texts_2_0.c \
	src/vmcore/trace.c \
	src/vmcore/trace_internal.h \
	src/vmcore/value.h \
	src/vmcore/walk.c \
	src/vmcore/walk.h \
	src/vmcore/walk_internal.h \
	src/vmcore/zone.c \
	src/vmcore/zone.h

noinst_LTLIBRARIES += src/libroom-capture.la
src_libroom_capture_la_SOURCES = \
	src/capture/capture.h \
	src/capture/capture_internal.h \
	src/capture/context.c \
	src/capture/find.c \
	src/capture/intern.c \
	src/capture/sample.c \
	src/capture/traces.c \
	src/capture/vms.c \
	src/capture/zones.c

noinst_LTLIBRARIES += src/libroom-util.la
src_libroom_util_la_SOURCES = \
	src/util/error.c \
	src/util/error.h \
	src/util/hash.h \
	src/util/idmap.c \
	src/util/idmap.h \
	src/util/interner.c \
	src/util/interner.h \
	src/util/strbuf.c \
	src/util/strbuf.h

noinst_LTLIBRARIES += src/libroom-target.la
src_libroom_target_la_SOURCES = \
	src/target/luajit.c \
	src/target/maps.c \
	src/target/proc.c \
	src/target/read.c \
	src/target/recorded.c \
	src/target/relatives.c \
	src/target/segment.c \
	src/target/stop.c \
	src/target/target.c \
	src/target/target.h \
	src/target/target_internal.h \
	src/target/threads.c

noinst_LTLIBRARIES += src/libroom-symbols.la
src_libroom_symbols_la_SOURCES = \
	src/symbols/buildid.c \
	src/symbols/debugdata.c \
	src/symbols/debugfile.c \
	src/symbols/demangle.c \
	src/symbols/dwarf.c \
	src/symbols/dwarf_internal.h \
	src/symbols/dynsym.c \
	src/symbols/fde.c \
	src/symbols/image.c \
	src/symbols/inlined.c \
	src/symbols/module.c \
	src/symbols/modules.c \
	src/symbols/spans.c \
	src/symbols/symbols.h \
	src/symbols/symbols_internal.h \
	src/symbols/symtab.c
src_libroom_symbols_la_CPPFLAGS = $(AM_CPPFLAGS) $(ELF_CFLAGS) $(DW_CFLAGS) \
	$(LZMA_CFLAGS)

noinst_LTLIBRARIES += src/libroom-vm.la
src_libroom_vm_la_SOURCES = \
	src/vm/builtins.c \
	src/vm/image.c \
	src/vm/late.c \
	src/vm/late_internal.h \
	src/vm/late_mem.c \
	src/vm/late_pick.c \
	src/vm/late_walk.c \
	src/vm/store.c \
	src/vm/text.c \
	src/vm/traces.c \
	src/vm/values.c \
	src/vm/vm.h \
	src/vm/vm_internal.h

noinst_LTLIBRARIES += src/libroom-lines.la
src_libroom_lines_la_SOURCES = \
	src/lines/align.c \
	src/lines/bytecode.c \
	src/lines/bytecode.h \
	src/lines/decode.c \
	src/lines/decode.h \
	src/lines/hints.c \
	src/lines/lines.c \
	src/lines/lines.h \
	src/lines/lines_internal.h \
	src/lines/loopmap.c \
	src/lines/map.c \
	src/lines/model.c \
	src/lines/ops.c \
	src/lines/ops.h \
	src/lines/parts.c \
	src/lines/path.c \
	src/lines/path_internal.h \
	src/lines/path_model.c \
	src/lines/path_tables.c \
	src/lines/steps.c \
	src/lines/tables.c \
	src/lines/tables.h \
	src/lines/walk.c
lines_libs = $(ZYDIS_LIBS) -lm

noinst_LTLIBRARIES += src/libroom-unwind.la
src_libroom_unwind_la_SOURCES = \
	src/unwind/memory.c \
	src/unwind/native.c \
	src/unwind/places.c \
	src/unwind/sigmask.c \
	src/unwind/unknown.c \
	src/unwind/unwind.h \
	src/unwind/unwind_internal.h \
	src/unwind/unwinder.c \
	src/unwind/vmframe.c
src_libroom_unwind_la_CPPFLAGS = $(AM_CPPFLAGS) $(UNWIND_CFLAGS)

noinst_LTLIBRARIES += src/libroom-inject.la
src_libroom_inject_la_SOURCES = \
	src/inject/frame.c \
	src/inject/inject.h \
	src/inject/inject_internal.h \
	src/inject/load.c \
	src/inject/moment.c \
	src/inject/places.c \
	src/inject/refuse.c \
	src/inject/remote.c \
	src/inject/tracee.c

noinst_LTLIBRARIES += src/libroom-profile.la
src_libroom_profile_la_SOURCES = \
	src/profile/aborts.c \
	src/profile/categories.c \
	src/profile/categories_internal.h \
	src/profile/join.c \
	src/profile/profile.c \
	src/profile/profile.h \
	src/profile/read.c \
	src/profile/shape.c \
	src/profile/summary.c
# Compiled in as it is.
src/profile/categories.lo: share/categories.txt

noinst_LTLIBRARIES += src/libroom-merge.la
src_libroom_merge_la_SOURCES = \
	src/merge/compiled.c \
	src/merge/compiled.h \
	src/merge/interleave.c \
	src/merge/lua.c \
	src/merge/maker.c \
	src/merge/memory.c \
	src/merge/merge.c \
	src/merge/merge.h \
	src/merge/merge_internal.h \
	src/merge/native.c
# With all that it links, so that whoever links this room need not name it.
src_libroom_merge_la_LIBADD = src/libroom-lines.la $(lines_libs) -lpthread

noinst_LTLIBRARIES += src/libroom-session.la
src_libroom_session_la_SOURCES = \
	src/session/account.c \
	src/session/agent.c \
	src/session/beacon.c \
	src/session/claim.c \
	src/session/costs.c \
	src/session/drain.c \
	src/session/family.c \
	src/session/find.c \
	src/session/compiled.c \
	src/session/outside.c \
	src/session/pages.c \
	src/session/penalty.c \
	src/session/remote.c \
	src/session/remote_internal.h \
	src/session/remote_near.c \
	src/session/remote_thread.c \
	src/session/segment.c \
	src/session/session.c \
	src/session/session.h \
	src/session/session_internal.h \
	src/session/slots.c \
	src/session/steer.c \
	src/session/threads.c \
	src/session/ticks.c \
	src/session/trace.c \
	src/session/wait.c \
	src/session/wall.c

noinst_LTLIBRARIES += src/libroom-output.la
src_libroom_output_la_SOURCES = \
	src/output/collapsed.c \
	src/output/csv.c \
	src/output/file.c \
	src/output/html.c \
	src/output/json.c \
	src/output/output.h \
	src/output/output_internal.h \
	src/output/report.c \
	src/output/sanitise.c
src_libroom_output_la_LIBADD = -lm
# Compiled in as they are.
flamegraph_files = \
	share/flamegraph/LICENSE.d3 \
	share/flamegraph/LICENSE.d3-flame-graph \
	share/flamegraph/d3-flamegraph.css \
	share/flamegraph/d3-flamegraph.min.js \
	share/flamegraph/d3-selection.min.js \
	share/flamegraph/page.html \
	share/flamegraph/page.js
src/output/html.lo: $(flamegraph_files)
EXTRA_DIST += $(flamegraph_files)

# Texts and table of trace aborts: functions of their arguments, for their unit
# test.
noinst_LTLIBRARIES += src/libagent-aborts.la
src_libagent_aborts_la_SOURCES = \
	src/agent/aborts_internal.h \
	src/agent/aborts_place.c \
	src/agent/aborts_reason.c \
	src/agent/aborts_rows.c \
	src/agent/aborts_text.c

# Reads files that nobody vouches for; for its unit test.
noinst_LTLIBRARIES += src/libagent-symtab.la
src_libagent_symtab_la_SOURCES = \
	src/agent/symtab.c \
	src/agent/symtab.h \
	src/agent/symtab_files.c \
	src/agent/symtab_internal.h

# The agent runs inside games: nothing but the C library, nothing bound lazily
# (the dynamic linker must not run in a signal handler), never unloaded (its
# handler stays installed).
pkglib_LTLIBRARIES += src/libtecs-agent.la
src_libtecs_agent_la_SOURCES = \
	src/agent/aborts.c \
	src/agent/aborts.h \
	src/agent/agent_internal.h \
	src/agent/events.c \
	src/agent/events.h \
	src/agent/events_fault.c \
	src/agent/events_internal.h \
	src/agent/guard.c \
	src/agent/handler.c \
	src/agent/init.c \
	src/agent/install.c \
	src/agent/interpose.c \
	src/agent/late.c \
	src/agent/luaapi.c \
	src/agent/luaapi.h \
	src/agent/names.c \
	src/agent/profile_args.c \
	src/agent/profile_autostart.c \
	src/agent/profile_collector.c \
	src/agent/profile_file.c \
	src/agent/profile_internal.h \
	src/agent/profile_module.c \
	src/agent/profile_place.c \
	src/agent/profile_sample.c \
	src/agent/profile_spawn.c \
	src/agent/profile_text.c \
	src/agent/profile_trace.c \
	src/agent/profile_unheard.c \
	src/agent/reclog.c \
	src/agent/reclog.h \
	src/agent/registry.c \
	src/agent/signals.c \
	src/agent/zonemod.h \
	src/agent/zones.h \
	src/agent/zones_meta.c \
	src/agent/zones_module.c \
	src/agent/zones_native.c
src_libtecs_agent_la_LIBADD = src/libagent-aborts.la src/libagent-symtab.la src/libroom-capture.la src/libroom-shm.la src/libroom-vmcore.la \
	src/libroom-base.la -ldl -lpthread
src_libtecs_agent_la_LDFLAGS = -module -avoid-version -shared -no-undefined \
	-Wl,-z,defs -Wl,-z,now -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/src/agent/agent.map
EXTRA_src_libtecs_agent_la_DEPENDENCIES = $(srcdir)/src/agent/agent.map
EXTRA_DIST += src/agent/agent.map

# Everything of the program but main, for its unit test.
noinst_LTLIBRARIES += src/libroom-attach.la
src_libroom_attach_la_SOURCES = \
	src/attach/agentlib.c \
	src/attach/attach_internal.h \
	src/attach/closing.c \
	src/attach/follow.c \
	src/attach/formats.c \
	src/attach/help.c \
	src/attach/inject.c \
	src/attach/job.c \
	src/attach/launch.c \
	src/attach/options.c \
	src/attach/picture.c \
	src/attach/reach.c \
	src/attach/record.c \
	src/attach/report.c \
	src/attach/signals.c \
	src/attach/status.c \
	src/attach/status_traces.c \
	src/attach/steer.c \
	src/attach/trace.c \
	src/attach/tracing.c \
	src/attach/units.c \
	src/attach/verbs.c \
	src/attach/verdict.c

collector_rooms = src/libroom-output.la src/libroom-session.la \
	src/libroom-merge.la src/libroom-profile.la src/libroom-inject.la \
	src/libroom-unwind.la \
	src/libroom-vm.la src/libroom-symbols.la src/libroom-target.la \
	src/libroom-capture.la src/libroom-shm.la src/libroom-vmcore.la \
	src/libroom-util.la src/libroom-base.la
symbols_libs = $(DW_LIBS) $(ELF_LIBS) $(LZMA_LIBS) $(IBERTY_LIBS)

bin_PROGRAMS += src/tecs-attach
src_tecs_attach_SOURCES = src/attach/main.c
src_tecs_attach_LDADD = src/libroom-attach.la $(collector_rooms) \
	$(UNWIND_LIBS) $(symbols_libs)
# What configure decides is compiled into these.
src/agent/init.lo src/attach/agentlib.lo src/attach/main.$(OBJEXT): Makefile

# Included as <tecs/...>.
tecsincludedir = $(includedir)/tecs
tecsinclude_HEADERS = include/tecs/abi.h include/tecs/zone.h
EXTRA_DIST += src/README.md src/layers.txt src/vmcore/layouts.txt
