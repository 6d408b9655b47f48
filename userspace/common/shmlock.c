/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <sys/shm.h>

#include "shmlock.h"

static uint64_t whole_pages(uint64_t bytes)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

/* "key shmid perms size ...", after a line of titles. */
static bool parse_line(const char *line, struct shmlock_segment *ret)
{
	unsigned int perms;

	if (sscanf(line, "%*d %d %o %" SCNu64, &ret->shmid, &perms, &ret->bytes) != 3)
		return false;
	ret->bytes = whole_pages(ret->bytes);
	return perms & SHM_LOCKED;
}

int shmlock_parse(FILE *f, struct shmlock_segment **ret)
{
	_cleanup_free_ struct shmlock_segment *list = NULL;
	struct shmlock_segment s;
	char line[512];
	int n = 0;

	while (fgets(line, sizeof(line), f)) {
		struct shmlock_segment *grown;

		if (!parse_line(line, &s))
			continue;
		grown = reallocarray(list, (size_t)n + 1, sizeof(*list));
		if (!grown)
			return -ENOMEM;
		list = grown;
		list[n++] = s;
	}
	*ret = TAKE_PTR(list);
	return n;
}

int shmlock_read(struct shmlock_segment **ret)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/sysvipc/shm", "re");

	return f ? shmlock_parse(f, ret) : -errno;
}

uint64_t shmlock_sum(const struct shmlock_segment *list, int n)
{
	uint64_t bytes = 0;

	for (int i = 0; i < n; i++)
		bytes += list[i].bytes;
	return bytes;
}
