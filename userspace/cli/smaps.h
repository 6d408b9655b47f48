/* SPDX-License-Identifier: MIT */
/*
 * The locked mappings of a process, from /proc/PID/smaps: what mlock counts is the
 * size of the mapping, whether or not its pages are there.
 */
#ifndef PINCAP_SMAPS_H
#define PINCAP_SMAPS_H

#include <sys/types.h>

#include "userspace/common/util.h"

struct smaps_mapping {
	uint64_t start;
	uint64_t end;
	uint64_t resident_bytes;
};

/* Locked mappings, in order. *ret is malloc'd; returns how many, or -errno. */
int smaps_read_locked(pid_t pid, struct smaps_mapping **ret);

/* The same from an open file. */
int smaps_parse_locked(FILE *f, struct smaps_mapping **ret);

#endif
