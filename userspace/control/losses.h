/* SPDX-License-Identifier: MIT */
/*
 * What the kernel side could not keep account of, because a map was full or a list
 * stayed locked: the counters of `stats` that make the figures too low for a while,
 * or for good.
 */
#ifndef PINCAP_LOSSES_H
#define PINCAP_LOSSES_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/intf.h"

struct loss {
	const char *name; /* of the counter */
	uint64_t times;	  /* since the load */
	const char *remedy;
};

#define LOSSES_MAX 8

/* Those that are not 0; returns how many. */
size_t losses_find(const struct pincap_stats *st, struct loss ret[LOSSES_MAX]);

/* Of all of them: whoever sees it rise, sweeps. */
uint64_t losses_sum(const struct pincap_stats *st);

#endif
