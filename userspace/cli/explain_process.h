/* SPDX-License-Identifier: MIT */
/*
 * What one process holds, in words: classes, mappings, buffers, overlap. Prints;
 * knows nothing of budgets.
 */
#ifndef PINCAP_EXPLAIN_PROCESS_H
#define PINCAP_EXPLAIN_PROCESS_H

#include "userspace/control/kernel.h"

void explain_process_line(const struct pincap_process *p);

/* 0 or -errno, logged. */
int explain_process(struct kernel *k, pid_t pid);

#endif
