/* SPDX-License-Identifier: MIT */
/*
 * What `run` says when its command is done: a few lines on stderr, each only
 * where there is something to say. Reads what it is given and asks nobody.
 */
#ifndef PINCAP_RUN_SUMMARY_H
#define PINCAP_RUN_SUMMARY_H

#include "userspace/cli/run_place.h"
#include "userspace/control/kernel.h"
#include "userspace/control/notify.h"

/* Counters of the cgroup and its ancestors, before and after. */
struct snapshot {
	struct pincap_cgroup own;
	uint64_t limit_hits[PINCAP_MAX_DEPTH]; /* by level of place.chain */
};

struct summary {
	const char *command;
	const struct place *place;
	struct snapshot before;
	struct snapshot after;
	uint64_t limit_bytes;	    /* at the start; somebody may have changed it */
	struct notify_stats notify; /* all 0 without a socket */
	unsigned int releases;	    /* times that memory was asked back */
	bool preloaded;
	bool populated; /* processes remain */
};

/* Counters of entries that do not exist (yet), or are not ours to read, are 0, and their
 * budget infinity. `k` NULL: by the daemon. */
void snapshot_take(struct snapshot *ret, struct kernel *k, const struct place *place);

void summary_print(const struct summary *s);

#endif
