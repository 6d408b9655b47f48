/* SPDX-License-Identifier: MIT */
/*
 * Holding user memory as a driver does, so that the kernel can not reclaim it.
 *
 * A driver's hold is a reference to the page, and moves neither locked_vm nor
 * pinned_vm. vmsplice() takes the same reference (get_user_pages, no FOLL_PIN)
 * and keeps it for as long as the page is in the pipe. So a pipe per MiB, its
 * reading end kept, is a hold that no counter of the kernel's shows and that
 * ends with the process. Whoever sees these pages twice has counted them twice.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/kfd/shim.h"
#include "userspace/common/util.h"

#define HOLD_PIPE_BYTES (1UL << 20) /* fs.pipe-max-size, and a slot for each of its pages */

struct hold {
	size_t count;
	int pipes[]; /* reading ends */
};

/* By system call: the functions of these names may be the shim's own. */
static void close_fd(int fd)
{
	syscall(SYS_close, fd);
}

struct hold *hold_free(struct hold *h)
{
	size_t i;

	for (i = 0; h && i < h->count; i++)
		close_fd(h->pipes[i]);
	free(h);
	return NULL;
}

static int fill_pipe(int fd, char *addr, size_t bytes)
{
	struct iovec rest = { addr, bytes };
	ssize_t n;

	if (syscall(SYS_fcntl, fd, F_SETPIPE_SZ, HOLD_PIPE_BYTES) < 0)
		return -errno;
	while (rest.iov_len) {
		n = vmsplice(fd, &rest, 1, SPLICE_F_NONBLOCK);
		if (n < 0)
			return -errno;
		rest.iov_base = (char *)rest.iov_base + n;
		rest.iov_len -= n;
	}
	return 0;
}

static int hold_in_pipe(struct hold *h, char *addr, size_t bytes)
{
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	err = fill_pipe(ends[1], addr, bytes);
	close_fd(ends[1]);
	if (err)
		close_fd(ends[0]);
	else
		h->pipes[h->count++] = ends[0];
	return err;
}

/* Where the GPU may write, the driver asks for pages that can be written: what
 * was a page of a file becomes the process's own. */
static int populate(void *addr, size_t bytes, bool is_written)
{
	return madvise(addr, bytes, is_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) ? -errno
											   : 0;
}

int hold_new(struct hold **ret, void *addr, size_t bytes, bool is_written)
{
	size_t pipes = (bytes + HOLD_PIPE_BYTES - 1) / HOLD_PIPE_BYTES, at, n;
	struct hold *h = calloc(1, sizeof(*h) + pipes * sizeof(h->pipes[0]));
	int err;

	if (!h)
		return -ENOMEM;
	err = populate(addr, bytes, is_written);
	for (at = 0; !err && at < bytes; at += n) {
		n = MIN(HOLD_PIPE_BYTES, bytes - at);
		err = hold_in_pipe(h, (char *)addr + at, n);
	}
	if (err) {
		hold_free(h);
		return err;
	}
	*ret = h;
	return 0;
}
