/* SPDX-License-Identifier: MIT */
/*
 * Which part of a range is not locked yet. The mappings come from
 * /proc/thread-self/maps ("self" is empty when the main thread has exited);
 * whether one is locked tells msync(MS_INVALIDATE), which does nothing but
 * answer EBUSY for a locked page. The "lo" flag in smaps says the same, but that
 * file walks every page table of the process under its mmap lock, which on a
 * loader with 100 GiB mapped takes seconds. VmSize - VmLck would do for
 * mlockall only, and counts the kernel's own mappings, which are never locked.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "userspace/lib/span.h"
#include "userspace/lib/state.h"

struct walk {
	uintptr_t start; /* of the range that is asked about */
	uintptr_t end;
	uint64_t unlocked;
	bool seen; /* a mapping at all */
	bool done; /* past the range */
	char line[128];
	size_t len; /* of line; a longer one is cut */
};

static uintptr_t page_mask(void)
{
	return (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
}

uint64_t span_bytes(const void *ptr, uint64_t len)
{
	uintptr_t mask = page_mask();
	uintptr_t start = (uintptr_t)ptr & ~mask;
	uintptr_t end;

	if (len == 0)
		return 0;
	if (__builtin_add_overflow((uintptr_t)ptr, len, &end) || end > UINTPTR_MAX - mask)
		return SPAN_UNKNOWN;
	return ((end + mask) & ~mask) - start;
}

/* Hexadecimal digits at *text, which moves on past them and one more. strtoul()
 * would do but for errno and the locale. */
static uintptr_t hex(const char **text)
{
	uintptr_t value = 0;
	const char *p = *text;

	for (; *p; p++) {
		if (*p >= '0' && *p <= '9')
			value = value * 16 + (uintptr_t)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			value = value * 16 + (uintptr_t)(*p - 'a' + 10);
		else
			break;
	}
	*text = *p ? p + 1 : p;
	return value;
}

static void on_line(struct walk *w)
{
	const char *text = w->line;
	uintptr_t start, end;

	w->line[w->len] = '\0';
	start = hex(&text);
	end = hex(&text);
	if (end <= start)
		return;
	w->seen = true;
	if (start >= w->end)
		w->done = true;
	/* [vdso], [vvar], [vsyscall]: mlock passes them by. */
	if (w->done || end <= w->start || strstr(text, " [v"))
		return;
	start = start > w->start ? start : w->start;
	end = end < w->end ? end : w->end;
	/* One page tells for the whole mapping: the flag is the mapping's. */
	if (msync((void *)start, page_mask() + 1, MS_ASYNC | MS_INVALIDATE) && errno == EBUSY)
		return;
	w->unlocked += end - start;
}

static uint64_t walk_maps(struct walk *w)
{
	char buf[4096];
	ssize_t n = 0;
	ssize_t i;
	int fd = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return SPAN_UNKNOWN;
	while (!w->done && ((n = read(fd, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))) {
		for (i = 0; i < n && !w->done; i++) {
			if (buf[i] == '\n') {
				on_line(w);
				w->len = 0;
			} else if (w->len < sizeof(w->line) - 1) {
				w->line[w->len++] = buf[i];
			}
		}
	}
	close(fd);
	return n < 0 || !w->seen ? SPAN_UNKNOWN : w->unlocked;
}

static uint64_t unlocked(uintptr_t start, uintptr_t end)
{
	struct walk w = { .start = start, .end = end };
	int saved = errno;
	int cancel = cancel_off();
	uint64_t bytes = walk_maps(&w);

	cancel_restore(cancel);
	errno = saved;
	return bytes;
}

uint64_t span_unlocked(const void *ptr, uint64_t len)
{
	uintptr_t start = (uintptr_t)ptr & ~page_mask();
	uint64_t bytes = span_bytes(ptr, len);

	return bytes == SPAN_UNKNOWN ? bytes : unlocked(start, start + bytes);
}

uint64_t span_unlocked_all(void)
{
	return unlocked(0, UINTPTR_MAX);
}
