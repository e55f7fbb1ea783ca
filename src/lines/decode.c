/* SPDX-License-Identifier: MIT */
#include <Zydis/Zydis.h>

#include "lines/decode.h"

#define G(mnemonic, group) [ZYDIS_MNEMONIC_##mnemonic] = LINES_GROUP_##group
static const uint8_t groups[ZYDIS_MNEMONIC_MAX_VALUE + 1] = {
    G(ADD, ADD),
    G(ADDSD, ADDSD),
    G(AND, AND),
    G(ANDPS, ANDPS),
    G(BSWAP, BSWAP),
    G(CALL, CALL),
    G(CMP, CMP),
    G(DIVSD, DIVSD),
    G(CVTSI2SD, CVTSI2SD),
    G(IMUL, IMUL),
    G(JMP, JMP),
    G(CVTTSD2SI, CVTTSD2SI),
    G(LEA, LEA),
    G(MAXSD, MAXSD),
    G(MINSD, MINSD),
    G(MOV, MOV),
    G(MOVSX, MOV),
    G(MOVSXD, MOV),
    G(MOVZX, MOV),
    G(MOVAPS, MOVSD),
    G(MOVD, MOVSD),
    G(MOVQ, MOVSD),
    G(MOVSD, MOVSD),
    G(MOVSS, MOVSD),
    G(MOVUPS, MOVSD),
    G(MULSD, MULSD),
    G(NEG, NEG),
    G(NOT, NOT),
    G(OR, OR),
    G(RCL, SHIFT),
    G(RCR, SHIFT),
    G(ROL, SHIFT),
    G(ROR, SHIFT),
    G(RORX, SHIFT),
    G(SAR, SHIFT),
    G(SARX, SHIFT),
    G(SHL, SHIFT),
    G(SHLX, SHIFT),
    G(SHR, SHIFT),
    G(SHRX, SHIFT),
    G(ROUNDSD, ROUNDSD),
    G(SQRTSD, SQRTSD),
    G(SUB, SUB),
    G(SUBSD, SUBSD),
    G(TEST, TEST),
    G(UCOMISD, UCOMISD),
    G(XOR, XOR),
    G(XORPS, XORPS),
    /* single precision: fields of FFI structures */
    G(CVTSI2SS, CVTSI2SD),
    G(CVTSS2SD, CVTSI2SD),
    G(CVTSD2SS, CVTSI2SD),
    G(CVTTSS2SI, CVTTSD2SI),
    G(CVTSD2SI, CVTTSD2SI),
    G(CVTSS2SI, CVTTSD2SI),
    G(ADDSS, ADDSD),
    G(SUBSS, SUBSD),
    G(MULSS, MULSD),
    G(DIVSS, DIVSD),
    G(MINSS, MINSD),
    G(MAXSS, MAXSD),
    G(UCOMISS, UCOMISD),
};
#undef G

/* Number of a register that LuaJIT allocates, -1 for any other. */
static int number_of(ZydisRegister reg)
{
  if (reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH)
    return -1;
  ZydisRegister whole =
      ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  if (whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15)
    return (int)(whole - ZYDIS_REGISTER_RAX);
  if (reg >= ZYDIS_REGISTER_XMM0 && reg <= ZYDIS_REGISTER_XMM15)
    return (int)(reg - ZYDIS_REGISTER_XMM0) + 16;
  return -1;
}

static uint32_t bit_of(ZydisRegister reg)
{
  int n = number_of(reg);
  return n < 0 ? 0 : UINT32_C(1) << n;
}

static bool writes_first(ZydisMnemonic m)
{
  return m != ZYDIS_MNEMONIC_CMP && m != ZYDIS_MNEMONIC_TEST &&
         m != ZYDIS_MNEMONIC_UCOMISD && m != ZYDIS_MNEMONIC_UCOMISS &&
         m != ZYDIS_MNEMONIC_PUSH && m != ZYDIS_MNEMONIC_CALL &&
         m != ZYDIS_MNEMONIC_JMP;
}

/* Is what it writes also read? */
static bool reads_first(unsigned group)
{
  return group != LINES_GROUP_MOV && group != LINES_GROUP_MOVI &&
         group != LINES_GROUP_MOVSD && group != LINES_GROUP_CVTSI2SD &&
         group != LINES_GROUP_CVTTSD2SI && group != LINES_GROUP_LEA;
}

static bool is_zeroing(const ZydisDecodedInstruction *x,
                       const ZydisDecodedOperand *op)
{
  return (x->mnemonic == ZYDIS_MNEMONIC_XOR ||
          x->mnemonic == ZYDIS_MNEMONIC_XORPS ||
          x->mnemonic == ZYDIS_MNEMONIC_PXOR) &&
         x->operand_count_visible == 2 &&
         op[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
         op[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
         op[0].reg.value == op[1].reg.value;
}

static unsigned group_of(const ZydisDecodedInstruction *x,
                         const ZydisDecodedOperand *op)
{
  if (is_zeroing(x, op))
    return LINES_GROUP_ZERO;
  if (x->meta.category == ZYDIS_CATEGORY_COND_BR)
    return LINES_GROUP_JCC;
  unsigned group = groups[x->mnemonic];
  if (group == LINES_GROUP_MOV && x->operand_count_visible > 1 &&
      op[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
    group = LINES_GROUP_MOVI;
  return group;
}

/* One operand; returns what it does with memory. */
static unsigned note_operand(struct lines_insn *out, unsigned group,
                             ZydisMnemonic m, const ZydisDecodedOperand *op,
                             bool first)
{
  if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
    if (first && writes_first(m))
      out->dst = (int8_t)number_of(op->reg.value);
    if (!first || !writes_first(m) || reads_first(group))
      out->regs |= bit_of(op->reg.value);
    return LINES_PLAIN;
  }
  if (op->type != ZYDIS_OPERAND_TYPE_MEMORY)
    return LINES_PLAIN;
  if (op->mem.base == ZYDIS_REGISTER_NONE &&
      op->mem.index == ZYDIS_REGISTER_NONE)
    return LINES_PLAIN; /* the VM's own: an absolute address */
  out->regs |= bit_of(op->mem.base) | bit_of(op->mem.index);
  return first && writes_first(m) ? LINES_STORE : LINES_LOAD;
}

static void reduce(const ZydisDecodedInstruction *x,
                   const ZydisDecodedOperand *op, struct lines_insn *out)
{
  unsigned group = group_of(x, op), mem = LINES_PLAIN;
  for (unsigned i = 0; i < x->operand_count_visible; i++) {
    unsigned now = note_operand(out, group, x->mnemonic, &op[i], i == 0);
    mem = now != LINES_PLAIN ? now : mem;
  }
  if (group == LINES_GROUP_ZERO)
    out->regs = 0;
  out->cls = (uint8_t)LINES_CLASS(group, mem);
  out->has_imm = x->mnemonic == ZYDIS_MNEMONIC_MOV &&
                 op[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
                 op[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
  if (out->has_imm)
    out->imm = (int32_t)op[1].imm.value.s;
}

bool lines_decode(const uint8_t *code, uint32_t size, struct lines_insn *out,
                  uint32_t *count)
{
  ZydisDecoder decoder;
  ZydisDecodedInstruction x;
  ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
  *count = 0;
  if (!ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
                                     ZYDIS_STACK_WIDTH_64)))
    return false;
  for (uint32_t ofs = 0; ofs < size; ofs += x.length) {
    if (!ZYAN_SUCCESS(
            ZydisDecoderDecodeFull(&decoder, code + ofs, size - ofs, &x, op)))
      return false;
    struct lines_insn *i = &out[(*count)++];
    *i = (struct lines_insn){.ofs = ofs, .dst = -1};
    reduce(&x, op, i);
  }
  return true;
}
