/* SPDX-License-Identifier: MIT */
/*
 * The emulated driver's state, for the files that keep it: driver_table.c,
 * driver_svm.c and driver_report.c. All others use driver_table.h.
 */
#ifndef DRIVER_STATE_H
#define DRIVER_STATE_H

#include "tests/kfd/driver_ranges.h"
#include "tests/kfd/driver_table.h"

#define TABLE_GONE 64 /* dead processes whose peak is remembered */

struct buffer {
	bool used;
	uint32_t flags; /* KFD_IOC_ALLOC_MEM_FLAGS_*, of the render node's too */
	uint64_t bytes;
};

struct pool {
	struct buffer *buffers; /* index: low half of the handle */
	size_t size;
	uint64_t next_offset;
};

/*
 * What the files that one process has opened hold together. The KFD's buffers and
 * ranges are the address space's, not a file's: they outlive the last close, and can
 * be freed through another open. They end with the address space.
 */
struct process {
	struct process *next, **link;
	pid_t tgid; /* 0: in a pid namespace that we cannot see */
	unsigned openers;
	int mem_fd; /* of the address space that opened the KFD; -1: none, or unknown */
	struct pool kfd;
	bool is_user;
	size_t system_buffers;
	uint64_t gpu_bytes; /* host memory only; with svm_bytes and drm_bytes */
	uint64_t drm_bytes;
	uint64_t peak_bytes;
	struct ranges svm;
};

struct opener {
	struct opener *next, **link;
	struct table *table;
	struct process *process;
	enum opener_kind kind;
	bool is_user;
	struct pool gem; /* a render node's */
	char *report;
	size_t report_bytes;
};

struct gone {
	pid_t tgid;
	uint64_t peak_bytes;
};

struct table {
	struct table_rules rules;
	struct opener *openers;
	struct process *processes;
	uint64_t gpu_bytes;
	uint64_t allocs, frees, refused, userptr_allocs;
	struct gone gone[TABLE_GONE];
	uint64_t gone_count; /* ever; the newest is at (gone_count - 1) % TABLE_GONE */
};

/* Host memory of this process has changed. */
void process_account(struct table *t, struct process *p, int64_t delta);

/* 0, or the errno with which a request for so much host memory is refused: of
 * bytes altogether, of which fresh are not yet held. */
int table_check_limit(const struct table *t, uint64_t bytes, uint64_t fresh);

/* Forget what address spaces held that are no more. */
void table_reap(struct table *t);

/* Forget the ranges of SVM that are not mapped any more. */
void process_sweep_svm(struct table *t, struct process *p);

#endif
