/* SPDX-License-Identifier: MIT */
/*
 * What the emulated driver holds: the buffers of every open file, the limit on
 * host memory, and the text that tells tests about it. Knows the KFD's rules
 * for buffers; knows nothing of FUSE.
 */
#ifndef DRIVER_TABLE_H
#define DRIVER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct table;
struct opener;
struct kfd_ioctl_alloc_memory_of_gpu_args;

struct table_rules {
	uint64_t limit_bytes;	 /* of host memory, all processes together; 0: none */
	uint64_t fail_min_bytes; /* refuse every buffer in host memory from this size; 0: none */
	int refuse_errno;	 /* positive */
};

int table_new(struct table **ret, const struct table_rules *rules);
struct table *table_free(struct table *t);

/* One open file; tid is any thread of the process that opened it. */
int opener_new(struct opener **ret, struct table *t, pid_t tid);
struct opener *opener_free(struct opener *o);

/* Called for every ioctl. As in the kernel only the process that opened the
 * file may use it: -EBADF otherwise. From then on it counts as a user. */
int opener_enter(struct opener *o, pid_t tid);

int opener_alloc(struct opener *o, struct kfd_ioctl_alloc_memory_of_gpu_args *args);
int opener_release(struct opener *o, uint64_t handle);
bool opener_has(const struct opener *o, uint64_t handle);

/* Part of the report. A read from offset 0 takes a new snapshot of the table,
 * later ones go on in it. Returns the number of bytes at *ret. */
ssize_t opener_report(struct opener *o, uint64_t offset, size_t size, const char **ret);

#endif
