/* SPDX-License-Identifier: MIT */
#include "userspace/cli/leftovers.h"
#include "userspace/cli/run_place.h"
#include "userspace/common/cgroup.h"

#define AT_A_TIME 256 /* the next run finds the rest */

struct budgeted {
	uint64_t ids[AT_A_TIME];
	size_t n;
};

static int on_cgroup(uint64_t cgid, const struct pincap_cgroup *cg, void *ctx)
{
	struct budgeted *b = ctx;

	if (cg->flags & PINCAP_CGROUP_DEAD ||
	    (cg->limit == PINCAP_UNLIMITED && cg->high == PINCAP_UNLIMITED))
		return 0;
	b->ids[b->n++] = cgid;
	return b->n == AT_A_TIME;
}

/* Not from within the walk: removal changes the map. */
void leftovers_remove(struct kernel *k)
{
	struct budgeted b = { .n = 0 };

	kernel_each_cgroup(k, on_cgroup, &b);
	for (size_t i = 0; i < b.n; i++) {
		_cleanup_free_ char *cgpath = NULL;

		if (!cgroup_path_of_id(b.ids[i], &cgpath))
			place_remove_stale(cgpath);
	}
}
