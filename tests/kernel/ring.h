/* SPDX-License-Identifier: MIT */
/*
 * An io_uring whose fixed buffers the kernel counts in VmPin. Linux 7 does so only if
 * who made the ring had no CAP_IPC_LOCK, and then holds it to RLIMIT_MEMLOCK: so the
 * capability is put aside where there is no such limit.
 */
#ifndef TESTS_KERNEL_RING_H
#define TESTS_KERNEL_RING_H

#include <liburing.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void ring_ipc_lock(bool on)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	const unsigned int bit = 1U << CAP_IPC_LOCK;

	if (syscall(SYS_capget, &head, data))
		return;
	data[0].effective &= ~bit;
	if (on)
		data[0].effective |= data[0].permitted & bit;
	syscall(SYS_capset, &head, data);
}

static inline bool ring_is_unlimited(void)
{
	struct rlimit r;

	return !getrlimit(RLIMIT_MEMLOCK, &r) && r.rlim_cur == RLIM_INFINITY;
}

/* Like io_uring_queue_init(). */
static inline int ring_init(unsigned int entries, struct io_uring *ring)
{
	bool aside = ring_is_unlimited();
	int err;

	if (aside)
		ring_ipc_lock(false);
	err = io_uring_queue_init(entries, ring, 0);
	if (aside)
		ring_ipc_lock(true);
	return err;
}

/* Like io_uring_setup(2). */
static inline int ring_setup(unsigned int entries)
{
	struct io_uring_params params = { 0 };
	bool aside = ring_is_unlimited();
	int fd;

	if (aside)
		ring_ipc_lock(false);
	fd = (int)syscall(SYS_io_uring_setup, entries, &params);
	if (aside)
		ring_ipc_lock(true);
	return fd;
}

#endif
