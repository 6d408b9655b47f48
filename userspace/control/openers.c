/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "userspace/common/comm.h"
#include "userspace/common/log.h"
#include "userspace/common/util.h"
#include "userspace/control/openers.h"

#define NAMED_MAX 8	/* more are counted only */
#define FDS_MAX	  65536 /* looked at in each process */

/* By the name that the link shows: stat(2) on a stranger's descriptor may hang. */
static bool has_open(const char *pid, const char *path)
{
	char dir[64], target[PATH_MAX];
	const struct dirent *e;
	bool found = false;
	unsigned int n = 0;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%.16s/fd", pid);
	d = opendir(dir);
	while (d && !found && n++ < FDS_MAX && (e = readdir(d))) {
		ssize_t len = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);

		target[MAX(len, 0)] = '\0';
		found = len > 0 && streq(target, path);
	}
	if (d)
		closedir(d);
	return found;
}

void openers_warn(const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	char named[NAMED_MAX * 48] = "", comm[COMM_BYTES];
	const struct dirent *e;
	unsigned int n = 0;
	size_t len = 0;
	DIR *d = opendir("/proc");

	while (d && real && (e = readdir(d))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || !has_open(e->d_name, real))
			continue;
		if (n++ >= NAMED_MAX)
			continue;
		len += (size_t)snprintf(named + len, sizeof(named) - len, "%s%.10s (%s)",
					n > 1 ? ", " : "", e->d_name,
					comm_of_pid(atoi(e->d_name), comm));
	}
	if (d)
		closedir(d);
	if (n)
		pr_warn("%u process%s had '%s' open before pincap: what the GPU driver holds for "
			"them by now is not counted; restart %s: %s%s",
			n, n == 1 ? "" : "es", path, n == 1 ? "it" : "them", named,
			n > NAMED_MAX ? " ..." : "");
}
