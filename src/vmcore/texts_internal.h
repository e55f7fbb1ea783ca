/* SPDX-License-Identifier: MIT */
#ifndef VMCORE_TEXTS_INTERNAL_H
#define VMCORE_TEXTS_INTERNAL_H

#include "vmcore/texts.h"

extern const struct vm_texts vm_texts_20220320;

#endif
