/* SPDX-License-Identifier: MIT
 *
 * Layouts of LuaJIT's structures: data, one row for each family of builds,
 * checked against the live VM before it is believed (vm_identify).
 *
 * Field names are LuaJIT's own, prefixed by the structure they belong to
 * (src/lj_obj.h, lj_jit.h, lj_dispatch.h, lj_frame.h of the LuaJIT tree).
 * Offsets are bytes from the start of the structure.  x86-64 only.
 */
#ifndef VMCORE_LAYOUT_H
#define VMCORE_LAYOUT_H

#include <stdint.h>

#define VM_LAYOUT_UNKNOWN UINT32_MAX

/* What this LuaJIT does not have.  No load from there: test for it first. */
#define VM_ABSENT8 UINT8_MAX
#define VM_ABSENT16 UINT16_MAX
#define VM_ABSENT32 UINT32_MAX

struct vm_layout {
  const char *name;
  uint8_t gc64; /* 64 bit GC references, two-slot frames (LJ_FR2) */
  uint8_t hasjit, hasffi;
  /* GG_State; bcff: the bytecode of the built-in functions */
  uint32_t gg_sizeof, gg_g, gg_J, gg_dispatch, gg_bcff;
  /* lua_State */
  uint16_t L_sizeof, L_gct, L_dummy_ffid, L_status, L_glref, L_base, L_top,
      L_maxstack, L_stack, L_openupval, L_env, L_cframe, L_stacksize;
  uint16_t stack_extra; /* LJ_STACK_EXTRA */
  /* global_State; absent: vmthref before 2025-11, cur_L in 2.0, jit_L since */
  uint16_t g_allocf, g_allocd, g_gc_total, g_gc_currentwhite, g_gc_state,
      g_gc_root, g_strempty, g_hookmask, g_dispatchmode, g_vmevmask, g_vmstate,
      g_mainthref, g_vmthref, g_tmpbuf, g_registrytv, g_hookcount, g_hookcstart,
      g_hookf, g_panic, g_bc_cfunc_int, g_bc_cfunc_ext, g_cur_L, g_jit_L,
      g_jit_base, g_ctype_state, g_gcroot;
  uint16_t gcroot_max; /* GCROOT_MAX */
  /* jit_State; cur, the trace being made, is its first field */
  uint16_t J_L, J_pc, J_fn, J_pt, J_base, J_flags, J_state, J_trace,
      J_freetrace, J_sizetrace, J_startpc, J_parent, J_exitno, J_mcarea,
      J_mctop, J_mcbot, J_szmcarea, J_szallmcarea, J_penalty, J_prof_mode;
  uint32_t jit_f_on; /* JIT_F_ON */
  /* HotPenalty */
  uint16_t penalty_sizeof, penalty_pc, penalty_val, penalty_reason;
  uint16_t penalty_slots; /* PENALTY_SLOTS */
  /* GCstr (sizeof = offset of the bytes) */
  uint16_t str_sizeof, str_hash, str_len;
  /* GCproto (sizeof = offset of the bytecode) */
  uint16_t pt_sizeof, pt_numparams, pt_framesize, pt_sizebc, pt_k, pt_uv,
      pt_sizekgc, pt_sizekn, pt_sizept, pt_sizeuv, pt_flags, pt_trace,
      pt_chunkname, pt_firstline, pt_numline, pt_lineinfo, pt_uvinfo,
      pt_varinfo;
  /* GCfunc; a C function's address at fn_f and its upvalues at fn_upvalue, a
   * Lua function's at fn_uvptr, its bytecode at fn_pc */
  uint16_t fn_ffid, fn_nupvalues, fn_env, fn_pc, fn_f, fn_upvalue, fn_uvptr;
  /* GCupval */
  uint16_t uv_closed, uv_v;
  /* GCtab, Node */
  uint16_t tab_array, tab_metatable, tab_node, tab_asize, tab_hmask;
  uint16_t node_sizeof, node_val, node_key, node_next;
  /* GCudata */
  uint16_t ud_udtype, ud_metatable, ud_len;
  /* GCtrace */
  uint16_t tr_sizeof, tr_nins, tr_ir, tr_nk, tr_nsnap, tr_nsnapmap, tr_snap,
      tr_snapmap, tr_startpt, tr_startpc, tr_startins, tr_mcode, tr_szmcode,
      tr_mcloop, tr_nchild, tr_spadjust, tr_traceno, tr_link, tr_root,
      tr_nextroot, tr_nextside, tr_topslot, tr_linktype;
  /* SnapShot; mcofs is absent before 2021-03 */
  uint16_t snap_sizeof, snap_mapofs, snap_ref, snap_mcofs, snap_nslots,
      snap_topslot, snap_nent, snap_count;
  /* the interpreter's C frame, from its stack pointer (CFRAME_*) */
  uint16_t cframe_L, cframe_PC, cframe_prev, cframe_nres, cframe_errf,
      cframe_sizeof;
  uint16_t trace_saved; /* bytes that BC_JLOOP saves below it (r12, r13) */
  /* bytecode and IR numbers */
  uint8_t bc_max, bc_mov, bc_call, bc_forl, bc_iterl, bc_loop, bc_funcf,
      bc_funcv, bc_funcc, bc_funccw;
  uint8_t ir_kpri, ir_kint, ir_kgc, ir_kptr, ir_kkptr, ir_knull, ir_knum,
      ir_kint64, ir_retf;
  /* LJ_VMST_*: vmstate holds the complement; lfunc and ffunc in Tarantool's
   * alone, whose CFUNC is c here */
  uint8_t vmst_interp, vmst_c, vmst_lfunc, vmst_ffunc, vmst_gc, vmst_exit,
      vmst_record, vmst_opt, vmst_asm;
};

/* Object types (~LJ_T*), the same in every layout (lj_obj.h). */
enum vm_gct {
  VM_GCT_STR = 4,
  VM_GCT_UPVAL = 5,
  VM_GCT_THREAD = 6,
  VM_GCT_PROTO = 7,
  VM_GCT_FUNC = 8,
  VM_GCT_TRACE = 9,
  VM_GCT_CDATA = 10,
  VM_GCT_TAB = 11,
  VM_GCT_UDATA = 12,
};

/* GC64: the 47 low bits of a tagged value are the object. */
#define VM_GCV_MASK ((UINT64_C(1) << 47) - 1)
unsigned vm_layout_count(void);
/* NULL for a number that is no layout. */
const struct vm_layout *vm_layout_get(uint32_t id);

#endif
