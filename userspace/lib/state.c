/* SPDX-License-Identifier: MIT */
/* The page that a fork wipes, and where our descriptors live. See state.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "userspace/lib/state.h"

/* Above what select(2)-era programs and shells use, below the usual soft limit
 * of 1024. */
#define FD_HIGH 512

static _Atomic(struct state *) page;

static void *page_new(void)
{
	void *p = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* Fails on Linux before 4.14, where there is no pincap either. */
	if (p != MAP_FAILED && madvise(p, sizeof(struct state), MADV_WIPEONFORK)) {
		munmap(p, sizeof(struct state));
		p = MAP_FAILED;
	}
	return p;
}

struct state *state_get(void)
{
	struct state *s = atomic_load_explicit(&page, memory_order_acquire);
	int saved = errno;
	void *fresh;

	if (!s) {
		fresh = page_new();
		if (atomic_compare_exchange_strong(&page, &s, fresh))
			s = fresh;
		else if (fresh != MAP_FAILED)
			munmap(fresh, sizeof(*s));
		errno = saved;
	}
	return s == MAP_FAILED ? NULL : s;
}

int fd_move_high(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);

	if (high < 0)
		return fd;
	close(fd);
	return high;
}
