/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "userspace/cli/smaps.h"

const char *smaps_class_str(enum smaps_class class)
{
	static const char *const names[] = {
		[SMAPS_ANON] = "anonymous",
		[SMAPS_PRIVATE_FILE] = "private file",
		[SMAPS_SHARED_FILE] = "shared file",
		[SMAPS_SHMEM] = "shared memory",
	};

	return names[class];
}

static bool is_shmem(const char *name)
{
	static const char *const heads[] = { "/dev/zero", "/memfd:", "/SYSV", "/dev/shm/" };

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		if (!strncmp(name, heads[i], strlen(heads[i])))
			return true;
	return false;
}

/* A line that begins a mapping. */
static bool parse_head(const char *line, struct smaps_mapping *ret)
{
	struct smaps_mapping m = { 0 };
	unsigned int major, minor;
	char perms[5];
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &m.start,
		   &m.end, perms, &m.offset, &major, &minor, &m.inode, &at) < 7)
		return false;
	m.dev = (uint64_t)major << 32 | minor;
	m.writable = perms[1] == 'w';
	if (!m.inode && !is_shmem(line + at)) /* a System V segment may be number 0 */
		m.class = SMAPS_ANON;
	else if (perms[3] != 's')
		m.class = SMAPS_PRIVATE_FILE;
	else
		m.class = is_shmem(line + at) ? SMAPS_SHMEM : SMAPS_SHARED_FILE;
	*ret = m;
	return true;
}

/* A line of flags ends each mapping; "lo" says that it is locked. */
static bool is_flags(const char *line, struct smaps_mapping *m)
{
	if (strncmp(line, "VmFlags:", 8) != 0)
		return false;
	m->locked = strstr(line, " lo ") || strstr(line, " lo\n");
	return true;
}

int smaps_parse(FILE *f, struct smaps_mapping **ret)
{
	_cleanup_free_ struct smaps_mapping *list = NULL;
	struct smaps_mapping m = { 0 };
	char line[8192];
	uint64_t kib;
	int n = 0;

	while (fgets(line, sizeof(line), f)) {
		if (parse_head(line, &m))
			continue;
		if (sscanf(line, "Rss: %" SCNu64 " kB", &kib) == 1) {
			m.resident_bytes = kib << 10;
		} else if (is_flags(line, &m)) {
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

int smaps_read(pid_t pid, struct smaps_mapping **ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	f = fopen(path, "re");
	return f ? smaps_parse(f, ret) : -errno;
}
