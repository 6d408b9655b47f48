/* SPDX-License-Identifier: MIT */
/* Look at budgets' figures and do what they call for: signals, release requests, words. */
#ifndef PINCAP_LOOK_H
#define PINCAP_LOOK_H

#include "userspace/daemon/daemon.h"

/* One that something happened to. */
void look_at(struct daemon *d, struct budget *b);

/* All that are stopped, asked for memory, or over. The others ring when something
 * happens to them. */
void look_at_awake(struct daemon *d);

/* Every entry of the kernel side: finds budgets that were set by hand, and forgets
 * those whose cgroup is gone. */
void look_at_all(struct daemon *d);

#endif
