/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>

#include "userspace/cli/mapped.h"

/* A program that asks by itself is managed as well. */
static const char *const libraries[] = { "libpincap-preload.so", "libpincap.so" };

static bool names_library(const char *line)
{
	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++) {
		const char *at = strstr(line, libraries[i]);

		if (at && at > line && at[-1] == '/')
			return true;
	}
	return false;
}

int mapped_in(pid_t pid)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	bool any = false;
	size_t size = 0;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	f = fopen(name, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	while (getline(&line, &size, f) >= 0) {
		any = true;
		if (names_library(line))
			return 1;
	}
	if (ferror(f))
		return -errno;
	return any ? 0 : -ESRCH;
}

int mapped_count(struct mapped_count *ret)
{
	struct mapped_count count = { 0 };
	DIR *d = opendir("/proc");
	struct dirent *e;

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		char *end;
		long pid = strtol(e->d_name, &end, 10);
		int has;

		if (*end || pid <= 0)
			continue;
		has = mapped_in((pid_t)pid);
		count.with += has == 1;
		count.without += has == 0;
		count.unknown += has < 0 && has != -ESRCH;
	}
	closedir(d);
	*ret = count;
	return 0;
}
