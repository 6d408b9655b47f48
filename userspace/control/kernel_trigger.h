/* SPDX-License-Identifier: MIT */
/*
 * What wakes up counting: which of the programs in pincap.bpf.o are loaded. Chosen
 * at load by what the running kernel takes, or forced from outside
 * (KERNEL_TRIGGER_ENV, KERNEL_GPU_TRIGGER_ENV in kernel.h). Afterwards the pins tell.
 *
 * A program's name says when it is loaded:
 *	mm_unlocked			TRIGGER_MMAP_LOCK
 *	other fentry and fexit		TRIGGER_FEXIT, where the kernel has the function
 *	gpu_drv_*			GPU_TRIGGER_DRIVER
 *	gpu_call_*, gpu_map_*		GPU_TRIGGER_DRIVER and GPU_TRIGGER_SYSCALL
 *	gpu_sys_*			GPU_TRIGGER_TRACEPOINT
 *	anything else			always
 */
#ifndef PINCAP_KERNEL_TRIGGER_H
#define PINCAP_KERNEL_TRIGGER_H

#include <bpf/libbpf.h>

#include "userspace/control/kernel_priv.h"

/* 0: to be chosen. The best first. */
enum memory_trigger {
	TRIGGER_FEXIT = 1,
	TRIGGER_MMAP_LOCK,
};

enum gpu_trigger {
	GPU_TRIGGER_DRIVER = 1,
	GPU_TRIGGER_SYSCALL,
	GPU_TRIGGER_TRACEPOINT,
};

struct triggers {
	enum memory_trigger memory;
	enum gpu_trigger gpu;
};

/* What the environment forces. -EINVAL, logged: an unknown word. */
int trigger_asked(struct triggers *ret);

/* Have `obj` load what *t asks for; what it leaves open is chosen, and written
 * back. Logs the reason of a failure. */
int trigger_choose(struct bpf_object *obj, struct triggers *t);

/* -EBUSY, logged: what is loaded is not what the environment forces. */
int trigger_check(void);

/* Whether the driver's own functions can be read. */
bool trigger_reads_driver(void);

#endif
