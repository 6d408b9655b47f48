/* SPDX-License-Identifier: MIT */
/*
 * Whether charges can be told apart at all: where every process that holds anything
 * is in the root cgroup, they cannot.
 */
#ifndef PINCAP_ATTRIBUTION_H
#define PINCAP_ATTRIBUTION_H

#include "bpf/intf.h"
#include "userspace/common/util.h"

#define ATTRIBUTION_ROOT_ID 1 /* of the v2 root, whatever namespace looks at it */

/* What `pincap stat` and `pincap doctor` then print. */
#define ATTRIBUTION_FAILS                                                            \
	"cannot attribute: all that is counted is in the root cgroup (0::/); start " \
	"workloads with 'pincap run', or put each into a cgroup of its own"

struct attribution {
	uint64_t in_root; /* processes with a charge */
	uint64_t elsewhere;
};

void attribution_add(struct attribution *a, const struct pincap_process *p);

/* False while nobody holds anything. */
bool attribution_fails(const struct attribution *a);

#endif
