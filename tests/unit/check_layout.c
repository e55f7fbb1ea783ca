/* SPDX-License-Identifier: MIT
 *
 * The rows of layouts by themselves: what must hold between the fields of any
 * LuaJIT.  tests/vms/layouts.test compares them with LuaJIT's headers.
 */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "vmcore/layout.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct vm_layout *lay; /* the row that the loop is at */

static void each_row(void (*check)(void))
{
  ck_assert_uint_gt(vm_layout_count(), 100);
  for (unsigned i = 0; i < vm_layout_count(); i++) {
    lay = vm_layout_get(i);
    check();
  }
}

#define holds(condition)                                                       \
  ck_assert_msg(condition, "%s: not %s", lay->name, #condition)

/* Fields of one structure: inside of it, aligned, none on top of another. */
static const char *faults(const uint16_t *at, const uint8_t *width,
                          unsigned count, unsigned size)
{
  for (unsigned i = 0; i < count; i++) {
    if (at[i] == VM_ABSENT16)
      continue;
    if (at[i] + width[i] > size)
      return "a field beyond the end";
    if (at[i] % width[i])
      return "a field that is not aligned";
    for (unsigned k = 0; k < i; k++)
      if (at[k] != VM_ABSENT16 && at[i] < at[k] + width[k] &&
          at[k] < at[i] + width[i])
        return "two fields in one place";
  }
  return NULL;
}

static void sound(const char *what, const uint16_t *at, const uint8_t *width,
                  unsigned count, unsigned size)
{
  const char *fault = faults(at, width, count, size);
  ck_assert_msg(!fault, "%s: %s: %s", lay->name, what, fault);
}

START_TEST(test_faults_are_seen)
{
  const uint8_t width[] = {4, 8};
  ck_assert_ptr_null(faults((const uint16_t[]){4, 8}, width, 2, 16));
  ck_assert_ptr_null(faults((const uint16_t[]){4, VM_ABSENT16}, width, 2, 8));
  ck_assert_ptr_nonnull(faults((const uint16_t[]){4, 8}, width, 2, 15));
  ck_assert_ptr_nonnull(faults((const uint16_t[]){4, 12}, width, 2, 32));
  ck_assert_ptr_nonnull(faults((const uint16_t[]){8, 8}, width, 2, 32));
  ck_assert_ptr_nonnull(faults((const uint16_t[]){12, 8}, width, 2, 32));
}
END_TEST

START_TEST(test_the_first_row_is_debians)
{
  lay = vm_layout_get(0);
  ck_assert_str_eq(lay->name, "luajit-2.1-20210323-gc64");
  ck_assert_uint_eq(lay->gg_sizeof, 0x1860);
  ck_assert_uint_eq(lay->g_cur_L, 0x170);
  ck_assert_uint_eq(lay->snap_mcofs, 6);
  ck_assert_uint_eq(lay->cframe_sizeof, 80);
  ck_assert_uint_eq(lay->bc_max, 97);
}
END_TEST

START_TEST(test_no_row_twice)
{
  for (unsigned i = 0; i < vm_layout_count(); i++)
    for (unsigned k = 0; k < i; k++) {
      struct vm_layout a = *vm_layout_get(i), b = *vm_layout_get(k);
      ck_assert_str_ne(a.name, b.name);
      const char *name = a.name;
      a.name = b.name = NULL;
      ck_assert_msg(memcmp(&a, &b, sizeof a), "%s is %s", name,
                    vm_layout_get(k)->name);
    }
  ck_assert_ptr_null(vm_layout_get(vm_layout_count()));
  ck_assert_ptr_null(vm_layout_get(VM_LAYOUT_UNKNOWN));
}
END_TEST

static void parts_of_gg_state_follow_each_other(void)
{
  /* g starts where the main thread ends (lj_dispatch.h, GG_State) */
  holds(lay->gg_g == lay->L_sizeof);
  if (lay->hasjit) {
    holds(lay->gg_g + lay->g_gcroot < lay->gg_J);
    holds(lay->gg_J + lay->J_szallmcarea < lay->gg_dispatch);
  } else {
    holds(lay->gg_J == VM_ABSENT32);
  }
  holds(lay->gg_dispatch + 8u * lay->bc_max <= lay->gg_bcff);
  holds(lay->gg_bcff < lay->gg_sizeof);
  holds((lay->gg_dispatch | lay->gg_sizeof) % 8 == 0);
}

static void fields_of_lua_state(void)
{
  const uint8_t ref = lay->gc64 ? 8 : 4;
  const uint16_t at[] = {lay->L_gct,   lay->L_dummy_ffid, lay->L_status,
                         lay->L_glref, lay->L_base,       lay->L_top,
                         lay->L_stack, lay->L_maxstack,   lay->L_openupval,
                         lay->L_env,   lay->L_cframe,     lay->L_stacksize};
  const uint8_t width[] = {1, 1, 1, ref, 8, 8, ref, ref, ref, ref, 8, 4};
  sound("lua_State", at, width, COUNT(at), lay->L_sizeof);
}

static void fields_of_global_state(void)
{
  const uint8_t ref = lay->gc64 ? 8 : 4;
  const uint16_t at[] = {
      lay->g_allocf,       lay->g_allocd,      lay->g_gc_total,
      lay->g_gc_state,     lay->g_gc_root,     lay->g_hookmask,
      lay->g_dispatchmode, lay->g_vmevmask,    lay->g_vmstate,
      lay->g_mainthref,    lay->g_vmthref,     lay->g_registrytv,
      lay->g_hookcount,    lay->g_hookcstart,  lay->g_hookf,
      lay->g_panic,        lay->g_cur_L,       lay->g_jit_L,
      lay->g_jit_base,     lay->g_ctype_state, lay->g_gcroot,
      lay->g_bc_cfunc_int, lay->g_bc_cfunc_ext};
  const uint8_t width[] = {8, 8, ref, 1, ref, 1,   1,   1,   4,   ref, ref, 8,
                           4, 4, 8,   8, ref, ref, ref, ref, ref, 4,   4};
  holds(COUNT(at) == COUNT(width));
  uint32_t end = lay->hasjit ? lay->gg_J : lay->gg_dispatch;
  sound("global_State", at, width, COUNT(at), end - lay->gg_g);
  /* 2.0 knows which thread runs compiled code only */
  holds((lay->g_cur_L == VM_ABSENT16) == (lay->g_jit_L != VM_ABSENT16));
  holds((lay->g_cur_L == VM_ABSENT16) == (lay->bc_max == 93));
}

static void fields_of_jit_state(void)
{
  const uint8_t ref = lay->gc64 ? 8 : 4;
  const uint16_t at[] = {lay->J_L,         lay->J_pc,         lay->J_fn,
                         lay->J_pt,        lay->J_base,       lay->J_flags,
                         lay->J_state,     lay->J_trace,      lay->J_freetrace,
                         lay->J_sizetrace, lay->J_parent,     lay->J_exitno,
                         lay->J_mcarea,    lay->J_mctop,      lay->J_mcbot,
                         lay->J_szmcarea,  lay->J_szallmcarea};
  const uint8_t width[] = {8, 8, 8, 8, 8, 4, 4, 8, 4, 4, 4, 4, 8, 8, 8, 8, 8};
  if (!lay->hasjit) {
    holds(lay->J_trace == VM_ABSENT16);
    return;
  }
  sound("jit_State", at, width, COUNT(at), lay->gg_dispatch - lay->gg_J);
  holds(lay->J_L >= lay->tr_sizeof); /* behind cur */
  holds(lay->penalty_sizeof == 2u * ref);
  holds(lay->penalty_val == ref);
  holds(lay->J_penalty + 1u * lay->penalty_slots * lay->penalty_sizeof <=
        lay->gg_dispatch - lay->gg_J);
}

static void fields_of_objects(void)
{
  const uint8_t ref = lay->gc64 ? 8 : 4;
  const uint16_t pt[] = {
      lay->L_gct,        lay->pt_numparams, lay->pt_framesize, lay->pt_sizebc,
      lay->pt_k,         lay->pt_uv,        lay->pt_sizekgc,   lay->pt_sizekn,
      lay->pt_sizept,    lay->pt_sizeuv,    lay->pt_flags,     lay->pt_trace,
      lay->pt_chunkname, lay->pt_firstline, lay->pt_numline,   lay->pt_lineinfo,
      lay->pt_uvinfo,    lay->pt_varinfo};
  const uint8_t ptw[] = {1, 1, 1, 4,   ref, ref, 4,   4,   4,
                         1, 1, 2, ref, 4,   4,   ref, ref, ref};
  sound("GCproto", pt, ptw, COUNT(pt), lay->pt_sizeof);
  const uint16_t fn[] = {lay->L_gct,     lay->fn_ffid, lay->fn_nupvalues,
                         lay->fn_env,    lay->fn_pc,   lay->fn_f,
                         lay->fn_upvalue};
  const uint8_t fnw[] = {1, 1, 1, ref, ref, 8, 8};
  sound("GCfuncC", fn, fnw, COUNT(fn), lay->fn_upvalue + 8u);
  const uint16_t tab[] = {lay->L_gct,    lay->tab_array, lay->tab_metatable,
                          lay->tab_node, lay->tab_asize, lay->tab_hmask};
  const uint8_t tabw[] = {1, ref, ref, ref, 4, 4};
  sound("GCtab", tab, tabw, COUNT(tab), lay->tab_hmask + 8u);
  const uint16_t node[] = {lay->node_val, lay->node_key, lay->node_next};
  const uint8_t nodew[] = {8, 8, ref};
  sound("Node", node, nodew, COUNT(node), lay->node_sizeof);
  const uint16_t str[] = {lay->L_gct, lay->str_hash, lay->str_len};
  const uint8_t strw[] = {1, 4, 4};
  sound("GCstr", str, strw, COUNT(str), lay->str_sizeof);
}

static void fields_of_traces(void)
{
  const uint8_t ref = lay->gc64 ? 8 : 4;
  /* nins and nsnap: their size changed in 2.1 */
  const uint16_t tr[] = {
      lay->tr_nins,     lay->tr_ir,       lay->tr_nk,       lay->tr_nsnap,
      lay->tr_nsnapmap, lay->tr_snap,     lay->tr_snapmap,  lay->tr_startpt,
      lay->tr_startpc,  lay->tr_startins, lay->tr_mcode,    lay->tr_szmcode,
      lay->tr_mcloop,   lay->tr_nchild,   lay->tr_spadjust, lay->tr_traceno,
      lay->tr_link,     lay->tr_root,     lay->tr_nextroot, lay->tr_nextside,
      lay->tr_topslot,  lay->tr_linktype, lay->L_gct};
  const uint8_t trw[] = {2, 8, 4, 2, 2, 8, 8, ref, ref, 4, 8, 4,
                         4, 2, 2, 2, 2, 2, 2, 2,   1,   1, 1};
  holds(COUNT(tr) == COUNT(trw));
  sound("GCtrace", tr, trw, COUNT(tr), lay->tr_sizeof);
  const uint16_t snap[] = {lay->snap_mapofs, lay->snap_ref,     lay->snap_mcofs,
                           lay->snap_nslots, lay->snap_topslot, lay->snap_nent,
                           lay->snap_count};
  const uint8_t snapw[] = {2, 2, 2, 1, 1, 1, 1};
  sound("SnapShot", snap, snapw, COUNT(snap), lay->snap_sizeof);
}

static void c_frames_and_numbers(void)
{
  const uint8_t wide = lay->gc64 ? 8 : 4;
  const uint16_t cf[] = {lay->cframe_L, lay->cframe_PC, lay->cframe_prev,
                         lay->cframe_nres, lay->cframe_errf};
  const uint8_t cfw[] = {wide, wide, 8, 4, 4};
  sound("C frame", cf, cfw, COUNT(cf), lay->cframe_sizeof - 8u);
  holds(lay->trace_saved == 16);
  const uint8_t bc[] = {
      lay->bc_mov,   lay->bc_call,  lay->bc_forl,  lay->bc_iterl,  lay->bc_loop,
      lay->bc_funcf, lay->bc_funcv, lay->bc_funcc, lay->bc_funccw, lay->bc_max};
  for (unsigned i = 1; i < COUNT(bc); i++)
    holds(bc[i - 1] < bc[i]);
  const uint8_t vmst[] = {lay->vmst_interp, lay->vmst_c,      lay->vmst_gc,
                          lay->vmst_exit,   lay->vmst_record, lay->vmst_opt,
                          lay->vmst_asm};
  for (unsigned i = 1; i < COUNT(vmst); i++)
    holds(vmst[i - 1] < vmst[i]);
}

START_TEST(test_what_holds_in_every_row)
{
  static void (*const check[])(void) = {
      parts_of_gg_state_follow_each_other,
      fields_of_lua_state,
      fields_of_global_state,
      fields_of_jit_state,
      fields_of_objects,
      fields_of_traces,
      c_frames_and_numbers,
  };
  ck_assert_uint_eq((unsigned)_i < COUNT(check), 1);
  each_row(check[_i]);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("layout");
  TCase *c = tcase_create("core");
  tcase_add_test(c, test_faults_are_seen);
  tcase_add_test(c, test_the_first_row_is_debians);
  tcase_add_test(c, test_no_row_twice);
  tcase_add_loop_test(c, test_what_holds_in_every_row, 0, 7);
  suite_add_tcase(s, c);
  return suite_run(s);
}
