/* SPDX-License-Identifier: MIT */
/*
 * The mappings of a process, from /proc/PID/smaps: what mlock counts is the size of
 * the mapping, whether or not its pages are there.
 */
#ifndef PINCAP_SMAPS_H
#define PINCAP_SMAPS_H

#include <sys/types.h>

#include "userspace/common/util.h"

enum smaps_class {
	SMAPS_ANON,	    /* the process's own */
	SMAPS_PRIVATE_FILE, /* pages of a file until they are written to */
	SMAPS_SHARED_FILE,
	SMAPS_SHMEM, /* shared anonymous memory, memfd, SYSV, /dev/shm */
};

struct smaps_mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* bytes, of `start` in the file */
	uint64_t dev;	 /* major << 32 | minor */
	uint64_t inode;	 /* 0: no file */
	uint64_t resident_bytes;
	enum smaps_class class;
	bool writable;
	bool locked;
};

/* All mappings, in order. *ret is malloc'd; returns how many, or -errno. */
int smaps_read(pid_t pid, struct smaps_mapping **ret);

/* The same from an open file. */
int smaps_parse(FILE *f, struct smaps_mapping **ret);

const char *smaps_class_str(enum smaps_class class);

#endif
