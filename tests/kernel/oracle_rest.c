/* SPDX-License-Identifier: MIT */
/* See oracle_rest.h. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/kernel/oracle_rest.h"

#define REST_MS	  2000
#define MAX_PROCS 128

const int oracle_parent[CGROUPS] = { -1, 0, 0, 1, 3, 2 };

/* Of those that share an address space, the sibling is never the owner. */
static bool is_sibling(struct world *world, int pid)
{
	for (int w = 0; w < WORKERS; w++)
		if (atomic_load(&world->workers[w].sibling) == pid)
			return true;
	return false;
}

static void add_up(const struct cg *cgs, const struct proc_mm *p, struct usage *sums)
{
	int at = -1;

	for (int i = 0; i < CGROUPS; i++)
		at = cgs[i].id == p->cgid ? i : at;
	if (at < 0)
		fail_msg("process %d is nowhere", p->pid);
	for (; at >= 0; at = oracle_parent[at]) {
		sums[at].locked += p->locked;
		sums[at].pinned += p->pinned;
	}
}

static void sum_by_proc(const struct cg *cgs, struct world *world, struct usage *sums)
{
	struct proc_mm all[MAX_PROCS];
	size_t n = procs_below(&cgs[0], all, MAX_PROCS);

	memset(sums, 0, CGROUPS * sizeof(*sums));
	assert_true(n < MAX_PROCS);
	for (size_t i = 0; i < n; i++) {
		bool again = false;

		for (size_t j = 0; is_sibling(world, all[i].pid) && j < n && !again; j++)
			again = j != i && is_same_mm(&all[i], &all[j]);
		if (!again)
			add_up(cgs, &all[i], sums);
	}
}

int64_t rest_compare(const struct cg *cgs, const struct usage *sums, int64_t *locked, bool show)
{
	int64_t most = 0;

	*locked = 0;
	for (int i = 0; i < CGROUPS; i++) {
		struct pincap_cgroup m;
		int64_t by_class, all;

		map_cgroup(&cgs[i], &m);
		by_class = llabs(m.locked - sums[i].locked);
		*locked = by_class > *locked ? by_class : *locked;
		all = by_class + llabs(m.pinned - sums[i].pinned) +
		      llabs(m.current - m.locked - m.pinned) + llabs(m.held) + llabs(m.gpu);
		most = all > most ? all : most;
		if (show && all)
			print_error("%s: locked %lld, pinned %lld, current %lld; /proc: %" PRId64
				    ", %" PRId64 "\n",
				    cgs[i].dir, (long long)m.locked, (long long)m.pinned,
				    (long long)m.current, sums[i].locked, sums[i].pinned);
	}
	return most;
}

int64_t rest_poll(const struct cg *cgs, struct world *world, struct usage *sums, int64_t *locked,
		  unsigned int ms)
{
	struct deadline d = deadline_in(ms);
	int64_t most;

	do {
		sum_by_proc(cgs, world, sums);
		most = rest_compare(cgs, sums, locked, false);
	} while (most && deadline_open(&d));
	return most;
}

int64_t rest_sweep(const struct cg *cgs, struct world *world, struct usage *sums)
{
	struct deadline d = deadline_in(REST_MS);
	struct usage before[CGROUPS];
	int64_t locked, most;

	do {
		memcpy(before, sums, sizeof(before));
		usage_by_stat(&cgs[0]);
		most = rest_poll(cgs, world, sums, &locked, 1);
		if (most && !memcmp(before, sums, sizeof(before)))
			most = rest_poll(cgs, world, sums, &locked, REST_MS);
	} while (most && memcmp(before, sums, sizeof(before)) && deadline_open(&d));
	return most;
}
