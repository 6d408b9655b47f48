/* SPDX-License-Identifier: MIT */
/*
 * Ten thousand cgroups, each with a process that locks a page and ends: the maps are
 * as full afterwards as they were before, take the same memory, keep no removed cgroup
 * alive in the kernel, and nothing was lost on the way.
 *
 * Environment: PINCAP_TEST_CHURN is their number.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/harness.h"

#define CHURN	   10000
#define CONCURRENT 20

struct counts {
	int cgroups, processes, threads;
};

static void lock_a_page(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	_exit(mlock(p, 4096) ? 1 : 0);
}

static void churn(const struct cg *parent)
{
	struct cg cgs[CONCURRENT];
	pid_t pids[CONCURRENT];
	char name[16];

	for (int i = 0; i < CONCURRENT; i++) {
		snprintf(name, sizeof(name), "%d", i);
		cg_make(&cgs[i], parent, name);
		pids[i] = cg_fork(&cgs[i]);
		if (!pids[i])
			lock_a_page();
	}
	for (int i = 0; i < CONCURRENT; i++) {
		assert_int_equal(reap(pids[i]), 0);
		cg_remove(&cgs[i]);
	}
}

static struct counts counts_now(void)
{
	return (struct counts){ map_count("cgroups"), map_count("processes"),
				map_count("threads") };
}

static int64_t memlock_now(void)
{
	return map_memlock("cgroups") + map_memlock("processes") + map_memlock("threads");
}

/* Removed cgroups that the kernel cannot free yet, because somebody refers to them. */
static long long dying_below(const struct cg *cg)
{
	long long n = -1;
	char line[600];
	FILE *f;

	snprintf(line, sizeof(line), "%s/cgroup.stat", cg->dir);
	f = fopen(line, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "nr_dying_descendants %lld", &n) == 1)
			break;
	fclose(f);
	return n;
}

static void assert_none_dying(const struct cg *cg)
{
	struct deadline d = deadline_in(10000); /* the kernel frees them when it finds time */

	while (dying_below(cg) && deadline_open(&d))
		;
	assert_int_equal(dying_below(cg), 0);
}

/* What `pincap stat -K` calls *_full, all together. */
static uint64_t sum_full(void)
{
	const char *pincap = getenv("PINCAP");
	char line[1024], name[64];
	uint64_t sum = 0, n;
	int lines = 0;
	FILE *f;

	snprintf(line, sizeof(line), "%s stat -K", pincap && *pincap ? pincap : "build/pincap");
	f = popen(line, "re");
	assert_non_null(f);
	while (fscanf(f, "%63s %" SCNu64, name, &n) == 2) {
		if (!strstr(name, "_full"))
			continue;
		sum += n;
		lines++;
	}
	assert_int_equal(pclose(f), 0);
	assert_true(lines >= 4);
	return sum;
}

static void short_lived(void **state)
{
	int rounds = (int)harness_number("PINCAP_TEST_CHURN", CHURN) / CONCURRENT;
	struct pincap_stats before_stats, stats;
	uint64_t full = sum_full();
	struct counts before, now;
	struct pincap_cgroup m;
	struct deadline d;
	struct cg parent;
	int64_t memlock;

	(void)state;
	cg_make(&parent, NULL, "churn");
	churn(&parent); /* the parent has its entry now */
	usage_by_stat(&parent);
	usage_by_stat(&parent);
	usage_by_stat(&parent);
	before = counts_now();
	before_stats = map_stats();
	memlock = memlock_now();
	for (int i = 0; i < rounds; i++)
		churn(&parent);
	d = deadline_in(2000);
	do {
		usage_by_stat(&parent);
		now = counts_now();
	} while (memcmp(&now, &before, sizeof(now)) && deadline_open(&d));
	stats = map_stats();
	print_message("# %d cgroups; entries before %d + %d, after %d + %d\n", rounds * CONCURRENT,
		      before.cgroups, before.processes, now.cgroups, now.processes);
	assert_int_equal(now.cgroups, before.cgroups);
	assert_int_equal(now.processes, before.processes);
	assert_int_equal(now.threads, before.threads);
	assert_int_equal(memlock_now(), memlock);
	assert_none_dying(&parent);
	assert_int_equal(sum_full() - full, 0);
	assert_int_equal(stats.cgroup_gone - before_stats.cgroup_gone, 0);
	assert_true(map_cgroup(&parent, &m));
	assert_int_equal(m.peak_locked >= 4096, 1); /* they were counted */
	assert_usage(&parent, 0, 0);
}

static const struct CMUnitTest tests[] = {
	{ "short_lived", short_lived, NULL, test_teardown, NULL },
};

HARNESS_MAIN(tests)
