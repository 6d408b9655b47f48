/* SPDX-License-Identifier: MIT */
/*
 * The pinned maps at first hand, for what must be read a thousand times a second,
 * and for what no tool shows.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <cmocka.h>

#include "tests/kernel/harness.h"

static struct open_map {
	const char *name;
	int fd; /* + 1; 0: not open */
} open_maps[] = { { "cgroups", 0 }, { "processes", 0 }, { "threads", 0 }, { "buffers", 0 },
		  { "files", 0 },   { "ranges", 0 },	{ "stats", 0 } };

#define N_MAPS (sizeof(open_maps) / sizeof(open_maps[0]))

int map_fd(const char *name)
{
	char path[128];

	for (size_t i = 0; i < N_MAPS; i++) {
		if (strcmp(open_maps[i].name, name))
			continue;
		if (!open_maps[i].fd) {
			snprintf(path, sizeof(path), "/sys/fs/bpf/pincap/maps/%s", name);
			open_maps[i].fd = bpf_obj_get(path) + 1;
		}
		if (open_maps[i].fd <= 0)
			fail_msg("open the map '%s'", name);
		return open_maps[i].fd - 1;
	}
	fail_msg("no map '%s'", name);
	return -1;
}

void maps_forget(void)
{
	for (size_t i = 0; i < N_MAPS; i++) {
		if (open_maps[i].fd > 0)
			close(open_maps[i].fd - 1);
		open_maps[i].fd = 0;
	}
}

bool map_cgroup(const struct cg *cg, struct pincap_cgroup *ret)
{
	memset(ret, 0, sizeof(*ret));
	return !bpf_map_lookup_elem(map_fd("cgroups"), &cg->id, ret);
}

struct pincap_stats map_stats(void)
{
	struct pincap_stats st = { 0 };
	uint32_t zero = 0;

	if (bpf_map_lookup_elem(map_fd("stats"), &zero, &st))
		fail_msg("read the map of losses");
	return st;
}

/* Records charged to a cgroup. A step from a key that was deleted meanwhile starts
 * over and may count one twice; tests wait for 0, which that cannot fake. */
int map_count_processes(uint64_t cgid)
{
	int fd = map_fd("processes"), n = 0;
	struct pincap_process p;
	uint64_t key, *last = NULL;

	while (!bpf_map_get_next_key(fd, last, &key)) {
		last = &key;
		if (!bpf_map_lookup_elem(fd, &key, &p) && p.cgroup_id == cgid)
			n++;
	}
	return n;
}

bool map_process(const struct cg *cg, struct pincap_process *ret)
{
	int fd = map_fd("processes");
	uint64_t key, *last = NULL;

	while (!bpf_map_get_next_key(fd, last, &key)) {
		last = &key;
		if (!bpf_map_lookup_elem(fd, &key, ret) && ret->cgroup_id == cg->id)
			return true;
	}
	return false;
}

int map_count_dead(void)
{
	int fd = map_fd("processes"), n = 0;
	struct pincap_process p;
	uint64_t key, *last = NULL;

	while (!bpf_map_get_next_key(fd, last, &key)) {
		last = &key;
		if (!bpf_map_lookup_elem(fd, &key, &p) && kill((pid_t)p.tgid, 0) && errno == ESRCH)
			n++;
	}
	return n;
}

void map_wait_within(const struct cg *cg, int64_t current, int64_t held, unsigned int ms)
{
	struct deadline d = deadline_in(ms);
	struct pincap_cgroup m;

	do {
		map_cgroup(cg, &m);
	} while ((m.current != current || m.held != held) && deadline_open(&d));
	if (m.current == current && m.held == held)
		return;
	fail_msg("'%s': current %" PRId64 ", held %" PRId64 "; expected %" PRId64 ", %" PRId64
		 " within %u ms",
		 cg->dir, (int64_t)m.current, (int64_t)m.held, current, held, ms);
}

void map_wait(const struct cg *cg, int64_t current, int64_t held)
{
	map_wait_within(cg, current, held, 2000);
}

/* What the kernel says the map takes, whatever is in it. */
int64_t map_memlock(const char *name)
{
	long long bytes = -1;
	char line[128];
	FILE *f;

	snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", map_fd(name));
	f = fopen(line, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "memlock: %lld", &bytes) == 1)
			break;
	fclose(f);
	assert_true(bytes > 0);
	return bytes;
}

/* Likewise: all entries of a map, whatever their keys are. */
int map_count(const char *name)
{
	int fd = map_fd(name), n = 0;
	char key[sizeof(struct pincap_buffer_key)], *last = NULL; /* the longest */

	while (!bpf_map_get_next_key(fd, last, key)) {
		last = key;
		n++;
	}
	return n;
}
