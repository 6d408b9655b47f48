/* SPDX-License-Identifier: MIT */
/*
 * What one process holds, from the counters and from /proc: mappings, buffers,
 * ranges. Prints nothing; knows nothing of budgets.
 */
#ifndef PINCAP_HOLDINGS_H
#define PINCAP_HOLDINGS_H

#include "userspace/cli/footprint.h"
#include "userspace/cli/spans.h"
#include "userspace/control/kernel.h"

enum holding_kind {
	HOLDING_MAPPING = 0, /* + enum smaps_class: a locked mapping */
	HOLDING_RING = 4,    /* registered with io_uring */
	HOLDING_USERPTR,     /* registered with the GPU driver */
	HOLDING_DRIVER,	     /* the driver's own */
};

/* All of one kind and size. */
struct holding_group {
	enum holding_kind kind;
	uint32_t count;
	uint64_t bytes; /* of each */
	uint64_t resident_bytes;
	uint32_t tgid;
};

struct holdings {
	struct pincap_process p;
	struct smaps_mapping *maps; /* all of them */
	int n_maps;
	struct holding_group *groups;
	size_t n_groups;
	struct spans driver; /* joined: the process's memory in the GPU driver's hands */
	struct spans rings;  /* joined: registered with io_uring */
	uint64_t ring_bytes; /* of these, counted as often as registered */
	uint64_t driver_bytes;
	uint64_t ranges;
	/* An estimate: blocks of a power of two from 1 MiB on, as allocators that cache
	 * round to. What was never touched is surely waste; a size that was rounded up
	 * lies above half of its block. */
	uint64_t rounded_bytes;
	uint64_t waste_least;
	uint64_t waste_most;
};

/* 0 or -errno, silently. Fails with -ESRCH or -ENOENT when it is gone. */
int holdings_read(struct kernel *k, const struct pincap_process *p, struct holdings *ret);
void holdings_done(struct holdings *h);

/* Adds what is known by address. 0 or -ENOMEM. */
int holdings_footprint(const struct holdings *h, struct footprint *fp);

/* Bytes that no address is known of: the driver's own, and pins of others. */
uint64_t holdings_unplaced(const struct holdings *h);
uint64_t holdings_unknown_pins(const struct holdings *h);

const char *holding_kind_str(enum holding_kind kind);
int holdings_largest_first(const void *a, const void *b); /* groups, for qsort */

#endif
