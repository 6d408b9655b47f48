/* SPDX-License-Identifier: MIT */
/*
 * The functions of the C library that this library stands in for: whatever
 * takes a path to the devices or to their sysfs, and whatever acts on their
 * descriptors. All else passes by system call, or to the next definition where
 * libc does more than that.
 */
#undef _FORTIFY_SOURCE /* its inline versions would clash with the definitions below */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/kfd/shim.h"

#define RENDER_NODE "/dev/dri/renderD128"

static enum shim_fd_kind kind_of_path(const char *path)
{
	enum shim_fd_kind kind = SHIM_FD_NONE;

	if (!path || strncmp(path, "/dev/", 5) != 0)
		return SHIM_FD_NONE;
	if (strcmp(path, "/dev/kfd") == 0)
		kind = SHIM_FD_KFD;
	else if (strcmp(path, RENDER_NODE) == 0)
		kind = SHIM_FD_RENDER;
	return kind != SHIM_FD_NONE && shim_config()->device ? kind : SHIM_FD_NONE;
}

static int open_any(int dir_fd, const char *path, int flags, mode_t mode)
{
	enum shim_fd_kind kind = kind_of_path(path);
	char buf[PATH_MAX];
	int fd;

	if (kind == SHIM_FD_NONE)
		return syscall(SYS_openat, dir_fd, topology_path(path, buf, sizeof(buf)), flags,
			       mode);
	fd = shim_fd_open(kind, flags);
	if (fd < 0) {
		errno = -fd;
		return -1;
	}
	return fd;
}

static bool has_mode(int flags)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

/* The mode is there only with some flags, so each variadic function reads it
 * for itself. */
#define READ_MODE(flags)                             \
	({                                           \
		mode_t mode_ = 0;                    \
		if (has_mode(flags)) {               \
			va_list ap_;                 \
			va_start(ap_, flags);        \
			mode_ = va_arg(ap_, mode_t); \
			va_end(ap_);                 \
		}                                    \
		mode_;                               \
	})

SHIM_EXPORT int open(const char *path, int flags, ...)
{
	return open_any(AT_FDCWD, path, flags, READ_MODE(flags));
}

SHIM_EXPORT int open64(const char *path, int flags, ...)
{
	return open_any(AT_FDCWD, path, flags, READ_MODE(flags));
}

SHIM_EXPORT int openat(int dir_fd, const char *path, int flags, ...)
{
	return open_any(dir_fd, path, flags, READ_MODE(flags));
}

SHIM_EXPORT int openat64(int dir_fd, const char *path, int flags, ...)
{
	return open_any(dir_fd, path, flags, READ_MODE(flags));
}

/* What open() becomes in programs built with _FORTIFY_SOURCE. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir_fd, const char *path, int flags);
int __openat64_2(int dir_fd, const char *path, int flags);

SHIM_EXPORT int __open_2(const char *path, int flags)
{
	return open_any(AT_FDCWD, path, flags, 0);
}

SHIM_EXPORT int __open64_2(const char *path, int flags)
{
	return open_any(AT_FDCWD, path, flags, 0);
}

SHIM_EXPORT int __openat_2(int dir_fd, const char *path, int flags)
{
	return open_any(dir_fd, path, flags, 0);
}

SHIM_EXPORT int __openat64_2(int dir_fd, const char *path, int flags)
{
	return open_any(dir_fd, path, flags, 0);
}

/* Two threads may both look it up; they find the same. */
static void *next_symbol(void **cache, const char *name)
{
	void *fn = __atomic_load_n(cache, __ATOMIC_ACQUIRE);

	if (!fn) {
		fn = dlsym(RTLD_NEXT, name);
		__atomic_store_n(cache, fn, __ATOMIC_RELEASE);
	}
	if (!fn)
		errno = ENOSYS;
	return fn;
}

static FILE *fopen_any(void **cache, const char *name, const char *path, const char *mode)
{
	FILE *(*fn)(const char *, const char *) = next_symbol(cache, name);
	char buf[PATH_MAX];

	return fn ? fn(topology_path(path, buf, sizeof(buf)), mode) : NULL;
}

SHIM_EXPORT FILE *fopen(const char *path, const char *mode)
{
	static void *cache;

	return fopen_any(&cache, "fopen", path, mode);
}

SHIM_EXPORT FILE *fopen64(const char *path, const char *mode)
{
	static void *cache;

	return fopen_any(&cache, "fopen64", path, mode);
}

SHIM_EXPORT DIR *opendir(const char *path)
{
	static void *cache;
	DIR *(*fn)(const char *) = next_symbol(&cache, "opendir");
	char buf[PATH_MAX];

	return fn ? fn(topology_path(path, buf, sizeof(buf))) : NULL;
}

SHIM_EXPORT int access(const char *path, int mode)
{
	char buf[PATH_MAX];

	if (kind_of_path(path) == SHIM_FD_KFD)
		path = shim_config()->device;
	else if (kind_of_path(path) == SHIM_FD_RENDER)
		return 0;
	return syscall(SYS_access, topology_path(path, buf, sizeof(buf)), mode);
}

static int fcntl_any(int fd, int cmd, unsigned long arg)
{
	int ret = syscall(SYS_fcntl, fd, cmd, arg);

	if (ret >= 0 && (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC))
		shim_fd_copied(fd, ret);
	return ret;
}

#define READ_ARG(last)                             \
	({                                         \
		va_list ap_;                       \
		unsigned long arg_;                \
		va_start(ap_, last);               \
		arg_ = va_arg(ap_, unsigned long); \
		va_end(ap_);                       \
		arg_;                              \
	})

SHIM_EXPORT int fcntl(int fd, int cmd, ...)
{
	return fcntl_any(fd, cmd, READ_ARG(cmd));
}

SHIM_EXPORT int fcntl64(int fd, int cmd, ...)
{
	return fcntl_any(fd, cmd, READ_ARG(cmd));
}

SHIM_EXPORT int dup(int fd)
{
	int ret = syscall(SYS_dup, fd);

	if (ret >= 0)
		shim_fd_copied(fd, ret);
	return ret;
}

SHIM_EXPORT int dup2(int fd, int to)
{
	int ret;

	if (fd != to)
		shim_fd_closing(to);
	ret = syscall(SYS_dup2, fd, to);
	if (ret >= 0 && fd != to)
		shim_fd_copied(fd, to);
	return ret;
}

SHIM_EXPORT int dup3(int fd, int to, int flags)
{
	int ret;

	if (fd != to)
		shim_fd_closing(to);
	ret = syscall(SYS_dup3, fd, to, flags);
	if (ret >= 0)
		shim_fd_copied(fd, to);
	return ret;
}

SHIM_EXPORT int close(int fd)
{
	shim_fd_closing(fd);
	return syscall(SYS_close, fd);
}

static void *mmap_any(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	enum shim_fd_kind kind = flags & MAP_ANONYMOUS ? SHIM_FD_NONE : shim_fd_kind(fd);

	if ((flags & MAP_FIXED) && !(flags & MAP_FIXED_NOREPLACE))
		svm_unmapping(addr, bytes);
	if (kind == SHIM_FD_KFD || kind == SHIM_FD_RENDER)
		return memory_map(addr, bytes, prot, flags, offset);
	return (void *)syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset);
}

SHIM_EXPORT void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	return mmap_any(addr, bytes, prot, flags, fd, offset);
}

SHIM_EXPORT void *mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off64_t offset)
{
	return mmap_any(addr, bytes, prot, flags, fd, offset);
}

SHIM_EXPORT int ioctl(int fd, unsigned long cmd, ...)
{
	void *arg = (void *)READ_ARG(cmd);
	int err;

	switch (shim_fd_kind(fd)) {
	case SHIM_FD_KFD:
		err = kfd_ioctl(fd, cmd, arg);
		break;
	case SHIM_FD_RENDER:
		err = drm_ioctl(fd, cmd, arg);
		break;
	case SHIM_FD_STALE:
		err = -EBADF; /* the KFD serves only the process that opened it */
		break;
	default:
		return syscall(SYS_ioctl, fd, cmd, arg);
	}
	if (!err)
		return 0;
	errno = -err;
	return -1;
}
