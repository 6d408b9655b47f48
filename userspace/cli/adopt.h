/* SPDX-License-Identifier: MIT */
/*
 * For the commands that look at a loaded kernel side or change it, and never load
 * one themselves.
 */
#ifndef PINCAP_ADOPT_H
#define PINCAP_ADOPT_H

#include "userspace/control/kernel.h"

/* Whether eBPF may be used at all; who may not, asks pincapd. */
bool cli_is_privileged(void);

/* 0, or the exit code of a failure that was explained. */
int cli_adopt(struct kernel **ret);

#endif
