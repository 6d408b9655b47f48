/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "userspace/cli/smaps.h"

/* A line of flags ends each mapping; "lo" says that it is locked. */
static bool is_locked(const char *line)
{
	return !strncmp(line, "VmFlags:", 8) && strstr(line, " lo");
}

int smaps_parse_locked(FILE *f, struct smaps_mapping **ret)
{
	_cleanup_free_ struct smaps_mapping *list = NULL;
	struct smaps_mapping m = { 0 };
	uint64_t start, end, kib;
	char line[8192];
	int n = 0;

	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
			m = (struct smaps_mapping){ .start = start, .end = end };
		else if (sscanf(line, "Rss: %" SCNu64 " kB", &kib) == 1)
			m.resident_bytes = kib << 10;
		else if (is_locked(line)) {
			struct smaps_mapping *grown = reallocarray(list, n + 1, sizeof(*list));

			if (!grown)
				return -ENOMEM;
			list = grown;
			list[n++] = m;
		}
	}
	*ret = TAKE_PTR(list);
	return n;
}

int smaps_read_locked(pid_t pid, struct smaps_mapping **ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	f = fopen(path, "re");
	return f ? smaps_parse_locked(f, ret) : -errno;
}
