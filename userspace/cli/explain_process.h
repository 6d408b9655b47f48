/* SPDX-License-Identifier: MIT */
/*
 * What one process, or all of a cgroup, hold, in words: classes, mappings, buffers,
 * overlap. Prints; knows nothing of budgets.
 */
#ifndef PINCAP_EXPLAIN_PROCESS_H
#define PINCAP_EXPLAIN_PROCESS_H

#include "userspace/control/kernel.h"

/* 0 or -errno, logged. */
int explain_process(struct kernel *k, pid_t pid);

/* Each with its classes; then the largest mappings and buffers of them all, and what
 * memory is behind them. A process that ends meanwhile is left out. 0 or -errno,
 * logged. */
int explain_processes(struct kernel *k, const struct pincap_process *list, size_t n);

#endif
