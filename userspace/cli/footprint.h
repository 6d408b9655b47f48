/* SPDX-License-Identifier: MIT */
/*
 * How much memory is behind what is counted: pages that are locked and registered,
 * or locked by more than one mapping or process, are there once. An estimate:
 * a page of a private file mapping that nobody may write to is taken for the file's;
 * smaps is not read at one moment.
 */
#ifndef PINCAP_FOOTPRINT_H
#define PINCAP_FOOTPRINT_H

#include "userspace/cli/smaps.h"

struct extent {
	uint64_t dev; /* of the file; of anonymous memory the pid */
	uint64_t inode;
	uint64_t start; /* offset in the file, or address */
	uint64_t end;
	uint64_t resident_bytes;
};

struct footprint {
	struct extent *list;
	size_t n;
};

void footprint_done(struct footprint *fp);

/* A locked mapping. 0 or -ENOMEM, as below. */
int footprint_add_mapping(struct footprint *fp, pid_t pid, const struct smaps_mapping *m);

/* A range that is registered, all of it resident. */
int footprint_add_range(struct footprint *fp, pid_t pid, const struct smaps_mapping *maps, int n,
			uint64_t start, uint64_t end);

/* The memory behind all extents. `ret_again`: what they say beyond that of extents
 * that overlap. Sorts. */
uint64_t footprint_bytes(struct footprint *fp, uint64_t *ret_again);

#endif
