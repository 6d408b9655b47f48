/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include "hostpins.h"

int hostpins_parse(FILE *f, uint64_t *ret_pages)
{
	uint64_t acquired = 0, released = 0, value;
	int found = 0;
	char line[256];

	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "nr_foll_pin_acquired %" SCNu64, &value) == 1) {
			acquired = value;
			found |= 1;
		} else if (sscanf(line, "nr_foll_pin_released %" SCNu64, &value) == 1) {
			released = value;
			found |= 2;
		}
	}
	if (found != 3)
		return -ENOENT;
	*ret_pages = acquired > released ? acquired - released : 0;
	return 0;
}

/* Reading it makes every CPU hand in what it has counted. */
static void fold_counters(void)
{
	_cleanup_close_ int fd = open("/proc/sys/vm/stat_refresh", O_RDONLY | O_CLOEXEC);
	char c;

	if (fd >= 0 && read(fd, &c, 1) < 0)
		return; /* they lag, then */
}

int hostpins_read(uint64_t *ret_bytes)
{
	_cleanup_fclose_ FILE *f = NULL;
	uint64_t pages;
	int err;

	fold_counters();
	f = fopen("/proc/vmstat", "re");
	if (!f)
		return -errno;
	err = hostpins_parse(f, &pages);
	if (!err)
		*ret_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return err;
}
