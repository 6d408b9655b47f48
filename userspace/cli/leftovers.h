/* SPDX-License-Identifier: MIT */
/*
 * Cgroups that runs and attached processes left behind anywhere: empty, named after
 * a process that is gone, and known to the kernel side by their budget.
 */
#ifndef PINCAP_LEFTOVERS_H
#define PINCAP_LEFTOVERS_H

#include "userspace/control/kernel.h"

void leftovers_remove(struct kernel *k);

#endif
