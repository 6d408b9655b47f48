/* SPDX-License-Identifier: MIT */
/*
 * Ranges of one address space, and the buffers that its io_urings have registered,
 * from /proc/PID/fdinfo: kernels print their addresses while the ring is not busy.
 */
#ifndef PINCAP_SPANS_H
#define PINCAP_SPANS_H

#include <sys/types.h>

#include "userspace/common/util.h"

struct span {
	uint64_t start;
	uint64_t end;
};

struct spans {
	struct span *list;
	size_t n;
};

/* 0 or -ENOMEM. */
int spans_add(struct spans *s, uint64_t start, uint64_t end);
void spans_done(struct spans *s);

/* Sort, and join those that overlap, so that a page that is in two is in one. */
void spans_join(struct spans *s);
uint64_t spans_bytes(const struct spans *s);

/* Bytes of the range that lie in joined spans. */
uint64_t spans_overlap(const struct spans *s, uint64_t start, uint64_t end);

/* Adds the buffers of one ring's fdinfo. */
int spans_parse_ring(FILE *f, struct spans *s);
/* Of all rings that the process has open. Errors other than -ENOMEM read as none. */
int spans_read_rings(pid_t pid, struct spans *s);

#endif
