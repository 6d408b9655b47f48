/* SPDX-License-Identifier: MIT */
/*
 * KFD ioctls as the driver answers them. Memory is decided here; everything
 * that only matters inside the workload (queues, events, mappings) is granted
 * and its argument echoed.
 */
#include <errno.h>

#include "tests/kfd/driver_kfd.h"
#include "tests/kfd/driver_table.h"
#include "tests/kfd/kfd_emu.h"

#define NR(cmd) _IOC_NR(cmd)

static int answer_version(struct kfd_ioctl_get_version_args *args)
{
	args->major_version = KFD_IOCTL_MAJOR_VERSION;
	args->minor_version = KFD_IOCTL_MINOR_VERSION;
	return 0;
}

static int answer_map(struct opener *o, struct kfd_ioctl_map_memory_to_gpu_args *args)
{
	if (!opener_has(o, args->handle) || !args->n_devices)
		return -EINVAL;
	args->n_success = args->n_devices;
	return 0;
}

/* The shortest argument that the commands below read; the kernel fills up what
 * an older caller leaves out, no caller of these does. */
static size_t needed_bytes(uint32_t cmd)
{
	switch (NR(cmd)) {
	case NR(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU):
		return sizeof(struct kfd_ioctl_alloc_memory_of_gpu_args);
	case NR(AMDKFD_IOC_FREE_MEMORY_OF_GPU):
		return sizeof(struct kfd_ioctl_free_memory_of_gpu_args);
	case NR(AMDKFD_IOC_MAP_MEMORY_TO_GPU):
	case NR(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU):
		return sizeof(struct kfd_ioctl_map_memory_to_gpu_args);
	default:
		return 0;
	}
}

int driver_kfd_answer(struct opener *o, pid_t tid, uint32_t cmd, void *arg, size_t in_bytes)
{
	int err;

	if (_IOC_TYPE(cmd) != AMDKFD_IOCTL_BASE)
		return -ENOTTY;
	err = opener_enter(o, tid);
	if (err)
		return err;
	if (in_bytes < needed_bytes(cmd))
		return -EINVAL;

	switch (NR(cmd)) {
	case NR(AMDKFD_IOC_GET_VERSION):
		return answer_version(arg);
	case NR(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU):
		return opener_alloc(o, arg);
	case NR(AMDKFD_IOC_FREE_MEMORY_OF_GPU):
		return opener_release(o, ((struct kfd_ioctl_free_memory_of_gpu_args *)arg)->handle);
	case NR(AMDKFD_IOC_MAP_MEMORY_TO_GPU):
	case NR(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU):
		return answer_map(o, arg);
	case NR(AMDKFD_IOC_SVM):
		return -EINVAL; /* a GPU without SVM: the runtime uses buffers instead */
	default:
		return 0;
	}
}
