/* SPDX-License-Identifier: MIT */
#ifndef VMCORE_TEXTS_INTERNAL_H
#define VMCORE_TEXTS_INTERNAL_H

#include "vmcore/texts.h"

/* other_ir: without the names of IR instructions. */
extern const struct vm_texts vm_texts_2_0, vm_texts_2_0_other_ir;
extern const struct vm_texts vm_texts_20220320, vm_texts_20220320_other_ir;
extern const struct vm_texts vm_texts_2026, vm_texts_2026_other_ir;

#endif
