/* SPDX-License-Identifier: MIT */
/*
 * The harsher things that can be done to the processes of a cgroup and below. Each
 * only where an administrator wrote it into a rule. Knows nothing of budgets.
 */
#ifndef PINCAP_TENANTS_H
#define PINCAP_TENANTS_H

#include <stdbool.h>

/* To each process that has a handler for it: the others would die of it, or not
 * notice. Returns how many; *ret_deaf: the others. */
int tenants_signal(const char *cgpath, int sig, unsigned int *ret_deaf);

int tenants_freeze(const char *cgpath, bool frozen);

/* cgroup.kill: all at once. */
int tenants_kill(const char *cgpath);

#endif
