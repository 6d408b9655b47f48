/* SPDX-License-Identifier: MIT */
/*
 * A running process that is to be moved: held by a pidfd, so that a pid which is
 * used again is noticed, and looked at once. Moves nobody itself.
 */
#ifndef PINCAP_TARGET_H
#define PINCAP_TARGET_H

#include <sys/types.h>

#include "userspace/common/util.h"

struct target {
	pid_t pid;
	int pidfd;
	char comm[16];
	char *cgpath; /* where it was */
};

/* 0, or a negative errno that was explained. Kernel threads, threads and the dead
 * are refused. */
int target_open(struct target *ret, pid_t pid);

bool target_is_alive(const struct target *t);

void target_done(struct target *t);

#endif
