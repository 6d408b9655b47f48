/* SPDX-License-Identifier: MIT */
/* What `stat` shows: the table for people, and JSON. Reads what it is given. */
#ifndef PINCAP_STAT_PRINT_H
#define PINCAP_STAT_PRINT_H

#include "userspace/cli/attribution.h"
#include "userspace/control/kernel.h"

#define STAT_VERSION 1 /* of the JSON; keys are only ever added */

/* A cgroup as it is shown. */
struct stat_row {
	uint64_t cgid;
	char *cgpath;
	struct pincap_cgroup cg;
};

struct stat_view {
	bool tree;
	struct stat_row *rows;
	size_t n_rows;
	uint64_t pinned_bytes;	     /* over all processes */
	uint64_t unattributed_bytes; /* what the machine has pinned beyond that */
	uint64_t shm_locked_bytes;   /* by SHM_LOCK, in no cgroup's count */
	struct attribution attribution;
};

void stat_print_table(const struct stat_view *v);

/* `st` NULL: what a user sees, through the daemon. Logs its failure. */
int stat_print_json(const struct stat_view *v, const struct pincap_stats *st);

#endif
