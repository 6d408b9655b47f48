/* SPDX-License-Identifier: MIT */
/*
 * Programs under a budget, as processes of the test in a cgroup: one that gives
 * memory back when asked, one that does not listen, one that does not even ask.
 */
#ifndef TESTS_DAEMON_WORKLOAD_H
#define TESTS_DAEMON_WORKLOAD_H

#include "tests/kernel/scratch.h"

enum workload_kind {
	WORKLOAD_GIVES,	    /* uses pincap.h, with a function to give back */
	WORKLOAD_DEAF,	    /* uses pincap.h until all is locked, and then no more */
	WORKLOAD_UNMANAGED, /* locks, and asks nobody */
};

struct workload {
	pid_t pid;
	volatile struct workload_shared *shared;
};

/* Written by the workload. */
struct workload_shared {
	unsigned int locked_mib; /* by now */
	unsigned int refused;	 /* requests */
	unsigned int released;	 /* times that it was asked and gave */
	unsigned int signals;	 /* of any kind that can be caught */
	unsigned int stopped;	 /* WORKLOAD_GIVES: what the library says of itself */
	uint64_t epoch;		 /* of the last that it heard */
};

/* Locks `mib` in pieces of 1 MiB, as far as it is let, and stays. Returns when it has
 * done so. */
void workload_start(struct workload *w, const struct cg *cg, enum workload_kind kind,
		    unsigned int mib);

/* Waits until the library says so; 2 s at most. */
bool workload_becomes_stopped(const struct workload *w, bool stopped);

/* It lives, and what it was when it started. */
bool workload_is_well(const struct workload *w);

void workload_end(struct workload *w);

#endif
