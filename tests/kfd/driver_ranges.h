/* SPDX-License-Identifier: MIT */
/*
 * A set of addresses as disjoint ranges in ascending order. Knows nothing of
 * what the addresses are for.
 */
#ifndef DRIVER_RANGES_H
#define DRIVER_RANGES_H

#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t start, end;
};

struct ranges {
	struct range *items;
	size_t count, size;
	uint64_t bytes;
};

/* 0 or -ENOMEM, which leaves the set as it was. */
int ranges_add(struct ranges *r, uint64_t start, uint64_t end);
int ranges_cut(struct ranges *r, uint64_t start, uint64_t end);

/* How many bytes from start to end are in the set. */
uint64_t ranges_overlap(const struct ranges *r, uint64_t start, uint64_t end);

void ranges_done(struct ranges *r);

#endif
