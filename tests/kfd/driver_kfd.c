/* SPDX-License-Identifier: MIT */
/*
 * KFD ioctls as the driver answers them. Memory is decided here; everything
 * that only matters inside the workload (queues, events, mappings) is granted
 * and its argument echoed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

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

static int set_attribute(struct opener *o, const struct kfd_ioctl_svm_args *args, uint32_t i)
{
	const struct kfd_ioctl_svm_attribute *a = &args->attrs[i];

	switch (a->type) {
	case KFD_IOCTL_SVM_ATTR_ACCESS:
	case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
		if (a->value != KFD_EMU_GPU_ID)
			return -EINVAL;
		return opener_svm_allow(o, args->start_addr, args->size);
	case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
		if (a->value != KFD_EMU_GPU_ID)
			return -EINVAL;
		return opener_svm_forbid(o, args->start_addr, args->size);
	default:
		return a->type > KFD_IOCTL_SVM_ATTR_GRANULARITY ? -EINVAL : 0;
	}
}

static int get_attribute(struct opener *o, struct kfd_ioctl_svm_args *args, uint32_t i)
{
	const uint32_t svm_flags = KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT;
	struct kfd_ioctl_svm_attribute *a = &args->attrs[i];

	switch (a->type) {
	case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
	case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
		a->value = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
		return 0;
	case KFD_IOCTL_SVM_ATTR_ACCESS:
	case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
	case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
		a->type = opener_svm_is_allowed(o, args->start_addr, args->size)
				  ? KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE
				  : KFD_IOCTL_SVM_ATTR_NO_ACCESS;
		return 0;
	case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
		a->value = svm_flags;
		return 0;
	case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
		a->value = ~svm_flags;
		return 0;
	case KFD_IOCTL_SVM_ATTR_GRANULARITY:
		a->value = 9; /* 2 MiB, the kernel's default */
		return 0;
	default:
		return -EINVAL;
	}
}

/* Attributes take effect in their order. */
static int answer_svm(struct opener *o, struct kfd_ioctl_svm_args *args, size_t in_bytes)
{
	bool is_get = args->op == KFD_IOCTL_SVM_OP_GET_ATTR;
	uint32_t i;
	int err = 0;

	if (opener_svm_is_refused(o))
		return -EPERM; /* as a kernel without CONFIG_HSA_AMD_SVM answers */
	if (!is_get && args->op != KFD_IOCTL_SVM_OP_SET_ATTR)
		return -EINVAL;
	if (args->nattr > (in_bytes - sizeof(*args)) / sizeof(args->attrs[0]))
		return -EINVAL;
	if (!args->size || (args->start_addr | args->size) & (KFD_EMU_PAGE_BYTES - 1))
		return -EINVAL;
	for (i = 0; !err && i < args->nattr; i++)
		err = is_get ? get_attribute(o, args, i) : set_attribute(o, args, i);
	return err;
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
	case NR(AMDKFD_IOC_SVM):
		return sizeof(struct kfd_ioctl_svm_args);
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
		return answer_svm(o, arg, in_bytes);
	default:
		return 0;
	}
}

int driver_kfd_write(struct opener *o, pid_t tid, const char *text, size_t bytes)
{
	char line[KFD_EMU_UNMAP_BYTES];
	uint64_t start, size;
	int err;

	err = opener_enter(o, tid);
	if (err)
		return err;
	if (bytes >= sizeof(line))
		return -EINVAL;
	memcpy(line, text, bytes);
	line[bytes] = '\0';
	if (sscanf(line, KFD_EMU_UNMAP_SCAN, &start, &size) != 2)
		return -EINVAL;
	return opener_svm_forbid(o, start, size);
}
