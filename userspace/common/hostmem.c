/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "userspace/common/cgroup.h"
#include "userspace/common/hostmem.h"

#define GIB (1ULL << 30)

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* ram * num / 10 without the overflow */
static uint64_t tenths(uint64_t ram, unsigned int num)
{
	return ram / 10 * num + ram % 10 * num / 10;
}

uint64_t hostmem_auto_limit(uint64_t ram_bytes, uint64_t swap_bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t most = tenths(ram_bytes, 9);
	uint64_t limit;

	most = MIN(most, minus(ram_bytes, 4 * GIB));
	most = MIN(most, minus(plus(ram_bytes, swap_bytes), 16 * GIB));
	limit = tenths(ram_bytes, 4);
	limit = MAX(limit, most);
	return limit - limit % page;
}

static int parse_line(FILE *f, const char *key, uint64_t *ret)
{
	_cleanup_free_ char *line = NULL;
	const size_t len = strlen(key);
	size_t size = 0;
	uint64_t kib;

	while (getline(&line, &size, f) >= 0)
		if (!strncmp(line, key, len) && sscanf(line + len, "%" SCNu64 " kB", &kib) == 1) {
			*ret = kib * 1024;
			return 0;
		}
	return -ENODATA;
}

int hostmem_parse_meminfo(FILE *f, uint64_t *ret_total_bytes)
{
	return parse_line(f, "MemTotal:", ret_total_bytes);
}

int hostmem_parse_available(FILE *f, uint64_t *ret_bytes)
{
	return parse_line(f, "MemAvailable:", ret_bytes);
}

/* Spaces in names are escaped, so that fields are words. */
int hostmem_parse_swaps(FILE *f, uint64_t *ret_swap_bytes)
{
	_cleanup_free_ char *line = NULL;
	uint64_t sum = 0;
	size_t size = 0;

	while (getline(&line, &size, f) >= 0) {
		char *save = NULL;
		const char *name = strtok_r(line, " \t\n", &save), *base;
		const char *type = strtok_r(NULL, " \t\n", &save);
		const char *text = strtok_r(NULL, " \t\n", &save);
		uint64_t kib;

		if (!name || !type || !text || sscanf(text, "%" SCNu64, &kib) != 1)
			continue;
		base = strrchr(name, '/');
		if (!strncmp(base ? base + 1 : name, "zram", 4))
			continue;
		sum = plus(sum, kib * 1024);
	}
	*ret_swap_bytes = sum;
	return 0;
}

static int read_file(const char *path, int (*parse)(FILE *, uint64_t *), uint64_t *ret)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");

	return f ? parse(f, ret) : -errno;
}

int hostmem_read(struct hostmem *ret)
{
	struct hostmem m = { 0 };
	uint64_t limit;
	int err;

	err = read_file("/proc/meminfo", hostmem_parse_meminfo, &m.total_bytes);
	if (err)
		return err;
	/* A kernel without swap has no such file. */
	err = read_file("/proc/swaps", hostmem_parse_swaps, &m.swap_bytes);
	if (err && err != -ENOENT)
		return err;
	m.ram_bytes = m.total_bytes;
	if (!cgroup_memory_limit(&limit) && limit < m.total_bytes) {
		m.ram_bytes = limit;
		m.swap_bytes = 0;
	}
	*ret = m;
	return 0;
}

int hostmem_available(uint64_t *ret_bytes)
{
	return read_file("/proc/meminfo", hostmem_parse_available, ret_bytes);
}

uint64_t hostmem_ram(void)
{
	struct hostmem m;

	return hostmem_read(&m) ? 0 : m.ram_bytes;
}
