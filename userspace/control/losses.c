/* SPDX-License-Identifier: MIT */
#include "userspace/control/losses.h"

#define BY_SWEEP   "counted by the next sweep that finds room: end processes that pin"
#define BY_RESTART "restart the GPU programs that run, or read the gpu class as too low"

#define LOSSES(X)                                                                           \
	X(processes_full, BY_SWEEP)                                                         \
	X(threads_full,                                                                     \
	  "requests were put off (EAGAIN): end some of the threads that ask at once")       \
	X(cgroups_full, "charged to the cgroup above meanwhile: remove cgroups not in use") \
	X(ranges_full, BY_RESTART)                                                          \
	X(svm_busy, BY_RESTART)                                                             \
	X(buffers_full, BY_RESTART)                                                         \
	X(files_full, BY_RESTART)

size_t losses_find(const struct pincap_stats *st, struct loss ret[LOSSES_MAX])
{
	size_t n = 0;

#define FIND(field, what) \
	if (st->field)    \
		ret[n++] = (struct loss){ #field, st->field, what };
	LOSSES(FIND)
#undef FIND
	return n;
}

uint64_t losses_sum(const struct pincap_stats *st)
{
	uint64_t sum = 0;

#define SUM(field, what) sum += st->field;
	LOSSES(SUM)
#undef SUM
	return sum;
}
