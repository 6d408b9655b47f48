/* SPDX-License-Identifier: MIT */
/*
 * Shared virtual memory. The driver keeps the ranges; this side tells it when
 * one is unmapped, which the real driver learns from the kernel. It writes that
 * to the driver's file, for whoever watches ioctls must see none.
 *
 * Only the hull of all ranges ever allowed is remembered here: it keeps
 * processes without ranges free of any cost.
 */
#undef _FORTIFY_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/kfd/shim.h"

static _Atomic uint64_t hull_start = UINT64_MAX, hull_end;

static void widen_hull(uint64_t start, uint64_t end)
{
	uint64_t old = hull_start;

	while (start < old && !atomic_compare_exchange_weak(&hull_start, &old, start))
		;
	old = hull_end;
	while (end > old && !atomic_compare_exchange_weak(&hull_end, &old, end))
		;
}

void svm_forget(void)
{
	hull_start = UINT64_MAX;
	hull_end = 0;
}

static bool is_access(uint32_t type)
{
	return type == KFD_IOCTL_SVM_ATTR_ACCESS || type == KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE;
}

static void follow(const struct kfd_ioctl_svm_args *args)
{
	long nr = 0;
	uint32_t i;

	for (i = 0; i < args->nattr; i++) {
		if (is_access(args->attrs[i].type))
			nr = SYS_mlock;
		else if (args->attrs[i].type == KFD_IOCTL_SVM_ATTR_NO_ACCESS)
			nr = SYS_munlock;
	}
	if (nr && shim_config()->is_locking && syscall(nr, args->start_addr, args->size))
		shim_complain("cannot lock or unlock %llu bytes", (unsigned long long)args->size);
	if (nr && shim_config()->is_holding)
		shim_complain("a range of %llu bytes is not held", (unsigned long long)args->size);
}

int svm_ioctl(int fd, unsigned long cmd, void *arg)
{
	const struct kfd_ioctl_svm_args *args = arg;
	int err;

	/* Before the driver knows of it, so that no munmap slips between. */
	if (args->op == KFD_IOCTL_SVM_OP_SET_ATTR)
		widen_hull(args->start_addr, args->start_addr + args->size);
	err = syscall(SYS_ioctl, fd, cmd, arg) < 0 ? -errno : 0;
	if (!err && args->op == KFD_IOCTL_SVM_OP_SET_ATTR)
		follow(args);
	shim_log("svm op %u, %#llx + %llu, %u attributes from %u = %#x: %d", args->op,
		 (unsigned long long)args->start_addr, (unsigned long long)args->size, args->nattr,
		 args->nattr ? args->attrs[0].type : 0, args->nattr ? args->attrs[0].value : 0,
		 err);
	return err;
}

void svm_unmapping(const void *addr, size_t bytes)
{
	const uint64_t page = KFD_EMU_PAGE_BYTES;
	uint64_t start = (uintptr_t)addr, end;
	char line[KFD_EMU_UNMAP_BYTES];
	int fd, n, saved = errno;

	bytes = (bytes + page - 1) & ~(page - 1);
	end = start + bytes;
	if (!bytes || start % page || start >= hull_end || end <= hull_start)
		return;
	fd = shim_fd_kfd();
	if (fd < 0)
		return;
	n = snprintf(line, sizeof(line), KFD_EMU_UNMAP_PRINT, start, (uint64_t)bytes);
	if (syscall(SYS_pwrite64, fd, line, n, 0) != n)
		shim_complain("cannot tell the driver of munmap: %m");
	errno = saved;
}

SHIM_EXPORT int munmap(void *addr, size_t bytes)
{
	svm_unmapping(addr, bytes);
	return syscall(SYS_munmap, addr, bytes);
}

/* What has moved is not the range that the GPU had access to. */
SHIM_EXPORT void *mremap(void *addr, size_t old_bytes, size_t bytes, int flags, ...)
{
	void *target = NULL, *ret;
	va_list ap;

	va_start(ap, flags);
	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))
		target = va_arg(ap, void *);
	va_end(ap);
	if (flags & MREMAP_FIXED)
		svm_unmapping(target, bytes);
	if (bytes < old_bytes)
		svm_unmapping((char *)addr + bytes, old_bytes - bytes);
	ret = (void *)syscall(SYS_mremap, addr, old_bytes, bytes, flags, target);
	if (ret != MAP_FAILED && ret != addr && old_bytes)
		svm_unmapping(addr, old_bytes);
	return ret;
}
