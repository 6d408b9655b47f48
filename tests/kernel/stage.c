/* SPDX-License-Identifier: MIT */
/* See stage.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/ring.h"
#include "tests/kernel/stage.h"

#define HEAR_MS 20000

void stage_make(struct stage *s)
{
	assert_return_code(pipe2(s->said, O_CLOEXEC), errno);
	assert_return_code(pipe2(s->go, O_CLOEXEC), errno);
}

void stage_close(struct stage *s)
{
	for (int i = 0; i < 2; i++) {
		close(s->said[i]);
		close(s->go[i]);
	}
}

void stage_point(const struct stage *s, int64_t word)
{
	char c;

	if (write(s->said[1], &word, sizeof(word)) != sizeof(word) || read(s->go[0], &c, 1) != 1)
		_exit(1);
}

int64_t stage_hear(const struct stage *s)
{
	struct pollfd p = { .fd = s->said[0], .events = POLLIN };
	int64_t word = 0;

	if (poll(&p, 1, HEAR_MS) != 1 || read(s->said[0], &word, sizeof(word)) != sizeof(word))
		fail_msg("nothing is heard from the stage");
	return word;
}

void stage_go(const struct stage *s)
{
	assert_int_equal(write(s->go[1], "", 1), 1);
}

int ring_make(void)
{
	return ring_setup(4);
}

int ring_register(int fd, void *at, uint64_t len)
{
	struct iovec iov = { .iov_base = at, .iov_len = len };

	return (int)syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS, &iov, 1);
}
