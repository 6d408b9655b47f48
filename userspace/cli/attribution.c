/* SPDX-License-Identifier: MIT */
#include "userspace/cli/attribution.h"

void attribution_add(struct attribution *a, const struct pincap_process *p)
{
	if (!(p->locked | p->pinned | p->gpu | p->held))
		return;
	if (p->cgroup_id == ATTRIBUTION_ROOT_ID)
		a->in_root++;
	else
		a->elsewhere++;
}

bool attribution_fails(const struct attribution *a)
{
	return a->in_root && !a->elsewhere;
}
