/* SPDX-License-Identifier: MIT */
/*
 * The descriptors that stand for emulated devices. Lookups are lock-free, for
 * they happen on every close and every mmap of the workload.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/kfd/shim.h"

#define FD_TABLE_SIZE 4096 /* devices are opened early; a higher number is refused */

static pthread_mutex_t fd_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned char kinds[FD_TABLE_SIZE];
static pid_t owner_pid; /* of the table: a vforked child shares it, but not its descriptors */

enum shim_fd_kind shim_fd_kind(int fd)
{
	if (fd < 0 || fd >= FD_TABLE_SIZE)
		return SHIM_FD_NONE;
	return atomic_load_explicit(&kinds[fd], memory_order_acquire);
}

static void set_kind(int fd, enum shim_fd_kind kind)
{
	atomic_store_explicit(&kinds[fd], kind, memory_order_release);
}

static bool is_owner(void)
{
	return syscall(SYS_getpid) == owner_pid;
}

static int find_kfd(int except)
{
	int fd;

	for (fd = 0; fd < FD_TABLE_SIZE; fd++)
		if (fd != except && shim_fd_kind(fd) == SHIM_FD_KFD)
			return fd;
	return -1;
}

int shim_fd_kfd(void)
{
	return find_kfd(-1);
}

/* The driver has one state per process however often it is opened, so a second
 * open shares the file of the first. */
static int open_kfd(void)
{
	int first = find_kfd(-1), err;

	if (first >= 0)
		return syscall(SYS_fcntl, first, F_DUPFD_CLOEXEC, 0);
	err = memory_open();
	if (err) {
		errno = -err;
		return -1;
	}
	return syscall(SYS_openat, AT_FDCWD, shim_config()->device, O_RDWR | O_CLOEXEC, 0);
}

/* Without a driver for it the render node's descriptor only has to exist. */
static int open_kind(enum shim_fd_kind kind, int flags)
{
	const char *render = shim_config()->render;
	int fd;

	if (kind == SHIM_FD_KFD)
		fd = open_kfd();
	else
		fd = syscall(SYS_openat, AT_FDCWD, render ? render : "/dev/null",
			     O_RDWR | (flags & O_CLOEXEC), 0);
	if (fd < 0)
		return -errno;
	if (fd >= FD_TABLE_SIZE) {
		syscall(SYS_close, fd);
		return -EMFILE;
	}
	set_kind(fd, kind);
	return fd;
}

int shim_fd_open(enum shim_fd_kind kind, int flags)
{
	int fd;

	pthread_mutex_lock(&fd_mutex);
	owner_pid = syscall(SYS_getpid);
	fd = open_kind(kind, flags);
	pthread_mutex_unlock(&fd_mutex);
	shim_log("open %s -> %d", kind == SHIM_FD_KFD ? "kfd" : "render node", fd);
	return fd;
}

void shim_fd_copied(int from, int to)
{
	enum shim_fd_kind kind = shim_fd_kind(from);

	if (to < 0 || to >= FD_TABLE_SIZE)
		return;
	if ((kind != SHIM_FD_NONE || shim_fd_kind(to) != SHIM_FD_NONE) && is_owner())
		set_kind(to, kind);
}

/* Without a descriptor nothing more can be asked of the driver. */
void shim_fd_closing(int fd)
{
	bool is_last = false;

	if (shim_fd_kind(fd) == SHIM_FD_NONE || !is_owner())
		return;
	pthread_mutex_lock(&fd_mutex);
	if (shim_fd_kind(fd) == SHIM_FD_KFD)
		is_last = find_kfd(fd) < 0;
	set_kind(fd, SHIM_FD_NONE);
	pthread_mutex_unlock(&fd_mutex);
	if (!is_last)
		return;
	queue_stop_all();
	event_forget();
	svm_forget();
	memory_forget();
}

void shim_fd_lock(void)
{
	pthread_mutex_lock(&fd_mutex);
}

void shim_fd_unlock(void)
{
	pthread_mutex_unlock(&fd_mutex);
}

/* The driver must see its file closed when the parent ends, though the child
 * lives on. The number stays taken: the runtime may yet close it. */
void shim_fd_forked(void)
{
	int fd, null_fd = -1;

	for (fd = 0; fd < FD_TABLE_SIZE; fd++) {
		if (shim_fd_kind(fd) != SHIM_FD_KFD)
			continue;
		if (null_fd < 0)
			null_fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
		if (null_fd >= 0)
			syscall(SYS_dup3, null_fd, fd, O_CLOEXEC);
		set_kind(fd, SHIM_FD_STALE);
	}
	if (null_fd >= 0)
		syscall(SYS_close, null_fd);
	owner_pid = syscall(SYS_getpid);
}
