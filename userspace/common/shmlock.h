/* SPDX-License-Identifier: MIT */
/*
 * System V shared memory that shmctl(SHM_LOCK) locked. It is in no counter of an
 * address space or a cgroup: the kernel charges the user who locked it, and the
 * segment stays locked when nobody has it attached.
 */
#ifndef PINCAP_SHMLOCK_H
#define PINCAP_SHMLOCK_H

#include "util.h"

struct shmlock_segment {
	int shmid;
	uint64_t bytes; /* whole pages, as the kernel charges them */
};

/* Segments of our IPC namespace that are locked. *ret is malloc'd; returns how many,
 * or -errno (-ENOENT: a kernel without System V IPC). */
int shmlock_read(struct shmlock_segment **ret);

/* The same from an open /proc/sysvipc/shm. */
int shmlock_parse(FILE *f, struct shmlock_segment **ret);

uint64_t shmlock_sum(const struct shmlock_segment *list, int n);

#endif
