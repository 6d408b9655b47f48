/* SPDX-License-Identifier: MIT */
/*
 * What the emulated driver holds: the buffers and ranges of every process, those of
 * every open render node, the limit on host memory, and the text that tells tests about
 * it. Knows the rules for memory; knows nothing of FUSE.
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
	uint64_t fail_min_bytes; /* refuse every piece of host memory from this size; 0: none */
	int refuse_errno;	 /* positive */
	bool is_svm_refused;
};

enum opener_kind { OPENER_KFD, OPENER_RENDER };

int table_new(struct table **ret, const struct table_rules *rules);
struct table *table_free(struct table *t);

/* One open file; tid is any thread of the process that opened it. */
int opener_new(struct opener **ret, struct table *t, enum opener_kind kind, pid_t tid);
struct opener *opener_free(struct opener *o);

/* Called for every ioctl. As in the kernel only the process that opened the
 * KFD may use it: -EBADF otherwise. From then on it counts as a user. */
int opener_enter(struct opener *o, pid_t tid);

/* Buffers of the KFD, and of the render node, where handles are GEM's. */
int opener_alloc(struct opener *o, struct kfd_ioctl_alloc_memory_of_gpu_args *args);
int opener_release(struct opener *o, uint64_t handle);
bool opener_has(const struct opener *o, uint64_t handle);
int opener_create_gem(struct opener *o, uint64_t bytes, uint32_t flags, uint32_t *ret_handle);
int opener_close_gem(struct opener *o, uint32_t handle);

/* Ranges of the process that the GPU has access to (driver_svm.c). They end
 * with the mapping; munmap is reported by the workload's side. */
int opener_svm_allow(struct opener *o, uint64_t start, uint64_t bytes);
int opener_svm_forbid(struct opener *o, uint64_t start, uint64_t bytes);
bool opener_svm_is_allowed(const struct opener *o, uint64_t start, uint64_t bytes);
bool opener_svm_is_refused(const struct opener *o);

/* Part of the report. A read from offset 0 takes a new snapshot of the table,
 * later ones go on in it. Returns the number of bytes at *ret. */
ssize_t opener_report(struct opener *o, uint64_t offset, size_t size, const char **ret);

#endif
